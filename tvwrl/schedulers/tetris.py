"""Tetris (Grandl et al. 2014): multi-resource packing by alignment of peaks with what is free; fairness off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.packing import room_now
from tvwrl.schedulers.base import Opinion, Scheduler
from tvwrl.schedulers.knowledge import PEAKS_AND_LENGTHS
from tvwrl.simulation import Cluster
from tvwrl.types import Float, Placement, Workload


class Tetris(Scheduler):
    """Of all visible (workload, machine) pairs with room for the peak, places the one with the highest alignment minus
    `epsilon` x the workload's remaining work.

    Alignment is the inner product of peak and unreserved capacity, both as shares of the machine's capacity. Remaining
    work is peak x duration, as a share of the most among those visible, so that both terms are of the order of 1.
    """

    name, knowledge = "tetris", PEAKS_AND_LENGTHS

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        waiting = list(pending)
        while waiting:
            scores = self._pair_scores(cluster, waiting)
            chosen, machine = np.unravel_index(scores.argmax(), scores.shape)
            if scores[chosen, machine] == -np.inf:
                return
            yield Placement(waiting.pop(int(chosen)), int(machine))

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion:
        """See `Scheduler.opinion`; the score is that of a workload that waits alone."""
        scores = self._pair_scores(cluster, [workload])[0]
        return Opinion(scores > -np.inf, scores, "score")

    def _pair_scores(self, cluster: Cluster, waiting: list[Workload]) -> Float:
        """(waiting, M), -inf where the peak finds no room."""
        reserved, capacity = cluster.reserved_peaks, cluster.capacity
        free = (capacity - reserved) / cluster.divisor
        share = np.array([w.peak for w in waiting])[:, None, :] / cluster.divisor
        work = np.array([(w.peak / capacity.max(axis=0)).sum() * w.length for w in waiting])
        scores = (share * free).sum(axis=2) - self.epsilon * (work / work.max())[:, None]
        room = np.array([room_now(reserved, w.peak, capacity) for w in waiting])
        return np.where(room, scores, -np.inf)
