"""Lower bounds on the machines that any schedule of an arrival sequence needs to avoid overshoot.

A machine's load may exceed capacity in no slot. What runs in a slot is known once the starts are: in a schedule
*without waiting* they are those of `no_wait_starts`. Two facts bound the machines used in slot t then:

- the workloads that run in t have to be packed into machines (vector bin packing);
- a workload never migrates, so two that share a machine in t share it in every slot in which both run, before and
  after t: a group must fit in all slots of its members' lives, not only in t.

So the problem of slot t depends only on the set that runs, and is the same from one start or finish to the next. Each
set is bounded by volume, by dual feasible functions per resource and slot, by a clique of workloads that clash, and,
given time, by the integer programme that covers the set with groups that fit (Gilmore and Gomory 1961, HiGHS). From one
set to the next the machines of workloads are not carried over, so the sum over slots may still be below what is
possible.

A schedule that lets workloads wait longer moves demand to other slots and may need fewer machines at a time, or fewer
used-machine slots; `machine_slots_waiting` holds for those too. No bound above 1 on their peak exists: with patience
one machine can run everything that fits it, one after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least
from tvwrl.types import Float, InputError, Int, Machines, SequenceSet

SLACK = 1e-6  # by which a bound found in floating point may exceed the whole number that it stands for
MOST_GROUPS, MOST_STEPS = 20_000, 500_000  # per integer programme; with more it is not tried


@dataclass(frozen=True)
class ScheduleBounds:
    """Of one arrival sequence, for schedules without overshoot; the first two without waiting."""

    peak_machines: int  # machines used at the same time, >= 1
    machine_slots: int  # sum over slots of the machines used
    machine_slots_waiting: int  # the same for schedules that may also let workloads wait
    how: str  # "milp" if integer programmes were solved, else "counting"
    open_slots: int  # slots whose bound is below the machines that first fit, or the integer programme, packed it in


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
) -> ScheduleBounds:
    """Bounds on the machines of any schedule of number `sequence` of the `sequences`, with at most
    `placements_per_slot` (None: any number). `seconds` >= 0: for each integer programme; 0 leaves them out.

    Machines that differ are bounded by one that has the most of every resource, and by the sum of the largest. Bounds
    may exceed the number of machines: then no schedule without waiting avoids overshoot. Raises InputError if `seconds`
    is negative, or a workload exceeds the largest machine by itself.
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
    running = _Running(units, share, start, finish, machines)
    tried = seconds > 0 and running.solve(seconds)
    return ScheduleBounds(
        peak_machines=int(running.low.max()),
        machine_slots=int(running.low @ running.slots),
        machine_slots_waiting=_with_waiting(share, start, finish),
        how="milp" if tried else "counting",
        open_slots=int(running.slots[running.low < running.high].sum()),
    )


def _with_waiting(share: Float, start: Int, finish: Int) -> int:
    """Used-machine slots of any schedule: each holds some of the workload-slots, and the longest runs somewhere."""
    from tvwrl.packing.bound_kernels import fewest_bins

    runs = (start[:, None] <= np.arange(share.shape[1])) & (np.arange(share.shape[1]) < finish[:, None])
    volume = max(fewest_bins(np.sort(share[runs][:, d])) for d in range(share.shape[2]))
    return max(up(volume), int((finish - start).max()))


class _Running:
    """The sets of workloads that run together, in order of time, with the fewest machines for each so far."""

    def __init__(self, units: Float, share: Float, start: Int, finish: Int, machines: Machines) -> None:
        from tvwrl.packing import bound_kernels as k

        self._share, self._start, self._finish = share, start, finish
        edges = np.unique(np.concatenate([start, finish]))
        self.slots = np.diff(edges)  # (E,) slots that each set runs for
        self.sets = [np.flatnonzero((start <= t) & (t < finish)) for t in edges[:-1]]
        self._starting = np.array([(start == t).sum() for t in edges[1:-1]])  # (E - 1,) between one set and the next
        self._leaving = np.array([(finish == t).sum() for t in edges[1:-1]])
        self.low, self.high = np.zeros((2, len(self.sets)), np.int64)  # (E,) machines: proved, and found to be enough
        clash = k.clashes(share, start, finish)
        for e, members in enumerate(self.sets):
            if not len(members):
                continue
            begin, end = start[members].min(), finish[members].max()
            volume = _machines_for(units[members, begin:end].sum(axis=0), machines.capacity)
            counted = up(k.fewest_in_any_slot(members, share, begin, end))
            most_clashes_first = members[np.argsort(-clash[np.ix_(members, members)].sum(axis=1))]
            self.low[e] = max(volume, counted, k.clique(most_clashes_first, clash))
            self.high[e] = min(k.first_fit(order, share, start, finish) for order in self._orders(members))
        self._carry_over()

    def solve(self, seconds: float) -> bool:
        """Raise `low` by an integer programme per set that is still open. Returns whether there was any."""
        from tvwrl.packing.bound_kernels import maximal_groups

        tried = False
        for e, members in enumerate(self.sets):
            if self.low[e] >= self.high[e]:
                continue
            largest_first = self._orders(members)[1]
            limits = (MOST_GROUPS, MOST_STEPS)
            groups, found = maximal_groups(largest_first, self._share, self._start, self._finish, *limits)
            if found:
                tried = True
                low, high = _fewest_groups(groups[:found], seconds)
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


def _machines_for(load: Float, capacity: Float) -> int:
    """Fewest machines whose capacities (M, D), the largest first, reach `load` (slots, D) in every slot and resource.

    Beyond those that are switched on they go on with the largest.
    """
    ordered = np.sort(capacity[capacity.any(axis=1)], axis=0)[::-1]
    return max(machines_that_hold(peak, one, 0) for peak, one in zip(load.max(axis=0), ordered.T, strict=True))


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


def _fewest_groups(groups: npt.NDArray[np.bool_], seconds: float) -> tuple[int, int]:
    """(least, enough) number of `groups` (G, n) that cover all n; equal if HiGHS finishes within `seconds`."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    count, members = groups.shape
    covered = LinearConstraint(csr_array(groups.T.astype(np.float64)), lb=1)
    found = milp(
        np.ones(count),
        integrality=np.ones(count),
        bounds=Bounds(0, 1),
        constraints=covered,
        options={"time_limit": seconds},
    )
    bound = found.mip_dual_bound
    least = up(bound) if bound is not None and np.isfinite(bound) else 0
    return least, members if found.x is None else round(found.fun)
