"""A policy as a scheduler, however its logits are computed: with PyTorch or without."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from tvwrl.agents.deterministic import DeterministicActions, Logits, LogitsOf, Mask, Seen, probabilities
from tvwrl.agents.policy_replay import ByPolicy
from tvwrl.agents.shapes import environment_signature, shapes_of
from tvwrl.envs import action_masks
from tvwrl.schedulers import Continuation, Opinion, Runner, Scheduler, knowledge_of
from tvwrl.simulation import Cluster, Scenario
from tvwrl.types import InputError, Int, Placement, Workload


class ObservingScheduler(Scheduler):
    """Places with a policy, which observes what the environment shows and nothing else.

    `name`: of the policy
    `scenario`: of the environment that it was trained in
    `shapes`: of that environment, see `shapes_of`
    `any_machines`: whether it can play on another number of machines
    `what`: what holds the policy, in errors: checkpoint, ...
    """

    looks_at_grid = True

    def __init__(
        self, name: str, scenario: Scenario, shapes: dict[str, Any], any_machines: bool, what: str = "checkpoint"
    ) -> None:
        self.name, self._what = name, what
        self.knowledge = knowledge_of(scenario)
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
                raise InputError(f"{self._what} '{self.name}' was trained with {field} {expected}, not {found[field]}")

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
        """(1, actions), `FORBIDDEN` for actions that may not be chosen."""
        return self.logits(cluster.observation(), action_masks(cluster.simulation)[cluster.b : cluster.b + 1])
