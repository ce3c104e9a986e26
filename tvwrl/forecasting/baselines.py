"""Forecasters that the network is compared with: simple ones, likenesses of the past, boosted trees; and all by name.

Letters: m beginnings, J segments, D resources, V levels of demand.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tvwrl.checks import one_of
from tvwrl.forecasting.base import Forecaster
from tvwrl.forecasting.beginnings import Beginnings, levels_of, outcome_levels, scale_of, scaled
from tvwrl.forecasting.network import NetworkForecaster
from tvwrl.forecasting.segments import HORIZON, SEGMENTS, Distribution
from tvwrl.types import Float, Int


@dataclass(eq=False)
class NaiveForecaster(Forecaster):
    """What a running workload needs follows from its own past; whether it runs, from how long training windows ran.

    No window is censored, so the Kaplan-Meier estimate of survival is the share that lived on.
    """

    peak_units: int = 6
    step_seconds: int = 1800
    random_state: int = 0

    def _fit(self, drawn: list[Beginnings]) -> None:
        self.lengths_ = np.sort(np.concatenate([part.windows.length[np.unique(part.row)] for part in drawn]))

    @abstractmethod
    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        """While it runs: (m, J, D, V) probabilities of levels 1..V of the largest demand in a segment, and (m, J, D)
        expected demand, shares of the peak."""

    def survival(self, seen: Int) -> Float:
        """(m, HORIZON) probability of running 1, 2, ... slots after the last of those `seen` (m,)."""
        alive = len(self.lengths_) - np.searchsorted(self.lengths_, seen)
        later = len(self.lengths_) - np.searchsorted(self.lengths_, seen[:, None] + np.arange(1, HORIZON + 1))
        share: Float = (later + 0.5) / (alive[:, None] + 1.0)  # never sure: nobody may have lived as long
        return share

    def _predict(self, beginnings: Beginnings) -> Distribution:
        running, expected = self._running(beginnings)
        survival = self.survival(beginnings.seen)
        alive = np.stack([survival[:, first - 1] for first, _ in SEGMENTS], axis=1)[:, :, None]
        part = np.stack([survival[:, first - 1 : last].mean(axis=1) for first, last in SEGMENTS], axis=1)[:, :, None]
        most = np.concatenate([np.broadcast_to(1 - alive, expected.shape)[..., None], running * alive[..., None]], -1)
        peak = at_least(running[:, -1], levels_of(beginnings.last, self.levels, self.peak_units))
        parts = (most.astype(np.float32), peak.astype(np.float32), (part * expected).astype(np.float32))
        return Distribution(*parts, self.values_)

    def _certain(self, units: Float) -> Float:
        """(..., V) probabilities of a demand (...) in units that is sure."""
        level = np.maximum(levels_of(units, self.levels, self.peak_units), 1)
        return np.asarray(level[..., None] == np.arange(1, self.levels + 1), np.float64)


def at_least(running: Float, level: Int) -> Float:
    """(..., V + 1) probabilities of levels 0..V from those of levels 1..V (..., V); what is below `level` (...)
    counts as that level."""
    rising = np.concatenate([np.zeros_like(running[..., :1]), running.cumsum(axis=-1)], axis=-1)
    rising = np.where(np.arange(rising.shape[-1]) < level[..., None], 0.0, rising)
    chances: Float = np.diff(rising, axis=-1, prepend=0.0)
    return chances


@dataclass(eq=False)
class LastValue(NaiveForecaster):
    """It stays as it is."""

    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        last = np.repeat(beginnings.last[:, None], len(SEGMENTS), axis=1)
        return self._certain(last), last / self.peak_units


@dataclass(eq=False)
class MeanAndDeviation(NaiveForecaster):
    """A normal distribution with mean and standard deviation of the last `hours`."""

    hours: float = 2.0

    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        from scipy.special import ndtr

        share = beginnings.windows.demand / self.peak_units
        sums, squares = (np.cumsum(np.pad(x, ((0, 0), (1, 0), (0, 0))), axis=1) for x in (share, share**2))
        slots = max(1, round(self.hours * 3600 / self.step_seconds))
        first = np.maximum(beginnings.seen - slots, 0)
        count = (beginnings.seen - first)[:, None]
        mean, square = (
            (total[beginnings.row, beginnings.seen] - total[beginnings.row, first]) / count for total in (sums, squares)
        )
        deviation = np.sqrt(np.maximum(square - mean**2, 1e-8))
        edges = (self.values_[1:-1] + self.values_[2:]) / 2  # between neighbouring levels
        below = np.concatenate([ndtr((edges - mean[..., None]) / deviation[..., None]), np.ones((*mean.shape, 1))], -1)
        chances = np.diff(below, axis=-1, prepend=0.0)
        each = len(SEGMENTS)
        return np.repeat(chances[:, None], each, axis=1), np.repeat(mean[:, None], each, axis=1)


@dataclass(eq=False)
class Percentiles(NaiveForecaster):
    """The largest demand of a segment is distributed as in all stretches of as many slots that were seen."""

    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        demand, row, seen = beginnings.windows.demand, beginnings.row, beginnings.seen
        parts = [self._seen(demand, last - first + 1, row, seen) for first, last in SEGMENTS]
        mean = np.cumsum(demand, axis=1)[row, seen - 1] / seen[:, None] / self.peak_units
        return np.stack(parts, axis=1), np.repeat(mean[:, None], len(SEGMENTS), axis=1)

    def _seen(self, demand: Float, slots: int, row: Int, seen: Int) -> Float:
        """(m, D, V) how often each level was the largest of so many slots in a row; of all slots if fewer were seen."""
        reach = min(slots, demand.shape[1])
        padded = np.pad(demand, ((0, 0), (reach - 1, 0), (0, 0)))
        largest = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=1).max(axis=-1)
        each = self._certain(largest)
        counts = np.cumsum(each * (np.arange(demand.shape[1]) >= reach - 1)[:, None, None], axis=1)[row, seen - 1]
        counts = np.where((seen >= reach)[:, None, None], counts, each[row, seen - 1])
        shares: Float = counts / counts.sum(axis=-1, keepdims=True)
        return shares


@dataclass(eq=False)
class SameHourYesterday(NaiveForecaster):
    """As in the same slots of the day before; as in the last slot where a workload is not that old."""

    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        shape = len(beginnings), len(SEGMENTS), self.resources_
        wide = shape[1] * shape[2]
        found = beginnings.yesterday(max(1, round(self.slots_per_day)))
        known = found[:, 2 * wide :, None] > 0
        last = beginnings.last[:, None]
        most, mean = (
            np.where(known, part.reshape(shape), last) for part in (found[:, :wide], found[:, wide : 2 * wide])
        )
        return self._certain(most), mean / self.peak_units


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
        network, last-value, normal-2h, normal-day, percentiles, yesterday, analogues or boosting.
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
