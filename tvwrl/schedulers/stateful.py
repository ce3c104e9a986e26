"""Schedulers with state between decisions: a random stream, or whose turn it is."""

from __future__ import annotations

import numpy as np

from tvwrl.schedulers.head_of_queue import HeadOfQueue
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.simulation import Cluster
from tvwrl.types import Workload


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
