"""Compiled local search that places the replicas which a planner left over, by ejecting others.

Guided ejection search (Nagata and Bräysy 2009, there for fleets of vehicles): a replica without room takes the place of
the replicas that are cheapest to eject, which are placed again in turn. Whoever had to eject others becomes more
expensive to eject, so applications that are hard to place stay where they are in the end.
Arguments and sizes as in `packing.affinity` and `packing.contents`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.contents import (
    INITIAL_WEIGHT,
    add,
    clear_limits,
    drop_empty_entries,
    remove,
    set_limits,
    swap_machines,
    unplace,
)
from tvwrl.packing.fit import has_room, lacks

MAX_EJECTED = np.int64(8)  # replicas ejected for one replica
DIRECT = 1e-300  # cost of a machine with room: below every weight
RECENT = 4  # machines opened last, which are always examined
ATTEMPTS = 8  # machines tried for one random move


@inner
def affinity_ejections(  # type: ignore[no-untyped-def]
    i,
    most_of_it,  # replicas of i that a machine may hold by its self limit: a_ii
    application,  # (W,) application of each of the machine's entries
    count,  # (W,) replicas of each entry
    kinds,  # entries of the machine
    allows,  # (A,) as in `Contents`, set for i
    bears,  # (A,) as in `Contents`, set for i
    weight,  # (A,) as in `Contents`
    most,  # the cost must stay below this
    max_ejected,  # replicas that may be ejected
    trial,  # (2, W) int32, receives the entries to eject and how many replicas of each
):  # fmt: skip
    """What affinity requires a machine to eject for one more replica of i: cost, entries in `trial`, and replicas.

    The cost is infinite if it reaches `most`, if more than `max_ejected` replicas would go, or if the machine holds as
    many of i as its self limit allows.
    """
    own = 1
    for w in range(kinds):
        if application[w] == i:
            own = count[w] + 1
            if own > most_of_it:
                return np.inf, 0, 0
    cost, entries, ejected = 0.0, 0, 0
    for w in range(kinds):
        k = application[w]
        go = 0
        if allows[k] < own and k != i:
            go = count[w]
        elif bears[k] < count[w] and k != i:
            go = count[w] - bears[k]
        if go:
            cost += go * weight[k]
            ejected += go
            if cost >= most or ejected > max_ejected:
                return np.inf, 0, 0
            trial[0, entries], trial[1, entries] = w, go
            entries += 1
    return cost, entries, ejected


@inner
def capacity_ejections(  # type: ignore[no-untyped-def]
    i,
    application,  # (W,) application of each of the machine's entries
    count,  # (W,) replicas of each entry
    kinds,  # entries of the machine
    demand,  # (A, K) float64, as in `Applications`
    weight,  # (A,) as in `Contents`
    most,  # the cost must stay below this
    max_ejected,  # replicas that may be ejected
    cost,  # returned by `affinity_ejections`
    entries,  # returned by `affinity_ejections`
    ejected,  # returned by `affinity_ejections`
    trial,  # (2, W) int32, filled by `affinity_ejections`; more is added
    room,  # (K,) float64: the machine's residual less the demand of i, before anything is ejected; changed
    capacity,  # (K,) float64, of the machine
):  # fmt: skip
    """What else has to go so that i fits: the new cost and number of entries in `trial`.

    Ejects, one by one, the replica with the least weight for what it frees in the scarcest dimension. The cost is
    infinite as in `affinity_ejections`, and if no replicas are left that free anything.
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
        if ejected == max_ejected:
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
        ejected += 1
        if which < 0:
            trial[0, entries], trial[1, entries] = at, 1
            entries += 1
        else:
            trial[1, which] += 1
        for k in range(dimensions):
            room[k] += demand[who, k]


