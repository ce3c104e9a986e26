"""Compiled loops of PISM: decision trees, scores of machines, and placing the instances of a batch task.

Categories are 0..59, levels 1..k; a score is the weighted mean of the levels predicted for a machine's services
(Section 5.4.2), NaN where nothing is known of any of them, 0 where there is none that could be disturbed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tvwrl.interference.observations import CATEGORIES
from tvwrl.packing.fit import exceeds
from tvwrl.schedulers.load_aware import load_aware, risk_balancing, spread, stack, target_load_packing

SPREAD, STACK, RANDOM, LOAD_AWARE, TARGET_LOAD_PACKING, RISK_BALANCING = range(6)


class Trees(NamedTuple):
    """One decision tree per service, all nodes in one array: the right child follows the left one, and a leaf is its
    own left child with a threshold that no count passes, so that a walk of `depth` steps needs no test for the end.

    A node asks for the number of instances of a category, or, as feature 60, for the pressure of all: the sum of
    `pressure` of every instance.
    """

    root: Any  # (services,) int32 node, -1 = nothing was learnt of the service
    depth: Any  # (services,) int32 steps
    feature: Any  # (nodes,) uint8 category, or 60
    threshold: Any  # (nodes,) int32 instances or pressure: more goes to the right
    left: Any  # (nodes,) int32 node
    level: Any  # (nodes,) float64 in [1, k]
    pressure: Any = np.zeros(CATEGORIES, np.int32)  # (60,) >= 0 of an instance by category


_NONE = np.zeros(0, np.int32)
UTILISATION_ALONE = Trees(
    _NONE, _NONE, np.zeros(0, np.uint8), _NONE, _NONE, np.zeros(0)
)  # no trees: what PISM must beat


@njit(cache=True, inline="always")
def score_machine(  # type: ignore[no-untyped-def]
    m,
    first,
    service,
    weight,
    composition,
    root,
    depth,
    feature,
    threshold,
    left,
    level,
    pressure,
    nodes,
    weights,
    asked,
):
    """Score of machine m as its composition stands; `nodes`, `weights`, `asked` are scratch (`scratch_of`).

    All its trees are walked at the same time, step by step: one walk alone waits for memory at every step.
    """
    _features(composition[m], pressure, asked)
    known, steps = 0, 0
    for row in range(first[m], first[m + 1]):
        s = service[row]
        if 0 <= s < len(root) and root[s] >= 0 and weight[row] > 0.0:
            nodes[known], weights[known] = root[s], weight[row]
            steps = max(steps, depth[s])
            known += 1
    for _ in range(steps):
        for i in range(known):
            node = nodes[i]
            nodes[i] = np.uint32(left[node]) + np.uint32(asked[feature[node]] > threshold[node])
    total = whole = 0.0
    for i in range(known):
        total += weights[i] * level[nodes[i]]
        whole += weights[i]
    if known > 0:
        return total / whole
    return 0.0 if first[m] == first[m + 1] else np.nan


@njit(cache=True, inline="always")
def _features(counts, pressure, asked):  # type: ignore[no-untyped-def]
    """What trees may ask for, into `asked` (61,): the counts (60,), and the pressure of all."""
    pressed = np.int32(0)
    for c in range(CATEGORIES):
        asked[c] = counts[c]
        pressed += np.int32(counts[c]) * pressure[c]
    asked[CATEGORIES] = pressed


@njit(cache=True)
def scratch_of(first):  # type: ignore[no-untyped-def]
    """Nodes and weights for as many services as a machine has at most, and what trees may ask for.

    Nodes are unsigned, which spares the loop a test for negative numbers at every use.
    """
    most = 0
    for m in range(len(first) - 1):
        most = max(most, first[m + 1] - first[m])
    return np.empty(most, np.uint32), np.empty(most), np.empty(CATEGORIES + 1, np.int32)


@njit(cache=True)
def score_one(machines, trees, weight, m):  # type: ignore[no-untyped-def]
    """Score of machine m as it stands."""
    root, depth, feature, threshold, left, level, pressure = trees
    nodes, weights, asked = scratch_of(machines.first[m : m + 2])
    return score_machine(
        m, machines.first, machines.service, weight, machines.composition,
        root, depth, feature, threshold, left, level, pressure, nodes, weights, asked,
    )  # fmt: skip


@njit(cache=True)
def score_machines(machines, trees, weight, category, which, out):  # type: ignore[no-untyped-def]
    """Score of each of the machines `which` (n,) with one more instance of `category`, as it stands for -1, into `out`
    (n,).

    `weight` (rows of machines.service,) >= 0.
    """
    first, service, composition = machines.first, machines.service, machines.composition
    root, depth, feature, threshold, left, level, pressure = trees
    nodes, weights, asked = scratch_of(first)
    for i in range(len(out)):
        m = which[i]
        if category >= 0:
            composition[m, category] += 1
        out[i] = score_machine(
            m, first, service, weight, composition,
            root, depth, feature, threshold, left, level, pressure, nodes, weights, asked,
        )  # fmt: skip
        if category >= 0:
            composition[m, category] -= 1


@njit(cache=True)
def predict_levels(trees, service, composition, out):  # type: ignore[no-untyped-def]
    """Level of each pair of service (n,) and composition (n, 60) into `out` (n,), NaN for unknown services."""
    root, depth, feature, threshold, left, level, pressure = trees
    asked = np.empty(CATEGORIES + 1, np.int32)
    for i in range(len(out)):
        s = service[i]
        out[i] = np.nan
        if 0 <= s < len(root) and root[s] >= 0:
            _features(composition[i], pressure, asked)
            node = root[s]
            for _ in range(depth[s]):
                node = left[node] + (asked[feature[node]] > threshold[node])
            out[i] = level[node]


@njit(cache=True, inline="always")
def _preference(kind, cpu, memory, cores, capacity, more_cpu, more_memory, moments):  # type: ignore[no-untyped-def]
    """How well a scheduler likes a machine; `moments` (2, 2) as of `load_aware.remember`."""
    share, memory_share = (cpu + more_cpu) / cores, (memory + more_memory) / capacity
    if kind == RANDOM:
        return 0.0
    if kind == STACK:
        return stack(share)
    if kind == LOAD_AWARE:
        return load_aware(share, memory_share)
    if kind == TARGET_LOAD_PACKING:
        return target_load_packing(share)
    if kind == RISK_BALANCING:
        mean, deviation = moments[0, 0] + more_cpu / cores, np.sqrt(moments[0, 1])
        return risk_balancing(mean, deviation, moments[1, 0] + more_memory / capacity, np.sqrt(moments[1, 1]))
    return spread(share)


@njit(cache=True, inline="always")
def takes(m, cpu, memory, in_use, cores, used, capacity):  # type: ignore[no-untyped-def]
    """Whether machine m has room for `cpu` cores beside those `in_use` (M,) of `cores` (M,), and for `memory` beside
    what is `used` (M,) of `capacity` (M,)."""
    return not (exceeds(in_use[m] + cpu, cores[m]) or exceeds(used[m] + memory, capacity[m]))


@njit(cache=True)
def _best(liking, chosen):  # type: ignore[no-untyped-def]
    """The machines liked best, best first, into `chosen` (candidates,); ties by number. Returns how many there are.

    Where all are candidates they are not sorted.
    """
    count, most = 0, len(chosen)
    if most == len(liking):
        for m in range(most):
            chosen[count] = m
            count += liking[m] > -np.inf
        return count
    for m in range(len(liking)):
        if liking[m] == -np.inf or (count == most and liking[m] <= liking[chosen[most - 1]]):
            continue
        place = count if count < most else most - 1
        while place > 0 and liking[chosen[place - 1]] < liking[m]:
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = m
        count = min(count + 1, most)
    return count


@njit(cache=True)
def _drawn(liking, chosen, rng):  # type: ignore[no-untyped-def]
    """Different machines with room, drawn evenly, into `chosen` (candidates,). Returns how many there are."""
    total, most, count = len(liking), len(chosen), 0
    for _ in range(8 * most):
        m = int(rng.random() * total)
        if liking[m] > -np.inf and not (chosen[:count] == m).any():
            chosen[count] = m
            count += 1
            if count == most:
                return count
    count = 0  # few have room: see all of them, each of the first `most` being replaced with falling probability
    seen = 0
    for m in range(total):
        if liking[m] > -np.inf:
            seen += 1
            place = count if count < most else int(rng.random() * seen)
            count = min(count + 1, most)
            if place < most:
                chosen[place] = m
    for i in range(count - 1, 0, -1):  # in a random order
        j = int(rng.random() * (i + 1))
        chosen[i], chosen[j] = chosen[j], chosen[i]
    return count


@njit(cache=True)
def place_instances(  # type: ignore[no-untyped-def]
    machines, trees, weight, history, kind, category, cpu, memory, candidates, since, rng, placed
):
    """Places instances of one task, one after the other, and books each on its machine; returns how many found room.

    Each goes, of the `candidates` machines with room that the scheduler of `kind` (one of the codes above) likes best,
    to the one with the lowest score after it has come; the same score: to the one liked best, of RANDOM to any. 1
    candidate: the scheduler alone; as many as machines: PISM alone. Machines not heard of since second `since`, or with
    nothing known of their services, are taken only where no candidate is known. A category outside 0..59 leaves the
    scheduler alone, and is not booked in the composition. Without any tree the score is the share of the CPU in use.

    `weight` (rows of machines.service,); `history` (M, 2, 2) as of `load_aware.remember`, read by RISK_BALANCING only;
    `cpu` cores and `memory` that one instance uses; `placed` (instances,) int64 gets the machines, -1 = no room;
    `rng`: numpy Generator, read by RANDOM only.
    """
    total = len(machines.cores)
    known = 0 <= category < machines.composition.shape[1]
    most = min(candidates, total) if known else 1
    first, service, composition = machines.first, machines.service, machines.composition
    root, depth, feature, threshold, left, level, pressure = trees
    cores, capacity, in_use, used, batch = (
        machines.cores, machines.memory, machines.cpu, machines.used_memory, machines.batch_cpu
    )  # fmt: skip
    nodes, weights, asked = scratch_of(first)
    liking, after, chosen = np.empty(total), np.full(total, -1.0), np.empty(most, np.int64)  # -1: not scored yet
    for m in range(total):
        liking[m] = -np.inf
        if takes(m, cpu, memory, in_use, cores, used, capacity):
            liking[m] = _preference(kind, in_use[m], used[m], cores[m], capacity[m], cpu, memory, history[m])
    for i in range(len(placed)):
        count = _drawn(liking, chosen, rng) if kind == RANDOM and most < total else _best(liking, chosen)
        if count == 0:
            placed[i:] = -1
            return i
        best, lowest, equal = chosen[0], np.inf, 0
        for j in range(count if most > 1 else 0):
            m = chosen[j]
            if after[m] == -1.0:
                after[m] = np.inf
                if len(level) == 0:
                    after[m] = (in_use[m] + cpu) / cores[m]
                elif machines.heard[m] >= since:
                    composition[m, category] += 1
                    score = score_machine(
                        m, first, service, weight, composition,
                        root, depth, feature, threshold, left, level, pressure, nodes, weights, asked,
                    )  # fmt: skip
                    composition[m, category] -= 1
                    after[m] = score if score == score else np.inf
            if after[m] < lowest:
                best, lowest, equal = m, after[m], 1
            elif after[m] == lowest:
                equal += 1
                if liking[m] > liking[best] or (kind == RANDOM and rng.random() * equal < 1.0):
                    best = m
        placed[i] = best
        in_use[best] += cpu
        batch[best] += cpu
        used[best] += memory
        if known:
            composition[best, category] += 1
        after[best] = -1.0
        liking[best] = -np.inf
        if takes(best, cpu, memory, in_use, cores, used, capacity):
            liking[best] = _preference(
                kind, in_use[best], used[best], cores[best], capacity[best], cpu, memory, history[best]
            )
    return len(placed)
