"""Lower bounds on the machines that any schedule of an arrival sequence needs to avoid overshoot.

A machine's load may exceed capacity in no slot. What runs in a slot is known once the starts are: in a schedule
*without waiting* they are those of `no_wait_starts`. Two facts bound the machines used in slot t then:

- the workloads that run in t have to be packed into machines (vector bin packing);
- a workload that never moves stays on its machine, so two that share a machine in t share it in every slot in which
  both run, before and after t: a group must fit in all slots of its members' lives, not only in t.

So the problem of slot t depends only on the set that runs, and is the same from one start or finish to the next. Each
set is bounded by volume, by dual feasible functions per resource and slot, by a clique of workloads that clash, and,
given time, by the integer programme that covers the set with groups that fit (Gilmore and Gomory 1961, HiGHS). From one
set to the next the machines of workloads are not carried over, so the sum over slots may still be below what is
possible.

Where workloads may be moved, only the first fact holds: each slot is bounded by what runs in it alone.

A schedule that lets workloads wait longer moves demand to other slots and may need fewer machines at a time, or fewer
used-machine slots; `machine_slots_waiting` holds for those too. No bound above 1 on their peak exists: with patience
one machine can run everything that fits it, one after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.checks import at_least
from tvwrl.compiled import inner, njit
from tvwrl.types import Bool, Float, InputError, Int, Machines, SequenceSet


@njit
def fewest_bins(sizes: Float) -> float:
    """Lower bound (a real number) on the bins of size 1 that hold `sizes` (n,), rising, each in [0, 1].

    The bound L2 of Martello and Toth (1990) as the dual feasible functions of Fekete and Schepers (2001): for each e in
    [0, 1/2] a size above 1 - e counts 1 (nothing from e on fits beside it), one below e counts 0, any other itself.
    """
    first, last, between = 0, len(sizes), 0.0  # sizes e .. 1 - e are first .. last - 1
    for size in sizes:
        between += size
    best = between
    for i in range(len(sizes)):
        e = min(sizes[i], 0.5)
        while first < last and sizes[first] < e:
            between -= sizes[first]
            first += 1
        while first < last and sizes[last - 1] > 1.0 - e:
            last -= 1
            between -= sizes[last]
        best = max(best, between + (len(sizes) - last))
        if sizes[i] > 0.5:
            break
    return best


@njit
def fewest_in_any_slot(members: Int, share: Float, begin: int, end: int) -> float:
    """The largest `fewest_bins` of `members` (n,) over slots begin .. end - 1 and resources."""
    best, sizes = 0.0, np.zeros(len(members))
    for t in range(begin, end):
        for d in range(share.shape[2]):
            most = 0.0  # `fewest_bins` gives no more: only a size above one half can count for more than it is
            for i in members:
                most += 1.0 if share[i, t, d] > 0.5 else share[i, t, d]
            if most > best:
                for n in range(len(members)):  # sorted by insertion
                    place, size = n, share[members[n], t, d]
                    while place > 0 and sizes[place - 1] > size:
                        sizes[place] = sizes[place - 1]
                        place -= 1
                    sizes[place] = size
                best = max(best, fewest_bins(sizes))
    return best


@njit
def clashes(share: Float, start: Int, finish: Int) -> Bool:
    """(N, N) bool: pairs of workloads that exceed a machine in some slot in which both run."""
    count = len(share)
    clash = np.zeros((count, count), np.bool_)
    for i in range(count):
        for j in range(i):
            for t in range(max(start[i], start[j]), min(finish[i], finish[j])):
                for d in range(share.shape[2]):
                    if share[i, t, d] + share[j, t, d] > 1.0:
                        clash[i, j] = clash[j, i] = True
    return clash


@njit
def clique(members: Int, clash: Bool) -> int:
    """Size of a set of `members` (n,) of which every two clash: from each of them greedily on, in the order given."""
    best, chosen = 0, np.zeros(len(members), np.int64)
    for first in members:
        chosen[0], size = first, 1
        for i in members:
            joins = True
            for c in range(size):
                joins = joins and clash[i, chosen[c]]
            if joins:
                chosen[size] = i
                size += 1
        best = max(best, size)
    return best


@inner
def _fits_for_life(load: Float, share: Float, i: int, start: Int, finish: Int) -> bool:
    """Whether a machine with `load` (T, D) has room for workload i in every slot of its life."""
    for t in range(start[i], finish[i]):
        for d in range(share.shape[2]):
            if load[t, d] + share[i, t, d] > 1.0:
                return False
    return True


@inner
def _add(load: Float, share: Float, i: int, loaded: Float) -> None:
    """Write to `loaded` (T, D), which may be `load` itself, the load of a machine with workload i on it too."""
    for t in range(len(load)):
        for d in range(share.shape[2]):
            loaded[t, d] = load[t, d] + share[i, t, d]


@njit
def first_fit(order: Int, share: Float, start: Int, finish: Int) -> int:
    """Machines that first fit needs for the workloads of `order` (n,), each in the first that has room all its life."""
    load, used = np.zeros((len(order), share.shape[1], share.shape[2])), 0
    for i in order:
        machine = 0
        while machine < used and not _fits_for_life(load[machine], share, i, start, finish):
            machine += 1
        used = max(used, machine + 1)
        _add(load[machine], share, i, load[machine])
    return used


@njit
def maximal_groups(members: Int, share: Float, start: Int, finish: Int, most: int, steps: int) -> tuple[Bool, int]:
    """Every group of `members` (n,) that fits a machine and to which none can be added: (most, n) bool, and how many.

    It is 0 if there are more than `most`, or if more than `steps` groups had to be looked at.
    """
    count = len(members)
    groups, inside = np.zeros((most, count), np.bool_), np.zeros(count, np.bool_)
    # A load per depth rather than one to take workloads off again: a difference of floats would not be exact
    load, last = np.zeros((count + 1, share.shape[1], share.shape[2])), np.zeros(count, np.int64)
    found, depth, candidate = 0, 0, 0
    while steps > 0:
        while candidate < count:  # add whatever still fits, in order
            i = members[candidate]
            if _fits_for_life(load[depth], share, i, start, finish):
                _add(load[depth], share, i, load[depth + 1])
                last[depth], inside[candidate] = candidate, True
                depth, steps = depth + 1, steps - 1
            candidate += 1
        maximal = True
        for a in range(count):
            maximal = maximal and (inside[a] or not _fits_for_life(load[depth], share, members[a], start, finish))
        if maximal and found == most:
            break
        if maximal:
            for a in range(count):
                groups[found, a] = inside[a]
            found += 1
        if depth == 0:
            return groups, found
        depth -= 1  # take the newest out again and go on after it
        candidate = last[depth] + 1
        inside[candidate - 1] = False
    return groups, 0


SLACK = 1e-6  # by which a bound found in floating point may exceed the whole number that it stands for
MOST_GROUPS, MOST_STEPS = 20_000, 500_000  # per integer programme; with more it is not tried


@dataclass(frozen=True)
class ScheduleBounds:
    """Bounds of one arrival sequence, for schedules without overshoot; the first two for those without waiting.

    Parameters
    ----------
    peak_machines : int
        Machines used at the same time, >= 1.
    machine_slots : int
        Sum over slots of the machines used.
    machine_slots_waiting : int
        The same for schedules that may also let workloads wait.
    how : str
        "milp" if integer programmes were solved, else "counting".
    open_slots : int
        Slots whose bound is below the machines that first fit, or the integer programme, packed it in.

    Examples
    --------
    >>> ScheduleBounds(3, 40, 35, "counting", 0).peak_machines
    3
    """

    peak_machines: int
    machine_slots: int
    machine_slots_waiting: int
    how: str
    open_slots: int


def up(bound: float) -> int:
    """A real lower bound rounded up to a whole number of machines."""
    return int(np.ceil(bound - SLACK))


def no_wait_starts(arrival: Int, placements_per_slot: int | None) -> Int:
    """(N,) slot in which each workload starts if the head of the queue is placed as soon as the rate allows.

    `arrival` (N,) rises; at most `placements_per_slot` start in one slot (None: any number), first in, first out.
    """
    start = np.array(arrival, dtype=np.int64)
    for i in range(placements_per_slot or len(start), len(start)):
        start[i] = max(start[i], start[i - (placements_per_slot or 0)] + 1)
    return start


def lower_bounds(
    sequences: SequenceSet,
    sequence: int,
    machines: Machines,
    placements_per_slot: int | None,
    seconds: float = 0.0,
    moves: bool = False,
) -> ScheduleBounds:
    """Bounds on the machines of any schedule of an arrival sequence.

    Machines that differ are bounded by one that has the most of every resource, and by the sum of the largest. Bounds
    may exceed the number of machines: then no schedule without waiting avoids overshoot.

    Parameters
    ----------
    sequences : SequenceSet
        The sequences.
    sequence : int
        Number of the one that is bounded.
    machines : Machines
        Of the cluster.
    placements_per_slot : int or None
        How many workloads may start in a slot; None: any number.
    seconds : float
        For each integer programme, >= 0; 0 leaves them out.
    moves : bool, default False
        Whether workloads may be moved while they run.

    Returns
    -------
    ScheduleBounds
        Of machines at a time, and of used-machine slots.

    Raises
    ------
    InputError
        `seconds` is negative, or a workload exceeds the largest machine by itself.

    Examples
    --------
    >>> lower_bounds(sequences, 0, machines, placements_per_slot=1).peak_machines  # doctest: +SKIP
    12
    """
    from tvwrl.packing.fit import enlarged

    at_least(0, seconds=seconds)
    length = sequences.length[sequence]
    start = no_wait_starts(sequences.arrival[sequence], placements_per_slot)
    finish = start + length
    units = np.zeros((len(length), int(finish.max()), len(machines.resources)))
    for i, life in enumerate(length):
        units[i, start[i] : finish[i]] = sequences.demand[sequence, i, :life]
    share = units / enlarged(machines.capacity.max(axis=0))
    if (share > 1).any():
        i, slot, d = np.argwhere(share > 1)[0]
        raise InputError(
            f"workload '{sequences.workload_id[sequence, i]}' needs {units[i, slot, d]:g} units of "
            f"{machines.resources[d]}: the largest machine has {machines.capacity[:, d].max():g}"
        )
    if moves:  # what runs in a slot is a problem of its own, of lives of one slot
        parts = [
            _Running(units[here, t : t + 1], share[here, t : t + 1], 0 * here, 0 * here + 1, machines)
            for t in range(share.shape[1])
            if len(here := np.flatnonzero((start <= t) & (t < finish)))
        ]
    else:
        parts = [_Running(units, share, start, finish, machines)]
    tried = seconds > 0 and sum(part.solve(seconds) for part in parts) > 0
    # With waiting: each used-machine slot holds some of the workload-slots, and the longest workload runs somewhere
    slot = np.arange(share.shape[1])
    runs = (start[:, None] <= slot) & (slot < finish[:, None])
    volume = max(fewest_bins(np.sort(share[runs][:, d])) for d in range(share.shape[2]))
    return ScheduleBounds(
        peak_machines=max(int(part.low.max()) for part in parts),
        machine_slots=sum(int(part.low @ part.slots) for part in parts),
        machine_slots_waiting=max(up(volume), int(length.max())),
        how="milp" if tried else "counting",
        open_slots=sum(int(part.slots[part.low < part.high].sum()) for part in parts),
    )


class _Running:
    """The sets of workloads that run together, in order of time, with the fewest machines for each so far."""

    def __init__(self, units: Float, share: Float, start: Int, finish: Int, machines: Machines) -> None:
        self._share, self._start, self._finish = share, start, finish
        edges = np.unique(np.concatenate([start, finish]))
        self.slots = np.diff(edges)  # (E,) slots that each set runs for
        self.sets = [np.flatnonzero((start <= t) & (t < finish)) for t in edges[:-1]]
        self._starting = np.array([(start == t).sum() for t in edges[1:-1]])  # (E - 1,) between one set and the next
        self._leaving = np.array([(finish == t).sum() for t in edges[1:-1]])
        self.low, self.high = np.zeros((2, len(self.sets)), np.int64)  # (E,) machines: proved, and found to be enough
        clash = clashes(share, start, finish)
        # Machines that are switched on, the largest of each resource first; beyond them, more of the largest
        largest_first = np.sort(machines.capacity[machines.capacity.any(axis=1)], axis=0)[::-1]
        for e, members in enumerate(self.sets):
            if not len(members):
                continue
            begin, end = start[members].min(), finish[members].max()
            load = units[members, begin:end].sum(axis=0).max(axis=0)
            volume = max(machines_that_hold(peak, one, 0) for peak, one in zip(load, largest_first.T, strict=True))
            counted = up(fewest_in_any_slot(members, share, begin, end))
            most_clashes_first = members[np.argsort(-clash[np.ix_(members, members)].sum(axis=1))]
            self.low[e] = max(volume, counted, clique(most_clashes_first, clash))
            self.high[e] = min(first_fit(order, share, start, finish) for order in self._orders(members))
        self._carry_over()

    def solve(self, seconds: float) -> bool:
        """Raise `low` by an integer programme per set that is still open. Returns whether there was any."""

        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        tried = False
        for e, members in enumerate(self.sets):
            if self.low[e] >= self.high[e]:
                continue
            largest_first = self._orders(members)[1]
            limits = (MOST_GROUPS, MOST_STEPS)
            groups, found = maximal_groups(largest_first, self._share, self._start, self._finish, *limits)
            if found:
                tried = True
                # The fewest groups that cover the set; the bound and the number found are equal if time was enough
                covered = LinearConstraint(csr_array(groups[:found].T.astype(np.float64)), lb=1)
                solved = milp(
                    np.ones(found),
                    integrality=np.ones(found),
                    bounds=Bounds(0, 1),
                    constraints=covered,
                    options={"time_limit": seconds},
                )
                bound = solved.mip_dual_bound
                low = up(bound) if bound is not None and np.isfinite(bound) else 0
                high = len(members) if solved.x is None else round(solved.fun)
                self.low[e], self.high[e] = max(self.low[e], low), min(self.high[e], high)
                self._carry_over()
        return tried

    def _orders(self, members: Int) -> tuple[Int, Int, Int]:
        """As they started; largest total demand first; largest peak first."""
        share = self._share[members]
        return members, members[np.argsort(-share.sum(axis=(1, 2)))], members[np.argsort(-share.max(axis=(1, 2)))]

    def _carry_over(self) -> None:
        """Neighbouring sets: each workload more needs at most one machine more, each fewer frees at most one."""
        low, high = self.low, self.high
        for e, (starting, leaving) in enumerate(zip(self._starting, self._leaving, strict=True)):
            low[e + 1] = max(low[e + 1], low[e] - leaving)
            high[e + 1] = min(high[e + 1], high[e] + starting)
        for e in range(len(low) - 2, -1, -1):
            low[e] = max(low[e], low[e + 1] - self._starting[e])
            high[e] = min(high[e], high[e + 1] + self._leaving[e])


def machines_that_hold(load: float, capacity: Float, beyond: int) -> int:
    """Fewest machines whose `capacity` (M,), added up in this order, reaches `load`, in one resource.

    If all of them are too few, they go on with any number of machines like the one at `beyond`.
    """
    from tvwrl.packing.fit import enlarged

    capacity = enlarged(capacity)
    reach = np.cumsum(capacity)
    if load > reach[-1]:
        return len(reach) + up((load - reach[-1]) / capacity[beyond])
    return int(np.searchsorted(reach, load) + (load > 0))
