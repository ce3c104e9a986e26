"""Compiled changes of a plan that runs: replicas stay, return and come.

Arguments and sizes as in `packing.affinity` and `packing.contents`.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import Applications
from tvwrl.packing.contents import (
    INITIAL_WEIGHT,
    Contents,
    add,
    clear_limits,
    drop_empty_entries,
    remove,
    set_limits,
    swap_machines,
    unplace,
)
from tvwrl.packing.ejection import DIRECT, best_machine, takes
from tvwrl.packing.fit import has_room, int32
from tvwrl.types import Int


@inner
def replicas_on(s: Contents, i: int, m: int) -> int:
    """Replicas of i on machine m."""
    for w in range(s.kinds[m]):
        if s.application[m, w] == i:
            there: int = s.count[m, w]
            return there
    return int32(0)


@inner
def home_with_room(a: Applications, s: Contents, i: int, least: int) -> int:
    """A machine that takes one more replica of i, and where one of those at home is missing; else -1.

    Machines with fewer than `least` different applications are left out.
    """
    for h in range(s.home_start[i], s.home_start[i + 1]):
        m: int = s.place[s.home[h]]
        if m < s.open[0] and s.kinds[m] >= least and replicas_on(s, i, m) < s.stay[h] and takes(a, s, i, m):
            return m
    return -1


@inner
def _at_home(s: Contents, i: int, m: int) -> int:
    """Replicas of i that are at home on machine m."""
    for h in range(s.home_start[i], s.home_start[i + 1]):
        if s.home[h] == s.number[m]:
            stays: int = s.stay[h]
            return stays
    return int32(0)


@njit
def put_back(a: Applications, s: Contents, application: Int, machine: Int, replicas: Int) -> Int:
    """Place what runs, as far as capacities and limits allow; returns (A,) how many replicas of each they do not."""
    left, refused = a.replicas.copy(), np.zeros(len(a.replicas), np.int64)
    for r in range(len(application)):
        i, m = application[r], s.place[machine[r]]
        set_limits(a, s, i)
        for _ in range(replicas[r]):
            if left[i] > 0 and takes(a, s, i, m):
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
def return_home(a: Applications, s: Contents) -> int:
    """Move replicas that are not at home back to where there is room, on machines in use; returns how many moved."""
    moved = 0
    for m in range(s.open[0]):
        w = 0
        while w < s.kinds[m]:
            i = s.application[m, w]
            away = s.count[m, w] - _at_home(s, i, m)
            if away > 0:
                set_limits(a, s, i)
                to = home_with_room(a, s, i, 1)
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
def replicas_away(s: Contents, size: Int) -> int:
    """Replicas that are at home elsewhere than they are, or are on no machine; `size` (A,): of them in a copy."""
    away = 0
    for i in range(len(s.home_start) - 1):
        for h in range(s.home_start[i], s.home_start[i + 1]):
            m = s.place[s.home[h]]
            there = replicas_on(s, i, m) if m < s.open[0] else int32(0)
            away += max(s.stay[h] - there, 0) * size[i]
    return away


@njit
def admit(a: Applications, s: Contents, i: int, begin: int, enough: int) -> int:
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
        if has_room(needed, i, residual, m) and takes(a, s, i, m):
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
def refill(a: Applications, s: Contents, order: Int, kinds: Int) -> int:
    """Place unplaced replicas where there is room, moving none; returns how many. Each at home rather than elsewhere,
    and on an open machine rather than on one that is opened for it.

    `order` (A,): applications in turn; `kinds`: those of machines that may be opened, in turn
    """
    waiting, placed = np.zeros(len(a.replicas), np.int64), 0
    for u in range(s.unplaced[0]):
        waiting[s.pool[u]] += 1
    s.unplaced[0] = 0
    for i in order:
        while waiting[i] > 0:
            set_limits(a, s, i)
            m = home_with_room(a, s, i, 0)
            clear_limits(a, s, i)
            if m >= 0:
                add(a, s, i, m, 1)
            elif admit(a, s, i, 0, s.open[0]) < 0 and not _open_for(a, s, i, kinds):
                break  # nor would the next one find room, since no room has been made
            waiting[i] -= 1
            placed += 1
        for _ in range(waiting[i]):
            s.pool[s.unplaced[0]] = i
            s.unplaced[0] += 1
    return placed


@inner
def _open_for(a: Applications, s: Contents, i: int, kinds: Int) -> bool:
    """Open a machine that takes a replica of i, at home if possible, with one on it. False if there is none."""
    set_limits(a, s, i)
    where = -1
    for h in range(s.home_start[i], s.home_start[i + 1]):
        m = s.place[s.home[h]]
        if m >= s.open[0] and s.stay[h] > 0 and takes(a, s, i, m):
            where = m
            break
    for t in kinds:
        if where >= 0:
            break
        for m in range(s.open[0], len(s.kind)):
            if s.kind[m] == t and takes(a, s, i, m):
                where = m
                break
    clear_limits(a, s, i)
    if where < 0:
        return False
    swap_machines(s, where, s.open[0])
    s.open[0] += 1
    return add(a, s, i, s.open[0] - 1, 1)


ATTEMPTS = 8  # machines tried for one random move


@inner
def _place(a: Applications, s: Contents, i: int, examined: int, rng: np.random.Generator) -> float:
    """Place one replica of i, ejecting others if need be. Returns the cost of that: 0 for none, infinite if it failed.

    `examined`: machines to examine.
    """
    set_limits(a, s, i)
    where, best, entries = home_with_room(a, s, i, 0), DIRECT, 0
    if where < 0:
        where, best, entries = best_machine(a, s, i, examined, rng)
    clear_limits(a, s, i)
    if where < 0:
        return np.inf
    for e in range(entries):
        unplace(a, s, where, s.out[0, e], s.out[1, e])
    drop_empty_entries(s, where)
    add(a, s, i, where, 1)
    return best if entries else 0.0


@inner
def _random_moves(a: Applications, s: Contents, times: int, rng: np.random.Generator) -> None:
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
            if to != m and takes(a, s, i, to):
                remove(a, s, m, w, 1)
                drop_empty_entries(s, m)
                add(a, s, i, to, 1)
                break
        clear_limits(a, s, i)


@njit
def search(
    a: Applications,
    s: Contents,
    steps: int,
    examined: int,
    moves: int,
    aim: int,
    in_turn: bool,
    rng: np.random.Generator,
) -> int:
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
def close_machine(a: Applications, s: Contents, kind: int) -> bool:
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
def open_machine(s: Contents, kind: int) -> bool:
    """Open another machine of a kind. False if there is none."""
    for m in range(s.open[0], len(s.kind)):
        if s.kind[m] == kind:
            swap_machines(s, m, s.open[0])
            s.open[0] += 1
            return True
    return False
