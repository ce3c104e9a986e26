"""Compiled planners that take the first machine with room, in the order in which machines were opened.

Arguments and sizes as in `packing.affinity`; `row`: Row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import Applications, Packing, forget_limits, limit_machines, open_next, put, settle
from tvwrl.packing.fit import has_room, int64, most_that_fit
from tvwrl.types import Bool, Byte, Float, Int, Int32


class Row(NamedTuple):
    """Open machines that can still take something, in the order in which they were opened; changed in place."""

    machine: Int32  # (M,) int32
    count: Int  # type: ignore[assignment]  # (1,) int64
    least: Float  # (1, K) float64: the least that any application needs, by dimension


def new_row(a: Applications, p: Packing) -> Row:
    """For `first_fit`: no machine is open yet."""
    return Row(np.empty(len(p.residual), np.int32), np.zeros(1, np.int64), a.needed.min(axis=0, keepdims=True))


@inner
def _fill(a: Applications, p: Packing, row: Row, i: int) -> None:
    """Place replicas of i on the first machines with room, as many as fit each. Its limits are in place.

    Machines too full for any application leave the row for good: most machines, as planning goes on.
    """
    demand, needed, residual, cap, machine, own = a.demand, a.needed, p.residual, p.cap, row.machine, a.own[i]
    n, kept = 0, 0
    count = row.count[0]
    while n < count and p.left[i] > 0:
        m = int64(machine[n])
        n += 1
        if cap[m] > 0 and has_room(needed, i, residual, m):
            put(a, p, i, m, most_that_fit(demand, needed, i, residual, m, min(p.left[i], cap[m], own)))
            if not has_room(row.least, 0, residual, m):
                continue
        machine[kept] = m
        kept += 1
    if kept < n:
        for left in range(n, count):
            machine[kept] = machine[left]
            kept += 1
        row.count[0] = kept
    while p.left[i] > 0 and open_next(a, p, i):
        m = p.open[0] - 1
        most = most_that_fit(demand, needed, i, residual, m, min(p.left[i], own))
        if most > 0:
            put(a, p, i, m, most)
        if has_room(row.least, 0, residual, m):
            machine[row.count[0]] = m
            row.count[0] += 1


@njit
def first_fit(a: Applications, p: Packing, row: Row, order: Int) -> None:
    """Place the applications of `order` (n,) one after another (Algorithm 1 with machines as they were opened)."""
    for i in order:
        looked = limit_machines(a, p, i, p.left[i])
        _fill(a, p, row, i)
        settle(p, i)
        forget_limits(a, p, i, looked)


@inner
def _lose(a: Applications, p: Packing, gone: Byte, i: int, k: int, limit: int, of_i: bool) -> int:
    """How many machines of i are newly lost to its neighbour k, too full or by `limit`: of i on k, or k on i."""
    machine, count, needed, residual, lost = p.machine, p.count, a.needed, p.residual, 0
    word, bit = k >> 3, np.uint8(1 << (k & 7))
    for r in range(p.first[i], p.first[i] + p.used[i]):
        m = machine[r]
        if gone[m, word] & bit:
            continue
        if (limit < 1 if of_i else count[r] > limit) or not has_room(needed, k, residual, m):
            gone[m, word] |= bit
            lost += 1
    return lost


@njit
def fewest_candidates(
    a: Applications,
    p: Packing,
    row: Row,
    queue: Int,  # (A,) applications, those with the fewest candidates first; kept in order by one pass per application
    begin: int,  # first position of `queue` to place
    end: int,  # the position after the last one to place
    lost: Int,  # (A,) int64: machines that each application can no longer use, updated in place
    gone: Byte,  # (M, A / 8 rounded up) uint8: a bit for each machine and application that were counted in `lost`
    through: Bool,  # (A,) bool: applications that are done, updated in place
) -> None:
    """First fit of the application with the fewest candidate machines next (Medea's NodeCandidates, Eq. 5).

    Candidates are the open machines less `lost`. Only the neighbours of what was placed are counted anew, so the others
    still count machines that have filled up since, as the published code does.
    """
    for position in range(begin, end):
        i = queue[position]
        looked = limit_machines(a, p, i, p.left[i])
        _fill(a, p, row, i)
        settle(p, i)
        forget_limits(a, p, i, looked)
        through[i] = True
        for e in range(a.into_start[i], a.into_start[i + 1]):
            k = a.into[e]
            if not through[k]:
                lost[k] += _lose(a, p, gone, i, k, a.into_limit[e], False)
        for e in range(a.start[i], a.start[i + 1]):
            k = a.to[e]
            if not through[k]:
                lost[k] += _lose(a, p, gone, i, k, a.limit[e], True)
        last = len(queue) - 1
        if position + 1 < last:
            carried = queue[last]
            for at in range(last, position + 1, -1):
                ahead = queue[at - 1]
                if lost[carried] > lost[ahead]:
                    queue[at] = ahead
                else:
                    queue[at] = carried
                    carried = ahead
            queue[position + 1] = carried
