"""Futures to sample: the continuations of training beginnings with similar forecasts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvwrl.forecasting.beginnings import Beginnings
from tvwrl.forecasting.segments import Distribution
from tvwrl.types import Float, Int

NEIGHBOURS = 48  # beginnings that a future is drawn from
DIMENSIONS = 10  # principal components of the forecasts in which they are compared
SPREAD_WEIGHT, LAST_WEIGHT = 0.5, 2.0  # of standard deviations, and of the last demand seen, in that comparison


class Continuations:
    """Training beginnings with their forecasts, to find those that are most like others.

    If the forecasts come from models that never saw these series, they err as they do on new workloads.
    """

    def __init__(self, beginnings: Beginnings, forecasts: Distribution, peak_units: int, random_state: int = 0) -> None:
        from scipy.spatial import KDTree
        from sklearn.decomposition import PCA

        self.beginnings, self._peak_units = beginnings, peak_units
        views = self._view(beginnings, forecasts)
        dimensions = min(DIMENSIONS, *views.shape)
        self._pca = PCA(dimensions, svd_solver="full", random_state=random_state).fit(views)
        self._tree = KDTree(self._pca.transform(views))

    def nearest(self, beginnings: Beginnings, forecasts: Distribution, count: int = NEIGHBOURS) -> Int:
        """(m, k) rows of `beginnings`, the most similar first; k is `count`, or all if there are fewer."""
        count = min(count, len(self.beginnings))
        _, found = self._tree.query(self._pca.transform(self._view(beginnings, forecasts)), count)
        rows: Int = np.asarray(found).reshape(len(beginnings), count)
        return rows

    def sample(
        self, beginnings: Beginnings, forecasts: Distribution, n: int, slots: int, rng: np.random.Generator
    ) -> Float:
        """(m, n, `slots`, D) units: continuations of similar beginnings, 0 once they ended."""
        near = self.nearest(beginnings, forecasts)
        chosen = np.take_along_axis(near, rng.integers(near.shape[1], size=(len(near), n)), axis=1)
        ahead = self.beginnings[chosen.ravel()].ahead(1, slots)
        return ahead.reshape(*chosen.shape, *ahead.shape[1:])

    def _view(self, beginnings: Beginnings, forecasts: Distribution) -> Float:
        """(m, F) what makes beginnings alike: means and deviations of their forecasts, and their last demand."""
        values = forecasts.values
        parts: list[npt.NDArray[np.floating]] = [forecasts.mean, forecasts.alive]
        for chances in (forecasts.most, forecasts.peak):
            mean = chances @ values
            deviation = np.sqrt(np.maximum(chances @ values**2 - mean**2, 0.0))
            parts += [mean, SPREAD_WEIGHT * deviation]
        parts.append(LAST_WEIGHT * beginnings.last / self._peak_units)
        return np.concatenate([part.reshape(len(beginnings), -1) for part in parts], axis=1)
