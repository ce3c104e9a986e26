"""Compiled planners that take open machines by residual measure: best and worst fit (Algorithm 1).

Replicas go one at a time. A machine that refuses one is not asked again for the same application.
Arguments and sizes as in `packing.affinity`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import Applications, Packing, forget_limits, limit_machines, open_next, put, settle
from tvwrl.packing.fit import first_lack, int64, short, uint64
from tvwrl.packing.orders import Ordering, enough, join, refresh, remeasure, sink, sort_falling, swap_pass
from tvwrl.types import Float, Int, Int32


class Probes(NamedTuple):
    """What machines have left of the busiest dimension, and of the one that they lacked last, side by side.

    Nearly all machines without room lack it in one of the two. Rows of `residual` are long and far apart; these fit the
    processor's cache.
    """

    lacked: Int  # (M,) int64: the dimension that each open machine lacked last; changed in place
    left: Float  # (M, 2) float64: of dimension 0 and of that one; changed in place


@inner
def _note(p: Packing, o: Ordering, probes: Probes, at: int) -> None:
    """The machine at position `at` has changed: look at it, and measure it, anew."""
    m = o.order[at]
    probes.left[m, 0], probes.left[m, 1] = p.residual[m, 0], p.residual[m, probes.lacked[m]]
    remeasure(o, p, at)


@inner
def _append(p: Packing, o: Ordering, probes: Probes) -> None:
    """Put the machine just opened at the end of the order."""
    m, at = p.open[0] - 1, o.count[0]
    o.order[at] = m
    o.count[0] += 1
    o.total[:] += p.residual[m]
    probes.lacked[m] = 0
    _note(p, o, probes, at)


@inner
def _scan(
    order: Int32,  # (M,) machines, as in `orders.Ordering`
    key: Float,  # (M,) float64: their keys, by position
    lacked: Int,  # (M,) int64, as in `Probes`; changed
    left: Float,  # (M, 2) float64, as in `Probes`; changed
    held: Int32,  # (M,) replicas of i on each machine, as in `Packing`
    cap: Int32,  # (M,) replicas of i that affinity allows there, as in `Packing`
    own: int,  # replicas of i that its self limit allows on a machine
    needed: Float,  # (A, K) float64, as in `Applications`
    i: int,
    residual: Float,  # (M, K) float64
    at: int,  # first position to look at
    end: int,  # the position after the last one
    too_low: float,  # machines with a key below this have no room; -inf: not known
) -> int:
    """First position at .. end - 1 whose machine takes a replica of i; `end` if none does.

    A function of its own, with arrays for arguments: a loop with more around it counts references at every step.
    """
    row = uint64(i)
    busiest = needed[row, 0]
    while at < end and key[at] >= too_low:
        m = uint64(order[at])  # unsigned: no look at whether it counts from the end
        if not (short(left[m, 0], busiest) | short(left[m, 1], needed[row, lacked[m]])):
            k = first_lack(needed, i, residual, m)
            if k < needed.shape[1]:
                lacked[m], left[m, 1] = k, residual[m, k]
            elif held[m] < cap[m] and held[m] < own:
                return at
        at += 1
    return end


@inner
def _find(
    a: Applications,
    p: Packing,
    o: Ordering,
    probes: Probes,
    i: int,
    at: int,  # first position to look at
    sorted_from_there: bool,  # whether keys fall from `at` on, so that the search may end at the first that is too low
) -> int:
    """First position from `at` on whose machine takes a replica of i, machines opened if need be; -1: none does."""
    too_low = enough(o, a.demand, i) if sorted_from_there and o.sign > 0.0 else -np.inf
    order, key, lacked, left = o.order, o.key, probes.lacked, probes.left
    while True:
        count = o.count[0]
        at = _scan(order, key, lacked, left, p.held, p.cap, a.own[i], a.needed, i, p.residual, at, count, too_low)
        if at < count:
            return at
        if not open_next(a, p, i):
            return -1
        _append(p, o, probes)


@njit
def fit_by_passes(a: Applications, p: Packing, o: Ordering, probes: Probes, order: Int) -> None:
    """Place the applications of `order` (n,), machines kept in order by one pass of neighbour swaps per replica.

    For measures with constant weights. The order is only roughly sorted, as in the published code.
    """
    for i in order:
        looked = limit_machines(a, p, i, p.left[i])
        at, calm = int64(0), p.left[i] == 0  # numba would compile callees again for constants
        while p.left[i] > 0:
            if not calm:
                calm = swap_pass(o, at, o.count[0])
            at = _find(a, p, o, probes, i, at, calm)
            if at < 0:
                break
            put(a, p, i, int64(o.order[at]), 1)
            _note(p, o, probes, at)
            if calm and o.sign > 0.0:
                sink(o, at, o.count[0])
        settle(p, i)
        forget_limits(a, p, i, looked)


@njit
def fit_by_sorting(a: Applications, p: Packing, o: Ordering, probes: Probes, order: Int) -> None:
    """Place the applications of `order` (n,), machines from the one that took the last replica on kept sorted.

    For measures whose weights follow the totals. Machines before that one are not measured anew until the next
    application has been placed once: it still finds them by their old keys, as in the published code.
    """
    for i in order:
        looked = limit_machines(a, p, i, p.left[i])
        at, opened, old, several = int64(0), o.count[0], o.old[0], False
        while p.left[i] > 0:
            found = _find(a, p, o, probes, i, at, not old)
            if found < 0:
                break
            at = found
            put(a, p, i, int64(o.order[at]), 1)
            o.total[:] -= a.demand[i]
            _note(p, o, probes, at)
            if refresh(o, p, at, old):
                old, several = False, True
            elif o.sign > 0.0:
                sink(o, at, o.count[0])
        begin = int64(0)
        if o.sign > 0.0 and not several:  # worst fit leaves the machines before it in order
            begin = min(at, opened)
        sort_falling(o.key, o.order, begin, o.count[0], o.spare_key, o.spare_order)
        join(o, begin)
        settle(p, i)
        forget_limits(a, p, i, looked)
