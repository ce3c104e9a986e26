"""What an agent observes, put together from parts: `tvwrl.make(task, observation=[Machines(), Costs()])`.

A part computes an array from the standard observation, which `PlacementEnv` describes, and from what everybody may know
of the cluster (`Simulation.known_now`). So it shows nothing that may not be known, and does the same for one
environment, for a batch, and in `tvwrl.compare`. To write one of your own:

>>> class Emptiness(Part):
...     per_machine = True
...
...     def columns(self, about):
...         return tuple(f"free {name}" for name in about.resources)
...
...     def __call__(self, seen, about):
...         return 1 - seen["machines"][..., : len(about.resources)] / about.capacity
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper

from tvwrl.envs import base
from tvwrl.forecasting import SEGMENTS
from tvwrl.packing import fits
from tvwrl.schedulers import expected_costs
from tvwrl.simulation import Scenario, Simulation
from tvwrl.types import Float, Float32, InputError

__all__ = [
    "About", "Costs", "Forecasts", "Head", "Machines", "Observed", "Part", "PerMachine", "Progress", "Raw", "Room",
    "VectorObserved", "View",
]  # fmt: skip

Seen = Mapping[str, npt.NDArray[Any]]
FAR = 64.0  # slots that count as 1 in `Progress`


@dataclass(frozen=True)
class About:
    """What never changes in an environment, for parts that need to know it.

    Parameters
    ----------
    scenario : Scenario
        Its parameters.
    resources : tuple of str
        (D,) names.
    capacity : array of float
        (M, D) units of each machine.
    classes : int
        G, how many equivalence classes there are.
    unit : float
        A penalty of this much is a reward of -1.
    """

    scenario: Scenario
    resources: tuple[str, ...]
    capacity: Float
    classes: int
    unit: float = 1.0

    @classmethod
    def of(cls, simulation: Simulation, unit: float = 1.0) -> About:
        """What is known of a simulation.

        Parameters
        ----------
        simulation : Simulation
            Behind an environment.
        unit : float
            As above.
        """
        machines = simulation.machines
        return cls(simulation.scenario, machines.resources, machines.capacity, simulation.sequences.classes, unit)

    @cached_property
    def sizes(self) -> Float:
        """(M, D) capacity as a multiple of `peak_units`, in which forecasts are."""
        return self.capacity / self.scenario.peak_units

    @cached_property
    def divisor(self) -> Float:
        """(M, D) capacity in units, 1 where a machine is switched off."""
        return np.where(self.capacity > 0, self.capacity, 1.0)

    @cached_property
    def of_capacity(self) -> Float:
        """(M, K) what forecasts in shares of `peak_units` are to be multiplied by for shares of capacity."""
        each = np.where(self.sizes > 0, 1 / np.where(self.sizes > 0, self.sizes, 1.0), 0.0)
        count = len(SEGMENTS)
        parts = [np.tile(each, count), np.tile(each**2, count), np.tile(each, count), each, each**2]
        return np.concatenate([*parts, np.ones((len(each), count))], axis=1)


class Part(ABC):
    """A part of an observation: an array for each environment.

    Attributes
    ----------
    per_machine : bool
        Whether it has a row for each machine.
    needs : dict
        Fields of the scenario that show what it looks at.
    """

    per_machine: ClassVar[bool] = False
    needs: ClassVar[Mapping[str, Any]] = {}

    @property
    def name(self) -> str:
        """Its key in the observation."""
        return type(self).__name__.lower()

    @abstractmethod
    def columns(self, about: About) -> tuple[str, ...]:
        """(F,) what each number of a row is.

        Parameters
        ----------
        about : About
            The environment.
        """

    @abstractmethod
    def __call__(self, seen: Seen, about: About) -> npt.NDArray[Any]:
        """(B, M, F) for a part `per_machine`, otherwise (B, F).

        Parameters
        ----------
        seen : mapping
            The standard observations of B environments (see `PlacementEnv`), with what `Simulation.known_now` adds.
        about : About
            The environment.
        """


class Machines(Part):
    """Of each machine: load by resource as a share of capacity, above 1 where it overshoots, and how many run there."""

    per_machine = True

    def columns(self, about: About) -> tuple[str, ...]:
        """See `Part.columns`."""
        return (*(f"{name} load, share of capacity" for name in about.resources), "running workloads / 10")

    def __call__(self, seen: Seen, about: About) -> Float32:
        """See `Part`."""
        load, active = np.split(seen["machines"], [len(about.resources)], axis=2)
        return np.concatenate([load / about.divisor, active / 10], axis=2).astype(np.float32)


class Room(Part):
    """Of each machine: 1 if its measured load leaves room for the first demand of the head of the queue."""

    per_machine = True
    needs: ClassVar = {"observe_demand": True}

    def columns(self, about: About) -> tuple[str, ...]:
        """See `Part.columns`."""
        return ("room now",)

    def __call__(self, seen: Seen, about: About) -> Float32:
        """See `Part`."""
        resources = len(about.resources)
        residual = about.capacity - seen["machines"][:, :, :resources]
        first = head_of(seen, about)["demand"]
        return fits(first[:, None], residual, about.capacity)[..., None].astype(np.float32)


class Forecasts(Part):
    """Of each machine: what it will probably run, by segment of the slots ahead, in shares of its own capacity.

    With it, the same of the head of the queue, as if it were alone there.
    """

    per_machine = True
    needs: ClassVar = {"observe_forecast": True}

    def columns(self, about: About) -> tuple[str, ...]:
        """See `Part.columns`."""
        return tuple(f"{what}{name}" for what in ("", "head of the queue: ") for name in forecast_columns(about))

    def __call__(self, seen: Seen, about: About) -> Float32:
        """See `Part`."""
        load, scale = seen["forecast"], about.of_capacity
        batch, machines, columns = load.shape
        found = np.empty((batch, machines, 2 * columns), np.float32)  # written once: this is most of what parts write
        np.multiply(load, scale, out=found[..., :columns], casting="same_kind")
        np.multiply(head_of(seen, about)["forecast"][:, None], scale, out=found[..., columns:], casting="same_kind")
        return found


class Costs(Part):
    """Of each machine: what the head of the queue would cost there by the rule `expected-cost`, in the task's unit.

    0 where nothing waits. The rule puts it where there is room and the sum is lowest. With `observe_peak` it is what
    the rule `expected-cost-known-peak` expects.
    """

    per_machine = True
    needs: ClassVar = {"observe_forecast": True}

    def columns(self, about: About) -> tuple[str, ...]:
        """See `Part.columns`."""
        return ("expected overshoot", "expected under-utilisation")

    def __call__(self, seen: Seen, about: About) -> Float32:
        """See `Part`."""
        scenario, load = about.scenario, seen["forecast"]
        weights = scenario.penalty_weights().per_resource(len(about.resources))
        sizes = np.broadcast_to(about.sizes, (*load.shape[:2], len(about.resources)))
        own = head_of(seen, about)["forecast"]
        found = expected_costs(load, own, sizes, float(scenario.peak_units), weights, scenario.quantise)
        waits = (seen["queue"][:, 0, 0] > 0)[:, None, None]
        return np.where(waits, found / about.unit, 0.0).astype(np.float32)


class Head(Part):
    """Of the head of the queue: its class, and request and first demand in shares of the largest machine."""

    needs: ClassVar = {"observe_demand": True}

    def columns(self, about: About) -> tuple[str, ...]:
        """See `Part.columns`."""
        labels = tuple(f"class {label}" for label in range(1, about.classes + 1))
        requests = tuple(f"{name} request, share of capacity" for name in about.resources)
        known = tuple(f"{name} request is declared" for name in about.resources)
        shown = (*requests, *known) if about.scenario.observe_request else ()
        return (*labels, *shown, *(f"{name} first demand, share of capacity" for name in about.resources))

    def __call__(self, seen: Seen, about: About) -> Float32:
        """See `Part`."""
        head, largest = head_of(seen, about), about.capacity.max(axis=0)
        label = seen["queue"][:, 0, :1] == np.arange(1, about.classes + 1)
        shown = [head["request"] / largest, head["declared"]] if about.scenario.observe_request else []
        return np.concatenate([label, *shown, head["demand"] / largest], axis=1).astype(np.float32)


class Progress(Part):
    """How far the episode is: slots since it began, workloads that have arrived, and how many wait."""

    def columns(self, about: About) -> tuple[str, ...]:
        """See `Part.columns`."""
        return (f"slots since the start / {FAR:g}", f"arrivals so far / {FAR:g}", "waiting workloads / 10")

    def __call__(self, seen: Seen, about: About) -> Float32:
        """See `Part`."""
        waiting = (seen["queue"][:, :, 0] > 0).sum(axis=1, keepdims=True) + seen["backlog"]
        return np.concatenate([seen["progress"] / FAR, waiting / 10], axis=1).astype(np.float32)


class Raw(Part):
    """An array of the standard observation as it is, flattened, such as `Raw("grid")`.

    Parameters
    ----------
    key : str
        Which one; see `PlacementEnv`.
    """

    def __init__(self, key: str) -> None:
        self.key = key

    @property
    def name(self) -> str:
        """See `Part.name`."""
        return self.key

    def columns(self, about: About) -> tuple[str, ...]:
        """See `Part.columns`: they have no names."""
        return ()

    def __call__(self, seen: Seen, about: About) -> npt.NDArray[Any]:
        """See `Part`."""
        if self.key not in seen:
            raise InputError(f"Raw('{self.key}') is not in the observation; it has {', '.join(seen)}")
        return seen[self.key].reshape(len(seen[self.key]), -1)


class PerMachine(Part):
    """Several parts side by side in one row for each machine, as networks with weights shared over machines want them.

    Parts that are not `per_machine` are repeated in every row.

    Parameters
    ----------
    *parts : Part
        In this order.
    """

    per_machine = True

    def __init__(self, *parts: Part) -> None:
        if not parts:
            raise InputError("PerMachine() has no parts: give it some, as in PerMachine(Machines(), Costs())")
        self.parts = parts

    @property
    def needs(self) -> Mapping[str, Any]:  # type: ignore[override]
        """See `Part.needs`."""
        return needs_of(self.parts)

    def columns(self, about: About) -> tuple[str, ...]:
        """See `Part.columns`."""
        named = [part.columns(about) for part in self.parts]
        return tuple(name for names in named for name in names) if all(named) else ()

    def __call__(self, seen: Seen, about: About) -> Float32:
        """See `Part`."""
        rows = []
        for part in self.parts:
            found = np.asarray(part(seen, about), np.float32)
            rows.append(found if part.per_machine else np.repeat(found[:, None], len(about.capacity), axis=1))
        return np.concatenate(rows, axis=2)


@dataclass(frozen=True)
class View:
    """What an agent observes of an environment in place of the standard observation.

    Parameters
    ----------
    parts : sequence of Part
        Its arrays, by their names.
    about : About
        The environment.
    """

    parts: Sequence[Part]
    about: About

    def __call__(self, seen: Seen) -> dict[str, npt.NDArray[Any]]:
        """The arrays of one environment.

        Parameters
        ----------
        seen : mapping
            Its standard observation, with what `Simulation.known_now` adds.
        """
        return {
            name: of[0] for name, of in self.batch({name: np.asarray(of)[None] for name, of in seen.items()}).items()
        }

    def batch(self, seen: Seen) -> dict[str, npt.NDArray[Any]]:
        """The arrays (B, ...) of B environments.

        Parameters
        ----------
        seen : mapping
            Their standard observations.
        """
        found = {part.name: np.asarray(part(seen, self.about)) for part in self.parts}
        return {name: of.astype(np.float32) if of.dtype == np.bool_ else of for name, of in found.items()}

    def space(self, seen: Seen) -> spaces.Dict:
        """Of one environment's arrays.

        Parameters
        ----------
        seen : mapping
            As of `batch`.

        Raises
        ------
        InputError
            For a part whose array has not the shape that it should have.
        """
        found: dict[str, spaces.Space[Any]] = {}
        for part, (name, arrays) in zip(self.parts, self.batch(seen).items(), strict=True):
            array = arrays[0]
            named = len(part.columns(self.about))
            if array.ndim != 1 + part.per_machine or (named and array.shape[-1] != named):
                raise InputError(
                    f"the part '{name}' has an array {array.shape} of one environment and {named} columns: must be "
                    f"({'M, ' * part.per_machine}{named or 'F'})"
                )
            whole = np.issubdtype(array.dtype, np.integer)
            low, high = (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max) if whole else (-np.inf, np.inf)
            found[name] = spaces.Box(low, high, array.shape, array.dtype.type)
        return spaces.Dict(found)

    def help(self) -> str:
        """A line for each column of each part.

        Examples
        --------
        >>> print(env.view.help())  # doctest: +SKIP
        """
        lines = []
        for part in self.parts:
            lines.append(f"{part.name}{' (each machine)' if part.per_machine else ''}:")
            lines += [f"  {place} {column}" for place, column in enumerate(part.columns(self.about))]
        return "\n".join(lines)


class Observed(gym.ObservationWrapper[dict[str, Any], Any, Any], RecordConstructorArgs):
    """An environment whose observations are put together from parts.

    Parameters
    ----------
    env : gym.Env
        A `PlacementEnv`, perhaps wrapped, whose scenario shows what the parts need.
    parts : sequence of Part
        See `View`.
    unit : float, default 1.0
        See `About`.
    """

    def __init__(self, env: gym.Env[Any, Any], parts: Sequence[Part], unit: float = 1.0) -> None:
        RecordConstructorArgs.__init__(self, parts=parts, unit=unit)
        super().__init__(env)
        simulation = self._simulation
        self.view = View(check_parts(parts), About.of(simulation, unit))
        self.observation_space = self.view.space(base.observation(simulation) | simulation.known_now())

    def observation(self, observation: Seen) -> dict[str, Any]:
        """Put the arrays together.

        Parameters
        ----------
        observation : mapping
            The standard observation.
        """
        now = {name: of[0] for name, of in self._simulation.known_now().items()}
        return self.view({**observation, **now})

    @property
    def _simulation(self) -> Simulation:
        simulation: Simulation = self.unwrapped.simulation  # type: ignore[attr-defined]
        return simulation

    def restore(self, snapshot: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `PlacementEnv.restore`.

        Parameters
        ----------
        snapshot : Snapshot
            What `snapshot` gave.
        """
        observation, info = self.env.get_wrapper_attr("restore")(snapshot)
        return self.observation(observation), info

    def snapshot(self) -> Any:
        """See `PlacementEnv.snapshot`."""
        return self.env.get_wrapper_attr("snapshot")()

    def action_masks(self) -> Any:
        """See `PlacementEnv.action_masks`."""
        return self.env.get_wrapper_attr("action_masks")()


