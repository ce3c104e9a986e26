"""LRASched (paper 000, Algorithm 3) online: the visible workloads are the batch of a scheduling period."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.packing.book import room_now
from tvwrl.schedulers.base import Scheduler, best
from tvwrl.schedulers.knowledge import PEAKS, REQUESTS
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import Float, Placement, Workload


class LRASched(Scheduler):
    """Workloads, in decreasing order of their measure (Eq. 20), go to the machine with room that has the highest
    fitness (Eq. 21), by peaks or by requests. A workload without room waits. Each is an application of one replica.
    """

    def __init__(self, name: str, by_request: bool = False) -> None:
        self.name, self.knowledge, self._by_request = name, REQUESTS if by_request else PEAKS, by_request

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        if not pending:
            return
        demand = np.array([cluster.request_of(w) if self._by_request else w.peak for w in pending])
        share = demand / np.maximum(demand.sum(axis=0), np.finfo(np.float64).tiny)
        for i in np.argsort(-share.sum(axis=1), kind="stable").tolist():
            reserved = cluster.reserved_requests if self._by_request else cluster.reserved_peaks
            room = room_now(reserved, demand[i], cluster.capacity)
            machine = best(room, fitness(cluster, reserved, share[i]))
            if machine is not None:
                yield Placement(pending[i], machine)


def fitness(cluster: Cluster, reserved: Float, share: Float) -> Float:
    """(M,) Eq. 21 for a workload that needs the `share` (D,) of the batch's total demand; `reserved` (M, D) units."""
    free = cluster.capacity - reserved
    total = np.maximum(free.sum(axis=0), np.finfo(np.float64).tiny)  # if nothing is free, nothing fits
    preference: Float = (share * free / total).sum(axis=1)
    return preference
