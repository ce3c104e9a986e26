"""Gradient-boosted trees: for each segment and resource, probabilities of the levels of the largest demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.forecasting.base import Forecaster
from tvwrl.forecasting.beginnings import Beginnings, outcome_levels
from tvwrl.forecasting.segments import SEGMENTS, Distribution
from tvwrl.types import Int


@dataclass(eq=False)
class BoostedTrees(Forecaster):
    """A boosted classifier (scikit-learn's HistGradientBoostingClassifier) for each segment and resource.

    For comparison only: it is slow and cannot be saved.
    """

    peak_units: int = 6
    step_seconds: int = 1800
    trees: int = 40
    leaves: int = 15
    learning_rate: float = 0.1
    examples: int = 18_000  # at most, drawn from all
    random_state: int = 0

    def _fit(self, drawn: list[Beginnings]) -> None:
        inputs = np.concatenate([part.inputs(self.slots_per_day) for part in drawn])
        most, peak, mean = outcome_levels(drawn, self.levels, self.peak_units)
        largest = self.values_[most].mean(axis=0)
        self.ratio_ = mean.mean(axis=0) / np.maximum(largest, 1e-9)  # of mean to largest demand in a segment
        targets = np.concatenate([most.reshape(len(most), -1), peak], axis=1)
        rng = np.random.default_rng([self.random_state, 5])
        rows = rng.permutation(len(inputs))[: self.examples]
        self.trees_ = [self._classifier(inputs[rows], target) for target in targets[rows].T]

    def _classifier(self, inputs: Any, target: Int) -> Any:
        """A fitted classifier, or the only level that occurs."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        if len(found := np.unique(target)) == 1:
            return int(found[0])
        classifier = HistGradientBoostingClassifier(
            max_iter=self.trees,
            max_leaf_nodes=self.leaves,
            learning_rate=self.learning_rate,
            early_stopping=False,
            random_state=self.random_state,
        )
        with threadpool_limits(1):
            return classifier.fit(inputs, target)

    def _predict(self, beginnings: Beginnings) -> Distribution:
        inputs = beginnings.inputs(self.slots_per_day)
        chances = np.stack([self._chances(tree, inputs) for tree in self.trees_], axis=1, dtype=np.float32)
        wide = len(SEGMENTS) * self.resources_
        most = chances[:, :wide].reshape(len(inputs), len(SEGMENTS), self.resources_, -1)
        mean = most @ self.values_ * self.ratio_
        return Distribution(most, chances[:, wide:], mean.astype(np.float32), self.values_)

    def _chances(self, tree: Any, inputs: Any) -> npt.NDArray[np.float32]:
        """(m, V + 1) probabilities of levels."""
        chances = np.zeros((len(inputs), self.levels + 1), np.float32)
        if isinstance(tree, int):
            chances[:, tree] = 1.0
        else:
            chances[:, tree.classes_] = tree.predict_proba(inputs)
        return chances
