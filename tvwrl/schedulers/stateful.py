"""Schedulers that keep something between decisions: a random stream, whose turn it is, past load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.schedulers import load_aware, scores
from tvwrl.schedulers.head_of_queue import HeadOfQueue, best
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import Placement, Workload


class Random(HeadOfQueue):
    """A random machine among those with room now."""

    name, knowledge = "random", CURRENT_LOAD

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Take the episode's random stream."""
        self._rng = rng

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        machines = np.flatnonzero(cluster.room_now(workload))
        return int(self._rng.choice(machines)) if len(machines) else None


class RoundRobin(HeadOfQueue):
    """The next machine in turn among those with room now."""

    name, knowledge = "round-robin", CURRENT_LOAD

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Start with machine 0."""
        self._turn = 0

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        count = len(cluster.machines)
        turns = (self._turn + np.arange(count)) % count
        machines = turns[cluster.room_now(workload)[turns]]
        if not len(machines):
            return None
        self._turn = (int(machines[0]) + 1) % count
        return int(machines[0])


class RiskBalancing(HeadOfQueue):
    """Trimaran's LoadVariationRiskBalancing (Apache-2.0): the machine with room whose recent load is the least
    risky, by mean and deviation.

    Trimaran: moments of the last quarter of an hour, from one report a minute, and the newcomer's request. Here: of
    about fifteen slots, from one report in each slot in which something waits, of the first resource (CPU) and the
    last, and the newcomer's demand in its first slot.
    """

    name, knowledge = "risk-balancing", CURRENT_LOAD

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget past load."""
        self._history, self._latest = load_aware.no_history(len(cluster.machines)), -1

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`; the load is recorded once a slot."""
        if cluster.slot > self._latest:
            self._latest = cluster.slot
            share = (cluster.load / cluster.divisor)[:, [0, -1]]
            load_aware.remember(share, self._history, load_aware.REPORT_WEIGHT)
        yield from super().schedule(cluster, pending)

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        added = (workload.first_demand / cluster.divisor)[:, [0, -1]]
        return best(cluster.room_now(workload), scores.risk_balancing(added, self._history))
