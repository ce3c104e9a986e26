"""Compiled evaluation of decision trees: levels of services, and scores of machines from their composition.

Categories are 0..59, levels 1..k. A machine's score is the weighted mean of the levels predicted for its services
(Section 5.4.2): NaN where none of them was learnt, 0 where the machine has no services.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import inner, njit
from tvwrl.interference.observations import CATEGORIES, MonitoredMachines
from tvwrl.types import Byte, Float, Int, Int32

Nodes = npt.NDArray[np.uint32]


class Trees(NamedTuple):
    """One decision tree per service, the nodes of all trees in one array.

    The right child follows the left one. A leaf is its own left child and has a threshold that no count exceeds, so a
    walk of `depth` steps needs no test for leaves. A node tests the number of instances of a category or, as feature
    60, the composition's pressure: the sum of `pressure` over all instances.
    """

    root: Int32  # (services,) node, -1 = service not learnt
    depth: Int32  # (services,) steps from the root to the deepest leaf
    feature: Byte  # (nodes,) category, or 60
    threshold: Int32  # (nodes,) instances or pressure: greater values go right
    left: Int32  # (nodes,) left child
    level: Float  # (nodes,) in [1, k]
    pressure: Int32 = np.zeros(CATEGORIES, np.int32)  # (60,) >= 0 of an instance by category


_NONE = np.zeros(0, np.int32)
# No trees: placement falls back on CPU utilisation, the baseline that PISM must beat
UTILISATION_ALONE = Trees(_NONE, _NONE, np.zeros(0, np.uint8), _NONE, _NONE, np.zeros(0))


@njit(inline="always")
def score_machine(
    m: int,
    first: Int,
    service: Int32,
    weight: Float,
    composition: Int32,
    root: Int32,
    depth: Int32,
    feature: Byte,
    threshold: Int32,
    left: Int32,
    level: Float,
    pressure: Int32,
    nodes: Nodes,
    weights: Float,
    values: Int32,
) -> float:
    """Score of machine m with its present composition.

    `first` (M + 1,): services of machine m are rows first[m] .. first[m + 1] - 1
    `service`, `weight` (rows,): the service of each row, and how much it counts, >= 0
    `composition` (M, 60)
    `root` to `pressure`: fields of `Trees`, as numba reads arrays faster than tuples
    `nodes`, `weights`, `values`: from `score_scratch`

    All its trees advance together, step by step: a single walk would wait for memory at every step.
    """
    _features(composition[m], pressure, values)
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
            nodes[i] = np.uint32(left[node]) + np.uint32(values[feature[node]] > threshold[node])
    total = whole = 0.0
    for i in range(known):
        total += weights[i] * level[nodes[i]]
        whole += weights[i]
    if known > 0:
        return total / whole
    return 0.0 if first[m] == first[m + 1] else np.nan


@njit(inline="always")
def _features(counts: Int | Int32, pressure: Int32, values: Int32) -> None:
    """Writes the features that trees test into `values` (61,): the counts (60,), then their total pressure."""
    total = np.int32(0)
    for c in range(CATEGORIES):
        values[c] = counts[c]
        total += np.int32(counts[c]) * pressure[c]
    values[CATEGORIES] = total


@inner
def score_scratch(first: Int) -> tuple[Nodes, Float, Int32]:
    """Scratch arrays of `score_machine`: nodes and weights of one machine's services, and feature values.

    Unsigned nodes spare the loop a test for negative indices.
    """
    most = 0
    for m in range(len(first) - 1):
        most = max(most, first[m + 1] - first[m])
    return np.empty(most, np.uint32), np.empty(most), np.empty(CATEGORIES + 1, np.int32)


@inner
def score_one(machines: MonitoredMachines, trees: Trees, weight: Float, m: int) -> float:
    """Score of machine m with its present composition."""
    root, depth, feature, threshold, left, level, pressure = trees
    nodes, weights, values = score_scratch(machines.first[m : m + 2])
    return score_machine(
        m, machines.first, machines.service, weight, machines.composition,
        root, depth, feature, threshold, left, level, pressure, nodes, weights, values,
    )  # fmt: skip


@njit
def score_machines(
    machines: MonitoredMachines, trees: Trees, weight: Float, category: int, which: Int, out: Float
) -> None:
    """Writes into `out` (n,) the scores of machines `which` (n,) with one more instance of `category` (-1: none).

    `weight` (rows of machines.service,) >= 0.
    """
    first, service, composition = machines.first, machines.service, machines.composition
    root, depth, feature, threshold, left, level, pressure = trees
    nodes, weights, values = score_scratch(first)
    for i in range(len(out)):
        m = which[i]
        if category >= 0:
            composition[m, category] += 1
        out[i] = score_machine(
            m, first, service, weight, composition,
            root, depth, feature, threshold, left, level, pressure, nodes, weights, values,
        )  # fmt: skip
        if category >= 0:
            composition[m, category] -= 1


@njit
def predict_levels(trees: Trees, service: Int, composition: Int | Int32, out: Float) -> None:
    """Writes into `out` (n,) the levels of services (n,) beside compositions (n, 60); NaN for unknown services."""
    root, depth, feature, threshold, left, level, pressure = trees
    values = np.empty(CATEGORIES + 1, np.int32)
    for i in range(len(out)):
        s = service[i]
        out[i] = np.nan
        if 0 <= s < len(root) and root[s] >= 0:
            _features(composition[i], pressure, values)
            node = root[s]
            for _ in range(depth[s]):
                node = left[node] + (values[feature[node]] > threshold[node])
            out[i] = level[node]