class VectorObserved(VectorWrapper):
    """The vector form of `Observed`.

    Parameters
    ----------
    env : VectorEnv
        A `PlacementVectorEnv`, perhaps wrapped.
    parts : sequence of Part
        See `View`.
    unit : float, default 1.0
        See `About`.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], parts: Sequence[Part], unit: float = 1.0) -> None:
        from gymnasium.vector.utils import batch_space

        super().__init__(env)
        simulation = self._simulation
        self.view = View(check_parts(parts), About.of(simulation, unit))
        self.single_observation_space = self.view.space(base.observation(simulation) | simulation.known_now())
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `PlacementVectorEnv.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._put_together(observation), info

    def _put_together(self, observations: Seen) -> dict[str, Any]:
        return self.view.batch({**observations, **self._simulation.known_now()})

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """See `PlacementVectorEnv.step`; observations of ended episodes (`final_obs`) are put together too.

        Parameters
        ----------
        actions : array of int
            (B,) what to do.
        """
        observation, reward, terminated, truncated, info = self.env.step(actions)
        if "final_obs" in info:
            info["final_obs"] = info["final_obs"].copy()
            known = self.env.unwrapped.known_at_end  # type: ignore[attr-defined]
            for b in np.flatnonzero(info["_final_obs"]).tolist():
                now = {name: of[b] for name, of in known.items()}
                info["final_obs"][b] = self.view({**info["final_obs"][b], **now})
        return self._put_together(observation), reward, terminated, truncated, info

    @property
    def _simulation(self) -> Simulation:
        simulation: Simulation = self.env.unwrapped.simulation  # type: ignore[attr-defined]
        return simulation

    def action_masks(self) -> Any:
        """See `PlacementVectorEnv.action_masks`."""
        return self.env.unwrapped.action_masks()  # type: ignore[attr-defined]


def check_parts(parts: Any) -> tuple[Part, ...]:
    """The parts of an observation. Raises InputError for what is none, and for two of one name."""
    given = (parts,) if isinstance(parts, Part) else parts
    if not isinstance(given, Sequence) or not given or not all(isinstance(one, Part) for one in given):
        raise InputError(f"observation is {parts!r}: must be parts, as in observation=[Machines(), Costs()]")
    names = [one.name for one in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"observation has two parts named '{twice[0]}'")
    if "mask" in names:
        raise InputError("observation has a part named 'mask', which is the name of the action mask: rename it")
    needs_of(given)
    return tuple(given)


def needs_of(parts: Sequence[Part]) -> dict[str, Any]:
    """The fields of the scenario that show what the parts look at. Raises InputError where they contradict."""
    found: dict[str, Any] = {}
    for part in parts:
        for name, value in part.needs.items():
            if found.setdefault(name, value) != value:
                raise InputError(f"observation: one part needs {name}={found[name]}, the part '{part.name}' {value}")
    return found


def with_needs(parts: Sequence[Part], options: dict[str, Any]) -> dict[str, Any]:
    """The options, with those that parts of an observation need. Raises InputError where they contradict."""
    needs = needs_of(parts)
    for name, value in needs.items():
        if options.get(name, value) != value:
            raise InputError(f"{name} is {options[name]}, but the observation has parts that need {name}={value}")
    return options | needs


def head_of(seen: Seen, about: About) -> dict[str, npt.NDArray[Any]]:
    """What is shown of the heads of B queues, as far as the scenario shows it; 0 where nothing waits.

    `request` and `demand` (B, D) in units, `declared` (B, D), `forecast` (B, K)
    """
    scenario, resources = about.scenario, len(about.resources)
    head, found, place = seen["queue"][:, 0], {}, 1
    if scenario.observe_request:
        found["request"], found["declared"] = head[:, 1 : 1 + resources], head[:, 1 + resources : 1 + 2 * resources]
        place += 2 * resources
    if scenario.observe_demand:
        found["demand"] = head[:, place : place + resources]
        place += resources
    return found | {"forecast": head[:, place:]}


def forecast_columns(about: About) -> tuple[str, ...]:
    """(K,) what each column of a forecast is; see `tvwrl.forecasting.segments.Forecast`."""
    slots = [f"slot {first}" if first == last else f"slots {first} to {last}" for first, last in SEGMENTS]
    kinds = ("largest", "variance of the largest", "mean")
    ahead = [f"{name} {kind}, {when}" for kind in kinds for when in slots for name in about.resources]
    peaks = ("peak of the rest of life", "variance of the peak of the rest of life")
    if about.scenario.observe_peak:
        peaks = ("true peak of the whole life", "nothing, as the peak is known")
    rest = [f"{name} {kind}" for kind in peaks for name in about.resources]
    return (*ahead, *rest, *(f"workloads that run, {when}" for when in slots))
