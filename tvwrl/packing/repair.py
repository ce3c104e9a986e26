"""Compiled local search over packings of replicas: put what is homeless somewhere, and throw out what is in its way.

Guided ejection search (Nagata and Braysy 2009, there for fleets of vehicles): a replica without a place takes that of
replicas that are cheapest to throw out; who finds no place directly becomes dearer, so hard applications stay at last.
Letters as in `packing.affinity`, whose rules these are, machine by machine. W: most applications on one machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tvwrl.packing.affinity import UNLIMITED
from tvwrl.packing.fit import has_room, lacks

MOST_THROWN = np.int64(8)  # replicas that one may throw out
LEAST = 1.0  # weight of a replica that always found a place
FREE = 1e-300  # cost of a place that is free: no other is better, and less than any weight


class Shelves(NamedTuple):
    """What is on each machine, machine by machine, and what is homeless; changed in place."""

    capacity: Any  # (F, K) float64: of machine m row min(m, F - 1)
    residual: Any  # (M, K) float64
    open: Any  # (1,) int64: machines 0 .. open - 1 are open
    kinds: Any  # (M,) int32 applications on the machine
    application: Any  # (M, W) int32
    count: Any  # (M, W) int32 replicas of it
    pool: Any  # (R,) int32 homeless replicas, by application; the last is next
    homeless: Any  # (1,) int64
    weight: Any  # (A,) float64: what it costs to throw out a replica
    allows: Any  # (A,) int32, scratch: a_ki, what k allows of the application at hand; UNLIMITED in between
    bears: Any  # (A,) int32, scratch: a_ik, what the application at hand allows of k
    out: Any  # (2, W) int32, scratch: what is to be thrown out of the best machine, entries and replicas
    trial: Any  # (2, W) int32, scratch: of the machine at hand
    room: Any  # (K,) float64, scratch


@njit(cache=True)
def meet(a, s, i):  # type: ignore[no-untyped-def]
    """Spread out the limits between i and its neighbours."""
    for e in range(a.into_start[i], a.into_start[i + 1]):
        s.allows[a.into[e]] = a.into_limit[e]
    for e in range(a.start[i], a.start[i + 1]):
        s.bears[a.to[e]] = a.limit[e]


@njit(cache=True)
def part(a, s, i):  # type: ignore[no-untyped-def]
    """Undo `meet`."""
    for e in range(a.into_start[i], a.into_start[i + 1]):
        s.allows[a.into[e]] = UNLIMITED
    for e in range(a.start[i], a.start[i + 1]):
        s.bears[a.to[e]] = UNLIMITED


@njit(cache=True)
def forbidden(i, most_of_it, application, count, kinds, allows, bears, weight, most, most_thrown, trial):  # type: ignore[no-untyped-def]
    """What affinity forbids beside one more replica of i on a machine, in `trial`: its cost, entries and replicas.

    `application`, `count` (W,) are the machine's shelf. An infinite cost: `most` or `most_thrown` are reached, or
    i limits itself.
    """
    own = 1
    for w in range(kinds):
        if application[w] == i:
            own = count[w] + 1
            if own > most_of_it:
                return np.inf, 0, 0
    cost, entries, thrown = 0.0, 0, 0
    for w in range(kinds):
        k = application[w]
        go = 0
        if allows[k] < own and k != i:
            go = count[w]
        elif bears[k] < count[w] and k != i:
            go = count[w] - bears[k]
        if go:
            cost += go * weight[k]
            thrown += go
            if cost >= most or thrown > most_thrown:
                return np.inf, 0, 0
            trial[0, entries], trial[1, entries] = w, go
            entries += 1
    return cost, entries, thrown


@njit(cache=True)
def in_the_way(  # type: ignore[no-untyped-def]
    i, application, count, kinds, demand, weight, most, most_thrown, cost, entries, thrown, trial, room, capacity
):
    """What else has to go for i to have room, cheapest for the room it frees first: cost and entries, in `trial`.

    `capacity` (K,) of the machine; `room` (K,): what is left of it, less i, before anything goes; changed.
    """
    dimensions = demand.shape[1]
    for e in range(entries):
        who = application[trial[0, e]]
        for k in range(dimensions):
            room[k] += trial[1, e] * demand[who, k]
    while True:
        tight = -1
        for k in range(dimensions):
            if lacks(0.0, room[k], capacity[k]) and (tight < 0 or room[k] < room[tight]):
                tight = k
        if tight < 0:
            return cost, entries
        if thrown == most_thrown:
            return np.inf, 0
        best, at, which = np.inf, -1, -1
        for w in range(kinds):
            who = application[w]
            freed = demand[who, tight]
            if who == i or freed <= 0.0:
                continue
            gone, entry = 0, -1
            for e in range(entries):
                if trial[0, e] == w:
                    gone, entry = trial[1, e], e
            if gone < count[w]:
                price = weight[who] / min(freed, -room[tight])
                if price < best:
                    best, at, which = price, w, entry
        if at < 0:
            return np.inf, 0
        who = application[at]
        cost += weight[who]
        if cost >= most:
            return np.inf, 0
        thrown += 1
        if which < 0:
            trial[0, entries], trial[1, entries] = at, 1
            entries += 1
        else:
            trial[1, which] += 1
        for k in range(dimensions):
            room[k] += demand[who, k]


@njit(cache=True)
def take(a, s, m, w, replicas):  # type: ignore[no-untyped-def]
    """Take replicas off entry w of machine m; an empty entry is left for `tidy`."""
    i = s.application[m, w]
    s.count[m, w] -= replicas
    for k in range(a.demand.shape[1]):
        s.residual[m, k] += replicas * a.demand[i, k]


@njit(cache=True)
def tidy(s, m):  # type: ignore[no-untyped-def]
    """Close the gaps of empty entries."""
    kept = 0
    for w in range(s.kinds[m]):
        if s.count[m, w] > 0:
            s.application[m, kept], s.count[m, kept] = s.application[m, w], s.count[m, w]
            kept += 1
    s.kinds[m] = kept


@njit(cache=True)
def put_on(a, s, i, m, replicas):  # type: ignore[no-untyped-def]
    """Put replicas of i on machine m. False, and nothing done, if the shelf holds no further application."""
    at = -1
    for w in range(s.kinds[m]):
        if s.application[m, w] == i:
            at = w
    if at < 0:
        at = s.kinds[m]
        if at == s.application.shape[1]:
            return False
        s.application[m, at], s.count[m, at] = i, 0
        s.kinds[m] += 1
    s.count[m, at] += replicas
    for k in range(a.demand.shape[1]):
        s.residual[m, k] -= replicas * a.demand[i, k]
    return True


@njit(cache=True)
def _throw_out(a, s, m, entries):  # type: ignore[no-untyped-def]
    """Make homeless what `s.out` names."""
    for e in range(entries):
        w, replicas = s.out[0, e], s.out[1, e]
        for _ in range(replicas):
            s.pool[s.homeless[0]] = s.application[m, w]
            s.homeless[0] += 1
        take(a, s, m, w, replicas)
    tidy(s, m)


@njit(cache=True)
def _house(a, s, i, looks, rng):  # type: ignore[no-untyped-def]
    """Find a place for one replica of i: the tightest where it fits, else where it costs least. Returns the cost.

    `looks`: machines that are looked at, from a random one on. Infinite: there is no place, it stays homeless.
    """
    demand, residual, application, count, kinds = a.demand, s.residual, s.application, s.count, s.kinds
    allows, bears, weight, trial, out, room = s.allows, s.bears, s.weight, s.trial, s.out, s.room
    machines, width, most_of_it, dimensions = s.open[0], application.shape[1], a.own[i], demand.shape[1]
    meet(a, s, i)
    best, where, entries, tightest = np.inf, -1, 0, np.inf
    m = int(rng.random() * machines)
    for _ in range(min(looks, machines)):
        m = m + 1 if m + 1 < machines else 0
        if kinds[m] == width:
            continue
        fits = has_room(demand, i, residual, m, s.capacity)
        if where >= 0 and entries == 0 and not fits:
            continue
        cost, found, thrown = forbidden(
            i, most_of_it, application[m], count[m], kinds[m], allows, bears, weight, best, MOST_THROWN, trial
        )
        if cost == np.inf:
            continue
        if found == 0 and fits:
            slack = 0.0
            for k in range(dimensions):
                slack += residual[m, k]
            if entries > 0 or slack < tightest:
                best, where, entries, tightest = FREE, m, 0, slack
        elif best > LEAST and not (where >= 0 and entries == 0):
            for k in range(dimensions):
                room[k] = residual[m, k] - demand[i, k]
            cost, found = in_the_way(
                i,
                application[m],
                count[m],
                kinds[m],
                demand,
                weight,
                best,
                MOST_THROWN,
                cost,
                found,
                thrown,
                trial,
                room,
                s.capacity[min(m, len(s.capacity) - 1)],
            )
            if cost < best:
                best, where, entries = cost, m, found
                for e in range(found):
                    out[0, e], out[1, e] = trial[0, e], trial[1, e]
    part(a, s, i)
    if where < 0:
        return np.inf
    _throw_out(a, s, where, entries)
    put_on(a, s, i, where, 1)
    return best if entries else 0.0


@njit(cache=True)
def _stroll(a, s, times, rng):  # type: ignore[no-untyped-def]
    """Move random replicas to random machines where they fit as it is, so that the search does not go in circles."""
    machines, width = s.open[0], s.application.shape[1]
    for _ in range(times):
        m = int(rng.random() * machines)
        if s.kinds[m] == 0:
            continue
        w = int(rng.random() * (s.kinds[m]))
        i = s.application[m, w]
        meet(a, s, i)
        for _ in range(8):
            to = int(rng.random() * machines)
            if to == m or s.kinds[to] == width or not has_room(a.demand, i, s.residual, to, s.capacity):
                continue
            cost, entries, _thrown = forbidden(
                i,
                a.own[i],
                s.application[to],
                s.count[to],
                s.kinds[to],
                s.allows,
                s.bears,
                s.weight,
                FREE,
                MOST_THROWN,
                s.trial,
            )
            if cost == 0.0 and entries == 0:
                take(a, s, m, w, 1)
                tidy(s, m)
                put_on(a, s, i, to, 1)
                break
        part(a, s, i)


@njit(cache=True)
def search(a, s, steps, looks, strolls, aim, in_turn, rng):  # type: ignore[no-untyped-def]
    """House the homeless until at most `aim` are left, in `steps` at most; returns the steps taken.

    A step is a replica that is looked after; `looks`: machines that are looked at for it; `strolls`: random moves after
    each that had to throw others out. `in_turn`: the last to lose its place is next, which settles trouble where it
    arose; else any is, for who was thrown out may have to stay out.
    """
    for step in range(steps):
        if s.homeless[0] <= aim:
            return step
        s.homeless[0] -= 1
        if not in_turn:
            at = int(rng.random() * (s.homeless[0] + 1))
            s.pool[at], s.pool[s.homeless[0]] = s.pool[s.homeless[0]], s.pool[at]
        i = s.pool[s.homeless[0]]
        cost = _house(a, s, i, looks, rng)
        if cost > 0.0:
            s.weight[i] += LEAST
            _stroll(a, s, strolls, rng)
        if cost == np.inf:  # let another go first
            at = int(rng.random() * (s.homeless[0] + 1))
            s.pool[s.homeless[0]] = s.pool[at]
            s.pool[at] = i
            s.homeless[0] += 1
    return steps


@njit(cache=True)
def close_machine(a, s, alike):  # type: ignore[no-untyped-def]
    """Close a machine, whose replicas are then homeless: the last, or, if machines are alike, that which weighs least.

    The last takes its place then.
    """
    last = s.open[0] - 1
    least, which = np.inf, last
    for m in range(s.open[0] if alike else 0):
        total = 0.0
        for w in range(s.kinds[m]):
            total += s.count[m, w] * s.weight[s.application[m, w]]
        if total < least:
            least, which = total, m
    for w in range(s.kinds[which]):
        for _ in range(s.count[which, w]):
            s.pool[s.homeless[0]] = s.application[which, w]
            s.homeless[0] += 1
        take(a, s, which, w, s.count[which, w])
    s.room[:] = s.residual[which]
    for k in range(s.residual.shape[1]):  # the empty one takes the last place, to be opened again
        s.residual[which, k], s.residual[last, k] = s.residual[last, k], s.room[k]
    s.kinds[which] = s.kinds[last]
    s.application[which], s.count[which] = s.application[last], s.count[last]
    s.kinds[last] = 0
    s.open[0] = last


def shelves_of(a: Any, p: Any, kinds: Any, most: int, spare: int) -> Shelves:
    """The shelves that a `packing.affinity.Packing` of applications is; what it left over is homeless.

    `kinds` (F, K) and `most`: capacity of machines, and how many may be opened; `spare`: room for further applications
    on a machine.
    """
    machines, applications = int(p.open[0]), len(a.replicas)
    held = np.zeros(machines, np.int32)
    _count_kinds(p, held)
    most, width = max(most, machines), int(held.max(initial=0)) + spare
    shelves = Shelves(
        capacity=kinds,
        residual=kinds[np.minimum(np.arange(most), len(kinds) - 1)],
        open=np.array([machines]),
        kinds=np.zeros(most, np.int32),
        application=np.zeros((most, width), np.int32),
        count=np.zeros((most, width), np.int32),
        pool=np.empty(int(a.replicas.sum()), np.int32),
        homeless=np.zeros(1, np.int64),
        weight=np.full(applications, LEAST),
        allows=np.full(applications, UNLIMITED, np.int32),
        bears=np.full(applications, UNLIMITED, np.int32),
        out=np.zeros((2, width), np.int32),
        trial=np.zeros((2, width), np.int32),
        room=np.zeros(a.demand.shape[1]),
    )
    shelves.residual[:machines] = p.residual[:machines]
    _fill(p, shelves)
    return shelves


@njit(cache=True)
def _count_kinds(p, kinds):  # type: ignore[no-untyped-def]
    for i in range(len(p.used)):
        for r in range(p.first[i], p.first[i] + p.used[i]):
            kinds[p.machine[r]] += 1


@njit(cache=True)
def _fill(p, s):  # type: ignore[no-untyped-def]
    for i in range(len(p.used)):
        for r in range(p.first[i], p.first[i] + p.used[i]):
            m = p.machine[r]
            s.application[m, s.kinds[m]], s.count[m, s.kinds[m]] = i, p.count[r]
            s.kinds[m] += 1
        for _ in range(p.left[i]):
            s.pool[s.homeless[0]] = i
            s.homeless[0] += 1
