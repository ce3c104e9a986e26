"""A policy as a scheduler, however its logits are computed, and what it must know of the environment that it is made
for. Needs no PyTorch.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, Self

import numpy as np

from tvwrl.agents.acting import ByPolicy, DeterministicActions, Logits, LogitsOf, Seen, probabilities
from tvwrl.ec import Classes
from tvwrl.envs import Problem, action_masks
from tvwrl.forecasting import Forecaster
from tvwrl.schedulers import Continuation, Opinion, Runner, Scheduler, knowledge_of
from tvwrl.simulation import Cluster, Mask, Scenario, Simulation
from tvwrl.traces import trace_hash
from tvwrl.types import InputError, Int, Placement, Trace, Workload

# Scenario fields that change observations or actions; forecasts and peaks have the same width but differ in meaning
# fmt: off
SHOWN = (
    "observe_request", "observe_demand", "observe_forecast", "observe_peak", "hold_action", "choose_from_queue",
)
# fmt: on


def shapes_of(simulation: Simulation) -> dict[str, Any]:
    """What a policy network must know of its environment: grid (M, D, h, C), queue (Q, F), classes, actions, places
    of the queue that they choose from, peak_units, whether demand is in whole units, and how many numbers the queue
    `shows` of requests (2 D), demand (D) and forecasts (K).
    """
    scenario, resources = simulation.scenario, simulation.machines.capacity.shape[1]
    expected = simulation.observation().get("forecast")
    return {
        "grid": list(simulation.seen_grid.shape[1:]),
        "queue": list(simulation.state.seen_queue.shape[1:]),
        "classes": simulation.sequences.classes,
        "actions": simulation.actions,
        "places": scenario.places,
        "peak_units": scenario.peak_units,
        "whole": scenario.quantise,
        "shows": {
            "request": 2 * resources * scenario.observe_request,
            "demand": resources * scenario.observe_demand,
            "forecast": 0 if expected is None else expected.shape[2],
        },
    }


def environment_signature(shapes: dict[str, Any], scenario: Scenario) -> dict[str, Any]:
    """What must be the same in the environments that a policy is trained and used in; `shapes`: see `shapes_of`."""
    machines, resources, history, columns = shapes["grid"]
    return {
        "machines": machines,
        "resources": resources,
        "history": history,
        "capacity": columns,
        "queue": shapes["queue"][0],
        "classes": shapes["classes"],
        "peak_units": shapes["peak_units"],
        **{name: getattr(scenario, name) for name in SHOWN},
        "queue features": shapes["queue"][1],
    }


class MadeFor(Protocol):
    """What a checkpoint and an exported file both say of their policy."""

    @property
    def called(self) -> str:
        """What holds the policy, in errors."""

    def knows(self, trace: Trace) -> bool:
        """See `Trained.knows`."""

    @property
    def scenario(self) -> Scenario:
        """Of the environment that it was trained in."""

    @property
    def trace(self) -> dict[str, Any]:
        """`name` and `hash` of the trace that it was trained on, and more."""

    @property
    def unit(self) -> Sequence[float]:
        """(D,) value in the trace of one unit of each resource."""

    @property
    def resources(self) -> Sequence[str]:
        """The resources that it observes."""

    @property
    def classes(self) -> Classes:
        """The classes of workloads that it observes."""

    @property
    def forecaster(self) -> Forecaster | None:
        """Whose forecasts it observes."""


class Trained:
    """Where the policy of a checkpoint or an exported file can play; a subclass says what it was `MadeFor`."""

    def knows(self: MadeFor, trace: Trace) -> bool:
        """Whether the policy was trained on this very trace."""
        return bool(trace_hash(trace) == self.trace["hash"])

    def problem(self: MadeFor, trace: Trace, load: float | None = None) -> Problem:
        """The policy's environment on `trace`, at its own load or another; units are derived anew for a trace that it
        was not trained on. Raises InputError for a trace of other resources.
        """
        if list(trace.resources) != list(self.resources):
            raise InputError(
                f"trace '{trace.name}' has the resources {', '.join(trace.resources)}, "
                f"but {self.called} was trained on {', '.join(self.resources)}"
            )
        scenario = self.scenario if load is None else replace(self.scenario, load=load)
        unit = np.array(self.unit) if self.knows(trace) else None
        return Problem.build(trace, scenario, self.classes, unit, self.forecaster)


class ObservingScheduler(Scheduler):
    """Places with a policy, which observes what the environment shows and nothing else.

    `name`: of the policy
    `scenario`: of the environment that it was trained in
    `shapes`: of that environment, see `shapes_of`
    `any_machines`: whether it can play on another number of machines
    `what`: what holds the policy, in errors: checkpoint, ...
    `forecaster`: whose forecasts it observes
    """

    looks_at_grid = True

    def __init__(
        self,
        name: str,
        scenario: Scenario,
        shapes: dict[str, Any],
        any_machines: bool,
        what: str = "checkpoint",
        forecaster: Forecaster | None = None,
    ) -> None:
        self.name, self._what = name, what
        self.knowledge = knowledge_of(scenario, forecaster)
        self.needs_forecasts = scenario.observe_forecast
        self._trained = environment_signature(shapes, scenario)
        if any_machines:
            del self._trained["machines"]

    @abstractmethod
    def logits(self, seen: Seen, mask: Mask) -> Logits:
        """(n, actions) logits for observations (n, ...); `FORBIDDEN` where `mask` (n, actions) is False."""

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare for a new episode. Raises InputError if the cluster differs from what the policy was trained on."""
        self._deterministic = DeterministicActions(1, cluster.simulation.placements)
        found = environment_signature(shapes_of(cluster.simulation), cluster.simulation.scenario)
        for field, expected in self._trained.items():
            if expected != found[field]:
                raise InputError(
                    f"{self._what} '{self.name}' was trained with {field} {expected}, not {found[field]}; play "
                    "it in the environment that it was trained in"
                )

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """One placement, or none if the policy holds; the runner asks again with the updated queue."""
        action = int(self._deterministic.choose(self._logits(cluster))[0])
        if action < cluster.simulation.placements:
            place, machine = divmod(action, len(cluster.machines))
            yield Placement(pending[place], machine)

    def alternatives(self, cluster: Cluster, waiting: Sequence[Workload], choice: Placement, count: int) -> Int:
        """See `Scheduler.alternatives`: the machines with room now in order of probability."""
        queue, machines = cluster.simulation.waiting(cluster.b).tolist(), len(cluster.machines)
        place = queue.index(choice.workload.index)
        logits = self._logits(cluster)[0, place * machines :][:machines]
        takes = cluster.room_now(choice.workload) & cluster.capacity.any(axis=1)
        takes[choice.machine] = False
        others = [m for m in np.argsort(-logits, kind="stable") if takes[m]]
        return np.array([choice.machine, *others[: count - 1]], dtype=np.int64)

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion:
        """See `Scheduler.opinion`: probabilities of the machines, and of holding where the policy may."""
        count, placements = len(cluster.machines), cluster.simulation.placements
        place = cluster.simulation.waiting(cluster.b).tolist().index(workload.index)
        probability = probabilities(self._logits(cluster))[0]
        allowed = action_masks(cluster.simulation)[cluster.b, place * count :][:count]
        return Opinion(
            allowed, np.append(probability[place * count :][:count], probability[placements:].sum()), "probability"
        )

    @property
    def held(self) -> float:
        """What it remembers of having held the workloads that wait; see `DeterministicActions`."""
        return float(self._deterministic.held[0])

    def fork(self) -> Self:
        """See `Scheduler.fork`; both share the network, which does not change."""
        other = copy.copy(self)
        other._deterministic = copy.deepcopy(self._deterministic)
        return other

    def continuation(self, runner: Runner, actions: int) -> Continuation:
        """See `Scheduler.continuation`."""
        logits_of: LogitsOf = self.logits
        return ByPolicy(runner, logits_of)

    def _logits(self, cluster: Cluster) -> Logits:
        """(1, actions), `FORBIDDEN` for actions that may not be chosen; where workloads may move, of placing alone."""
        simulation, seen = cluster.simulation, cluster.observation()
        mask = action_masks(simulation)[cluster.b : cluster.b + 1]
        if simulation.scenario.moves_per_slot:
            seen = {name: part for name, part in seen.items() if name not in ("running", "phase")}
            mask = mask[:, : simulation.placements + simulation.scenario.hold_action]
        return self.logits(seen, mask)
