"""Compiled searches behind the lower bounds of `packing.bounds`.

`share` (N, T, D) is demand by slot as a share of a machine, 0 where the workload does not run; it runs in slots
start .. finish - 1. A group fits a machine if no sum of shares exceeds 1. The rule of `packing.fit` would refuse no
group less: shares are of capacities enlarged by twice its tolerance (`fit.enlarged`), so that whatever fits by it stays
at 1 or below after rounding. Plain loops only: they compile in a fraction of the time that array expressions take.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inner, njit


@njit
def fewest_bins(sizes):  # type: ignore[no-untyped-def]
    """Lower bound (a real number) on the bins of size 1 that hold `sizes` (n,), rising, each in [0, 1].

    The bound L2 of Martello and Toth (1990) as the dual feasible functions of Fekete and Schepers (2001): for each e in
    [0, 1/2] a size above 1 - e counts 1 (nothing from e on fits beside it), one below e counts 0, any other itself.
    """
    first, last, between = 0, len(sizes), 0.0  # sizes e .. 1 - e are first .. last - 1
    for size in sizes:
        between += size
    best = between
    for i in range(len(sizes)):
        e = min(sizes[i], 0.5)
        while first < last and sizes[first] < e:
            between -= sizes[first]
            first += 1
        while first < last and sizes[last - 1] > 1.0 - e:
            last -= 1
            between -= sizes[last]
        best = max(best, between + (len(sizes) - last))
        if sizes[i] > 0.5:
            break
    return best


@njit
def fewest_in_any_slot(members, share, begin, end):  # type: ignore[no-untyped-def]
    """The largest `fewest_bins` of `members` (n,) over slots begin .. end - 1 and resources."""
    best, sizes = 0.0, np.zeros(len(members))
    for t in range(begin, end):
        for d in range(share.shape[2]):
            most = 0.0  # `fewest_bins` gives no more: only a size above one half can count for more than it is
            for i in members:
                most += 1.0 if share[i, t, d] > 0.5 else share[i, t, d]
            if most > best:
                for n in range(len(members)):  # sorted by insertion
                    place, size = n, share[members[n], t, d]
                    while place > 0 and sizes[place - 1] > size:
                        sizes[place] = sizes[place - 1]
                        place -= 1
                    sizes[place] = size
                best = max(best, fewest_bins(sizes))
    return best


@njit
def clashes(share, start, finish):  # type: ignore[no-untyped-def]
    """(N, N) bool: pairs of workloads that exceed a machine in some slot in which both run."""
    count = len(share)
    clash = np.zeros((count, count), np.bool_)
    for i in range(count):
        for j in range(i):
            for t in range(max(start[i], start[j]), min(finish[i], finish[j])):
                for d in range(share.shape[2]):
                    if share[i, t, d] + share[j, t, d] > 1.0:
                        clash[i, j] = clash[j, i] = True
    return clash


@njit
def clique(members, clash):  # type: ignore[no-untyped-def]
    """Size of a set of `members` (n,) of which every two clash: from each of them greedily on, in the order given."""
    best, chosen = 0, np.zeros(len(members), np.int64)
    for first in members:
        chosen[0], size = first, 1
        for i in members:
            joins = True
            for c in range(size):
                joins = joins and clash[i, chosen[c]]
            if joins:
                chosen[size] = i
                size += 1
        best = max(best, size)
    return best


@inner
def _fits_for_life(load, share, i, start, finish):  # type: ignore[no-untyped-def]
    """Whether a machine with `load` (T, D) has room for workload i in every slot of its life."""
    for t in range(start[i], finish[i]):
        for d in range(share.shape[2]):
            if load[t, d] + share[i, t, d] > 1.0:
                return False
    return True


@inner
def _add(load, share, i, loaded):  # type: ignore[no-untyped-def]
    """Write to `loaded` (T, D), which may be `load` itself, the load of a machine with workload i on it too."""
    for t in range(len(load)):
        for d in range(share.shape[2]):
            loaded[t, d] = load[t, d] + share[i, t, d]


@njit
def first_fit(order, share, start, finish):  # type: ignore[no-untyped-def]
    """Machines that first fit needs for the workloads of `order` (n,), each in the first that has room all its life."""
    load, used = np.zeros((len(order), share.shape[1], share.shape[2])), 0
    for i in order:
        machine = 0
        while machine < used and not _fits_for_life(load[machine], share, i, start, finish):
            machine += 1
        used = max(used, machine + 1)
        _add(load[machine], share, i, load[machine])
    return used


@njit
def maximal_groups(members, share, start, finish, most, steps):  # type: ignore[no-untyped-def]
    """Every group of `members` (n,) that fits a machine and to which none can be added: (most, n) bool, and how many.

    It is 0 if there are more than `most`, or if more than `steps` groups had to be looked at.
    """
    count = len(members)
    groups, inside = np.zeros((most, count), np.bool_), np.zeros(count, np.bool_)
    # A load per depth rather than one to take workloads off again: a difference of floats would not be exact
    load, last = np.zeros((count + 1, share.shape[1], share.shape[2])), np.zeros(count, np.int64)
    found, depth, candidate = 0, 0, 0
    while steps > 0:
        while candidate < count:  # add whatever still fits, in order
            i = members[candidate]
            if _fits_for_life(load[depth], share, i, start, finish):
                _add(load[depth], share, i, load[depth + 1])
                last[depth], inside[candidate] = candidate, True
                depth, steps = depth + 1, steps - 1
            candidate += 1
        maximal = True
        for a in range(count):
            maximal = maximal and (inside[a] or not _fits_for_life(load[depth], share, members[a], start, finish))
        if maximal and found == most:
            break
        if maximal:
            for a in range(count):
                groups[found, a] = inside[a]
            found += 1
        if depth == 0:
            return groups, found
        depth -= 1  # take the newest out again and go on after it
        candidate = last[depth] + 1
        inside[candidate - 1] = False
    return groups, 0
