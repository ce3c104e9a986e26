"""Which machines a scheduler would take, best first: its choice, its choice if that one were not there, and so on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvwrl.schedulers import Scheduler
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import Float, Int, Placement, Workload

CANDIDATES = 10  # of which PISM takes the one with the lowest score (6.1.3)


class Without(Cluster):
    """A cluster some of whose machines look switched off, and empty."""

    def __init__(self, cluster: Cluster, machines: Sequence[int]) -> None:
        super().__init__(cluster.simulation, cluster.b)
        self._there = np.ones((len(cluster.machines), 1))
        self._there[list(machines)] = 0.0

    @property
    def capacity(self) -> Float:
        """(M, D) units, 0 for those that are left out."""
        return super().capacity * self._there

    @property
    def load(self) -> Float:
        """(M, D) units, 0 for those that are left out."""
        return super().load * self._there

    def _reserved(self, amount: Float) -> Float:
        return super()._reserved(amount) * self._there


def candidates(
    scheduler: Scheduler, cluster: Cluster, waiting: Sequence[Workload], choice: Placement, count: int
) -> Int:
    """(n <= count,) different machines for the workload of `choice`, from the choice on in the scheduler's order.

    A scheduler that has a method `preferred(cluster, count) -> (n,) machines` is asked once, as a policy is, and of its
    answer what has room now is taken; any other is shown `waiting` anew, the machines chosen so far switched off, until
    it would rather wait.
    """
    preferred = getattr(scheduler, "preferred", None)
    if preferred is not None:
        found: Int = np.asarray(preferred(cluster, len(cluster.machines)), dtype=np.int64)
        others = found[cluster.room_now(choice.workload)[found] & (found != choice.machine)][: count - 1]
        return np.concatenate([[choice.machine], others]).astype(np.int64)
    machines = [choice.machine]
    places: Scheduler = getattr(scheduler, "places_by", scheduler)
    while len(machines) < min(count, len(cluster.machines)):
        asked = places.schedule(Without(cluster, machines), waiting)
        following = next((p.machine for p in asked if p.workload is choice.workload), None)
        if following is None or following in machines:
            break
        machines.append(following)
    return np.array(machines, dtype=np.int64)
