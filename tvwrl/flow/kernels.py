"""Compiled flow from task vertices through groups to machines: paths, and the moves that open them.

The vertices are applications as the packing core knows them. Within a group all machines cost the same, so a path is a
group and then the first machine of it that has room: two trees over the machines, of those in use and of the others,
find it without asking the full ones. A path that ends nowhere is rolled back, by a journal of what was put and taken.
Letters as in `packing.affinity`; V vertices, G groups, P <= 4 dimensions that trees look at, the busiest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tvwrl.packing.affinity import UNLIMITED, has_room
from tvwrl.packing.kernels import exceeds
from tvwrl.packing.repair import forbidden, in_the_way, meet, part, put_on, take, tidy

NO_MACHINE = -1
ANY, USED = np.bool_(False), np.bool_(True)  # machines that may be taken; not literals, which numba compiles apart
GONE = -1.0  # what a machine that is not in a tree has left
LEAST = 1.0  # weight of a vertex that was never in the way
MOST_THROWN = np.int64(64)  # replicas that one may throw out
TRIES = 8  # cheapest paths that are tried for one replica


class Network(NamedTuple):
    """The network with all that flows, changed in place. Typed loosely, since numba sees the dtypes."""

    residual: Any  # (M, K) float64
    up: Any  # (M,) bool: machines that have not failed
    kinds: Any  # (M,) int32 vertices on the machine
    application: Any  # (M, W) int32 which
    count: Any  # (M, W) int32 replicas of each
    group: Any  # (M,) int32
    order: Any  # (M,) int32 machines, group by group
    position: Any  # (M,) int32 where each is in `order`
    begin: Any  # (G + 1,) int64: positions of each group
    used: Any  # (2 S, P) float64 tree of largest residuals of machines in use; leaf of position p is S + p
    fresh: Any  # (2 S, P) float64, of machines with nothing on them
    kind: Any  # (V,) int32: row of `cost`
    cost: Any  # (T, G) float64: c_ij of vertices of a kind to groups (Eq. 8)
    preference: Any  # (T, G) int32 groups by rising cost
    smallest: Any  # (T, P) float64: least demand of any vertex of a kind
    present: Any  # (G, T) int64 replicas of each kind on machines of each group
    weight: Any  # (V,) float64: how hard a vertex is to place again
    pool: Any  # (W x 8,) int32, scratch: replicas that lost their place
    journal: Any  # (J, 2) int32, scratch: vertex, and machine + 1, negative if it was taken off
    log: Any  # (2,) int64: rows in the journal, where the next search for a place begins
    allows: Any  # (V,) int32, scratch: a_ki of the vertex at hand; UNLIMITED in between
    bears: Any  # (V,) int32, scratch: a_ik
    out: Any  # (2, W) int32, scratch
    trial: Any  # (2, W) int32, scratch
    room: Any  # (K,) float64, scratch


@njit(cache=True)
def refresh(n, m):  # type: ignore[no-untyped-def]
    """Tell the trees what machine m has left."""
    used, fresh, residual = n.used, n.fresh, n.residual
    node = len(used) // 2 + n.position[m]
    busy, there = n.kinds[m] > 0, n.up[m]
    for p in range(used.shape[1]):
        used[node, p] = residual[m, p] if there and busy else GONE
        fresh[node, p] = residual[m, p] if there and not busy else GONE
    while node > 1:
        node //= 2
        for p in range(used.shape[1]):
            used[node, p] = max(used[2 * node, p], used[2 * node + 1, p])
            fresh[node, p] = max(fresh[2 * node, p], fresh[2 * node + 1, p])


@njit(cache=True)
def plant(n):  # type: ignore[no-untyped-def]
    """Build both trees anew, after machines changed their groups."""
    size = len(n.used) // 2
    n.used[:] = GONE
    n.fresh[:] = GONE
    for m in range(len(n.group)):
        tree = n.used if n.kinds[m] > 0 else n.fresh
        if n.up[m]:
            tree[size + n.position[m]] = n.residual[m, : n.used.shape[1]]
    for node in range(size - 1, 0, -1):
        for p in range(n.used.shape[1]):
            n.used[node, p] = max(n.used[2 * node, p], n.used[2 * node + 1, p])
            n.fresh[node, p] = max(n.fresh[2 * node, p], n.fresh[2 * node + 1, p])


@njit(cache=True)
def _next(tree, wanted, row, at, end):  # type: ignore[no-untyped-def]
    """First position from `at` on, below `end`, that may have room for `wanted[row]`; `end` if there is none."""
    if at >= end:
        return end
    size = len(tree) // 2
    node = size + at
    while node % 2 == 0 and node > 1:
        node //= 2
    while True:
        full = False
        for p in range(tree.shape[1]):
            full |= exceeds(wanted[row, p], tree[node, p])
        if not full:
            if node >= size:
                return min(node - size, end)
            node *= 2
            continue
        node += 1
        if node & (node - 1) == 0:  # past the last of its level
            return end
        while node % 2 == 0:
            node //= 2


@njit(cache=True)
def _allowed(i, own, application, count, kinds, m, allows, bears):  # type: ignore[no-untyped-def]
    """Whether i is not on m's blacklist (Eq. 9, 10): one more replica of it breaks no limit of what is there."""
    there = 1
    for w in range(kinds[m]):
        if application[m, w] == i:
            there = count[m, w] + 1
    if there > own:
        return False
    for w in range(kinds[m]):
        k = application[m, w]
        if k != i and count[m, w] > 0 and (allows[k] < there or bears[k] < count[m, w]):
            return False
    return True


