"""Decision trees that predict the level of a service from the composition of the batch work on its machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.interference.observations import CATEGORIES, Levels, Observations
from tvwrl.interference.score_kernels import Trees, predict_levels
from tvwrl.types import Float, InputError, Int, Int32

LEAF_THRESHOLD = np.iinfo(np.int32).max  # no machine has as many instances
DEPTH, LEAF = 6, 20
PRESSURE_STEPS = 1000  # integers, because trees compare integers
NEGLIGIBLE = 1e-9  # levels per instance: rounding


@dataclass
class LevelPredictor:
    """A decision tree per service from the composition to the level (Section 5.5).

    Paper: a decision tree of the 60 counts, of unknown kind and size. Here: regression on the level, which is within 2
    levels more often than classification (`classify`), at most `DEPTH` deep with at least `leaf` records in a leaf.
    Unless `counts_alone`, a node may also test the pressure of the composition: a weighted sum of the counts, learnt
    from all services together, because tests of single counts approximate a sum poorly (docs/results/interference.md
    has the figures). Fitted: `trees_`.
    """

    leaf: int = LEAF
    counts_alone: bool = False
    classify: bool = False
    random_state: int = 0

    def fit(self, observations: Observations, levels: Levels) -> LevelPredictor:
        """Learn the tree of every service that has levels and records. Raises InputError if none has."""
        pressure = np.zeros(CATEGORIES, np.int32) if self.counts_alone else learn_pressure(observations, levels)
        fitted = {
            s: self._tree(_features(rows.composition, pressure), level)
            for s, rows, level in services_with_levels(observations, levels)
        }
        if not fitted:
            raise InputError("no service has enough response times for its levels: nothing to learn from")
        self.trees_ = _joined(fitted, len(observations.services))._replace(pressure=pressure)
        return self

    def predict(self, observations: Observations) -> Float:
        """(N,) levels in [1, k], NaN for services that were not learnt. Reads no response times."""
        return self.levels_of(observations.service, observations.composition)

    def levels_of(self, service: Int, composition: Int | Int32) -> Float:
        """(n,) levels of services (n,) beside compositions (n, 60); NaN for unknown services."""
        if composition.shape != (len(service), CATEGORIES):
            raise InputError(f"composition has shape {composition.shape}: must be ({len(service)}, {CATEGORIES})")
        levels = np.empty(len(service))
        predict_levels(self.trees_, service, composition, levels)
        return levels

    def _tree(self, features: Int, level: Int) -> tuple[Any, Float]:
        """A fitted tree and the level of each of its nodes."""
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        kind = DecisionTreeClassifier if self.classify else DecisionTreeRegressor
        found = kind(max_depth=DEPTH, min_samples_leaf=self.leaf, random_state=self.random_state)
        found.fit(features, level)
        values = found.tree_.value[:, 0]
        return found.tree_, found.classes_[values.argmax(axis=1)] if self.classify else values[:, 0]


def learn_pressure(observations: Observations, levels: Levels) -> Int32:
    """(60,) pressure of an instance of each category, 0..`PRESSURE_STEPS` for the strongest.

    Non-negative least squares of the level on the counts over the records of all services (Lawson and Hanson 1974): one
    more instance never helps. All 0 if levels depend on no count.
    """
    from scipy.optimize import nnls

    level = levels.level(observations.service, observations.response_ms)
    use = level > 0
    rows = np.column_stack([observations.composition[use], np.ones(use.sum()), level[use]]).astype(np.float64)
    small: Float = np.asarray(np.linalg.qr(rows, mode="r"))  # the same squares in 62 rows instead of one per record
    weights = nnls(small[:, :-1], small[:, -1])[0][:CATEGORIES]
    most = weights.max()
    steps: Int32 = np.rint(weights * (PRESSURE_STEPS / most if most > NEGLIGIBLE else 0.0)).astype(np.int32)
    return steps


def _features(composition: Int | Int32, pressure: Int32) -> Int:
    """(n, 61) features of trees: the counts and their total pressure."""
    return np.column_stack([composition, composition @ pressure.astype(np.int64)])


def _joined(fitted: dict[int, tuple[Any, Float]], services: int) -> Trees:
    """The fitted trees for kernels: nodes in breadth-first order, so that siblings are neighbours."""
    root, depth = np.full(services, -1, np.int32), np.zeros(services, np.int32)
    feature: list[int] = []
    threshold: list[int] = []
    left: list[int] = []
    level: list[float] = []
    for s, (tree, values) in fitted.items():
        first = root[s] = len(feature)
        depth[s] = tree.max_depth
        order = [0]
        for place, node in enumerate(order):
            leaf = tree.children_left[node] < 0
            left.append(first + (place if leaf else len(order)))
            feature.append(0 if leaf else tree.feature[node])
            threshold.append(LEAF_THRESHOLD if leaf else int(np.floor(tree.threshold[node])))
            level.append(values[node])
            order += [] if leaf else [tree.children_left[node], tree.children_right[node]]
    return Trees(
        root, depth, np.array(feature, np.uint8), np.array(threshold, np.int32), np.array(left, np.int32),
        np.array(level, np.float64),
    )  # fmt: skip


def services_with_levels(observations: Observations, levels: Levels) -> Iterator[tuple[int, Observations, Int]]:
    """Each service with levels, its records, and their levels."""
    level = levels.level(observations.service, observations.response_ms)
    for s, rows in enumerate(observations.by_service()):
        if len(rows) and level[rows[0]] > 0:
            yield s, observations.only(rows), level[rows]