@inner
def _best_machine(a, s, i, examined, rng):  # type: ignore[no-untyped-def]
    """Machine for a replica of i, what it costs to eject there, and the number of entries to eject, in `s.out`.

    That is the fullest one with room, else the one with the cheapest ejection, of those opened last, which may be
    empty, and of `examined` machines from a random one on. The machine is -1 if there is none. The limits of i are set.
    """
    demand, residual, application, count, kinds = a.demand, s.residual, s.application, s.count, s.kinds
    allows, bears, weight, trial, out, room = s.allows, s.bears, s.weight, s.trial, s.out, s.room
    machines, width, most_of_it, dimensions = s.open[0], application.shape[1], a.own[i], demand.shape[1]
    best, where, entries, tightest = np.inf, -1, 0, np.inf
    first = int(rng.random() * machines)
    for turn in range(min(examined + RECENT, machines)):
        m = machines - 1 - turn if turn < RECENT else (first + turn) % machines
        if kinds[m] == width:
            continue
        fits, direct = has_room(a.needed, i, residual, m), where >= 0 and entries == 0
        if direct and not fits:
            continue
        cost, found, ejected = affinity_ejections(
            i, most_of_it, application[m], count[m], kinds[m], allows, bears, weight, best, MAX_EJECTED, trial
        )
        if cost == np.inf:
            continue
        if found == 0 and fits:
            slack = 0.0
            for k in range(dimensions):
                slack += residual[m, k]
            if entries > 0 or slack < tightest:
                best, where, entries, tightest = DIRECT, m, 0, slack
        elif best > INITIAL_WEIGHT and not direct:
            for k in range(dimensions):
                room[k] = residual[m, k] - demand[i, k]
            cost, found = capacity_ejections(
                i, application[m], count[m], kinds[m], demand, weight, best, MAX_EJECTED, cost, found, ejected,
                trial, room, s.capacity[s.kind[m]],
            )  # fmt: skip
            if cost < best:
                best, where, entries = cost, m, found
                for e in range(found):
                    out[0, e], out[1, e] = trial[0, e], trial[1, e]
    return where, best, entries


@inner
def replicas_on(s, i, m):  # type: ignore[no-untyped-def]
    """Replicas of i on machine m."""
    for w in range(s.kinds[m]):
        if s.application[m, w] == i:
            return s.count[m, w]
    return np.int32(0)


@inner
def _takes(a, s, i, m):  # type: ignore[no-untyped-def]
    """Whether machine m takes one more replica of i as it is. The limits of i are set."""
    if s.kinds[m] == s.application.shape[1] or not has_room(a.needed, i, s.residual, m):
        return False
    cost, _entries, _ejected = affinity_ejections(
        i, a.own[i], s.application[m], s.count[m], s.kinds[m], s.allows, s.bears, s.weight, DIRECT, MAX_EJECTED, s.trial
    )
    return cost == 0.0


@inner
def _home_with_room(a, s, i):  # type: ignore[no-untyped-def]
    """A machine that takes one more replica of i, and where one of those at home is missing; else -1."""
    for h in range(s.home_start[i], s.home_start[i + 1]):
        m = s.place[s.home[h]]
        if m < s.open[0] and replicas_on(s, i, m) < s.stay[h] and _takes(a, s, i, m):
            return m
    return -1


@inner
def _at_home(s, i, m):  # type: ignore[no-untyped-def]
    """Replicas of i that are at home on machine m."""
    for h in range(s.home_start[i], s.home_start[i + 1]):
        if s.home[h] == s.number[m]:
            return s.stay[h]
    return np.int32(0)


@njit
def put_back(a, s, application, machine, replicas):  # type: ignore[no-untyped-def]
    """Place what runs, as far as capacities and limits allow; returns (A,) how many replicas of each they do not."""
    left, refused = a.replicas.copy(), np.zeros(len(a.replicas), np.int64)
    for r in range(len(application)):
        i, m = application[r], s.place[machine[r]]
        set_limits(a, s, i)
        for _ in range(replicas[r]):
            if left[i] > 0 and _takes(a, s, i, m):
                add(a, s, i, m, 1)
                left[i] -= 1
            else:
                refused[i] += 1
        clear_limits(a, s, i)
    s.unplaced[0] = 0
    for i in range(len(left)):
        for _ in range(left[i]):
            s.pool[s.unplaced[0]] = i
            s.unplaced[0] += 1
    return refused


