"""Compiled planner that spreads replicas over machines that are all open from the start (Algorithm 3)."""

from __future__ import annotations

import numpy as np
from numba import njit

from tvwrl.packing.affinity import forget_limits, has_room, limit_machines, put, settle
from tvwrl.packing.ordering import enough, refresh, remeasure, restore


@njit(cache=True)
def _sweep(a, p, o, i, taken):  # type: ignore[no-untyped-def]
    """One replica of i to each machine that takes one, in order. Positions go to `taken`; returns how many."""
    too_low = enough(o, a.demand, i)
    order, key, demand, residual, cap, left = o.order, o.key, a.demand, p.residual, p.cap, p.left[i]
    n = 0
    for at in range(o.count[0]):
        if key[at] < too_low or n == left:
            break
        m = order[at]
        if cap[m] > 0 and has_room(demand, i, residual, m):
            taken[n] = at
            n += 1
    for c in range(n):
        put(a, p, i, np.int64(order[taken[c]]), 1)
    return n


@njit(cache=True)
def _sweep_again(a, p, o, i, taken, count):  # type: ignore[no-untyped-def]
    """The same over the machines that took one in the sweep before, since only they still can; keeps those that did."""
    order, demand, residual, held, cap, own = o.order, a.demand, p.residual, p.held, p.cap, a.own[i]
    n = 0
    for c in range(count):
        m = order[taken[c]]
        if p.left[i] > 0 and held[m] < cap[m] and held[m] < own and has_room(demand, i, residual, m):
            put(a, p, i, np.int64(m), 1)
            taken[n] = taken[c]
            n += 1
    return n


@njit(cache=True)
def spread(a, p, o, order, taken, partly):  # type: ignore[no-untyped-def]
    """Place the applications of `order` (n,); False at the first that cannot be placed whole, unless `partly`.

    `taken` (M,) int32 is scratch.
    """
    for i in order:
        looked = limit_machines(a, p, i)
        n = swept = _sweep(a, p, o, i, taken)
        last = taken[n - 1] if n else -1
        first = taken[0] if n else -1
        while p.left[i] > 0 and n > 0:
            n = _sweep_again(a, p, o, i, taken, n)
        if p.left[i] > 0 and not partly:
            return False
        settle(p, i)
        forget_limits(a, p, i, looked)
        if swept:
            _reorder(a, p, o, i, first, last)
    return True


@njit(cache=True)
def _reorder(a, p, o, i, first, last):  # type: ignore[no-untyped-def]
    """Sort the order after application i, which went to machines at positions first .. last."""
    o.total[:] -= (a.replicas[i] - p.left[i]) * a.demand[i]
    order, flag, machine = o.order, o.moved, p.machine
    for r in range(p.first[i], p.first[i] + p.used[i]):
        flag[machine[r]] = True
    for at in range(first, last + 1):
        if flag[order[at]]:
            remeasure(o, p, at)
    restore(o, first, last, p.used[i])
    refresh(o, p, False)
