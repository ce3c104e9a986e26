"""Forecasters that the network is compared with: simple ones, likenesses of the past, boosted trees; and all by name.

Letters: m beginnings, J segments, D resources, V levels of demand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tvwrl.checks import one_of
from tvwrl.forecasting.base import Forecaster
from tvwrl.forecasting.beginnings import Beginnings, levels_of, outcome_levels, scale_of, scaled
from tvwrl.forecasting.drift import Drift
from tvwrl.forecasting.naive import LastValue, MeanAndDeviation, Percentiles, SameHourYesterday, at_least
from tvwrl.forecasting.network import NetworkForecaster
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
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        inputs = np.concatenate([part.inputs(self.slots_per_day) for part in drawn])
        most, peak, mean = outcome_levels(drawn, self.levels, self.peak_units)
        largest = self.values_[most].mean(axis=0)
        self.ratio_ = mean.mean(axis=0) / np.maximum(largest, 1e-9)  # of mean to largest demand in a segment
        targets = np.concatenate([most.reshape(len(most), -1), peak], axis=1)
        rng = np.random.default_rng([self.random_state, 5])
        rows = rng.permutation(len(inputs))[: self.examples]
        self.trees_: list[Any] = []  # a fitted classifier, or the only level that occurs
        for target in targets[rows].T:
            if len(found := np.unique(target)) == 1:
                self.trees_.append(int(found[0]))
                continue
            classifier = HistGradientBoostingClassifier(
                max_iter=self.trees,
                max_leaf_nodes=self.leaves,
                learning_rate=self.learning_rate,
                early_stopping=False,
                random_state=self.random_state,
            )
            with threadpool_limits(1):
                self.trees_.append(classifier.fit(inputs[rows], target))

    def _predict(self, beginnings: Beginnings) -> Distribution:
        inputs = beginnings.inputs(self.slots_per_day)
        chances = np.zeros((len(inputs), len(self.trees_), self.levels + 1), np.float32)
        for column, tree in enumerate(self.trees_):
            if isinstance(tree, int):
                chances[:, column, tree] = 1.0
            else:
                chances[:, column, tree.classes_] = tree.predict_proba(inputs)
        wide = len(SEGMENTS) * self.resources_
        most = chances[:, :wide].reshape(len(inputs), len(SEGMENTS), self.resources_, -1)
        mean = most @ self.values_ * self.ratio_
        return Distribution(most, chances[:, wide:], mean.astype(np.float32), self.values_)


FORECASTERS: dict[str, Callable[..., Forecaster]] = {
    "network": NetworkForecaster,
    "last-value": LastValue,
    "drift": Drift,
    "normal-2h": partial(MeanAndDeviation, hours=2.0),
    "normal-day": partial(MeanAndDeviation, hours=24.0),
    "percentiles": Percentiles,
    "yesterday": SameHourYesterday,
    "analogues": Analogues,
    "boosting": BoostedTrees,
}
REFERENCE = "last-value"  # skills are measured against it


def make_forecaster(name: str, peak_units: int, step_seconds: int, random_state: int = 0) -> Forecaster:
    """Make an unfitted forecaster by its name.

    Parameters
    ----------
    name : str
        network, last-value, drift, normal-2h, normal-day, percentiles, yesterday, analogues or boosting.
    peak_units : int
        Largest demand, units.
    step_seconds : int
        Length of a slot, seconds.
    random_state : int
        Seed of what it draws.

    Returns
    -------
    Forecaster
        The forecaster.

    Raises
    ------
    InputError
        For a name that is not registered; it lists those that are.

    Examples
    --------
    >>> make_forecaster("last-value", peak_units=6, step_seconds=1800)
    LastValue(peak_units=6, step_seconds=1800, random_state=0)
    """
    one_of(FORECASTERS, forecaster=name)
    return FORECASTERS[name](peak_units=peak_units, step_seconds=step_seconds, random_state=random_state)