@njit
def admit(a, s, i, begin, enough):  # type: ignore[no-untyped-def]
    """Place one replica of i on an open machine that takes it as it is; that machine, or -1 for none.

    It is the fullest of the first `enough` that take it, in turn from machine `begin`.
    """
    set_limits(a, s, i)
    where, tightest, found, machines = -1, np.inf, 0, s.open[0]
    needed, residual = a.needed, s.residual
    for turn in range(machines):
        m = (begin + turn) % machines
        if found == enough:
            break
        if has_room(needed, i, residual, m) and _takes(a, s, i, m):
            found += 1
            slack = 0.0
            for k in range(a.demand.shape[1]):
                slack += s.residual[m, k] / s.capacity[s.kind[m], k]
            if slack < tightest:
                where, tightest = m, slack
    clear_limits(a, s, i)
    if where >= 0:
        add(a, s, i, where, 1)
    return where


@njit
def release(a, s, i, m):  # type: ignore[no-untyped-def]
    """Remove one replica of i from machine m. False if it has none."""
    for w in range(s.kinds[m]):
        if s.application[m, w] == i:
            remove(a, s, m, w, 1)
            drop_empty_entries(s, m)
            return True
    return False


@njit
def return_home(a, s):  # type: ignore[no-untyped-def]
    """Move replicas that are not at home back to where there is room for them; returns how many moved."""
    moved = 0
    for m in range(s.open[0]):
        w = 0
        while w < s.kinds[m]:
            i = s.application[m, w]
            away = s.count[m, w] - _at_home(s, i, m)
            if away > 0:
                set_limits(a, s, i)
                to = _home_with_room(a, s, i)
                clear_limits(a, s, i)
                if to >= 0 and to != m:
                    remove(a, s, m, w, 1)
                    drop_empty_entries(s, m)
                    add(a, s, i, to, 1)
                    moved += 1
                    continue
            w += 1
    return moved


@njit
def replicas_away(s, size):  # type: ignore[no-untyped-def]
    """Replicas that are at home elsewhere than they are, or are on no machine; `size` (A,): of them in a copy."""
    away = 0
    for i in range(len(s.home_start) - 1):
        for h in range(s.home_start[i], s.home_start[i + 1]):
            m = s.place[s.home[h]]
            there = replicas_on(s, i, m) if m < s.open[0] else np.int32(0)
            away += max(s.stay[h] - there, 0) * size[i]
    return away


@inner
def _place(a, s, i, examined, rng):  # type: ignore[no-untyped-def]
    """Place one replica of i, ejecting others if need be. Returns the cost of that: 0 for none, infinite if it failed.

    `examined`: machines to examine.
    """
    set_limits(a, s, i)
    where, best, entries = _home_with_room(a, s, i), DIRECT, 0
    if where < 0:
        where, best, entries = _best_machine(a, s, i, examined, rng)
    clear_limits(a, s, i)
    if where < 0:
        return np.inf
    for e in range(entries):
        unplace(a, s, where, s.out[0, e], s.out[1, e])
    drop_empty_entries(s, where)
    add(a, s, i, where, 1)
    return best if entries else 0.0


@inner
def _random_moves(a, s, times, rng):  # type: ignore[no-untyped-def]
    """Move `times` random replicas to random machines with room, so that the search does not go in circles."""
    machines = s.open[0]
    for _ in range(times):
        m = int(rng.random() * machines)
        if s.kinds[m] == 0:
            continue
        w = int(rng.random() * s.kinds[m])
        i = s.application[m, w]
        if s.weight[i] == np.inf:  # it may not move
            continue
        set_limits(a, s, i)
        for _ in range(ATTEMPTS):
            to = int(rng.random() * machines)
            if to != m and _takes(a, s, i, to):
                remove(a, s, m, w, 1)
                drop_empty_entries(s, m)
                add(a, s, i, to, 1)
                break
        clear_limits(a, s, i)


class Journal(NamedTuple):
    """Machines as they were before a repair changed them, in the order in which it did."""

    length: Any  # (1,) int64
    machine: Any  # (J,) int64
    saved: Any  # (M,) bool: whether a machine is in the journal
    residual: Any  # (J, K) float64
    kinds: Any  # (J,) int32
    application: Any  # (J, W) int32
    count: Any  # (J, W) int32


