"""Compiled orders of machines by residual measure: the measures, and keeping an order while machines fill up.

A measure (Tables 1 and 2) is the largest, or the weighted sum, of an application's demand or a machine's residual over
the K dimensions.

An order is a list of machines `order` (M,), and, by
position in it, their keys in decreasing order: `key` (M,) is the measure, or its negative for best fit. Where many keys
decrease at once, the order is two such lists, one after the other, that are read as if merged: see `fall`.

Arguments and sizes as in `packing.affinity`; in functions without a Packing, p is a position in the order.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import Packing
from tvwrl.packing.fit import TOLERANCE, has_room
from tvwrl.types import Bool, Float, Int, Int32

BLOCK = 32  # keys that are compared at once
REFRESH = 1e-4  # relative change of a weight after which machines are measured anew; see `refresh`
FULL = -np.inf  # key of a machine that can take nothing more: it comes last
REACH = 16  # the first of two lists holds up to the root of so many times the machines; see `fall`


Keys = npt.NDArray[np.floating[Any]]


class Measure(Protocol):
    """The numbers that make a measure, a NamedTuple: see `weights`."""

    @property
    def largest(self) -> bool:
        """The largest w_k x_k counts, not the sum."""

    @property
    def epsilon(self) -> float:
        """Of the exponential weight."""

    @property
    def power(self) -> float:
        """1 for Surrogate, -1 for Extended Sum."""

    @property
    def scale(self) -> float:
        """1 if amounts are taken as shares of capacity, else 0."""


class Ordering(NamedTuple):
    """An order of the open machines, changed in place."""

    measure: Measure
    sign: float  # 1: emptiest first (worst fit), -1: fullest first (best fit)
    capacity: Float  # (K,) float64
    total: Float  # (K,) float64: residual of all open machines
    weight: Float  # (K,) float64: those that keys were computed with
    count: Int  # type: ignore[assignment]  # (1,) int64: machines in the order
    middle: Int  # (1,) int64: the second list begins here; 0: there is but one
    least: Float  # (1, K) float64: a machine with less left of anything is full; see FULL
    old: Bool  # (1,) bool: some keys are older than the weights; see `refresh`
    order: Int32  # (M,) int32
    key: Float  # (M,) float64
    spare_order: Int32  # (M,) int32, scratch
    spare_key: Float  # (M,) float64, scratch


@njit
def weights(measure: Measure, total: Float, count: int, capacity: Float) -> Float:
    """(K,) weights of a measure: w_k = exp(epsilon T_k / (n c_k)) (T_k / sum T)^power / c_k^scale.

    T is the total over n = `count` replicas or open machines, c the capacity. Only proportions matter to an order, so T
    is divided by its sum throughout.
    """
    weight = np.empty(len(total))
    everything = total.sum()
    for k in range(len(total)):
        weight[k] = 1.0 / capacity[k] if measure.scale == 1.0 else 1.0
        if measure.epsilon != 0.0:
            weight[k] *= np.exp(measure.epsilon * total[k] / (count * capacity[k]))
        if measure.power != 0.0:
            share = total[k] / everything if everything > 0.0 else 0.0
            weight[k] *= share**measure.power if share > 0.0 else 0.0
    return weight


@njit(inline="always")
def measured(largest: bool, weight: Float, values: Float, row: int) -> float:
    """The measure of row `row` of `values` (n, K), with `weight` (K,)."""
    result = -np.inf if largest else 0.0
    for k in range(len(weight)):
        share = values[row, k] * weight[k]
        result = max(result, share) if largest else result + share
    return result


@njit(inline="always")
def _key(o: Ordering, residual: Float, m: int) -> float:
    """The key of machine m."""
    if not has_room(o.least, 0, residual, m):
        return FULL
    return o.sign * measured(o.measure.largest, o.weight, residual, m)


@inner
def enough(o: Ordering, demand: Float, i: int) -> float:
    """A machine with a measure below this has too little of some resource for one replica of i.

    A machine with room has at least the demand's measure, less the tolerance of `fit` on a machine, twice for rounding.
    """
    needed, machine = 0.0, 0.0
    for k in range(len(o.weight)):
        share = demand[i, k] * o.weight[k]
        needed = max(needed, share) if o.measure.largest else needed + share
        machine += o.capacity[k] * o.weight[k]
    return needed - 2.0 * TOLERANCE * machine


@inner
def _rises(block: Float) -> bool:
    """Whether any key is higher than the one before it. No branch: it compiles to vector instructions."""
    rises = False
    for p in range(len(block) - 1):
        rises |= block[p + 1] > block[p]
    return rises


@inner
def _first_rise(key: Float, begin: int, end: int) -> int:
    """First position after `begin` with a higher key than the one before it; `end` if there is none."""
    while begin + BLOCK < end and not _rises(key[begin : begin + BLOCK + 1]):
        begin += BLOCK
    for p in range(begin + 1, end):
        if key[p] > key[p - 1]:
            return p
    return end


@inner
def _last_rise(key: Float, begin: int, end: int) -> int:
    """Last position before `end` with a higher key than the one before it; `begin` if there is none after it."""
    while begin + BLOCK < end and not _rises(key[end - BLOCK - 1 : end]):
        end -= BLOCK
    for p in range(end - 1, begin, -1):
        if key[p] > key[p - 1]:
            return p
    return begin


@inner
def _carry_down(key: Float, order: Int32, begin: int, end: int) -> None:
    """Swap neighbours from the front on: low keys sink until they meet one at most as high, which then sinks on."""
    p = _first_rise(key, begin, end)
    while p < end:
        low, machine = key[p - 1], order[p - 1]
        while p < end and key[p] > low:
            key[p - 1], order[p - 1] = key[p], order[p]
            p += 1
        key[p - 1], order[p - 1] = low, machine
        p = _first_rise(key, p, end)


@inner
def _carry_up(key: Float, order: Int32, begin: int, end: int) -> None:
    """Swap neighbours from the end on: high keys rise until they meet one at least as high, which then rises on."""
    p = _last_rise(key, begin, end)
    while p > begin:
        high, machine = key[p], order[p]
        while p > begin and key[p - 1] < high:
            key[p], order[p] = key[p - 1], order[p - 1]
            p -= 1
        key[p], order[p] = high, machine
        p = _last_rise(key, begin, p)


@inner
def swap_pass(o: Ordering, begin: int, end: int) -> bool:
    """One pass of neighbour swaps over positions begin .. end - 1; returns whether they are sorted after it.

    Worst fit carries low keys towards the end, best fit high ones towards the front, as the published code does.
    """
    if o.sign > 0.0:
        _carry_down(o.key, o.order, begin, end)
    else:
        _carry_up(o.key, o.order, begin, end)
    return _first_rise(o.key, begin, end) >= end


@inner
def _first_below(key: Float, begin: int, end: int, value: float) -> int:
    """First position of the falling range begin .. end - 1 whose key is below `value`."""
    while begin < end:
        middle = (begin + end) // 2
        if key[middle] < value:
            end = middle
        else:
            begin = middle + 1
    return begin


@inner
def sink(o: Ordering, p: int, end: int) -> None:
    """Move the machine at position p of a sorted range, whose key has fallen, back before the first not above it."""
    order, key = o.order, o.key
    machine, own = order[p], key[p]
    last = _first_below(key, p + 1, end, np.nextafter(own, np.inf)) - 1
    for at in range(p, last):
        key[at] = key[at + 1]
    for at in range(p, last):
        order[at] = order[at + 1]
    order[last], key[last] = machine, own


@inner
def _merge(key: Keys, order: Int32, begin: int, middle: int, end: int, spare_key: Keys, spare_order: Int32) -> None:
    """Stable merge of falling runs begin .. middle - 1 and middle .. end - 1, in place by way of the spare arrays."""
    left = middle - begin
    for n in range(left):
        spare_key[n], spare_order[n] = key[begin + n], order[begin + n]
    a, b, at = 0, middle, begin
    while a < left:
        if b < end and key[b] > spare_key[a]:
            key[at], order[at] = key[b], order[b]
            b += 1
        else:
            key[at], order[at] = spare_key[a], spare_order[a]
            a += 1
        at += 1


@inner
def sort_falling(key: Keys, order: Int32, begin: int, end: int, spare_key: Keys, spare_order: Int32) -> None:
    """Stable sort of positions begin .. end - 1 by falling key: pairs of runs are merged until one is left."""
    while True:
        runs, at = 0, begin
        while at < end:
            middle = at + 1
            while middle < end and key[middle] <= key[middle - 1]:
                middle += 1
            runs += 1
            if middle == end:
                break
            stop = middle + 1
            while stop < end and key[stop] <= key[stop - 1]:
                stop += 1
            _merge(key, order, at, middle, stop, spare_key, spare_order)
            at = stop
        if runs <= 1:
            return


@inner
def join(o: Ordering, middle: int) -> None:
    """Sort an order that is sorted before position `middle` and from there on."""
    if 0 < middle < o.count[0] and o.key[middle] > o.key[middle - 1]:
        begin = _first_below(o.key, 0, middle, o.key[middle])
        _merge(o.key, o.order, begin, middle, o.count[0], o.spare_key, o.spare_order)


@inner
def _leave(o: Ordering, p: Packing, at: Int32) -> tuple[Int32, Float, int]:
    """Take the machines at positions `at` (n,) out of the lists, unless their keys stand still. They and their keys.

    Those left move together, and the first list gets room at its end for all that are taken out.
    """
    order, key, middle, residual, n = o.order, o.key, o.middle[0], p.residual, 0
    machine, height = np.empty(len(at), np.int32), np.empty(len(at))
    first, last = middle, middle - 1  # positions between which something goes, in the first list and in the second
    for c in at:
        height[n] = _key(o, residual, order[c])
        if height[n] != key[c]:
            machine[n], order[c] = order[c], -1
            first, last = min(first, c), max(last, c)
            n += 1
    kept = first
    for q in range(first, middle):
        if order[q] >= 0:
            order[kept], key[kept] = order[q], key[q]
            kept += 1
    place = last
    for q in range(last, middle - 1, -1):
        if order[q] >= 0:
            order[place], key[place] = order[q], key[q]
            place -= 1
    o.middle[0] = place + 1
    return machine[:n], height[:n], kept


@inner
def fall(o: Ordering, p: Packing, at: Int32) -> None:
    """Put machines where they belong now that they hold more. They are at positions `at` (n,), listed in their order.

    They go to the first list, which joins the second when it has grown long: few places change for most of them, while
    falling past all machines between would move those. Ties keep their old order.
    """
    machine, height, a = _leave(o, p, at)
    sort_falling(height, machine, 0, len(height), o.spare_key, o.spare_order)
    order, key, c = o.order, o.key, len(height) - 1
    while c >= 0:  # merge from the end of the first list, where the room is
        if a > 0 and key[a - 1] <= height[c]:
            a -= 1
            order[a + c + 1], key[a + c + 1] = order[a], key[a]
        else:
            order[a + c], key[a + c] = machine[c], height[c]
            c -= 1
    if o.middle[0] ** 2 > REACH * o.count[0]:
        join(o, o.middle[0])
        o.middle[0] = 0


@inner
def remeasure(o: Ordering, p: Packing, at: int) -> None:
    """The machine at position `at` has changed: compute its key anew."""
    o.key[at] = _key(o, p.residual, o.order[at])


@njit
def refresh(o: Ordering, p: Packing, begin: int, always: bool) -> bool:
    """Weigh dimensions by the current totals; if that changes anything, measure and sort the machines from `begin` on.

    Paper: measures follow the totals at every step. Here: once a weight has changed by more than REFRESH since machines
    were last measured (or `always`), so that between two refreshes only machines that got replicas change places, and
    machines with equal residuals have equal keys. Returns whether it was done.
    """
    if o.measure.epsilon == 0.0 and o.measure.power == 0.0 and not always:
        return False
    count = o.count[0]
    weight, was, changed = weights(o.measure, o.total, count, o.capacity), o.weight, always
    for k in range(len(weight)):
        changed |= abs(weight[k] - was[k]) > REFRESH * abs(was[k])
    if not changed:
        return False
    was[:] = weight
    join(o, o.middle[0])
    o.middle[0], o.old[0] = 0, begin > 0
    order, key, residual, sign, largest = o.order, o.key, p.residual, o.sign, o.measure.largest
    for at in range(begin, count):
        if key[at] > FULL:
            key[at] = sign * measured(largest, weight, residual, order[at])
    sort_falling(key, order, begin, count, o.spare_key, o.spare_order)
    return True
