"""Compiled: replicas placed one by one where they align best, looking at constraints only when one is broken.

What a machine holds is a chain of replicas: `head[m]`, then `following[r]`, -1 at the end. K dimensions are times x
resources. Applications' limits are looked up in arrays that are filled when the application at hand changes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tvwrl.packing.fit import has_room, lacks

UNLIMITED = np.iinfo(np.int32).max
NOBODY = -1  # end of a chain; no machine; no copy


@njit(cache=True)
def most_aligned(demand, capacity, residual, best, score):  # type: ignore[no-untyped-def]
    """Write the machines where `demand` fits and aligns best to `best` (n,), best first, `NOBODY` beyond the last.

    Alignment (Grandl et al. 2014): inner product of demand and what is free, both as shares of the machine's capacity.
    Of machines that are equal the first. `score` (n,) is scratch.
    """
    best[:], score[:] = NOBODY, -1.0
    last = len(best) - 1
    for m in range(len(capacity)):
        aligned = 0.0
        for k in range(len(demand)):
            if lacks(demand[k], residual[m, k], capacity[m, k]):
                aligned = -1.0
                break
            aligned += demand[k] / capacity[m, k] * (residual[m, k] / capacity[m, k])
        if aligned <= score[last]:
            continue
        place = last
        while place > 0 and score[place - 1] < aligned:
            best[place], score[place] = best[place - 1], score[place - 1]
            place -= 1
        best[place], score[place] = m, aligned


@njit(cache=True)
def set_limits(i, start, to, limit, into_start, into, into_limit, beside, allows):  # type: ignore[no-untyped-def]
    """Write the limits of application i to `beside` (A,), of i beside others, and `allows` (A,), of others beside i."""
    for e in range(into_start[i], into_start[i + 1]):
        beside[into[e]] = into_limit[e]
    for e in range(start[i], start[i + 1]):
        allows[to[e]] = limit[e]


@njit(cache=True)
def forget_limits(i, start, to, into_start, into, beside, allows):  # type: ignore[no-untyped-def]
    """Undo `set_limits`."""
    for e in range(into_start[i], into_start[i + 1]):
        beside[into[e]] = UNLIMITED
    for e in range(start[i], start[i + 1]):
        allows[to[e]] = UNLIMITED


@njit(cache=True)
def breaks_limit(i, m, head, following, application, beside, allows, count):  # type: ignore[no-untyped-def]
    """Whether one more replica of i on machine m is above a limit, either way. `count` (A,) is scratch, all 0."""
    r = head[m]
    while r != NOBODY:
        count[application[r]] += 1
        r = following[r]
    more, broken, r = count[i] + 1, False, head[m]
    while r != NOBODY:
        other = application[r]
        if more > beside[other] or (other != i and count[other] > allows[other]):
            broken = True
        r = following[r]
    r = head[m]
    while r != NOBODY:
        count[application[r]] = 0
        r = following[r]
    return broken


@njit(cache=True)
def place_aligned(  # type: ignore[no-untyped-def]
    order, application, copy, demand, capacity, start, to, limit, into_start, into, into_limit, tries
):
    """Place replicas in `order`, each where it aligns best whatever the constraints; then, if that breaks one, move it.

    At most `tries` times: first to where the others of its copy are (if there are any, and it fits), then to the next
    best aligned; it stays in the first machine that breaks none, else goes back to the best aligned. `copy` (R,): copy
    of a bundle, or NOBODY. Returns (R,) machines, NOBODY without room, and how many moves there were.
    """
    replicas, applications, machines = len(application), len(demand), len(capacity)
    residual = capacity.copy()
    machine, following = np.full(replicas, NOBODY, np.int64), np.full(replicas, NOBODY, np.int64)
    head = np.full(machines, NOBODY, np.int64)
    beside, allows = np.full(applications, UNLIMITED, np.int32), np.full(applications, UNLIMITED, np.int32)
    count = np.zeros(applications, np.int32)
    mates = np.full(max(1, copy.max() + 1), NOBODY, np.int64)  # machine of a copy's first replica
    best, score, current, moves = np.empty(tries + 1, np.int64), np.empty(tries + 1), NOBODY, 0
    for r in order:
        i = application[r]
        if i != current:
            if current != NOBODY:
                forget_limits(current, start, to, into_start, into, beside, allows)
            set_limits(i, start, to, limit, into_start, into, into_limit, beside, allows)
            current = i
        most_aligned(demand[i], capacity, residual, best, score)
        if best[0] == NOBODY:
            continue
        there = mates[copy[r]] if copy[r] != NOBODY else NOBODY
        chosen = NOBODY
        for turn in range(tries + 1):
            m = best[turn]
            if turn and there != NOBODY:
                m = best[turn - 1]
                if turn == 1 and has_room(demand, i, residual, there, capacity):
                    m = there
            if m == NOBODY:
                break
            moves += turn > 0
            apart = there != NOBODY and m != there
            if not apart and not breaks_limit(i, m, head, following, application, beside, allows, count):
                chosen = m
                break
        if chosen == NOBODY:
            chosen = best[0]
        if copy[r] != NOBODY and there == NOBODY:
            mates[copy[r]] = chosen
        machine[r], following[r], head[chosen] = chosen, head[chosen], r
        for k in range(demand.shape[1]):
            residual[chosen, k] -= demand[i, k]
    return machine, moves