@inner
def _save(s, j, m):  # type: ignore[no-untyped-def]
    """Note how machine m is, unless that was done before."""
    if not j.saved[m]:
        at = j.length[0]
        j.machine[at], j.kinds[at], j.saved[m] = m, s.kinds[m], True
        j.residual[at] = s.residual[m]
        j.application[at], j.count[at] = s.application[m], s.count[m]
        j.length[0] += 1


@njit
def repair(a, s, i, examined, rng, j):  # type: ignore[no-untyped-def]
    """Place one replica of i where it ejects others, and these elsewhere, changing at most J machines.

    Whether that succeeds; if not, nothing has changed. `j`: Journal of what is different after it.
    """
    for at in range(j.length[0]):
        j.saved[j.machine[at]] = False
    j.length[0], s.pool[0], s.unplaced[0] = 0, i, 1
    for _ in range(len(j.machine)):
        if s.unplaced[0] == 0:
            return True
        s.unplaced[0] -= 1
        k = s.pool[s.unplaced[0]]
        set_limits(a, s, k)
        where, _cost, entries = _best_machine(a, s, k, examined, rng)
        clear_limits(a, s, k)
        if where < 0:
            break
        _save(s, j, where)
        for e in range(entries):
            unplace(a, s, where, s.out[0, e], s.out[1, e])
        drop_empty_entries(s, where)
        add(a, s, k, where, 1)
        s.weight[k] += INITIAL_WEIGHT * (entries > 0)
    else:
        if s.unplaced[0] == 0:
            return True
    for at in range(j.length[0]):
        m = j.machine[at]
        s.residual[m], s.kinds[m] = j.residual[at], j.kinds[at]
        s.application[m], s.count[m] = j.application[at], j.count[at]
    s.unplaced[0] = 0
    return False


@njit
def search(a, s, steps, examined, moves, aim, in_turn, rng):  # type: ignore[no-untyped-def]
    """Place unplaced replicas until at most `aim` are left, for at most `steps` replicas; returns how many it took.

    `examined`: machines to examine for a replica; `moves`: random moves after each replica that had to eject others.
    `in_turn`: replicas ejected last are placed first, which settles conflicts where they arise; otherwise a random one
    is next, as suits a fixed fleet, on which some have to stay out.
    """
    for step in range(steps):
        if s.unplaced[0] <= aim:
            return step
        s.unplaced[0] -= 1
        if not in_turn:
            at = int(rng.random() * (s.unplaced[0] + 1))
            s.pool[at], s.pool[s.unplaced[0]] = s.pool[s.unplaced[0]], s.pool[at]
        i = s.pool[s.unplaced[0]]
        cost = _place(a, s, i, examined, rng)
        if cost > 0.0:
            s.weight[i] += INITIAL_WEIGHT
            _random_moves(a, s, moves, rng)
        if cost == np.inf:  # continue with another one
            at = int(rng.random() * (s.unplaced[0] + 1))
            s.pool[s.unplaced[0]] = s.pool[at]
            s.pool[at] = i
            s.unplaced[0] += 1
    return steps


@njit
def close_machine(a, s, kind):  # type: ignore[no-untyped-def]
    """Close the open machine of a kind whose replicas weigh the least; they become unplaced. False if there is none."""
    least, which = np.inf, -1
    for m in range(s.open[0]):
        if s.kind[m] != kind:
            continue
        total = 0.0
        for w in range(s.kinds[m]):
            total += s.count[m, w] * s.weight[s.application[m, w]]
        if total < least:
            least, which = total, m
    if which < 0:
        return False
    for w in range(s.kinds[which]):
        unplace(a, s, which, w, s.count[which, w])
    s.kinds[which] = 0
    s.residual[which] = s.capacity[kind]
    s.open[0] -= 1
    swap_machines(s, which, s.open[0])
    return True


@njit
def open_machine(s, kind):  # type: ignore[no-untyped-def]
    """Open another machine of a kind. False if there is none."""
    for m in range(s.open[0], len(s.kind)):
        if s.kind[m] == kind:
            swap_machines(s, m, s.open[0])
            s.open[0] += 1
            return True
    return False
