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

from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing import (
    INITIAL_WEIGHT,
    UNLIMITED,
    Applications,
    add,
    affinity_ejections,
    capacity_ejections,
    clear_limits,
    drop_empty_entries,
    has_room,
    int64,
    lacks,
    remove,
    set_limits,
)
from tvwrl.types import Bool, Float, Int, Int32

NO_MACHINE = -1
ANY, USED = np.bool_(False), np.bool_(True)  # eligible machines; no literals, for which numba compiles twice
ABSENT = -np.inf  # residual in a tree of a machine that is not in it
MAX_DISPLACED = 4096  # replicas that may be without a machine at a time


class Network(NamedTuple):
    """Machines, their groups and the replicas on them, changed in place."""

    capacity: Float  # (M, K) float64
    largest: Float  # (P,) float64: capacity of the largest machine
    residual: Float  # (M, K) float64
    up: Bool  # (M,) bool: machines that have not failed
    kinds: Int32  # (M,) int32 entries of the machine: different vertices on it
    application: Int32  # (M, W) int32 vertex of each entry
    count: Int32  # type: ignore[assignment]  # (M, W) int32 replicas of each entry
    group: Int32  # (M,) int32
    order: Int32  # (M,) int32 machines sorted by group
    position: Int32  # (M,) int32 position of each machine in `order`
    begin: Int  # (G + 1,) int64: group g has positions begin[g] .. begin[g + 1] - 1
    used: Float  # (2 S, P) float64 tree of maximal residuals of machines in use; position p is leaf S + p
    fresh: Float  # (2 S, P) float64: the same of empty machines
    kind: Int32  # (V,) int32: row of `cost`
    cost: Float  # (T, G) float64: c_ij of vertices of a kind to groups (Eq. 8)
    preference: Int32  # (T, G) int32 groups by increasing cost
    smallest: Float  # (T, P) float64: smallest demand of any vertex of a kind
    present: Int  # (G, T) int64 replicas of each kind on machines of each group
    weight: Float  # (V,) float64: penalty for ejecting a replica of the vertex
    displaced: Int32  # (MAX_DISPLACED,) int32, scratch: stack of replicas without a machine
    journal: Int32  # (J, 2) int32, scratch: vertex, and machine + 1, negative if it was removed
    log: Int  # (2,) int64: rows in the journal; machine at which the next search for an ejection starts
    allows: Int32  # (V,) int32, scratch: a_ki for the current vertex i; UNLIMITED otherwise
    bears: Int32  # (V,) int32, scratch: a_ik, likewise
    out: Int32  # (2, W) int32, scratch: entries and replicas to eject from the best machine
    trial: Int32  # (2, W) int32, scratch: the same for the machine under test
    room: Float  # (K,) float64, scratch


@njit(inline="always")
def _set_leaf(net: Network, m: int) -> int:
    """Write the residuals of machine m to its leaf of the tree that it belongs to. Returns the leaf."""
    leaf: int = len(net.used) // 2 + net.position[m]
    busy, up = net.kinds[m] > 0, net.up[m]
    for p in range(net.used.shape[1]):
        net.used[leaf, p] = net.residual[m, p] if up and busy else ABSENT
        net.fresh[leaf, p] = net.residual[m, p] if up and not busy else ABSENT
    return leaf


@njit(inline="always")
def _join(net: Network, node: int) -> None:
    """Write the maxima of the two nodes below it to `node` of both trees."""
    for p in range(net.used.shape[1]):
        net.used[node, p] = max(net.used[2 * node, p], net.used[2 * node + 1, p])
        net.fresh[node, p] = max(net.fresh[2 * node, p], net.fresh[2 * node + 1, p])


@njit
def update_trees(net: Network, m: int) -> None:
    """Update both trees after a change on machine m."""
    node = _set_leaf(net, m)
    while node > 1:
        node //= 2
        _join(net, node)


