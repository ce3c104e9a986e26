"""Compiled state of the flow network: finds machines with room, adds and removes replicas, rolls changes back.

Vertices are applications as in `packing.affinity`. All machines of a group cost the same, so a path leads to a group
and then to its first machine with room. Two trees of maximal residuals, over machines in use and over empty ones, find
that machine without visiting full ones. A journal records every change, so that a failed chain can be undone.

Arguments:
    apps: packing.affinity.Applications; net: Network
    i, k: vertices; m: machine; g, h: groups; t: kind of vertices (row of `net.cost`); w: entry of a machine
Sizes: V vertices, M machines, K dimensions (times x resources), G groups, T kinds, W entries of a machine, S leaves,
P <= 4 dimensions in the trees, the busiest ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing import INITIAL_WEIGHT, UNLIMITED, add, drop_empty_entries, has_room, lacks, remove

NO_MACHINE = -1
ANY, USED = np.bool_(False), np.bool_(True)  # eligible machines; no literals, for which numba compiles twice
ABSENT = -np.inf  # residual in a tree of a machine that is not in it
MAX_DISPLACED = 4096  # replicas that may be without a machine at a time


class Network(NamedTuple):
    """Machines, their groups and the replicas on them, changed in place. Typed loosely, since numba sees the dtypes."""

    capacity: Any  # (M, K) float64
    largest: Any  # (P,) float64: capacity of the largest machine
    residual: Any  # (M, K) float64
    up: Any  # (M,) bool: machines that have not failed
    kinds: Any  # (M,) int32 entries of the machine: different vertices on it
    application: Any  # (M, W) int32 vertex of each entry
    count: Any  # (M, W) int32 replicas of each entry
    group: Any  # (M,) int32
    order: Any  # (M,) int32 machines sorted by group
    position: Any  # (M,) int32 position of each machine in `order`
    begin: Any  # (G + 1,) int64: group g has positions begin[g] .. begin[g + 1] - 1
    used: Any  # (2 S, P) float64 tree of maximal residuals of machines in use; position p is leaf S + p
    fresh: Any  # (2 S, P) float64: the same of empty machines
    kind: Any  # (V,) int32: row of `cost`
    cost: Any  # (T, G) float64: c_ij of vertices of a kind to groups (Eq. 8)
    preference: Any  # (T, G) int32 groups by increasing cost
    smallest: Any  # (T, P) float64: smallest demand of any vertex of a kind
    present: Any  # (G, T) int64 replicas of each kind on machines of each group
    weight: Any  # (V,) float64: penalty for ejecting a replica of the vertex
    displaced: Any  # (MAX_DISPLACED,) int32, scratch: stack of replicas without a machine
    journal: Any  # (J, 2) int32, scratch: vertex, and machine + 1, negative if it was removed
    log: Any  # (2,) int64: rows in the journal; machine at which the next search for an ejection starts
    allows: Any  # (V,) int32, scratch: a_ki for the current vertex i; UNLIMITED otherwise
    bears: Any  # (V,) int32, scratch: a_ik, likewise
    out: Any  # (2, W) int32, scratch: entries and replicas to eject from the best machine
    trial: Any  # (2, W) int32, scratch: the same for the machine under test
    room: Any  # (K,) float64, scratch


@njit(inline="always")
def _set_leaf(net, m):  # type: ignore[no-untyped-def]
    """Write the residuals of machine m to its leaf of the tree that it belongs to. Returns the leaf."""
    leaf, busy, up = len(net.used) // 2 + net.position[m], net.kinds[m] > 0, net.up[m]
    for p in range(net.used.shape[1]):
        net.used[leaf, p] = net.residual[m, p] if up and busy else ABSENT
        net.fresh[leaf, p] = net.residual[m, p] if up and not busy else ABSENT
    return leaf


@njit(inline="always")
def _join(net, node):  # type: ignore[no-untyped-def]
    """Write the maxima of the two nodes below it to `node` of both trees."""
    for p in range(net.used.shape[1]):
        net.used[node, p] = max(net.used[2 * node, p], net.used[2 * node + 1, p])
        net.fresh[node, p] = max(net.fresh[2 * node, p], net.fresh[2 * node + 1, p])


@njit
def update_trees(net, m):  # type: ignore[no-untyped-def]
    """Update both trees after a change on machine m."""
    node = _set_leaf(net, m)
    while node > 1:
        node //= 2
        _join(net, node)


@njit
def build_trees(net):  # type: ignore[no-untyped-def]
    """Rebuild both trees after machines changed groups."""
    for m in range(len(net.group)):
        _set_leaf(net, m)
    for node in range(len(net.used) // 2 - 1, 0, -1):
        _join(net, node)


@inner
def next_with_room(tree, largest, wanted, row, at, end):  # type: ignore[no-untyped-def]
    """First position in at .. end - 1 whose residual in `tree` may hold `wanted[row]`; `end` if there is none.

    `largest` (P,): capacity of the largest machine.
    """
    if at >= end:
        return end
    size = len(tree) // 2
    node = size + at
    while node % 2 == 0 and node > 1:
        node //= 2
    while True:
        full = False
        for p in range(tree.shape[1]):
            full |= lacks(wanted[row, p], tree[node, p], largest[p])
        if not full:
            if node >= size:
                return min(node - size, end)
            node *= 2
            continue
        node += 1
        if node & (node - 1) == 0:  # past the last node of its level
            return end
        while node % 2 == 0:
            node //= 2


@inner
def limits_allow(i, own, application, count, kinds, m, allows, bears):  # type: ignore[no-untyped-def]
    """Whether one more replica of i breaks no affinity limit on machine m (its blacklist, Eq. 9 and 10).

    `own`: a_ii; the other arrays are those of `Network`.
    """
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


@inner
def _holds(i, application, kinds, m):  # type: ignore[no-untyped-def]
    """Whether machine m holds a replica of i."""
    found = False
    for w in range(kinds[m]):
        found |= application[m, w] == i
    return found


@inner
def _first_position(apps, net, i, tree, at, end):  # type: ignore[no-untyped-def]
    """First position in at .. end - 1 of `tree` whose machine can take a replica of i; `end` if none can."""
    demand, residual, order = apps.demand, net.residual, net.order
    own, width = apps.own[i], net.application.shape[1]
    application, count, kinds, allows, bears = net.application, net.count, net.kinds, net.allows, net.bears
    while True:
        at = next_with_room(tree, net.largest, demand, i, at, end)
        if at >= end:
            return end
        m = np.int64(order[at])
        fits = has_room(apps.needed, i, residual, m) and (kinds[m] < width or _holds(i, application, kinds, m))
        if fits and limits_allow(i, own, application, count, kinds, m, allows, bears):
            return at
        at += 1


@inner
def find_in_group(apps, net, i, g, only_used):  # type: ignore[no-untyped-def]
    """A machine of group g that can take a replica of i, preferably one in use; NO_MACHINE if none can."""
    begin, end = net.begin[g], net.begin[g + 1]
    at = _first_position(apps, net, i, net.used, begin, end)
    if at == end and not only_used:
        at = _first_position(apps, net, i, net.fresh, begin, end)
    return NO_MACHINE if at == end else np.int64(net.order[at])


@inner
def find_machine(apps, net, i, only_used):  # type: ignore[no-untyped-def]
    """The machine at the end of the cheapest path of i on which nothing has to move, or NO_MACHINE."""
    for g in net.preference[net.kind[i]]:
        m = find_in_group(apps, net, i, np.int64(g), only_used)
        if m != NO_MACHINE:
            return m
    return NO_MACHINE


@inner
def _record(net, i, m):  # type: ignore[no-untyped-def]
    net.journal[net.log[0], 0], net.journal[net.log[0], 1] = i, m
    net.log[0] += 1


@inner
def add_replica(apps, net, i, m):  # type: ignore[no-untyped-def]
    """Place a replica of i on machine m, which must have room for it."""
    add(apps, net, i, m, 1)
    net.present[net.group[m], net.kind[i]] += 1
    update_trees(net, m)
    _record(net, i, m + 1)


@njit
def remove_replica(apps, net, i, m):  # type: ignore[no-untyped-def]
    """Remove a replica of i from machine m, which must have one."""
    for w in range(net.kinds[m]):
        if net.application[m, w] == i:
            remove(apps, net, m, w, 1)
    drop_empty_entries(net, m)
    net.present[net.group[m], net.kind[i]] -= 1
    update_trees(net, m)
    _record(net, i, -(m + 1))


@inner
def roll_back(apps, net, to):  # type: ignore[no-untyped-def]
    """Undo the changes in the journal beyond row `to`, the latest first."""
    while net.log[0] > to:
        net.log[0] -= 1
        row = net.log[0]
        i, m = np.int64(net.journal[row, 0]), np.int64(net.journal[row, 1])
        if m > 0:
            remove_replica(apps, net, i, m - 1)
        else:
            add_replica(apps, net, i, -m - 1)
        net.log[0] = row


def empty_network(capacity: Any, vertices: int, width: int, trees: int) -> Network:
    """A network of empty machines in one group, for `capacity` (M, K), V = `vertices`, W = `width` and P = `trees`."""
    machines, dimensions = capacity.shape
    leaves = 1 << max(machines - 1, 1).bit_length()
    return Network(
        capacity=capacity,
        largest=capacity[:, :trees].max(axis=0),
        residual=capacity.copy(),
        up=np.ones(machines, np.bool_),
        kinds=np.zeros(machines, np.int32),
        application=np.zeros((machines, width), np.int32),
        count=np.zeros((machines, width), np.int32),
        group=np.zeros(machines, np.int32),
        order=np.arange(machines, dtype=np.int32),
        position=np.arange(machines, dtype=np.int32),
        begin=np.array([0, machines]),
        used=np.full((2 * leaves, trees), ABSENT),
        fresh=np.full((2 * leaves, trees), ABSENT),
        kind=np.zeros(vertices, np.int32),
        cost=np.ones((1, 1)),
        preference=np.zeros((1, 1), np.int32),
        smallest=np.zeros((1, trees)),
        present=np.zeros((1, 1), np.int64),
        weight=np.full(vertices, INITIAL_WEIGHT),
        displaced=np.empty(MAX_DISPLACED, np.int32),
        journal=np.empty((1 << 16, 2), np.int32),
        log=np.zeros(2, np.int64),
        allows=np.full(vertices, UNLIMITED, np.int32),
        bears=np.full(vertices, UNLIMITED, np.int32),
        out=np.zeros((2, width), np.int32),
        trial=np.zeros((2, width), np.int32),
        room=np.zeros(dimensions),
    )
