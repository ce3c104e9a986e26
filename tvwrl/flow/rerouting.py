"""Compiled rerouting: what is placed moves so that more, or cheaper, flow gets through (Section 2.1, "negative cycle").

Letters as in `flow.kernels`. A chain of moves that ends nowhere is rolled back.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tvwrl.flow.kernels import (
    ANY,
    LEAST,
    NO_MACHINE,
    USED,
    allowed,
    direct,
    in_group,
    lift,
    next_roomy,
    put,
    refresh,
    roll_back,
)
from tvwrl.packing.kernels import exceeds
from tvwrl.packing.repair import forbidden, in_the_way, meet, part

MOST_THROWN = np.int64(64)  # replicas that one may throw out
TRIES = 8  # cheapest paths that are tried for one replica


@njit(cache=True)
def _shortest(n, i, banned, before, via, distance):  # type: ignore[no-untyped-def]
    """Distances of groups from vertex i in the residual network (Bellman-Ford): (G,) with predecessors.

    The arc of g to h is there if a replica of some kind can move from g to h; its cost is what that changes.
    """
    cost, present = n.cost, n.present
    groups, kinds = cost.shape[1], cost.shape[0]
    for g in range(groups):
        distance[g], before[g], via[g] = cost[n.kind[i], g], -1, -1
    for _ in range(groups - 1):
        changed = False
        for g in range(groups):
            for t in range(kinds):
                if present[g, t] == 0:
                    continue
                for h in range(groups):
                    there = distance[g] + cost[t, h] - cost[t, g]
                    if h != g and not banned[g, h] and there < distance[h] - 1e-9:
                        distance[h], before[h], via[h] = there, g, t
                        changed = True
        if not changed:
            break


@njit(cache=True)
def _exchange(a, n, i, g, t):  # type: ignore[no-untyped-def]
    """Put i on a machine of group g in place of a replica of kind t. Returns the vertex that lost it, or -1."""
    demand, residual, application, count, kinds = a.demand, n.residual, n.application, n.count, n.kinds
    allows, bears, own, dimensions = n.allows, n.bears, a.own[i], a.demand.shape[1]
    for at in range(n.begin[g], n.begin[g + 1]):
        m = np.int64(n.order[at])
        for w in range(kinds[m]):
            k = np.int64(application[m, w])
            if n.kind[k] != t or k == i or not n.up[m]:
                continue
            full = False
            for d in range(dimensions):
                full |= exceeds(demand[i, d], residual[m, d] + demand[k, d])
            if full:
                continue
            count[m, w] -= 1
            good = allowed(i, own, application, count, kinds, m, allows, bears)
            count[m, w] += 1
            if good and (kinds[m] < application.shape[1] or count[m, w] == 1):
                lift(a, n, k, m)
                put(a, n, i, m)
                return k
    return -1


@njit(cache=True)
def _follow(a, n, i, path, kinds, length):  # type: ignore[no-untyped-def]
    """Push i along `path` (length,) of groups, a replica of `kinds` moving from each to the next.

    Returns the number of steps taken: `length` if it came through; else all is rolled back.
    """
    begun = n.log[0]
    for step in range(length):
        meet(a, n, i)
        if step < length - 1:
            k = _exchange(a, n, i, path[step], kinds[step + 1])
        else:
            m = in_group(a, n, i, path[step], ANY)
            k = 0 if m != NO_MACHINE else -1
            if m != NO_MACHINE:
                put(a, n, i, m)
        part(a, n, i)
        if k < 0:
            roll_back(a, n, begun)
            return step
        i = np.int64(k)
    return length


@njit(cache=True)
def _push_cheapest(a, n, i, most):  # type: ignore[no-untyped-def]
    """Place a replica of i by a shortest augmenting path cheaper than `most`, moving replicas. Whether it could."""
    groups = n.cost.shape[1]
    banned, shut = np.zeros((groups, groups), np.bool_), np.zeros(groups, np.bool_)
    before, via = np.empty(groups, np.int64), np.empty(groups, np.int64)
    distance, path, kinds = np.empty(groups), np.empty(groups, np.int64), np.empty(groups, np.int64)
    for _ in range(TRIES):
        _shortest(n, i, banned, before, via, distance)
        last, least = -1, most - 1e-9
        for g in range(groups):
            if distance[g] < least and before[g] >= 0 and not shut[g]:
                begin, end = n.begin[g], n.begin[g + 1]
                t = via[g]
                if (
                    next_roomy(n.used, n.smallest, t, begin, end) < end
                    or next_roomy(n.fresh, n.smallest, t, begin, end) < end
                ):
                    last, least = g, distance[g]
        if last < 0:
            return False
        length, g = 0, last
        while g >= 0 and length < groups:
            path[length], kinds[length] = g, via[g]
            g = before[g]
            length += 1
        if g >= 0:  # a cycle: moving in circles would be cheaper still, which `cheapen` does
            shut[last] = True
            continue
        path[:length], kinds[:length] = path[:length][::-1].copy(), kinds[:length][::-1].copy()
        step = _follow(a, n, i, path, kinds, length)
        if step == length:
            return True
        if step == length - 1:
            banned[path[step - 1], path[step]] = True
        else:
            banned[path[step], path[step + 1]] = True
    return False


@njit(cache=True)
def _cheapest_to_empty(a, n, i, looks):  # type: ignore[no-untyped-def]
    """Machine where least weight has to go for a replica of i, and the entries of that, in `n.out`.

    `looks` machines are looked at, from where the last search ended. NO_MACHINE if none is large enough.
    """
    demand, residual, application, count, kinds = a.demand, n.residual, n.application, n.count, n.kinds
    allows, bears, weight, trial, out, room = n.allows, n.bears, n.weight, n.trial, n.out, n.room
    machines, dimensions, own = len(kinds), demand.shape[1], a.own[i]
    best, where, entries = np.inf, NO_MACHINE, 0
    m = n.log[1]
    for _ in range(min(looks, machines)):
        m = m + 1 if m + 1 < machines else 0
        if not n.up[m] or kinds[m] == application.shape[1]:
            continue
        cost, found, thrown = forbidden(
            i, own, application[m], count[m], kinds[m], allows, bears, weight, best, MOST_THROWN, trial
        )
        if cost == np.inf:
            continue
        for d in range(dimensions):
            room[d] = residual[m, d] - demand[i, d]
        cost, found = in_the_way(
            i, application[m], count[m], kinds[m], demand, weight, best, MOST_THROWN, cost, found, thrown, trial, room
        )
        if cost < best:
            best, where, entries = cost, m, found
            for e in range(found):
                out[0, e], out[1, e] = trial[0, e], trial[1, e]
    n.log[1] = m
    return where, entries


@njit(cache=True)
def _clear(a, n, m, entries, homeless):  # type: ignore[no-untyped-def]
    """Make homeless what `n.out` names of machine m, `homeless` being so already. Returns how many are, or -1: full."""
    gone = np.empty((2, entries), np.int64)
    for e in range(entries):
        gone[0, e], gone[1, e] = n.application[m, n.out[0, e]], n.out[1, e]
    for e in range(entries):
        for _ in range(gone[1, e]):
            if homeless == len(n.pool):
                return -1
            lift(a, n, gone[0, e], m)
            n.pool[homeless] = gone[0, e]
            homeless += 1
    return homeless


@njit(cache=True)
def _make_room(a, n, i, steps, looks):  # type: ignore[no-untyped-def]
    """Place a replica of i by moving others, they in turn others, `steps` times at most; else roll all back.

    Who had to throw others out weighs more from then on, so a chain does not go in circles (guided ejection, see
    `packing.repair`).
    """
    begun, homeless, step = n.log[0], 1, 0
    n.pool[0] = i
    while homeless > 0:
        homeless -= 1
        k = np.int64(n.pool[homeless])
        meet(a, n, k)
        m = direct(a, n, k, ANY)
        if m == NO_MACHINE and step < steps and n.log[0] + 2 * len(n.pool) < len(n.journal):
            step += 1
            m, entries = _cheapest_to_empty(a, n, k, looks)
            if m != NO_MACHINE:
                homeless = _clear(a, n, m, entries, homeless)
                n.weight[k] += LEAST
        part_of = m != NO_MACHINE and homeless >= 0
        if part_of:
            put(a, n, k, m)
        part(a, n, k)
        if not part_of:
            roll_back(a, n, begun)
            return False
    return True


@njit(cache=True)
def flow_one(a, n, i, cheapest, steps, looks):  # type: ignore[no-untyped-def]
    """Place one replica of i. Returns whether it could; the journal then holds what moved.

    `cheapest`: others move also where that is only cheaper than the direct path; `steps`: moves of those in the way if
    there is no direct one, 0: none.
    """
    n.log[0] = 0
    meet(a, n, i)
    m = direct(a, n, i, ANY)
    part(a, n, i)
    if cheapest:
        due = n.cost[n.kind[i], n.group[m]] if m != NO_MACHINE else np.inf
        if due > n.cost[n.kind[i], n.preference[n.kind[i], 0]] and _push_cheapest(a, n, i, due):
            return True
    if m != NO_MACHINE:
        put(a, n, i, m)
        return True
    return steps > 0 and _make_room(a, n, i, steps, looks)


@njit(cache=True)
def _moves(n):  # type: ignore[no-untyped-def]
    """Migrations in the journal: replicas that left a machine for good; to and fro is none."""
    journal, rows, moves = n.journal, n.log[0], 0
    for row in range(rows):
        i, m = journal[row, 0], abs(journal[row, 1])
        net, first = 0, True
        for other in range(rows):
            if journal[other, 0] == i and abs(journal[other, 1]) == m:
                first &= other >= row
                net += 1 if journal[other, 1] < 0 else -1
        if first and net > 0:
            moves += net
    return moves


@njit(cache=True)
def flow_all(a, n, queue, left, cheapest, steps, looks, moved):  # type: ignore[no-untyped-def]
    """Place the replicas `left` (V,) of the vertices of `queue` (n,), in that order; `left` is brought up to date.

    After a replica that found no place, the other replicas of its vertex are not tried. `moved` (1,) counts
    migrations: replicas that were on a machine and are on another.
    """
    for i in queue:
        while left[i] > 0:
            if not flow_one(a, n, i, cheapest, steps, looks):
                break
            left[i] -= 1
            if n.log[0] > 1:
                moved[0] += _moves(n)


@njit(cache=True)
def cheapen(a, n, moved):  # type: ignore[no-untyped-def]
    """Cancel negative cycles of one move: replicas go to groups that cost less, where there is room. Returns moves."""
    before = moved[0]
    for m in range(len(n.kinds)):
        w = 0
        while w < n.kinds[m]:
            i, n.log[0] = np.int64(n.application[m, w]), 0
            here = n.cost[n.kind[i], n.group[m]]
            for g in n.preference[n.kind[i]]:
                if n.cost[n.kind[i], g] >= here:
                    break
                meet(a, n, i)
                to = in_group(a, n, i, np.int64(g), USED)
                part(a, n, i)
                if to != NO_MACHINE:
                    lift(a, n, i, m)
                    put(a, n, i, to)
                    moved[0] += 1
                    break
            if n.log[0] == 0:
                w += 1  # else the entry holds another replica, of i or of the next
    return moved[0] - before


@njit(cache=True)
def close(a, n, m):  # type: ignore[no-untyped-def]
    """Empty machine m onto others in use, directly, or leave it as it is. Returns how many moved."""
    n.log[0] = 0
    begun = n.log[0]
    up, n.up[m] = n.up[m], False
    refresh(n, m)
    moves = 0
    while n.kinds[m] > 0 and n.log[0] + 2 < len(n.journal):
        i = np.int64(n.application[m, 0])
        meet(a, n, i)
        to = direct(a, n, i, USED)
        part(a, n, i)
        if to == NO_MACHINE:
            break
        lift(a, n, i, m)
        put(a, n, i, to)
        moves += 1
    if n.kinds[m] > 0:
        roll_back(a, n, begun)
        moves = 0
    n.up[m] = up
    refresh(n, m)
    return moves


@njit(cache=True)
def consolidate(a, n, order, moved):  # type: ignore[no-untyped-def]
    """Try to empty the machines of `order` (n,) in turn. Returns how many are empty now."""
    closed = 0
    for m in order:
        if n.kinds[m] > 0:
            moves = close(a, n, np.int64(m))
            moved[0] += moves
            closed += moves > 0
    return closed
