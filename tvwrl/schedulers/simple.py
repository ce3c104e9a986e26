"""Schedulers that keep something between decisions: a random stream, a turn, what load was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.schedulers import peers, scores
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import Placement, Workload


class Random:
    """A random machine among those with room now."""

    name = "random"
    looks_at_grid = False
    needs_forecasts = False

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Take the episode's random stream."""
        self._rng = rng

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """Place from the head until one has to wait."""
        for workload in pending:
            machines = np.flatnonzero(cluster.room_now(workload))
            if not len(machines):
                return
            yield Placement(workload, int(self._rng.choice(machines)))


class RoundRobin:
    """The next machine in turn among those with room now."""

    name = "round-robin"
    looks_at_grid = False
    needs_forecasts = False

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Begin with machine 0."""
        self._turn = 0

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """Place from the head until one has to wait."""
        count = len(cluster.machines)
        for workload in pending:
            turns = (self._turn + np.arange(count)) % count
            machines = turns[cluster.room_now(workload)[turns]]
            if not len(machines):
                return
            self._turn = (int(machines[0]) + 1) % count
            yield Placement(workload, int(machines[0]))


class RiskBalancing:
    """Trimaran's LoadVariationRiskBalancing: the machine whose recent mean and deviation of load promise least risk.

    Trimaran: moments of the last quarter of an hour, from a report a minute. Here: of about fifteen slots, as a machine
    reports once a slot; of the CPU and of the last resource.
    """

    name = "risk-balancing"
    looks_at_grid = False
    needs_forecasts = False

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Nothing was reported yet."""
        self._history, self._reported = peers.no_history(len(cluster.machines)), -1

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """Place from the head until one has to wait."""
        self._listen(cluster)
        for workload in pending:
            room = cluster.room_now(workload)
            if not room.any():
                return
            more = (workload.first_demand / cluster.divisor)[:, [0, -1]]
            score = np.where(room, scores.risk_balancing(more, self._history), -np.inf)
            yield Placement(workload, int(score.argmax()))

    def _listen(self, cluster: Cluster) -> None:
        """Take the report of a slot, once."""
        if cluster.slot > self._reported:
            self._reported = cluster.slot
            peers.remember((cluster.load / cluster.divisor)[:, [0, -1]], self._history, peers.REPORT_WEIGHT)