@njit(cache=True)
def _first_in(a, n, i, tree, at, end):  # type: ignore[no-untyped-def]
    """First position at .. end - 1 of `tree` whose machine takes a replica of i; `end` if none does."""
    demand, residual, order, own, width = a.demand, n.residual, n.order, a.own[i], n.application.shape[1]
    application, count, kinds, allows, bears = n.application, n.count, n.kinds, n.allows, n.bears
    while True:
        at = _next(tree, demand, i, at, end)
        if at >= end:
            return end
        m = np.int64(order[at])
        fits = kinds[m] < width and has_room(demand, i, residual, m)
        if fits and _allowed(i, own, application, count, kinds, m, allows, bears):
            return at
        at += 1


@njit(cache=True)
def _in_group(a, n, i, g, only_used):  # type: ignore[no-untyped-def]
    """The machine of group g that takes a replica of i, one in use if there is any; else NO_MACHINE."""
    begin, end = n.begin[g], n.begin[g + 1]
    at = _first_in(a, n, i, n.used, begin, end)
    if at == end and not only_used:
        at = _first_in(a, n, i, n.fresh, begin, end)
    return NO_MACHINE if at == end else np.int64(n.order[at])


@njit(cache=True)
def _direct(a, n, i, only_used):  # type: ignore[no-untyped-def]
    """The end of the shortest path of i on which nothing has to move, or NO_MACHINE."""
    for g in n.preference[n.kind[i]]:
        m = _in_group(a, n, i, np.int64(g), only_used)
        if m != NO_MACHINE:
            return m
    return NO_MACHINE


@njit(cache=True)
def _note(n, i, m):  # type: ignore[no-untyped-def]
    n.journal[n.log[0], 0], n.journal[n.log[0], 1] = i, m
    n.log[0] += 1


@njit(cache=True)
def put(a, n, i, m):  # type: ignore[no-untyped-def]
    """Let a replica of i flow to machine m, which has room for it."""
    put_on(a, n, i, m, 1)
    n.present[n.group[m], n.kind[i]] += 1
    refresh(n, m)
    _note(n, i, m + 1)


@njit(cache=True)
def lift(a, n, i, m):  # type: ignore[no-untyped-def]
    """Take a replica of i off machine m, where there is one."""
    for w in range(n.kinds[m]):
        if n.application[m, w] == i:
            take(a, n, m, w, 1)
    tidy(n, m)
    n.present[n.group[m], n.kind[i]] -= 1
    refresh(n, m)
    _note(n, i, -(m + 1))


@njit(cache=True)
def roll_back(a, n, to):  # type: ignore[no-untyped-def]
    """Undo what the journal holds beyond row `to`, the last first."""
    while n.log[0] > to:
        n.log[0] -= 1
        row = n.log[0]
        i, m = np.int64(n.journal[row, 0]), np.int64(n.journal[row, 1])
        if m > 0:
            lift(a, n, i, m - 1)
        else:
            put(a, n, i, -m - 1)
        n.log[0] = row


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
            good = _allowed(i, own, application, count, kinds, m, allows, bears)
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
            m = _in_group(a, n, i, path[step], ANY)
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
                if _next(n.used, n.smallest, t, begin, end) < end or _next(n.fresh, n.smallest, t, begin, end) < end:
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
        m = _direct(a, n, k, ANY)
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
    m = _direct(a, n, i, ANY)
    part(a, n, i)
    if cheapest:
        direct = n.cost[n.kind[i], n.group[m]] if m != NO_MACHINE else np.inf
        if direct > n.cost[n.kind[i], n.preference[n.kind[i], 0]] and _push_cheapest(a, n, i, direct):
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
                to = _in_group(a, n, i, np.int64(g), USED)
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
        to = _direct(a, n, i, USED)
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


def empty_network(residual: Any, vertices: int, width: int, trees: int) -> Network:
    """A network of machines with nothing on them, in no groups yet, for `vertices`; `width`: most of them on one."""
    machines, dimensions = residual.shape
    leaves = 1 << max(machines - 1, 1).bit_length()
    return Network(
        residual=residual,
        up=np.ones(machines, np.bool_),
        kinds=np.zeros(machines, np.int32),
        application=np.zeros((machines, width), np.int32),
        count=np.zeros((machines, width), np.int32),
        group=np.zeros(machines, np.int32),
        order=np.arange(machines, dtype=np.int32),
        position=np.arange(machines, dtype=np.int32),
        begin=np.array([0, machines]),
        used=np.full((2 * leaves, trees), GONE),
        fresh=np.full((2 * leaves, trees), GONE),
        kind=np.zeros(vertices, np.int32),
        cost=np.ones((1, 1)),
        preference=np.zeros((1, 1), np.int32),
        smallest=np.zeros((1, trees)),
        present=np.zeros((1, 1), np.int64),
        weight=np.full(vertices, LEAST),
        pool=np.empty(8 * width, np.int32),
        journal=np.empty((1 << 16, 2), np.int32),
        log=np.zeros(2, np.int64),
        allows=np.full(vertices, UNLIMITED, np.int32),
        bears=np.full(vertices, UNLIMITED, np.int32),
        out=np.zeros((2, width), np.int32),
        trial=np.zeros((2, width), np.int32),
        room=np.zeros(dimensions),
    )
