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
from tvwrl.packing.repair import put_on, take, tidy

NO_MACHINE = -1
ANY, USED = np.bool_(False), np.bool_(True)  # machines that may be taken; not literals, which numba compiles apart
GONE = -1.0  # what a machine that is not in a tree has left
POOL = 4096  # replicas that may be without a place at a time
LEAST = 1.0  # weight of a vertex that was never in the way


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
    pool: Any  # (POOL,) int32, scratch: replicas that lost their place
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
def next_roomy(tree, wanted, row, at, end):  # type: ignore[no-untyped-def]
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
def allowed(i, own, application, count, kinds, m, allows, bears):  # type: ignore[no-untyped-def]
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
def _holds(i, application, kinds, m):  # type: ignore[no-untyped-def]
    """Whether machine m has a replica of i."""
    found = False
    for w in range(kinds[m]):
        found |= application[m, w] == i
    return found


@njit(cache=True)
def _first_in(a, n, i, tree, at, end):  # type: ignore[no-untyped-def]
    """First position at .. end - 1 of `tree` whose machine takes a replica of i; `end` if none does."""
    demand, residual, order, own, width = a.demand, n.residual, n.order, a.own[i], n.application.shape[1]
    application, count, kinds, allows, bears = n.application, n.count, n.kinds, n.allows, n.bears
    while True:
        at = next_roomy(tree, demand, i, at, end)
        if at >= end:
            return end
        m = np.int64(order[at])
        fits = has_room(demand, i, residual, m) and (kinds[m] < width or _holds(i, application, kinds, m))
        if fits and allowed(i, own, application, count, kinds, m, allows, bears):
            return at
        at += 1


@njit(cache=True)
def in_group(a, n, i, g, only_used):  # type: ignore[no-untyped-def]
    """The machine of group g that takes a replica of i, one in use if there is any; else NO_MACHINE."""
    begin, end = n.begin[g], n.begin[g + 1]
    at = _first_in(a, n, i, n.used, begin, end)
    if at == end and not only_used:
        at = _first_in(a, n, i, n.fresh, begin, end)
    return NO_MACHINE if at == end else np.int64(n.order[at])


@njit(cache=True)
def direct(a, n, i, only_used):  # type: ignore[no-untyped-def]
    """The end of the shortest path of i on which nothing has to move, or NO_MACHINE."""
    for g in n.preference[n.kind[i]]:
        m = in_group(a, n, i, np.int64(g), only_used)
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
        pool=np.empty(POOL, np.int32),
        journal=np.empty((1 << 16, 2), np.int32),
        log=np.zeros(2, np.int64),
        allows=np.full(vertices, UNLIMITED, np.int32),
        bears=np.full(vertices, UNLIMITED, np.int32),
        out=np.zeros((2, width), np.int32),
        trial=np.zeros((2, width), np.int32),
        room=np.zeros(dimensions),
    )
