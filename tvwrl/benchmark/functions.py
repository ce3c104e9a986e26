"""Schedulers from functions that map (observation, mask) to an action, and such functions from models.

An observation is what `PlacementEnv` returns, a dictionary of arrays without a batch axis; a mask is (actions,) bool,
True where an action is allowed. If a model returns logits, the allowed action with the largest logit is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.envs.base import action_masks, action_space, observation_space
from tvwrl.envs.placement import Observation
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.knowledge import knowledge_of
from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Placement, Workload

Act = Callable[[Observation, Mask], Any]  # -> a whole number, see `PlacementEnv`
Fits = Callable[[Simulation], None]  # raises InputError for a simulation that the function does not fit
SAME_FIELDS = "give compare(observe=...) the same fields as the training environment"


class FunctionScheduler(Scheduler):
    """Takes the actions of a function of observation and mask, as `tvwrl/Placement-v0` would.

    As in that environment, an action that the mask forbids places nothing. `fits` is called with the simulation before
    every episode, and raises InputError if the function was made for another one.
    """

    looks_at_grid = True

    def __init__(self, name: str, act: Act, scenario: Scenario, fits: Fits | None = None) -> None:
        self.name, self._act, self._fits = name, act, fits
        self.knowledge = knowledge_of(scenario)
        self.needs_forecasts = scenario.observe_forecast

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare for a new episode. Raises InputError if the function was made for another observation."""
        if self._fits is not None:
            self._fits(cluster.simulation)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """One placement or none; the runner calls again. Raises InputError for an invalid action."""
        simulation = cluster.simulation
        observation = {name: seen[0].copy() for name, seen in cluster.observation().items()}
        mask = action_masks(simulation)[cluster.b]
        action = _checked(self._act(observation, mask), simulation.actions)
        place, machine = divmod(action, len(cluster.machines))
        if action < simulation.placements and place < len(pending):
            yield Placement(pending[place], machine)


def _checked(action: Any, actions: int) -> int:
    """The action as a whole number from 0 to actions - 1."""
    try:
        number = whole_number(action)
    except (TypeError, ValueError):
        raise InputError(f"the action is {action!r}: must be a whole number from 0 to {actions - 1}") from None
    if not 0 <= number < actions:
        raise InputError(f"the action is {number}: must be 0 to {actions - 1}")
    return number


def whole_number(value: Any) -> int:
    """A whole number, perhaps in an array of one element. Raises TypeError or ValueError for anything else."""
    plain = value.item() if getattr(value, "size", None) == 1 else value
    if isinstance(plain, bool):  # Python counts it as an integer
        raise TypeError
    return index(plain)


def best_allowed(logits: Any, mask: Mask) -> int:
    """The allowed action with the largest of `logits`, (actions,) or (1, actions); the first if several are equal.

    Raises InputError unless `logits` is a numeric array of that shape, without NaN for an allowed action, and above
    -inf for at least one.
    """
    try:
        values = np.asarray(logits, dtype=np.float64)
    except (TypeError, ValueError):
        what = type(logits).__name__
        raise InputError(f"the model's output is a {what}: must be an array {(1, *mask.shape)} of logits") from None
    if values.shape not in (mask.shape, (1, *mask.shape)):
        raise InputError(f"the model's output has shape {values.shape}: must be {(1, *mask.shape)}, one per action")
    values = values.reshape(mask.shape)
    if np.isnan(values[mask]).any():
        raise InputError(f"the model's output is NaN for action {np.flatnonzero(np.isnan(values) & mask)[0]}")
    if mask.any() and (values[mask] == -np.inf).all():
        raise InputError("the model's output is -inf for every action that is allowed: one must be larger")
    return int(np.where(mask, values, -np.inf).argmax())


