"""Compiled bookkeeping of a plan: what it costs, and what a change of one machine would add.

Costs are those of the simulation: what a slot costs of a machine that runs something, first overshoots, and waiting.
Moving a workload changes the cost of the slots of its old and its new life only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tvwrl.compiled import inner, njit
from tvwrl.packing import exceeds
from tvwrl.penalties import overshoot, under_utilisation, wait

NOBODY = -1
TOTAL, BEST = range(2)  # entries of `costs`


class Plan(NamedTuple):
    """A sequence of N workloads, where and when each starts, and what the M machines hold in T slots."""

    demand: Any  # (N, L, D) f8 units
    arrival: Any  # (N,) i8
    length: Any  # (N,) i8
    background: Any  # (P, M, D) f8 units of unknown load, slot t has row t % P
    capacity: Any  # (M, D) f8 units
    weights: Any  # (4, D) f8 K_c, K_u, K_o, K_w
    usable: Any  # (<= M,) i8 machines that are switched on
    limit: int  # starts per slot, 0 = any
    queue: int  # visible places of the queue
    per_machine: bool  # first overshoots are charged per machine, not per workload
    # What changes
    machine: Any  # (N,) i8, NOBODY while a workload is taken out
    start: Any  # (N,) i8 slot
    starts: Any  # (T,) i8 workloads that start in a slot
    load: Any  # (M, T, D) f8 units, with background
    running: Any  # (M, T) i8 workloads
    unused: Any  # (M, T) f8 under-utilisation
    beyond: Any  # (M,) i8 slots and resources in which it is overloaded and runs something
    exceeded: Any  # (M,) f8 cost of its first overshoots
    saving: Any  # (N,) f8 what its machine costs more without the workload (less, if negative)
    known: Any  # (N,) i8 the machine's `version` for which `saving` holds
    version: Any  # (M,) i8 how often what it runs has changed
    costs: Any  # (2,) f8 of the plan, of the best one
    best_machine: Any  # (N,) i8
    best_start: Any  # (N,) i8


@njit(_nrt=False)
def begin(x):  # type: ignore[no-untyped-def]
    """Book the plan as `machine` and `start` say: sets everything else that changes."""
    machines, slots, resources = x.load.shape
    for m in range(machines):
        x.beyond[m], x.exceeded[m], x.version[m] = 0, 0.0, 0
        for t in range(slots):
            x.running[m, t], x.unused[m, t] = 0, 0.0
            for d in range(resources):
                x.load[m, t, d] = x.background[t % len(x.background), m, d]
    x.costs[TOTAL] = 0.0
    x.starts[:] = 0
    for w in range(len(x.machine)):
        m, x.machine[w] = x.machine[w], NOBODY
        _put(x, w, m, x.start[w])
        x.known[w] = -1
    keep(x)


@inner(_nrt=False)
def keep(x):  # type: ignore[no-untyped-def]
    """Remember the plan as the best."""
    x.costs[BEST] = x.costs[TOTAL]
    for w in range(len(x.machine)):
        x.best_machine[w], x.best_start[w] = x.machine[w], x.start[w]


@njit(_nrt=False)
def saving(x, w):  # type: ignore[no-untyped-def]
    """`_change` of its machine if w leaves."""
    m = x.machine[w]
    if x.known[w] != x.version[m]:
        x.known[w] = x.version[m]
        x.saving[w] = change(x, m, w, NOBODY, 0)
    return x.saving[w]


@inner(_nrt=False)
def change(x, m, out, new, s):  # type: ignore[no-untyped-def]
    """What machine m costs more if `out` leaves it and `new` starts in slot s (each may be NOBODY, or the same).

    Exact but for overshoots: of these, the first counts if it is the machine's first.
    """
    left, right, begin, end = 0, 0, s, s
    if out != NOBODY:
        left = x.start[out]
        right = left + x.length[out]
    if new != NOBODY:
        end = s + x.length[new]
        if out == NOBODY:
            left, right = begin, begin
    else:
        begin, end = left, left
    more, over = 0.0, -1
    t, last = min(left, begin), max(right, end)
    while t < last:
        leaves, comes = left <= t < right, begin <= t < end
        if not (leaves or comes):  # between two lives
            t = begin if t < begin else left
            continue
        runs = x.running[m, t] - leaves + comes > 0
        more -= x.unused[m, t]
        for d in range(x.capacity.shape[1]):
            load = x.load[m, t, d]
            less = x.demand[out, t - left, d] if leaves else 0.0
            plus = x.demand[new, t - begin, d] if comes else 0.0
            then = load - less + plus
            more += 0.5 * x.weights[0, d] * (then * then - load * load + less * less - plus * plus)
            if runs:
                more += under_utilisation(max(x.capacity[m, d] - then, 0.0), x.weights[1, d])
                if exceeds(then, x.capacity[m, d]):
                    over = d
        t += 1
    if over >= 0 and x.beyond[m] == 0:
        more += overshoot(1, x.weights[2, over])
    return more


@inner(_nrt=False)
def apply(x, w, m, s, v, mv, sv):  # type: ignore[no-untyped-def]
    """Start w on machine m in slot s, and v (if any) on mv in sv, instead of where they are."""
    _take(x, w)
    if v != NOBODY:
        _take(x, v)
        _put(x, v, mv, sv)
    _put(x, w, m, s)


@inner(_nrt=False)
def _put(x, w, m, s):  # type: ignore[no-untyped-def]
    """Start w on machine m in slot s."""
    x.machine[w], x.start[w] = m, s
    x.starts[s] += 1
    x.costs[TOTAL] += wait(s - x.arrival[w], x.weights[3, 0]) + _book(x, w, m, s, 1)


@inner(_nrt=False)
def _take(x, w):  # type: ignore[no-untyped-def]
    """Take w from its machine; `start` stays."""
    m, s, x.machine[w] = x.machine[w], x.start[w], NOBODY
    x.starts[s] -= 1
    x.costs[TOTAL] += _book(x, w, m, s, -1) - wait(s - x.arrival[w], x.weights[3, 0])


@inner(_nrt=False)
def _book(x, w, m, s, sign):  # type: ignore[no-untyped-def]
    """Add w to machine m from slot s on (`sign` 1) or take it off (-1). Returns what the machine costs more."""
    more, beyond = 0.0, x.beyond[m]
    x.version[m] += 1
    for age in range(x.length[w]):
        t, unused, ran = s + age, 0.0, x.running[m, s + age] > 0
        x.running[m, t] += sign
        runs = x.running[m, t] > 0
        for d in range(x.capacity.shape[1]):
            demand, capacity, load = x.demand[w, age, d], x.capacity[m, d], x.load[m, t, d]
            beyond -= ran and exceeds(load, capacity)
            others = load if sign > 0 else load - demand
            then = load + sign * demand if runs else x.background[t % len(x.background), m, d]  # no rounding remains
            x.load[m, t, d] = then
            more += sign * x.weights[0, d] * demand * others
            if runs:
                beyond += exceeds(then, capacity)
                unused += under_utilisation(max(capacity - then, 0.0), x.weights[1, d])
        more += unused - x.unused[m, t]
        x.unused[m, t] = unused
    if beyond > 0 or x.beyond[m] > 0:
        x.beyond[m] = beyond
        exceeded = _first_overshoots(x, m)
        more += exceeded - x.exceeded[m]
        x.exceeded[m] = exceeded
    return more


@inner(_nrt=False)
def _first_overshoots(x, m):  # type: ignore[no-untyped-def]
    """What the first overshoots of machine m cost."""
    total = 0.0
    for d in range(x.capacity.shape[1]):
        firsts = 0
        if x.per_machine:
            for t in range(x.load.shape[1]):
                if x.running[m, t] > 0 and exceeds(x.load[m, t, d], x.capacity[m, d]):
                    firsts = 1
                    break
        else:
            for w in range(len(x.machine)):
                if x.machine[w] != m:
                    continue
                for t in range(x.start[w], x.start[w] + x.length[w]):
                    if exceeds(x.load[m, t, d], x.capacity[m, d]):
                        firsts += 1
                        break
        total += overshoot(firsts, x.weights[2, d])
    return total
