"""Forecasts from the most similar training beginnings: what came after them will come again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.forecasting.base import Forecaster
from tvwrl.forecasting.beginnings import Beginnings, levels_of, outcome_levels
from tvwrl.forecasting.features import scale_of, scaled
from tvwrl.forecasting.naive import at_least
from tvwrl.forecasting.segments import SEGMENTS, Distribution

DIMENSIONS = 10  # principal components in which beginnings are compared


@dataclass(eq=False)
class Analogues(Forecaster):
    """The empirical distribution of what came after the k most similar training beginnings.

    Beginnings are similar if the principal components of their inputs are. For comparison only: it cannot be saved.
    """

    peak_units: int = 6
    step_seconds: int = 1800
    k: int = 40
    random_state: int = 0

    def _fit(self, drawn: list[Beginnings]) -> None:
        from scipy.spatial import KDTree
        from sklearn.decomposition import PCA

        inputs = np.concatenate([part.inputs(self.slots_per_day) for part in drawn])
        self.scale_ = scale_of(inputs)
        known = scaled(inputs, *self.scale_)
        self.components_ = PCA(min(DIMENSIONS, *known.shape), svd_solver="full").fit(known).components_
        self.tree_ = KDTree(known @ self.components_.T)
        self.most_, self.peak_, self.mean_ = outcome_levels(drawn, self.levels, self.peak_units)

    def _predict(self, beginnings: Beginnings) -> Distribution:
        k = min(self.k, len(self.most_))
        shown = scaled(beginnings.inputs(self.slots_per_day), *self.scale_)
        _, found = self.tree_.query(shown @ self.components_.T, k)
        near = np.asarray(found).reshape(len(beginnings), k)
        most = np.zeros((len(near), len(SEGMENTS), self.resources_, self.levels + 1), np.float32)
        peak = np.zeros((len(near), self.resources_, self.levels + 1), np.float32)
        mean = np.zeros(most.shape[:3], np.float32)
        for rows in near.T:
            most += self.most_[rows][..., None] == np.arange(self.levels + 1)
            peak += self.peak_[rows][..., None] == np.arange(self.levels + 1)
            mean += self.mean_[rows]
        last = levels_of(beginnings.last, self.levels, self.peak_units)
        rest = at_least(peak[..., 1:].astype(np.float64) / k, last).astype(np.float32)
        share = np.float32(1 / k)
        return Distribution(most * share, rest, mean * share, self.values_)