def of_stable_baselines(model: Any) -> tuple[Act, Fits]:
    """A Stable-Baselines3 model: its deterministic action, with masks if `predict` takes them."""
    takes_masks = "action_masks" in inspect.signature(model.predict).parameters

    def act(observation: Observation, mask: Mask) -> Any:
        more = {"action_masks": mask} if takes_masks else {}
        return model.predict(observation, deterministic=True, **more)[0]

    def fits(simulation: Simulation) -> None:
        shown = observation_space(simulation).spaces
        own = getattr(model.observation_space, "spaces", None)
        if not isinstance(own, Mapping):
            raise InputError(
                f"the model observes {model.observation_space}, not a dictionary of arrays ({', '.join(shown)}): give "
                "a function from (observation, mask) that converts them to the model's input and calls predict"
            )
        for key in (*own, *(key for key in shown if key not in own)):
            sizes = [getattr(spaces.get(key), "shape", "nothing") for spaces in (own, shown)]
            if sizes[0] != sizes[1]:
                raise InputError(
                    f"the model was trained on a different observation: its '{key}' is {sizes[0]}, here it is "
                    f"{sizes[1]}; {SAME_FIELDS}"
                )
        if model.action_space != action_space(simulation):
            raise InputError(
                f"the model has actions {model.action_space}, here they are {action_space(simulation)}; "
                + _other_actions(getattr(model.action_space, "n", None), simulation)
            )

    return act, fits


def _other_actions(own: Any, simulation: Simulation) -> str:
    """What to do about a model with `own` actions. Holding is one action more than those that place."""
    holds = simulation.scenario.hold_action
    if own == simulation.actions + (-1 if holds else 1):
        return f"give compare(observe={{'hold_action': {not holds}}})"
    return SAME_FIELDS


def of_torch(module: Any) -> Act:
    """A module from a dictionary of float tensors with a batch axis of 1 to logits (1, actions).

    The dictionary holds the observation, and `mask`: 1 where an action is allowed.
    """
    import torch

    module.eval()
    device = next((weights.device for weights in module.parameters()), torch.device("cpu"))

    def act(observation: Observation, mask: Mask) -> int:
        given = {**observation, "mask": mask}
        seen = {key: torch.from_numpy(array[None]).float().to(device) for key, array in given.items()}
        try:
            with torch.no_grad():
                logits = module(seen)
        except KeyError as error:
            raise InputError(f"KeyError: {error}; the module's input has the keys {', '.join(given)}") from error
        if not isinstance(logits, torch.Tensor):
            raise InputError(
                f"the module's output is a {type(logits).__name__}: must be a tensor {(1, *mask.shape)} of logits; "
                "wrap the module in another whose forward returns only the logits"
            )
        return best_allowed(logits.cpu().numpy(), mask)

    return act


def of_onnx(path: Path) -> tuple[Act, Fits]:
    """An ONNX file. Its inputs are named like the observation's arrays, or `mask`, and have a batch axis of 1; arrays
    are cast to their types. Its first output is logits (1, actions).

    Raises InputError if onnxruntime is missing, for a file that is no such model, and for inputs that are no numbers.
    """
    try:
        import onnxruntime
    except ImportError:
        raise InputError(f"{path} needs onnxruntime: pip install onnxruntime") from None
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own kinds, which share no base
        raise InputError(f"{path} is not an ONNX model: {error}") from error
    inputs = {one.name: one for one in session.get_inputs()}
    kinds = {name: _dtype(path, name, one.type) for name, one in inputs.items()}

    def act(observation: Observation, mask: Mask) -> int:
        given = {**observation, "mask": mask}
        seen = {key: given[key][None].astype(kind) for key, kind in kinds.items()}
        return best_allowed(session.run(None, seen)[0], mask)

    def fits(simulation: Simulation) -> None:
        shown = {name: (1, *space.shape) for name, space in observation_space(simulation).spaces.items() if space.shape}
        shown["mask"] = (1, simulation.actions)
        for name, one in inputs.items():
            if name not in shown:
                raise InputError(f"{path}: input '{name}' is not observed; observed are {', '.join(shown)}")
            sizes = tuple(one.shape)  # a size that is left open is text or None
            pairs = zip(sizes, shown[name], strict=False)
            if len(sizes) != len(shown[name]) or any(isinstance(own, int) and own != here for own, here in pairs):
                advice = _other_actions(sizes[-1], simulation) if name == "mask" and sizes else SAME_FIELDS
                raise InputError(f"{path}: input '{name}' is {sizes}, here it is {shown[name]}; {advice}")

    return act, fits


def _dtype(path: Path, name: str, kind: str) -> npt.DTypeLike:
    """The type of arrays for an input of `kind`, as in tensor(float). Raises InputError if that holds no numbers."""
    plain = kind.removeprefix("tensor(").removesuffix(")")
    try:
        return np.dtype({"float": "float32", "double": "float64", "string": ""}.get(plain, plain))
    except TypeError:
        raise InputError(f"{path}: input '{name}' is a {kind}: must be a tensor of numbers, as tensor(float)") from None
