"""Compiled planner that spreads replicas over machines that are all open from the start (Algorithm 3).

Arguments and sizes as in `packing.affinity`.
"""

from __future__ import annotations

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import Applications, Packing, forget_limits, limit_machines, put, settle
from tvwrl.packing.fit import has_room, int32, int64
from tvwrl.packing.orders import Ordering, enough, fall, refresh
from tvwrl.types import Int, Int32


@inner
def _sweep(a: Applications, p: Packing, o: Ordering, i: int, taken: Int32) -> int:
    """Put one replica of i on each machine that takes one, in order, as long as there are replicas.

    Writes the positions of these machines to `taken` (M,) and returns how many there are.
    """
    too_low = enough(o, a.demand, i)
    order, key, cap, left = o.order, o.key, p.cap, p.left[i]
    needed, residual = a.needed, p.residual
    first, middle, count, n = 0, o.middle[0], o.count[0], 0
    second = middle
    while n < left and (first < middle or second < count):
        if second == count or (first < middle and key[first] >= key[second]):
            at = first
            first += 1
        else:
            at = second
            second += 1
        if key[at] < too_low:
            break
        m = order[at]
        if cap[m] > 0 and has_room(needed, i, residual, m):
            taken[n] = at
            n += 1
    for c in range(n):
        put(a, p, i, int64(order[taken[c]]), 1)
    return n


@inner
def _sweep_again(a: Applications, p: Packing, o: Ordering, i: int, again: Int32) -> int:
    """Put one more replica of i on each machine that took one in the sweep before and has room for another.

    `again` (n,): positions of the machines that took one; no others can take any. Those that take one now move to the
    front of `again`. Returns how many they are.
    """
    order, held, cap, own = o.order, p.held, p.cap, a.own[i]
    needed, residual = a.needed, p.residual
    n = 0
    for at in again:
        m = order[at]
        if p.left[i] > 0 and held[m] < cap[m] and held[m] < own and has_room(needed, i, residual, m):
            put(a, p, i, int64(m), 1)
            again[n] = at
            n += 1
    return n


@njit
def spread(a: Applications, p: Packing, o: Ordering, order: Int, taken: Int32, partly: bool) -> bool:
    """Place the applications of `order` (n,); False at the first that cannot be placed whole, unless `partly`.

    `taken` (M,) int32 is scratch.
    """
    for i in order:
        looked = limit_machines(a, p, i, int32(1))
        swept = _sweep(a, p, o, i, taken)
        if p.left[i] > 0:
            looked += limit_machines(a, p, i, a.replicas[i])
            again = taken[:swept].copy()
            while p.left[i] > 0 and len(again) > 0:
                again = again[: _sweep_again(a, p, o, i, again)]
        if p.left[i] > 0 and not partly:
            return False
        settle(p, i)
        forget_limits(a, p, i, looked)
        if swept > 0:
            o.total[:] -= (a.replicas[i] - p.left[i]) * a.demand[i]
            fall(o, p, taken[:swept])
            refresh(o, p, int64(0), False)
    return True
