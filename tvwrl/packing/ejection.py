"""Compiled choice of a machine for a replica, and of the replicas that have to be ejected there to make room.

Arguments and sizes as in `packing.affinity` and `packing.contents`.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inner
from tvwrl.packing.affinity import Applications
from tvwrl.packing.contents import INITIAL_WEIGHT, Contents
from tvwrl.packing.fit import has_room, int64, lacks
from tvwrl.types import Float, Int32

MAX_EJECTED = int64(8)  # replicas ejected for one replica
DIRECT = 1e-300  # cost of a machine with room: below every weight
RECENT = 4  # machines opened last, which are always examined


@inner
def affinity_ejections(
    i: int,
    most_of_it: int,  # replicas of i that a machine may hold by its self limit: a_ii
    application: Int32,  # (W,) application of each of the machine's entries
    count: Int32,  # (W,) replicas of each entry
    kinds: int,  # entries of the machine
    allows: Int32,  # (A,) as in `Contents`, set for i
    bears: Int32,  # (A,) as in `Contents`, set for i
    weight: Float,  # (A,) as in `Contents`
    most: float,  # the cost must stay below this
    max_ejected: int,  # replicas that may be ejected
    trial: Int32,  # (2, W) int32, receives the entries to eject and how many replicas of each
) -> tuple[float, int, int]:
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
def capacity_ejections(
    i: int,
    application: Int32,  # (W,) application of each of the machine's entries
    count: Int32,  # (W,) replicas of each entry
    kinds: int,  # entries of the machine
    demand: Float,  # (A, K) float64, as in `Applications`
    weight: Float,  # (A,) as in `Contents`
    most: float,  # the cost must stay below this
    max_ejected: int,  # replicas that may be ejected
    cost: float,  # returned by `affinity_ejections`
    entries: int,  # returned by `affinity_ejections`
    ejected: int,  # returned by `affinity_ejections`
    trial: Int32,  # (2, W) int32, filled by `affinity_ejections`; more is added
    room: Float,  # (K,) float64: the machine's residual less the demand of i, before anything is ejected; changed
    capacity: Float,  # (K,) float64, of the machine
) -> tuple[float, int]:
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
def best_machine(
    a: Applications, s: Contents, i: int, examined: int, rng: np.random.Generator
) -> tuple[int, float, int]:
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
def takes(a: Applications, s: Contents, i: int, m: int) -> bool:
    """Whether machine m takes one more replica of i as it is. The limits of i are set."""
    if s.kinds[m] == s.application.shape[1] or not has_room(a.needed, i, s.residual, m):
        return False
    cost, _entries, _ejected = affinity_ejections(
        i, a.own[i], s.application[m], s.count[m], s.kinds[m], s.allows, s.bears, s.weight, DIRECT, MAX_EJECTED, s.trial
    )
    return cost == 0.0
