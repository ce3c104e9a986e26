"""Load of machines in past slots, including slots without a decision."""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import njit
from tvwrl.schedulers.head_of_queue import FilterAndScore
from tvwrl.schedulers.production.usage import slots_in
from tvwrl.simulation import LENGTH, MACHINE, SEQUENCE, START, Cluster
from tvwrl.types import Float


class PastLoad:
    """Load of every machine in the newest measured slots; make a new one for each episode.

    `slots`: >= 1, how many slots to keep, including the newest (`Cluster.measured`)
    """

    def __init__(self, cluster: Cluster, slots: int) -> None:
        self._ring = np.zeros((slots, *cluster.capacity.shape))
        self._known = -1  # the latest slot in the ring
        self._largest: dict[int, tuple[int, Float]] = {}  # number of slots -> newest slot, and largest load before it

    def newest(self, cluster: Cluster, slots: int) -> Float:
        """(n, M, D) units: load in the newest `slots` slots (at most those kept), the oldest first.

        n is smaller at the start of an episode, but at least 1; the last row is `Cluster.load`.
        """
        kept, last = len(self._ring), cluster.measured
        for slot in range(max(self._known + 1, last - kept + 1), last):
            self._ring[slot % kept] = load_in(cluster, slot)
            self._known = slot
        before = np.arange(max(last - slots + 1, 0), max(last, 0))
        return np.concatenate([self._ring[before % kept], cluster.load[None]])

    def largest(self, cluster: Cluster, slots: int) -> Float:
        """(M, D) units: the largest load in the newest `slots` slots."""
        last, before = self._largest.get(slots, (None, None))
        if before is None or last != cluster.measured:
            before = self.newest(cluster, slots)[:-1].max(axis=0, initial=0.0)
            self._largest[slots] = cluster.measured, before
        return np.maximum(before, cluster.load)


class ByPastLoad(FilterAndScore):
    """A rule that looks at the load of machines in the last day."""

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget past load."""
        self._hour, self._day = (slots_in(hours, cluster.simulation.scenario) for hours in (1.0, 24.0))
        self._past = PastLoad(cluster, self._day)

    def levels(self, cluster: Cluster) -> tuple[Float, Float, Float]:
        """Newest load, largest load in the last hour, and in the last day: each (M, 2), units of CPU and memory."""
        hour, day = (self._past.largest(cluster, slots)[:, [0, -1]] for slots in (self._hour, self._day))
        return cluster.load[:, [0, -1]], hour, day


def load_in(cluster: Cluster, slot: int) -> Float:
    """(M, D) units: load of every machine in a slot before the current one, including background load."""
    state, b = cluster.simulation.state, cluster.b
    sequence, noise = int(state.counters[b, SEQUENCE]), state.background
    load = np.zeros(cluster.capacity.shape)
    if noise.shape[1]:
        load += noise[sequence, slot % noise.shape[1]]
    facts = state.workloads[b]
    _add(state.demand[sequence], facts[:, MACHINE], facts[:, START], state.timing[sequence, :, LENGTH], slot, load)
    return load


@njit
def _add(demand, machine, start, length, slot, load):  # type: ignore[no-untyped-def]
    """Add what the workloads that ran in `slot` used then to `load` (M, D); those not placed have a start of -1."""
    for w in range(len(start)):
        age = slot - start[w]
        if start[w] >= 0 and 0 <= age < length[w]:
            for d in range(load.shape[1]):
                load[machine[w], d] += demand[w, age, d]
