"""Forecasts from the most similar training beginnings: what came after them will come again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvwrl.forecasting.base import Forecaster
from tvwrl.forecasting.beginnings import Beginnings, Outcomes, levels_of
from tvwrl.forecasting.naive import at_least
from tvwrl.forecasting.segments import SEGMENTS, Distribution

DIMENSIONS = 10  # principal components in which beginnings are compared
FARTHEST = 5.0  # standard deviations to which inputs are cut


@dataclass(eq=False)
class Analogues(Forecaster):
    """The empirical distribution of what came after the k most similar training beginnings.

    Beginnings are similar if the principal components of their inputs are. For comparison only: it cannot be saved, and
    a training series finds itself among its neighbours.
    """

    peak_units: int = 6
    step_seconds: int = 1800
    k: int = 40
    random_state: int = 0

    def _fit(self, drawn: list[Beginnings]) -> None:
        from scipy.spatial import KDTree
        from sklearn.decomposition import PCA

        inputs = np.concatenate([part.inputs(self.slots_per_day) for part in drawn])
        spread = inputs.std(axis=0)
        self.shift_, self.width_ = inputs.mean(axis=0), np.where(spread > 1e-6, spread, 1.0).astype(np.float32)
        scaled = self._scaled(inputs)
        self.components_ = PCA(min(DIMENSIONS, *scaled.shape), svd_solver="full").fit(scaled).components_
        self.tree_ = KDTree(scaled @ self.components_.T)
        outcomes = [Outcomes.of(part) for part in drawn]
        self.most_, self.peak_ = (
            np.concatenate(parts)
            for parts in zip(*(one.levels(self.levels, self.peak_units) for one in outcomes), strict=True)
        )
        self.mean_ = np.concatenate([one.mean for one in outcomes]).astype(np.float32) / self.peak_units

    def _scaled(self, inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        scaled: npt.NDArray[np.float32] = np.clip((inputs - self.shift_) / self.width_, -FARTHEST, FARTHEST)
        return scaled

    def predict(self, beginnings: Beginnings) -> Distribution:
        """See `Forecaster.predict`."""
        k = min(self.k, len(self.most_))
        _, found = self.tree_.query(self._scaled(beginnings.inputs(self.slots_per_day)) @ self.components_.T, k)
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
