"""Compiled search for a plan: simulated annealing over machine and start of every workload.

A change is proposed, its cost found on the two or three machines that it touches, and only then made. All rules hold
for every plan on the way: starts per slot, and the visible queue.
"""

from __future__ import annotations

import math

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.penalties import wait
from tvwrl.schedulers.planning.plan_kernels import BEST, NOBODY, TOTAL, apply, change, keep, saving
from tvwrl.simulation import next_random

NEAR = 8  # slots by which a workload is moved at most when it is moved a little
LATE = 64  # slots after its arrival before which it starts when it is moved anywhere
WINDOW = 20  # arrivals between two workloads that are changed together
KINDS, EXCHANGES = 64, 7  # kinds of proposals, of which the first exchange two workloads
MANTISSA = 2.0**53


@njit(_nrt=False)
def anneal(x, stream, proposals, hot, cold):  # type: ignore[no-untyped-def]
    """Change the plan `proposals` times at random; a change that costs more is made with the chance exp(-cost / heat).

    `x`: `Plan`, after `begin`; its `best_machine` and `best_start` are the best plan seen
    `stream`: seed of all random numbers
    `hot`, `cold`: first and last heat > 0, in the unit of costs
    """
    count, heat, cooling = len(x.machine), hot, (cold / hot) ** (1.0 / max(proposals, 1))
    for _ in range(proposals):
        heat *= cooling
        stream, number = next_random(stream)
        budget = -heat * math.log((np.float64(number >> np.uint64(11)) + 1.0) / MANTISSA)
        stream, kind = _draw(stream, KINDS)
        stream, w = _draw(stream, count)
        stream, v = _near(x, stream, w)
        stream, anywhere = _draw(stream, 8)
        if anywhere == 0:
            stream, i = _draw(stream, len(x.usable))
            m = x.usable[i]
        else:  # one that runs something at the time
            stream, i = _near(x, stream, w)
            m = x.machine[i]
        stream, ahead = _draw(stream, LATE if kind == KINDS - 1 else 2 * NEAR + 1)
        if kind < EXCHANGES:
            m, s, mv, sv = _exchange(x, kind, w, v, m, ahead - NEAR)
        else:
            m, s = _move(x, kind, w, v, m, ahead)
            v, mv, sv = NOBODY, NOBODY, 0
        if m != x.machine[w] or (v == NOBODY and s != x.start[w]):
            _attempt(x, w, m, s, v, mv, sv, budget)


@njit(inline="always", _nrt=False)
def _draw(stream, count):  # type: ignore[no-untyped-def]
    """The stream, and a random number from 0 to count - 1."""
    stream, number = next_random(stream)
    return stream, np.int64(number % np.uint64(count))


@njit(inline="always", _nrt=False)
def _near(x, stream, w):  # type: ignore[no-untyped-def]
    """The stream, and a workload that arrives about when w does."""
    reach = min(WINDOW, len(x.machine) - 1)
    stream, i = _draw(stream, 2 * reach + 1)
    return stream, (w + i - reach) % len(x.machine)


@inner(_nrt=False)
def _move(x, kind, w, v, m, ahead):  # type: ignore[no-untyped-def]
    """A machine and a slot for w: machine m or its own, or beside v."""
    s, way = x.start[w], kind % 8
    if kind == KINDS - 1:  # any slot
        s = x.arrival[w] + ahead
    elif way <= 2:  # the same slot
        pass
    elif way == 3:  # a little earlier or later
        s += ahead - NEAR
    elif way == 4:  # the same on the same machine
        m, s = x.machine[w], s + ahead - NEAR
    else:
        m, s = x.machine[v], x.start[v]
        if way == 5:  # begins as v ends
            s += x.length[v]
        elif way == 6:  # ends as v ends
            s += x.length[v] - x.length[w]
        elif kind % 16 == 7:  # ends as v begins; otherwise it begins as v begins
            s -= x.length[w]
    return m, min(max(s, x.arrival[w]), len(x.starts) - x.length[w])


