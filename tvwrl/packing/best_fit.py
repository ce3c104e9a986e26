"""Compiled planners that take open machines by residual measure: best and worst fit (Algorithm 1).

Replicas go one at a time. A machine that refuses one is not asked again for the same application.
Arguments and sizes as in `packing.affinity`.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import forget_limits, limit_machines, open_next, put, settle
from tvwrl.packing.fit import has_room
from tvwrl.packing.orders import enough, join, refresh, remeasure, sink, sort_falling, swap_pass


@inner
def _append(p, o):  # type: ignore[no-untyped-def]
    """Put the machine just opened at the end of the order."""
    m, at = p.open[0] - 1, o.count[0]
    o.order[at] = m
    o.count[0] += 1
    o.total[:] += p.residual[m]
    remeasure(o, p, at)


@inner
def _scan(  # type: ignore[no-untyped-def]
    order,  # (M,) machines, as in `orders.Ordering`
    key,  # (M,) float64: their keys, by position
    full,  # (M,) bool: machines that can take nothing more
    held,  # (M,) replicas of i on each machine, as in `Packing`
    cap,  # (M,) replicas of i that affinity allows there, as in `Packing`
    own,  # replicas of i that its self limit allows on a machine
    needed,  # (A, K) float64, as in `Applications`
    i,
    residual,  # (M, K) float64
    at,  # first position to look at
    end,  # the position after the last one
    too_low,  # machines with a key below this have no room; -inf: not known
):  # fmt: skip
    """First position at .. end - 1 whose machine takes a replica of i; `end` if none does.

    A function of its own, with arrays for arguments: a loop with more around it counts references at every step.
    """
    while at < end and key[at] >= too_low:
        m = order[at]
        if not full[m] and held[m] < cap[m] and held[m] < own and has_room(needed, i, residual, m):
            return at
        at += 1
    return end


@inner
def _find(  # type: ignore[no-untyped-def]
    a, p, o, i,
    at,  # first position to look at
    sorted_from_there,  # whether keys fall from `at` on, so that the search may end at the first that is too low
    full,  # (M,) bool: machines that can take nothing more
):  # fmt: skip
    """First position from `at` on whose machine takes a replica of i, machines opened if need be; -1: none does."""
    too_low = enough(o, a.demand, i) if sorted_from_there and o.sign > 0.0 else -np.inf
    while True:
        count = o.count[0]
        at = _scan(o.order, o.key, full, p.held, p.cap, a.own[i], a.needed, i, p.residual, at, count, too_low)
        if at < count:
            return at
        if not open_next(a, p, i):
            return -1
        _append(p, o)


@njit
def fit_by_passes(a, p, o, order):  # type: ignore[no-untyped-def]
    """Place the applications of `order` (n,), machines kept in order by one pass of neighbour swaps per replica.

    For measures with constant weights. The order is only roughly sorted, as in the published code.
    """
    full = np.zeros(len(p.residual), np.bool_)
    for i in order:
        looked = limit_machines(a, p, i, p.left[i])
        at, calm = np.int64(0), p.left[i] == 0  # numba would compile callees again for constants
        while p.left[i] > 0:
            if not calm:
                calm = swap_pass(o, at, o.count[0])
            at = _find(a, p, o, i, at, calm, full)
            if at < 0:
                break
            m = np.int64(o.order[at])
            put(a, p, i, m, 1)
            full[m] = not has_room(o.least, 0, p.residual, m)
            remeasure(o, p, at)
            if calm and o.sign > 0.0:
                sink(o, at, o.count[0])
        settle(p, i)
        forget_limits(a, p, i, looked)


@njit
def fit_by_sorting(a, p, o, order):  # type: ignore[no-untyped-def]
    """Place the applications of `order` (n,), machines from the one that took the last replica on kept sorted.

    For measures whose weights follow the totals. Machines before that one are not measured anew until the next
    application has been placed once: it still finds them by their old keys, as in the published code.
    """
    none = np.zeros(len(p.residual), np.bool_)  # the full ones are behind all others: see `orders.FULL`
    for i in order:
        looked = limit_machines(a, p, i, p.left[i])
        at, opened, old, several = np.int64(0), o.count[0], o.old[0], False
        while p.left[i] > 0:
            found = _find(a, p, o, i, at, not old, none)
            if found < 0:
                break
            at = found
            put(a, p, i, np.int64(o.order[at]), 1)
            o.total[:] -= a.demand[i]
            remeasure(o, p, at)
            if refresh(o, p, at, old):
                old, several = False, True
            elif o.sign > 0.0:
                sink(o, at, o.count[0])
        begin = np.int64(0)
        if o.sign > 0.0 and not several:  # worst fit leaves the machines before it in order
            begin = min(at, opened)
        sort_falling(o.key, o.order, begin, o.count[0], o.spare_key, o.spare_order)
        join(o, begin)
        settle(p, i)
        forget_limits(a, p, i, looked)
