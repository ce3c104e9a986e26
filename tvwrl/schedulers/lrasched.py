"""LRASched (Algorithm 3) online: the visible workloads are the batch of a scheduling period."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.packing import fitness, measure, room_now
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.head_of_queue import best
from tvwrl.schedulers.knowledge import PEAKS, REQUESTS
from tvwrl.simulation import Cluster
from tvwrl.types import Placement, Workload


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
        total, size = measure(demand)
        for i in np.argsort(-size, kind="stable").tolist():
            reserved = cluster.reserved_requests if self._by_request else cluster.reserved_peaks
            room = room_now(reserved, demand[i], cluster.capacity)
            machine = best(room, fitness(demand[i], total, cluster.capacity - reserved))
            if machine is not None:
                yield Placement(pending[i], machine)