@inner(_nrt=False)
def _exchange(x, kind, w, v, m, ahead):  # type: ignore[no-untyped-def]
    """Machine and slot for w, which takes the machine of v, and for v, which takes that of w or m."""
    old, taken, s, sv = x.machine[w], x.machine[v], x.start[w], x.start[v]
    if kind == 0:  # each takes the other's slot too
        s, sv = sv, s
    elif kind == 1:  # w takes the slot of v, which moves a little
        s, sv = sv, sv + ahead
    elif kind == 2:
        s += ahead
    elif kind == 3 and m != taken:
        old = m
    elif kind == 4 and m != taken:
        old, sv = m, sv + ahead
    return taken, s, old, sv


@inner(_nrt=False)
def _attempt(x, w, m, s, v, mv, sv, budget):  # type: ignore[no-untyped-def]
    """Let w start on machine m in slot s, if that is allowed and adds at most `budget`.

    If there is a v, it is on machine m, where w is not, and has to start on mv, another machine, in slot sv.
    """
    old, old_s, old_sv = x.machine[w], x.start[w], x.start[v]
    if not _may_start(x, w, s, v, sv):
        return
    more = wait(s - old_s, x.weights[3, 0])
    sure = x.beyond[old] == 0 and x.beyond[m] == 0  # otherwise overshoots may be saved
    out = w if m == old else v
    if v != NOBODY:
        sure = sure and x.beyond[mv] == 0
        more += wait(sv - old_sv, x.weights[3, 0])
        if mv != old:
            more += change(x, mv, NOBODY, v, sv)
    if m != old:
        more += change(x, old, w, v, sv) if mv == old else saving(x, w)
    more += change(x, m, out, w, s)
    moved = s != old_s or (v != NOBODY and sv != old_sv)
    if (sure and more > budget) or (moved and not _are_seen(x, w, s, v, sv)):
        return
    before = x.costs[TOTAL]
    apply(x, w, m, s, v, mv, sv)
    if x.costs[TOTAL] - before > budget:
        apply(x, w, old, old_s, v, m, old_sv)
    elif x.costs[TOTAL] < x.costs[BEST] - 1e-6:
        keep(x)


@njit(inline="always", _nrt=False)
def _may_start(x, w, s, v, sv):  # type: ignore[no-untyped-def]
    """Whether w may start in slot s and v (if any) in sv: they have arrived, and placements are left."""
    last = len(x.starts)
    if s < x.arrival[w] or s + x.length[w] > last:
        return False
    if v != NOBODY and (sv < x.arrival[v] or sv + x.length[v] > last):
        return False
    if x.limit == 0:
        return True
    own = s == x.start[w]
    if v == NOBODY:
        return own or x.starts[s] < x.limit
    own = own or s == x.start[v]
    other = sv == x.start[w] or sv == x.start[v]
    if s == sv:
        return x.starts[s] - (x.start[w] == s) - (x.start[v] == s) + 2 <= x.limit
    return (own or x.starts[s] < x.limit) and (other or x.starts[sv] < x.limit)


@inner(_nrt=False)
def _are_seen(x, w, s, v, sv):  # type: ignore[no-untyped-def]
    """Whether the visible queue shows every workload when it starts, if w starts in slot s and v (if any) in sv.

    Of those that arrived before it, only those that start later still wait: fewer than the queue has places.
    """
    old, old_v = x.start[w], x.start[v]
    x.start[w] = s
    if v != NOBODY:
        x.start[v] = sv
    seen = True
    for j in range(len(x.start)):
        before = 0
        for i in range(j):
            before += x.start[i] > x.start[j]
        if before >= x.queue:
            seen = False
            break
    x.start[w] = old
    if v != NOBODY:
        x.start[v] = old_v
    return seen
