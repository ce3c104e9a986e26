"""Compiled parts of the bound on the cost: when workloads start, and what machines run, at given prices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit


class Relaxed(NamedTuple):
    """A sequence of N workloads in T slots. A workload's demand has at most K levels, a machine one of X loads."""

    level: Any  # (N, L) i8 the level of its demand by age
    levels: Any  # (N,) i8 how many it has
    arrival: Any  # (N,) i8, rising
    length: Any  # (N,) i8
    wait: float  # K_w
    leads: Any  # (N, K, X) i2 the load that a workload makes of a load, -1 = more than any machine holds
    squares: Any  # (N, K) f8 contention of a level with itself, which `costs` counts and nobody pays
    costs: Any  # (P, machines, X) f8 least cost of a machine by load in slot t, row t % P; infinite = overload
    count: Any  # (machines,) i8 how many machines are alike
    overload: Any  # (N,) f8 what a slot on an overloaded machine costs the workload at least
    # What changes
    slope: Any  # (T, N, K) f8 how often a level runs, less how often machines take it: the bound's gradient
    gain: Any  # (2, X) f8 most that workloads pay that make a load, -inf = none do; before and after one is considered
    taken: Any  # (N, X) i2 the level of the workload in that choice, -1 = it is not in it
    source: Any  # (N, X) i2 the load before it


@njit(_nrt=False)
def bound_at(x, price):  # type: ignore[no-untyped-def]
    """The bound at prices (T, N, K): what a workload pays a machine for a slot, by its level. Sets `slope`."""
    x.slope[:] = 0.0
    total = 0.0
    for w in range(len(x.arrival)):
        total += _start(x, w, price)
    arrived = 0
    for t in range(len(price)):
        while arrived < len(x.arrival) and x.arrival[arrived] <= t:
            arrived += 1
        _fill(x, t, arrived, price)
        for m in range(len(x.count)):
            total += x.count[m] * _run(x, t, m, arrived, price)
    return total


@inner(_nrt=False)
def _start(x, w, price):  # type: ignore[no-untyped-def]
    """The least that w pays for waiting and running."""
    slots, first, length = len(price), x.arrival[w], x.length[w]
    least, begins = x.wait * (slots - first), slots  # from then on running is free
    for s in range(first, slots):
        pays = x.wait * (s - first)
        for age in range(min(length, slots - s)):
            pays += price[s + age, w, x.level[w, age]]
        if pays < least:
            least, begins = pays, s
    for age in range(min(length, slots - begins)):
        x.slope[begins + age, w, x.level[w, age]] += 1.0
    return least


@inner(_nrt=False)
def _fill(x, t, arrived, price):  # type: ignore[no-untyped-def]
    """For every load, the workloads that make it and pay most: each at one of its levels, at most once."""
    before, after = x.gain[0], x.gain[1]
    after[:] = -np.inf
    after[0] = 0.0
    for w in range(arrived):
        for load in range(len(before)):
            before[load] = after[load]
            x.taken[w, load] = -1
        for k in range(x.levels[w]):
            pays = price[t, w, k] + x.squares[w, k]
            for load in range(len(before)):
                then = x.leads[w, k, load]
                if then >= 0 and before[load] + pays > after[then]:
                    after[then] = before[load] + pays
                    x.taken[w, then], x.source[w, then] = k, load


@inner(_nrt=False)
def _run(x, t, m, arrived, price):  # type: ignore[no-untyped-def]
    """What machine m costs at least in slot t, less what its workloads pay: at most 0, as it may run nothing."""
    costs, gain, least, load, over = x.costs[t % len(x.costs), m], x.gain[1], 0.0, 0, 0.0
    for y in range(1, len(gain)):
        if costs[y] - gain[y] < least:
            least, load = costs[y] - gain[y], y
    for w in range(arrived):
        over += min(0.0, x.overload[w] - price[t, w, _dearest(x, t, w, price)])
    if over < least:  # so many that they overload it
        for w in range(arrived):
            k = _dearest(x, t, w, price)
            if x.overload[w] < price[t, w, k]:
                x.slope[t, w, k] -= x.count[m]
        return over
    for w in range(arrived - 1, -1, -1):
        if load > 0 and x.taken[w, load] >= 0:
            x.slope[t, w, x.taken[w, load]] -= x.count[m]
            load = x.source[w, load]
    return least


@inner(_nrt=False)
def _dearest(x, t, w, price):  # type: ignore[no-untyped-def]
    """The level at which w pays most."""
    top = 0
    for k in range(x.levels[w]):
        if price[t, w, k] > price[t, w, top]:
            top = k
    return top
