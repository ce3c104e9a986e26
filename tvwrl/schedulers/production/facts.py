"""What rules of production clusters know: requests, what running workloads have used in every slot, past load of
machines, and training workloads to learn from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from tvwrl.compiled import njit
from tvwrl.packing import fits
from tvwrl.schedulers.head_of_queue import FilterAndScore
from tvwrl.simulation import (
    LENGTH,
    MACHINE,
    RUNNING,
    RUNS,
    SEQUENCE,
    START,
    Cluster,
    Demand,
    Mask,
    Scenario,
    Simulation,
    requests_of,
)
from tvwrl.types import Float, Int, Int32, SequenceSet, Workload


def requested(cluster: Cluster, workload: Workload) -> Float:
    """(M, D) units: the requests of the workloads on each machine plus that of the newcomer."""
    return cluster.reserved_requests + cluster.request_of(workload)


def requests_fit(cluster: Cluster, workload: Workload, overcommit: float | Float) -> Mask:
    """(M,) machines whose capacity times `overcommit` holds all requests, newcomer included.

    `overcommit`: > 0, may be infinite; of all resources, or (D,) of each
    """
    return fits(requested(cluster, workload) / overcommit, cluster.capacity, cluster.capacity)


def by_kind(of_both: tuple[float, float], resources: int) -> Float:
    """(D,) the first number for CPU (the first resource), the second for all others, which count as memory."""
    return np.array(of_both)[np.minimum(np.arange(resources), 1)]


def rounded(number: Float) -> Float:
    """To whole numbers, halves up."""
    return np.floor(number + 0.5)


def points(share: Float) -> Float:
    """Shares (0 to 1) as whole numbers from 0 to 100, halves up.

    What rounding errors left just below a half counts as the half: the sources compute in percent.
    """
    return rounded(np.round(100.0 * share, 9))


def milli(units: Float) -> Int:
    """Whole thousandths of units, as the sources count thousandths of a core."""
    return np.rint(1000.0 * units).astype(np.int64)


class Samples(NamedTuple):
    """Usage of R running workloads, one sample a slot, as far as it has been reported."""

    workload: Int  # (R,) index in the arrival sequence
    machine: Int  # (R,) where it runs, 0..M-1
    request: Float  # (R, D) units, see `Simulation.request`
    seen: Int  # (R,) samples of each, at most h; 0: none reported yet
    value: Float  # (R, h, D) units, newest first; 0 from `seen` on
    newest: int  # slot of the newest sample (of `future_samples`: the current slot)


def slots_in(hours: float, scenario: Scenario) -> int:
    """The number of slots that cover so many hours, at least one."""
    return max(1, math.ceil(hours * 3600 / scenario.step_seconds))


def parts_of_day(samples: Samples, day: int, parts: int) -> Int:
    """(h,) part of the day, 0 to parts - 1, in which each sample was taken; `day`: its length in slots.

    Days start at slot 0 of the episode, because sequences do not say at which hour of its trace a workload started.
    """
    slot = samples.newest - np.arange(samples.value.shape[1])
    return slot % day * parts // day


def running(cluster: Cluster) -> tuple[Int, Int]:
    """(R,) index and (R,) machine of the running workloads, in the order in which they were placed."""
    state, b = cluster.simulation.state, cluster.b
    workload = state.workloads[b, : state.counters[b, RUNNING], RUNS].astype(np.int64)
    return workload, state.workloads[b, workload, MACHINE].astype(np.int64)


def placed_since(cluster: Cluster, slot: int) -> tuple[Int, Int]:
    """(n,) index and (n,) machine of the running workloads that were placed in `slot` or later."""
    workload, machine = running(cluster)
    new = cluster.simulation.state.workloads[cluster.b, workload, START] >= slot
    return workload[new], machine[new]


def usage_samples(cluster: Cluster, most: int | None, rows: Int | None = None) -> Samples:
    """What running workloads have used since they were placed, the current slot included.

    With the scenario's `usage_delay` = d the newest sample is that of d slots ago.

    `most`: how many of the newest samples to keep of each workload (>= 0); None: all
    `rows`: which of the running workloads, in the order of `running`; default: all
    """
    newest = cluster.measured
    workload, machine, start, _ = _facts(cluster, rows)
    seen = np.maximum(newest - start + 1, 0)
    if most is not None:
        seen = np.minimum(seen, most)
    return _samples(cluster, workload, machine, newest, newest - start, seen, -1)


def future_samples(cluster: Cluster, slots: int, rows: Int | None = None) -> Samples:
    """What running workloads will use in the next `slots` slots, the next one first. Reads the future."""
    workload, machine, start, length = _facts(cluster, rows)
    age = cluster.slot + 1 - start
    return _samples(cluster, workload, machine, cluster.slot, age, np.clip(length - age, 0, slots), 1)


def _facts(cluster: Cluster, rows: Int | None) -> tuple[Int, Int, Int, Int]:
    """(R,) index, machine, first slot and length of running workloads."""
    state, b = cluster.simulation.state, cluster.b
    workload, machine = running(cluster)
    if rows is not None:
        workload, machine = workload[rows], machine[rows]
    start = state.workloads[b, workload, START].astype(np.int64)
    length = state.timing[state.counters[b, SEQUENCE], workload, LENGTH].astype(np.int64)
    return workload, machine, start, length


def _samples(cluster: Cluster, workload: Int, machine: Int, newest: int, first: Int, seen: Int, step: int) -> Samples:
    """`seen` (R,) samples from slot `first` (R,) of each workload's life, forwards (step 1) or backwards (-1)."""
    simulation, sequence = cluster.simulation, int(cluster.simulation.state.counters[cluster.b, SEQUENCE])
    demand = simulation.state.demand[sequence]
    value = np.empty((len(workload), int(seen.max(initial=0)), demand.shape[2]))
    _gather(demand, workload, first, seen, step, value)
    return Samples(workload, machine, simulation.request[sequence, workload], seen, value, newest)