@njit
def build_trees(net: Network) -> None:
    """Rebuild both trees after machines changed groups."""
    for m in range(len(net.group)):
        _set_leaf(net, m)
    for node in range(len(net.used) // 2 - 1, 0, -1):
        _join(net, node)


@inner
def next_with_room(tree: Float, largest: Float, wanted: Float, row: int, at: int, end: int) -> int:
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
def limits_allow(
    i: int, own: int, application: Int32, count: Int32, kinds: Int32, m: int, allows: Int32, bears: Int32
) -> bool:
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
def _holds(i: int, application: Int32, kinds: Int32, m: int) -> bool:
    """Whether machine m holds a replica of i."""
    found = False
    for w in range(kinds[m]):
        found |= application[m, w] == i
    return found


@inner
def _first_position(apps: Applications, net: Network, i: int, tree: Float, at: int, end: int) -> int:
    """First position in at .. end - 1 of `tree` whose machine can take a replica of i; `end` if none can."""
    demand, residual, order = apps.demand, net.residual, net.order
    own, width = apps.own[i], net.application.shape[1]
    application, count, kinds, allows, bears = net.application, net.count, net.kinds, net.allows, net.bears
    while True:
        at = next_with_room(tree, net.largest, demand, i, at, end)
        if at >= end:
            return end
        m = int64(order[at])
        fits = has_room(apps.needed, i, residual, m) and (kinds[m] < width or _holds(i, application, kinds, m))
        if fits and limits_allow(i, own, application, count, kinds, m, allows, bears):
            return at
        at += 1


@inner
def find_in_group(apps: Applications, net: Network, i: int, g: int, only_used: np.bool_) -> int:
    """A machine of group g that can take a replica of i, preferably one in use; NO_MACHINE if none can."""
    begin, end = net.begin[g], net.begin[g + 1]
    at = _first_position(apps, net, i, net.used, begin, end)
    if at == end and not only_used:
        at = _first_position(apps, net, i, net.fresh, begin, end)
    return NO_MACHINE if at == end else int64(net.order[at])


@inner
def find_machine(apps: Applications, net: Network, i: int, only_used: np.bool_) -> int:
    """The machine at the end of the cheapest path of i on which nothing has to move, or NO_MACHINE."""
    for g in net.preference[net.kind[i]]:
        m = find_in_group(apps, net, i, int64(g), only_used)
        if m != NO_MACHINE:
            return m
    return NO_MACHINE


@inner
def _record(net: Network, i: int, m: int) -> None:
    net.journal[net.log[0], 0], net.journal[net.log[0], 1] = i, m
    net.log[0] += 1


@inner
def add_replica(apps: Applications, net: Network, i: int, m: int) -> None:
    """Place a replica of i on machine m, which must have room for it."""
    add(apps, net, i, m, 1)
    net.present[net.group[m], net.kind[i]] += 1
    update_trees(net, m)
    _record(net, i, m + 1)


@njit
def remove_replica(apps: Applications, net: Network, i: int, m: int) -> None:
    """Remove a replica of i from machine m, which must have one."""
    for w in range(net.kinds[m]):
        if net.application[m, w] == i:
            remove(apps, net, m, w, 1)
    drop_empty_entries(net, m)
    net.present[net.group[m], net.kind[i]] -= 1
    update_trees(net, m)
    _record(net, i, -(m + 1))


@inner
def roll_back(apps: Applications, net: Network, to: int) -> None:
    """Undo the changes in the journal beyond row `to`, the latest first."""
    while net.log[0] > to:
        net.log[0] -= 1
        row = net.log[0]
        i, m = int64(net.journal[row, 0]), int64(net.journal[row, 1])
        if m > 0:
            remove_replica(apps, net, i, m - 1)
        else:
            add_replica(apps, net, i, -m - 1)
        net.log[0] = row


def empty_network(capacity: Float, vertices: int, width: int, trees: int) -> Network:
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


@njit
def cancel_cycles(apps: Applications, net: Network, moved: Int) -> int:
    """Cancel negative cycles of one move: replicas move to cheaper groups that have room. Returns how many moved."""
    before = moved[0]
    for m in range(len(net.kinds)):
        w = 0
        while w < net.kinds[m]:
            i, net.log[0] = int64(net.application[m, w]), 0
            here = net.cost[net.kind[i], net.group[m]]
            for g in net.preference[net.kind[i]]:
                if net.cost[net.kind[i], g] >= here:
                    break
                set_limits(apps, net, i)
                to = find_in_group(apps, net, i, int64(g), USED)
                clear_limits(apps, net, i)
                if to != NO_MACHINE:
                    remove_replica(apps, net, i, m)
                    add_replica(apps, net, i, to)
                    moved[0] += 1
                    break
            if net.log[0] == 0:
                w += 1  # otherwise the entry now holds another replica
    more: int = moved[0] - before
    return more


@inner
def empty_machine(apps: Applications, net: Network, m: int) -> int:
    """Move all replicas of machine m to others in use, or none of them. Returns how many moved."""
    net.log[0] = 0
    begun = net.log[0]
    up, net.up[m] = net.up[m], False
    update_trees(net, m)
    moves = 0
    while net.kinds[m] > 0 and net.log[0] + 2 < len(net.journal):
        i = int64(net.application[m, 0])
        set_limits(apps, net, i)
        to = find_machine(apps, net, i, USED)
        clear_limits(apps, net, i)
        if to == NO_MACHINE:
            break
        remove_replica(apps, net, i, m)
        add_replica(apps, net, i, to)
        moves += 1
    if net.kinds[m] > 0:
        roll_back(apps, net, begun)
        moves = 0
    net.up[m] = up
    update_trees(net, m)
    return moves


@njit
def consolidate(apps: Applications, net: Network, order: Int, moved: Int) -> int:
    """Try to empty the machines of `order` (n,) in turn. Returns how many were emptied."""
    closed = 0
    for m in order:
        if net.kinds[m] > 0:
            moves = empty_machine(apps, net, int64(m))
            moved[0] += moves
            closed += moves > 0
    return closed


MAX_EJECTED = int64(64)  # replicas that one replica may eject from a machine
MAX_PATHS = 8  # shortest paths that are tried for one replica


@inner
def _shortest_paths(net: Network, i: int, banned: Bool, before: Int, via: Int, distance: Float) -> None:
    """Distances of groups from vertex i in the residual network, by Bellman-Ford.

    There is an arc from g to h if g holds a replica; its cost is the change in cost when that replica moves.

    banned: (G, G) bool, arcs to leave out
    before: (G,) int64, output: preceding group on the path, -1 for the vertex itself
    via: (G,) int64, output: kind of the replica that moves along the last arc, -1 for the vertex itself
    distance: (G,) float64, output
    """
    cost, present = net.cost, net.present
    groups, kinds = cost.shape[1], cost.shape[0]
    for g in range(groups):
        distance[g], before[g], via[g] = cost[net.kind[i], g], -1, -1
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


@inner
def _replace_one(apps: Applications, net: Network, i: int, g: int, t: int) -> int:
    """Place i on a machine of group g instead of a replica of kind t. Returns the vertex of that replica, or -1."""
    demand, residual, application, count, kinds = apps.demand, net.residual, net.application, net.count, net.kinds
    allows, bears, own, dimensions = net.allows, net.bears, apps.own[i], apps.demand.shape[1]
    capacity = net.capacity
    for at in range(net.begin[g], net.begin[g + 1]):
        m = int64(net.order[at])
        for w in range(kinds[m]):
            k = int64(application[m, w])
            if net.kind[k] != t or k == i or not net.up[m]:
                continue
            full = False
            for d in range(dimensions):
                full |= lacks(demand[i, d], residual[m, d] + demand[k, d], capacity[m, d])
            if full:
                continue
            count[m, w] -= 1
            good = limits_allow(i, own, application, count, kinds, m, allows, bears)
            count[m, w] += 1
            if good and (kinds[m] < application.shape[1] or count[m, w] == 1):
                remove_replica(apps, net, k, m)
                add_replica(apps, net, i, m)
                return k
    return -1


@inner
def _push_along(apps: Applications, net: Network, i: int, path: Int, kinds: Int, length: int) -> int:
    """Push i along `path` (length,) of groups, where a replica of kind `kinds` (length,) moves from each to the next.

    Returns the number of steps taken, `length` if complete; otherwise all of them are rolled back.
    """
    begun = net.log[0]
    for step in range(length):
        set_limits(apps, net, i)
        if step < length - 1:
            k = _replace_one(apps, net, i, path[step], kinds[step + 1])
        else:
            m = find_in_group(apps, net, i, path[step], ANY)
            k = 0 if m != NO_MACHINE else -1
            if m != NO_MACHINE:
                add_replica(apps, net, i, m)
        clear_limits(apps, net, i)
        if k < 0:
            roll_back(apps, net, begun)
            return step
        i = int64(k)
    return length


@inner
def _push_cheapest(apps: Applications, net: Network, i: int, most: float) -> bool:
    """Place a replica of i by a shortest augmenting path that costs less than `most`. Returns whether there is one."""
    groups = net.cost.shape[1]
    banned, shut = np.zeros((groups, groups), np.bool_), np.zeros(groups, np.bool_)
    before, via = np.empty(groups, np.int64), np.empty(groups, np.int64)
    distance, path, kinds = np.empty(groups), np.empty(groups, np.int64), np.empty(groups, np.int64)
    for _ in range(MAX_PATHS):
        _shortest_paths(net, i, banned, before, via, distance)
        last, least = -1, most - 1e-9
        for g in range(groups):
            if distance[g] < least and before[g] >= 0 and not shut[g]:
                begin, end = net.begin[g], net.begin[g + 1]
                t = via[g]
                if (
                    next_with_room(net.used, net.largest, net.smallest, t, begin, end) < end
                    or next_with_room(net.fresh, net.largest, net.smallest, t, begin, end) < end
                ):
                    last, least = g, distance[g]
        if last < 0:
            return False
        length, g = 0, last
        while g >= 0 and length < groups:
            path[length], kinds[length] = g, via[g]
            g = before[g]
            length += 1
        if g >= 0:  # a negative cycle, which `cancel_cycles` handles
            shut[last] = True
            continue
        path[:length], kinds[:length] = path[:length][::-1].copy(), kinds[:length][::-1].copy()
        step = _push_along(apps, net, i, path, kinds, length)
        if step == length:
            return True
        if step == length - 1:
            banned[path[step - 1], path[step]] = True
        else:
            banned[path[step], path[step + 1]] = True
    return False


@inner
def _cheapest_ejection(apps: Applications, net: Network, i: int, examined: int) -> tuple[int, int]:
    """The machine that has to eject the least weight for a replica of i, and the number of entries to eject.

    The entries are in `net.out`. Examines `examined` machines, starting where the last search ended. Returns
    NO_MACHINE if none of them is large enough.
    """
    demand, residual, application, count, kinds = apps.demand, net.residual, net.application, net.count, net.kinds
    allows, bears, weight, trial, out, room = net.allows, net.bears, net.weight, net.trial, net.out, net.room
    machines, dimensions, own = len(kinds), demand.shape[1], apps.own[i]
    best, where, entries = np.inf, NO_MACHINE, 0
    m = net.log[1]
    for _ in range(min(examined, machines)):
        m = m + 1 if m + 1 < machines else 0
        if not net.up[m] or kinds[m] == application.shape[1]:
            continue
        cost, found, ejected = affinity_ejections(
            i, own, application[m], count[m], kinds[m], allows, bears, weight, best, MAX_EJECTED, trial
        )
        if cost == np.inf:
            continue
        for d in range(dimensions):
            room[d] = residual[m, d] - demand[i, d]
        cost, found = capacity_ejections(
            i, application[m], count[m], kinds[m], demand, weight, best, MAX_EJECTED, cost, found, ejected, trial, room,
            net.capacity[m],
        )  # fmt: skip
        if cost < best:
            best, where, entries = cost, m, found
            for e in range(found):
                out[0, e], out[1, e] = trial[0, e], trial[1, e]
    net.log[1] = m
    return where, entries


@inner
def _eject(apps: Applications, net: Network, m: int, entries: int, waiting: int) -> int:
    """Move the entries in `net.out` from machine m to the stack, which already holds `waiting` replicas.

    Returns the new height of the stack, or -1 if it is full.
    """
    gone = np.empty((2, entries), np.int64)
    for e in range(entries):
        gone[0, e], gone[1, e] = net.application[m, net.out[0, e]], net.out[1, e]
    for e in range(entries):
        for _ in range(gone[1, e]):
            if waiting == len(net.displaced):
                return -1
            remove_replica(apps, net, gone[0, e], m)
            net.displaced[waiting] = gone[0, e]
            waiting += 1
    return waiting


@inner
def _make_room(apps: Applications, net: Network, i: int, chain_length: int, examined: int) -> bool:
    """Place a replica of i by ejecting others, which eject others in turn, at most `chain_length` times.

    Returns False, with everything rolled back, if that does not suffice. A vertex that had to eject others weighs more
    from then on, so a chain does not go in circles (guided ejection, see `packing.repair`).
    """
    begun, waiting, step = net.log[0], 1, 0
    net.displaced[0] = i
    while waiting > 0:
        waiting -= 1
        k = int64(net.displaced[waiting])
        set_limits(apps, net, k)
        m = find_machine(apps, net, k, ANY)
        if m == NO_MACHINE and step < chain_length and net.log[0] + 2 * len(net.displaced) < len(net.journal):
            step += 1
            m, entries = _cheapest_ejection(apps, net, k, examined)
            if m != NO_MACHINE:
                waiting = _eject(apps, net, m, entries, waiting)
                net.weight[k] += INITIAL_WEIGHT
        found = m != NO_MACHINE and waiting >= 0
        if found:
            add_replica(apps, net, k, m)
        clear_limits(apps, net, k)
        if not found:
            roll_back(apps, net, begun)
            return False
    return True


@inner
def _place_replica(apps: Applications, net: Network, i: int, cheapest: bool, chain_length: int, examined: int) -> bool:
    """Place one replica of i and record all moves in the journal. Returns whether that was possible.

    cheapest: move others even if there is a direct path, where that costs less
    chain_length: replicas that may eject others if there is no direct path; 0: none
    examined: machines that are examined for each ejection
    """
    net.log[0] = 0
    set_limits(apps, net, i)
    m = find_machine(apps, net, i, ANY)
    clear_limits(apps, net, i)
    if cheapest:
        due = net.cost[net.kind[i], net.group[m]] if m != NO_MACHINE else np.inf
        if due > net.cost[net.kind[i], net.preference[net.kind[i], 0]] and _push_cheapest(apps, net, i, due):
            return True
    if m != NO_MACHINE:
        add_replica(apps, net, i, m)
        return True
    return chain_length > 0 and _make_room(apps, net, i, chain_length, examined)


@inner
def _count_migrations(net: Network) -> int:
    """Migrations in the journal: replicas that left their machine and did not return to it."""
    journal, rows, moves = net.journal, net.log[0], 0
    for row in range(rows):
        i, m = journal[row, 0], abs(journal[row, 1])
        gone, first = 0, True
        for other in range(rows):
            if journal[other, 0] == i and abs(journal[other, 1]) == m:
                first &= other >= row
                gone += 1 if journal[other, 1] < 0 else -1
        if first and gone > 0:
            moves += gone
    return moves


@njit
def place_all(
    apps: Applications,
    net: Network,
    queue: Int,
    left: Int,
    cheapest: bool,
    chain_length: int,
    examined: int,
    moved: Int,
) -> None:
    """Place the unplaced replicas of the vertices in `queue` (n,), in that order, as `_place_replica` does.

    After a replica that cannot be placed, the other replicas of its vertex are skipped.
    left: (V,) unplaced replicas, updated
    moved: (1,) migrations, updated: replicas that moved from one machine to another
    """
    for i in queue:
        while left[i] > 0:
            if not _place_replica(apps, net, i, cheapest, chain_length, examined):
                break
            left[i] -= 1
            if net.log[0] > 1:
                moved[0] += _count_migrations(net)
