"""The protocol of forecasters, in scikit-learn's form: fit, predict, sample."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tvwrl.forecasting.beginnings import Beginnings, levels_of
from tvwrl.forecasting.segments import Distribution, columns, forecast_table, steps
from tvwrl.progress import Report, nothing, phase
from tvwrl.traces import DAY_SECONDS, UNSEEN, SequenceSampler, Windows
from tvwrl.types import Float, ForecastTable, InputError, Int


class Parameters:
    """`get_params` for a class whose `__init__` stores each argument under its own name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Argument names and values; `deep` makes no difference, as no argument is an estimator."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}


WINDOWS = 6000  # of a trace that a forecaster learns from
BLOCK = 50_000  # rows predicted at a time
MOST_LEVELS = 12


class Forecaster(Parameters, ABC):
    """Forecasts the demand of workloads from what was seen of them, what they declared, and the time of day.

    A subclass is a dataclass with the fields `peak_units` (what demand is a share of) and `step_seconds` (length of a
    slot), and `random_state` where it draws.

    Examples
    --------
    >>> forecaster = NetworkForecaster().fit(training_windows(sampler))  # doctest: +SKIP
    >>> forecaster.predict(Beginnings(windows, row, seen)).quantile(0.9)  # doctest: +SKIP
    """

    peak_units: int
    step_seconds: int
    random_state: int = 0
    uses_past = False  # whether it looks at what applications used before, where windows tell it
    without_: dict[int, Self]  # by fold, what learnt from all series but those of the fold
    _learnt: Beginnings | None
    _continuations: dict[int, Continuations]  # by the fold that they leave out

    @property
    def levels(self) -> int:
        """V, the levels of demand that distributions tell apart: whole units, 12 shares of the peak at most."""
        return min(self.peak_units, MOST_LEVELS)

    @property
    def slots_per_day(self) -> float:
        """Slots in a day."""
        return DAY_SECONDS / self.step_seconds

    def fit(self, windows: Windows, also: Sequence[Windows] = (), report: Report = nothing) -> Self:
        """Learn from windows of training series.

        Where windows have folds, each fold is forecast by a copy fitted without it (cross-fitting).

        Parameters
        ----------
        windows : Windows
            (n,) windows of a trace's training series.
        also : sequence of Windows
            Those of other traces.
        report : callable
            Gets a line as each fit begins.
        """
        rng = np.random.default_rng([self.random_state, 2])
        drawn = [Beginnings.draw(part, rng) for part in (windows, *also)]
        own, others = drawn[0], drawn[1:]
        folds = np.unique(own.fold[own.fold != UNSEEN]).tolist()
        count = 1 + len(folds)
        with phase(f"fitting forecaster 1 of {count}", report):
            self._learn(drawn, level_values(drawn, self.levels, self.peak_units))
        for place, fold in enumerate(folds, 2):
            rest = np.flatnonzero(own.fold != fold)
            if seen := [own[rest]] * (len(rest) > 0) + others:
                with phase(f"fitting forecaster {place} of {count}, without fold {fold}", report):
                    self.without_[fold] = self._for_fold()._learn(seen, self.values_)
        self._learnt, self._continuations = own, {}
        self._calibrate(drawn, report)
        return self

    def _calibrate(self, drawn: list[Beginnings], report: Report) -> None:
        """Learn from what is forecast of beginnings that were held out; nothing, unless a forecaster says so."""

    def _learn(self, drawn: list[Beginnings], values: npt.NDArray[np.float32]) -> Self:
        self.resources_, self.values_, self.without_ = drawn[0].windows.demand.shape[-1], values, {}
        self._fit(drawn)
        return self

    def _for_fold(self) -> Self:
        """An unfitted copy that is to learn without one fold."""
        return replace(self)  # type: ignore[type-var]  # every subclass is a dataclass

    @abstractmethod
    def _fit(self, drawn: list[Beginnings]) -> None:
        """Learn from beginnings, one item per trace, whose windows may be more than those of the beginnings."""

    def predict(self, beginnings: Beginnings) -> Distribution:
        """What will come after m beginnings; never looks at later slots.

        Each fold is forecast by the copy fitted without it.

        Parameters
        ----------
        beginnings : Beginnings
            m beginnings.
        """
        fold = beginnings.fold
        if not self.without_ or (fold == UNSEEN).all():
            return self._predict(beginnings)
        rows = {number: np.flatnonzero(fold == number) for number in np.unique(fold).tolist()}
        parts = [self.without_.get(number, self)._predict(beginnings[own]) for number, own in rows.items()]
        return Distribution.joined(parts, list(rows.values()), self.values_)

    @abstractmethod
    def _predict(self, beginnings: Beginnings) -> Distribution:
        """What will come after m beginnings, whatever their folds."""

    def sample(self, beginnings: Beginnings, n: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
        """(m, n, S, D) units: n futures of each beginning, slot by slot after the last one seen; 0 once it ended.

        They are continuations of training beginnings with similar forecasts, of other folds where there are any.

        Parameters
        ----------
        beginnings : Beginnings
            m beginnings.
        n : int
            Futures of each, >= 1.
        rng : numpy.random.Generator
            What draws them.

        Raises
        ------
        InputError
            For a forecaster that has weights alone.
        """
        learnt, forecasts = self.learnt, self.predict(beginnings)
        slots = max(1, int((learnt.windows.length[learnt.row] - learnt.seen).max()))
        out = np.zeros((len(beginnings), n, slots, self.resources_), np.float32)
        for fold in np.unique(beginnings.fold).tolist():
            rows = np.flatnonzero(beginnings.fold == fold)
            if fold not in self._continuations:  # of the beginnings that were learnt from and are not of the fold
                others = np.flatnonzero((learnt.fold != fold) | (fold == UNSEEN))
                part = learnt[others] if len(others) else learnt
                self._continuations[fold] = Continuations(part, self.predict(part), self.peak_units, self.random_state)
            out[rows] = self._continuations[fold].sample(beginnings[rows], forecasts[rows], n, slots, rng)
        return out

    @property
    def learnt(self) -> Beginnings:
        """Beginnings of the windows that it learnt from, the trace's own if there are any.

        Raises InputError if it has weights alone.
        """
        if self._learnt is None:
            raise InputError("this forecaster has only weights and cannot sample: fit one that starts from it")
        return self._learnt

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings. Raises InputError for a forecaster that is for comparison only."""
        raise InputError(f"{type(self).__name__} cannot be saved: train with a NetworkForecaster")

    def table(self, windows: Windows) -> ForecastTable:
        """For windows (S, N): the forecast after 0, 1, ..., L slots and the lifetime peaks, 0 after the end.

        Before its first slot a workload has the forecast of one slot seen. What a workload uses does not depend on its
        machine, so the table is made ahead of the episode.

        Parameters
        ----------
        windows : Windows
            (S, N) windows.
        """
        slots, wide, units = windows.demand.shape[2], columns(self.resources_), steps(self.resources_)
        out = np.zeros((*windows.length.shape, slots + 1, len(units)), np.uint8)
        for own, sequence in zip(out, windows, strict=True):
            every = Beginnings.every(sequence)
            for start in range(0, len(every), BLOCK):
                part = every[slice(start, start + BLOCK)]
                own[part.row, part.seen, :wide] = np.round(self.predict(part).forecast().values / units[:wide])
        peaks = np.round(windows.demand.max(axis=2) / self.peak_units / units[wide:]).astype(np.uint8)
        out[..., wide:] = peaks[:, :, None] * out.any(axis=3, keepdims=True)
        out[:, :, 0] = out[:, :, 1]
        return forecast_table(out, self.resources_)


def training_windows(sampler: SequenceSampler, count: int = WINDOWS, random_state: int = 0) -> Windows:
    """Draw windows of training series, as forecasters learn from them.

    Parameters
    ----------
    sampler : SequenceSampler
        What cuts windows from a trace.
    count : int
        How many, >= 1.
    random_state : int
        Seed of the draw.

    Returns
    -------
    Windows
        (count,) windows.

    Examples
    --------
    >>> windows = training_windows(sampler, 1000)  # doctest: +SKIP
    """
    drawn = sampler.windows("train", count, np.random.default_rng([random_state, 1]))
    return sampler.stacked(drawn, "train")


def level_values(drawn: Sequence[Beginnings], levels: int, peak_units: int) -> npt.NDArray[np.float32]:
    """(V + 1,) share of `peak_units` that a level of demand stands for: the mean of the demand in it."""
    units: Float = np.concatenate([part.windows.demand.ravel() for part in drawn])
    level = levels_of(units, levels, peak_units)
    count = np.bincount(level, minlength=levels + 1)
    middle = (np.arange(levels + 1) - (0.0 if not (units % 1).any() else 0.5)) / levels  # where a level has no demand
    mean = np.bincount(level, units / peak_units, levels + 1) / np.maximum(count, 1)
    values: npt.NDArray[np.float32] = np.where(count > 0, mean, middle).astype(np.float32)
    values[0] = 0.0
    return values


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

    def sample(
        self, beginnings: Beginnings, forecasts: Distribution, n: int, slots: int, rng: np.random.Generator
    ) -> Float:
        """(m, n, `slots`, D) units: continuations of similar beginnings, 0 once they ended."""
        count = min(NEIGHBOURS, len(self.beginnings))
        _, found = self._tree.query(self._pca.transform(self._view(beginnings, forecasts)), count)
        near: Int = np.asarray(found).reshape(len(beginnings), count)  # the most similar first
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
