"""LRASched (paper 000, Algorithm 3) online: the visible workloads are the batch of a scheduling period."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.packing.kernels import room_now
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import Float, Placement, Workload


class LRASched:
    """In decreasing order of their measure (Eq. 20), workloads go to the machine with room of the highest fitness
    (Eq. 21), by peaks or requests; those that find no room wait. Every workload is an application of one replica.
    """

    looks_at_grid = False
    needs_forecasts = False

    def __init__(self, name: str, by_request: bool = False) -> None:
        self.name, self._by_request = name, by_request

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Nothing to forget."""

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """Place what finds room, largest first."""
        if not pending:
            return
        demand = np.array([cluster.request_of(w) if self._by_request else w.peak for w in pending])
        share = demand / np.maximum(demand.sum(axis=0), np.finfo(np.float64).tiny)
        for i in np.argsort(-share.sum(axis=1), kind="stable").tolist():
            reserved = cluster.reserved_requests if self._by_request else cluster.reserved_peaks
            room = room_now(reserved, demand[i], cluster.capacity)
            if room.any():
                yield Placement(pending[i], int(np.where(room, fitness(cluster, reserved, share[i]), -np.inf).argmax()))


def fitness(cluster: Cluster, reserved: Float, share: Float) -> Float:
    """(M,) Eq. 21, for a workload that needs `share` (D,) of what the batch does; `reserved` (M, D) units."""
    free = cluster.capacity - reserved
    altogether = np.maximum(free.sum(axis=0), np.finfo(np.float64).tiny)  # where nothing is free nothing fits
    preference: Float = (share * free / altogether).sum(axis=1)
    return preference
