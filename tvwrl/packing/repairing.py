"""Compiled local search that places the replicas which a planner left over, by ejecting others.

Guided ejection search (Nagata and Bräysy 2009, there for fleets of vehicles): a replica without room takes the place of
the replicas that are cheapest to eject, which are placed again in turn. Whoever had to eject others becomes more
expensive to eject, so applications that are hard to place stay where they are in the end.
Arguments and sizes as in `packing.affinity` and `packing.contents`.
"""

from __future__ import annotations

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
from tvwrl.packing.ejection import DIRECT, best_machine, takes
from tvwrl.packing.running import home_with_room

ATTEMPTS = 8  # machines tried for one random move


@inner
def _place(a, s, i, examined, rng):  # type: ignore[no-untyped-def]
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
            if to != m and takes(a, s, i, to):
                remove(a, s, m, w, 1)
                drop_empty_entries(s, m)
                add(a, s, i, to, 1)
                break
        clear_limits(a, s, i)


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
