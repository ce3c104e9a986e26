"""Compiled placement with rerouting: replicas move so that more, or cheaper, flow gets through (Section 2.1).

Arguments as in `planning.flow.network_kernels`. A chain of moves that does not end in a complete placement is rolled
back.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing import INITIAL_WEIGHT, affinity_ejections, capacity_ejections, clear_limits, lacks, set_limits
from tvwrl.planning.flow.network_kernels import (
    ANY,
    NO_MACHINE,
    add_replica,
    find_in_group,
    find_machine,
    limits_allow,
    next_with_room,
    remove_replica,
    roll_back,
)

MAX_EJECTED = np.int64(64)  # replicas that one replica may eject from a machine
MAX_PATHS = 8  # shortest paths that are tried for one replica


@inner
def _shortest_paths(net, i, banned, before, via, distance):  # type: ignore[no-untyped-def]
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
def _replace_one(apps, net, i, g, t):  # type: ignore[no-untyped-def]
    """Place i on a machine of group g instead of a replica of kind t. Returns the vertex of that replica, or -1."""
    demand, residual, application, count, kinds = apps.demand, net.residual, net.application, net.count, net.kinds
    allows, bears, own, dimensions = net.allows, net.bears, apps.own[i], apps.demand.shape[1]
    capacity = net.capacity
    for at in range(net.begin[g], net.begin[g + 1]):
        m = np.int64(net.order[at])
        for w in range(kinds[m]):
            k = np.int64(application[m, w])
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
def _push_along(apps, net, i, path, kinds, length):  # type: ignore[no-untyped-def]
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
        i = np.int64(k)
    return length


@inner
def _push_cheapest(apps, net, i, most):  # type: ignore[no-untyped-def]
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
def _cheapest_ejection(apps, net, i, examined):  # type: ignore[no-untyped-def]
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
def _eject(apps, net, m, entries, waiting):  # type: ignore[no-untyped-def]
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
def _make_room(apps, net, i, chain_length, examined):  # type: ignore[no-untyped-def]
    """Place a replica of i by ejecting others, which eject others in turn, at most `chain_length` times.

    Returns False, with everything rolled back, if that does not suffice. A vertex that had to eject others weighs more
    from then on, so a chain does not go in circles (guided ejection, see `packing.repair`).
    """
    begun, waiting, step = net.log[0], 1, 0
    net.displaced[0] = i
    while waiting > 0:
        waiting -= 1
        k = np.int64(net.displaced[waiting])
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
def _place_replica(apps, net, i, cheapest, chain_length, examined):  # type: ignore[no-untyped-def]
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
def _count_migrations(net):  # type: ignore[no-untyped-def]
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
def place_all(apps, net, queue, left, cheapest, chain_length, examined, moved):  # type: ignore[no-untyped-def]
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
