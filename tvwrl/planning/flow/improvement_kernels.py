"""Compiled improvement of a placement: replicas move to cheaper groups, and off machines that can be emptied.

Arguments as in `planning.flow.network_kernels`.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing import clear_limits, set_limits
from tvwrl.planning.flow.network_kernels import (
    NO_MACHINE,
    USED,
    add_replica,
    find_in_group,
    find_machine,
    remove_replica,
    roll_back,
    update_trees,
)


@njit
def cancel_cycles(apps, net, moved):  # type: ignore[no-untyped-def]
    """Cancel negative cycles of one move: replicas move to cheaper groups that have room. Returns how many moved."""
    before = moved[0]
    for m in range(len(net.kinds)):
        w = 0
        while w < net.kinds[m]:
            i, net.log[0] = np.int64(net.application[m, w]), 0
            here = net.cost[net.kind[i], net.group[m]]
            for g in net.preference[net.kind[i]]:
                if net.cost[net.kind[i], g] >= here:
                    break
                set_limits(apps, net, i)
                to = find_in_group(apps, net, i, np.int64(g), USED)
                clear_limits(apps, net, i)
                if to != NO_MACHINE:
                    remove_replica(apps, net, i, m)
                    add_replica(apps, net, i, to)
                    moved[0] += 1
                    break
            if net.log[0] == 0:
                w += 1  # otherwise the entry now holds another replica
    return moved[0] - before


@inner
def empty_machine(apps, net, m):  # type: ignore[no-untyped-def]
    """Move all replicas of machine m to others in use, or none of them. Returns how many moved."""
    net.log[0] = 0
    begun = net.log[0]
    up, net.up[m] = net.up[m], False
    update_trees(net, m)
    moves = 0
    while net.kinds[m] > 0 and net.log[0] + 2 < len(net.journal):
        i = np.int64(net.application[m, 0])
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
def consolidate(apps, net, order, moved):  # type: ignore[no-untyped-def]
    """Try to empty the machines of `order` (n,) in turn. Returns how many were emptied."""
    closed = 0
    for m in order:
        if net.kinds[m] > 0:
            moves = empty_machine(apps, net, np.int64(m))
            moved[0] += moves
            closed += moves > 0
    return closed
