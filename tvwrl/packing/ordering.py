"""Compiled orders of machines by residual measure: the measures, and keeping an order while machines fill up.

A measure (Tables 1 and 2) is the largest, or the weighted sum, of an application's demand or a machine's residual over
the K dimensions. The weights come from totals: see `weights`. An order is a list of machines `order` (M,), and, by
position in it, their keys, falling: `key` (M,) is the measure, or its negative for best fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

REFRESH = 1e-4  # relative change of a weight after which machines are measured anew; see `refresh`


class Measure(NamedTuple):
    """What is summed over dimensions k: w_k x_k with w_k = exp(epsilon T_k / (n c_k)) (T_k / sum T)^power / c_k^scale.

    T is the total over n replicas or open machines, c the capacity, x the demand or residual.
    """

    largest: bool  # the largest x_k / c_k instead of the sum
    epsilon: float  # of the exponential weight
    power: float  # 1: Surrogate, -1: Extended Sum
    scale: float  # 1 if x is taken as a share of capacity, else 0


class Ordering(NamedTuple):
    """An order of the open machines, changed in place."""

    measure: Any  # Measure
    sign: float  # 1: emptiest first (worst fit), -1: fullest first (best fit)
    capacity: Any  # (K,) float64
    total: Any  # (K,) float64: residual of all open machines
    weight: Any  # (K,) float64: those that keys were computed with
    count: Any  # (1,) int64: machines in the order
    order: Any  # (M,) int32
    key: Any  # (M,) float64
    spare_order: Any  # (M,) int32, scratch
    spare_key: Any  # (M,) float64, scratch
    moved: Any  # (M,) bool: machines whose place in the order may be wrong


@njit(cache=True)
def weights(measure, total, count, capacity):  # type: ignore[no-untyped-def]
    """(K,) weights of a measure. Only proportions matter to an order, so T is divided by its sum throughout."""
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


@njit(cache=True, inline="always")
def measured(largest, weight, values, row):  # type: ignore[no-untyped-def]
    """The measure of row `row` of `values` (n, K), with `weight` (K,)."""
    result = -np.inf if largest else 0.0
    for k in range(len(weight)):
        share = values[row, k] * weight[k]
        result = max(result, share) if largest else result + share
    return result


@njit(cache=True)
def enough(o, demand, i):  # type: ignore[no-untyped-def]
    """A machine with a measure below this has too little of some resource for one replica of i, less rounding."""
    return measured(o.measure.largest, o.weight, demand, i) * (1.0 - 1e-6) - 1e-6


@njit(cache=True)
def swap_pass(o, begin, end):  # type: ignore[no-untyped-def]
    """One pass of neighbour swaps over positions begin .. end - 1; returns whether they are sorted after it.

    Worst fit carries low keys towards the end, best fit high ones towards the front, as the published code does.
    """
    order, key, step = o.order, o.key, 1 if o.sign > 0.0 else -1
    at, last = (begin, end - 1) if step > 0 else (end - 1, begin)
    if end - begin < 2:
        return True
    machine, carried, before, is_sorted = order[at], key[at], o.sign * np.inf, True
    while at != last:
        ahead = key[at + step]
        if (ahead > carried) == (step > 0) and ahead != carried:
            order[at] = order[at + step]
        else:
            order[at] = machine
            machine = order[at + step]
            ahead, carried = carried, ahead
        key[at] = ahead
        is_sorted &= (ahead <= before) == (step > 0) or ahead == before
        before = ahead
        at += step
    order[at], key[at] = machine, carried
    return is_sorted and ((carried <= before) == (step > 0) or carried == before)


@njit(cache=True)
def _first_below(key, begin, end, value):  # type: ignore[no-untyped-def]
    """First position of the falling range begin .. end - 1 whose key is below `value`."""
    while begin < end:
        middle = (begin + end) // 2
        if key[middle] < value:
            end = middle
        else:
            begin = middle + 1
    return begin


@njit(cache=True)
def _first_not_above(key, begin, end, value):  # type: ignore[no-untyped-def]
    """First position of the falling range begin .. end - 1 whose key is at most `value`."""
    while begin < end:
        middle = (begin + end) // 2
        if key[middle] <= value:
            end = middle
        else:
            begin = middle + 1
    return begin


@njit(cache=True)
def sink(o, p, end):  # type: ignore[no-untyped-def]
    """Move the machine at position p of a sorted range, whose key has fallen, back before the first not above it."""
    order, key = o.order, o.key
    machine, own = order[p], key[p]
    last = _first_not_above(key, p + 1, end, own) - 1
    for at in range(p, last):
        key[at] = key[at + 1]
    for at in range(p, last):
        order[at] = order[at + 1]
    order[last], key[last] = machine, own


@njit(cache=True)
def _merge(key, order, begin, middle, end, spare_key, spare_order):  # type: ignore[no-untyped-def]
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


@njit(cache=True)
def sort_falling(key, order, begin, end, spare_key, spare_order):  # type: ignore[no-untyped-def]
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


@njit(cache=True)
def join(o, middle):  # type: ignore[no-untyped-def]
    """Sort an order that is sorted before position `middle` and from there on."""
    if 0 < middle < o.count[0] and o.key[middle] > o.key[middle - 1]:
        begin = _first_below(o.key, 0, middle, o.key[middle])
        _merge(o.key, o.order, begin, middle, o.count[0], o.spare_key, o.spare_order)


@njit(cache=True)
def restore(o, first, last, moved):  # type: ignore[no-untyped-def]
    """Sort again after the keys of `moved` >= 1 machines, flagged in `o.moved`, at positions first .. last, fell.

    The others are sorted. Only positions that a machine leaves or passes are touched. Ties keep their old order.
    """
    order, key, old, old_key, flag = o.order, o.key, o.spare_order, o.spare_key, o.moved
    at, height, n = np.empty(moved, np.int32), np.empty(moved), 0  # positions of those that moved, and keys
    for p in range(first, last + 1):
        old[p] = order[p]
        old_key[p] = key[p]
        if flag[order[p]]:
            at[n], height[n] = p, key[p]
            n += 1
    sort_falling(height, at, 0, moved, np.empty(moved), np.empty(moved, np.int32))
    n, p, place = 0, first, first
    while n < moved:
        while p <= last and flag[old[p]]:
            p += 1
        if p > last:  # all from here on stand still or move up, in one piece until the next machine's place
            end = _first_not_above(key, p, o.count[0], height[n])
            for q in range(p, end):
                order[place + q - p] = order[q]
            for q in range(p, end):
                key[place + q - p] = key[q]
            place, p = place + end - p, end
        elif old_key[p] > height[n] or (old_key[p] == height[n] and p < at[n]):
            order[place], key[place] = old[p], old_key[p]
            place, p = place + 1, p + 1
            continue
        order[place], key[place] = old[at[n]], height[n]
        place, n = place + 1, n + 1
    while place <= last:  # the last ones of the range that none passed
        if not flag[old[p]]:
            order[place], key[place] = old[p], old_key[p]
            place += 1
        p += 1
    for n in range(moved):
        flag[old[at[n]]] = False


@njit(cache=True)
def remeasure(o, p, at):  # type: ignore[no-untyped-def]
    """The machine at position `at` has changed: compute its key anew."""
    o.key[at] = o.sign * measured(o.measure.largest, o.weight, p.residual, o.order[at])


@njit(cache=True)
def refresh(o, p, always):  # type: ignore[no-untyped-def]
    """Weigh dimensions by the current totals, and measure and sort all machines if that changes anything.

    Paper: measures follow the totals at every step. Here: once a weight has changed by more than REFRESH since machines
    were last measured (or `always`), so that between two refreshes only machines that got replicas change places, and
    machines with equal residuals have equal keys.
    """
    count = o.count[0]
    if o.measure.epsilon == 0.0 and o.measure.power == 0.0 and not always:
        return
    weight, was, stale = weights(o.measure, o.total, count, o.capacity), o.weight, always
    for k in range(len(weight)):
        stale |= abs(weight[k] - was[k]) > REFRESH * abs(was[k])
    if not stale:
        return
    was[:] = weight
    order, key, residual, sign, largest = o.order, o.key, p.residual, o.sign, o.measure.largest
    for at in range(count):
        key[at] = sign * measured(largest, weight, residual, order[at])
    sort_falling(key, order, 0, count, o.spare_key, o.spare_order)