@njit(_nrt=False)
def _gather(demand: Demand, workload: Int, first: Int, seen: Int, step: int, value: Float) -> None:
    rows, most, resources = value.shape
    for r in range(rows):
        for k in range(most):
            for d in range(resources):
                value[r, k, d] = demand[workload[r], first[r] + k * step, d] if k < seen[r] else 0.0


def summed(amount: Float, machine: Int, machines: int) -> Float:
    """(machines, ...) sum of `amount` (R, ...) of the workloads on each machine; `machine`: (R,) where each runs."""
    total = np.zeros((machines, *amount.shape[1:]))
    _add(amount.reshape(len(amount), total[0].size), machine, total.reshape(machines, total[0].size))
    return total


@njit(_nrt=False)
def _add(amount: Float, machine: Int, total: Float) -> None:
    for r in range(len(machine)):
        for k in range(amount.shape[1]):
            total[machine[r], k] += amount[r, k]


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
    _add_what_ran(
        state.demand[sequence], facts[:, MACHINE], facts[:, START], state.timing[sequence, :, LENGTH], slot, load
    )
    return load


@njit
def _add_what_ran(demand: Demand, machine: Int32, start: Int32, length: Int32, slot: int, load: Float) -> None:
    """Add what the workloads that ran in `slot` used then to `load` (M, D); those not placed have a start of -1."""
    for w in range(len(start)):
        age = slot - start[w]
        if start[w] >= 0 and 0 <= age < length[w]:
            for d in range(load.shape[1]):
                load[machine[w], d] += demand[w, age, d]


FLAT = (0.85, 0.70)  # of CPU and of memory: Koordinator's default estimator, and Katalyst's
LIMIT = (1.0, 1.0)  # Trimaran: the limit, which stands for the request too where one number is declared


def estimated_load(cluster: Cluster, workload: Workload, share: tuple[float, float]) -> Float:
    """(M, 2) units of CPU and memory (the first and the last resource), if the workload were placed there.

    The newest measured load, plus `share` (of CPU and of memory, >= 0) of what is requested by the workloads that were
    placed since, and by the newcomer. With `usage_delay` 0 all that was placed is measured.
    """
    new, where = placed_since(cluster, cluster.measured + 1)
    sequence = cluster.simulation.state.counters[cluster.b, SEQUENCE]
    unseen = summed(cluster.simulation.request[sequence, new], where, len(cluster.machines))
    wanted = unseen + cluster.request_of(workload)
    return cluster.load[:, [0, -1]] + np.array(share) * wanted[:, [0, -1]]


T = TypeVar("T")


class TrainingWorkloads(NamedTuple):
    """W workloads of training sequences, which no test sequence contains."""

    length: Int  # (W,) slots that each ran
    request: Float  # (W, D) units, see `requests_of`
    demand: Float  # (W, L, D) units, 0 from `length` on


class Learnt(Generic[T]):
    """What `learn` makes of the training workloads, once for each set of them."""

    def __init__(self, learn: Callable[[TrainingWorkloads], T]) -> None:
        self._learn = learn
        self._made: tuple[SequenceSet, T] | None = None

    def of(self, simulation: Simulation) -> T | None:
        """What was learnt from the training workloads of the simulation's sequences; None if they have none."""
        if simulation.sequences.training is None:
            return None
        training = simulation.sequences.training()
        if self._made is None or self._made[0] is not training:
            resources = len(training.resources)
            request = requests_of(training, simulation.machines).reshape(-1, resources)
            demand = training.demand.reshape(len(request), -1, resources)
            self._made = training, self._learn(TrainingWorkloads(training.length.ravel(), request, demand))
        return self._made[1]

    def __deepcopy__(self, memo: dict[int, Any]) -> Learnt[T]:
        """Itself: forks of a scheduler share what it has learnt, which never changes."""
        return self
