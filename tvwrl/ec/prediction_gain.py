"""What equivalence classes are worth: how much better LSTNet forecasts if trained per class, not on all workloads.

Letters: n workloads, D resources. Imports torch at once: import this module late.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tvwrl.forecasting import (
    MIN_FORECASTS,
    ForecastSettings,
    StandardisedSeries,
    correlations,
    evaluate_forecaster,
    train_forecaster,
)
from tvwrl.types import Bool, Float, Int

Progress = Callable[[int, int], object]  # models trained so far, models in all
Judged = tuple[Float, float]  # (members, D) correlations of models of some workloads, and the seconds that these took
# Gives what was made before of the members (n,) bool and the least of them to train on, else makes it
Keep = Callable[[Bool, int, Callable[[], Judged]], Judged]

MIN_TRAINING = 2  # least workloads of a class in the training part of a fold
MIN_CORRELATION = 0.05  # least |denominator| of G: the percentage of a correlation near 0 means nothing


def _ignore(*_: int) -> None:
    pass


def _made_anew(members: Bool, least: int, make: Callable[[], Judged]) -> Judged:
    return make()


@dataclass(frozen=True, eq=False)
class AgnosticForecast:
    """The parts that need no labels: folds, and correlations of one model of all workloads and of two plain rules.

    Made once by `agnostic_forecast` and handed to `prediction_gain` for each labelling of the same workloads.
    Correlations are (n, D), NaN where there is none: see `correlations`.
    """

    settings: ForecastSettings
    windows: StandardisedSeries
    fold: Int  # (n,) the fold in which a workload is held out, -1 = too short for an evaluation
    correlation: Float  # (n, D) of the model trained on all workloads of the other folds
    last_value: Float  # (n, D) of the forecast that usage stays what it is
    seasonal: Float  # (n, D) of the forecast that usage is that of the same slot a day before
    seconds: float


@dataclass(frozen=True)
class ClassGain:
    """What a class gains; correlations are means over held-out workloads of the class and resources, NaN if none."""

    label: int
    size: int  # workloads, |e|
    evaluated: int  # workloads among them that were long enough
    correlation: float  # of the class' own model
    agnostic: float  # of the model of all workloads
    gain: float  # G(e), percent; 0 where it has no model
    note: str = ""  # why it has no gain, "" if it has


@dataclass(frozen=True)
class GainReport:
    """How good a labelling is. Correlations are means over all held-out workloads and resources, NaN if none."""

    classes: tuple[ClassGain, ...]  # in rising label
    effective_gain: float  # EG, percent
    fraction: float  # f, share of workloads in classes with positive gain
    correlation: float  # of the class models; a class without one is forecast by the model of all
    agnostic: float
    last_value: float
    seasonal: float
    window: int  # slots that a forecast saw
    horizon: int  # slots
    seconds: float  # of the class models
    agnostic_seconds: float  # of the model of all, trained once for all labellings

    @property
    def beats_plain_rules(self) -> bool:
        """Whether the model of all workloads forecasts better than the last value and the value a day before."""
        return bool(self.agnostic > np.nanmax([self.last_value, self.seasonal, 0.0]))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, for JSON; a correlation that does not exist is None."""
        content = dataclasses.asdict(self)
        content["classes"] = [without_nan(row) for row in content["classes"]]
        return without_nan(content)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> GainReport:
        """What `to_dict` described."""
        rows = tuple(ClassGain(**_with_nan(row)) for row in content["classes"])
        return cls(**_with_nan(content) | {"classes": rows})


def percentage_gain(correlation: float, agnostic: float) -> float:
    """G(e), percent: by how much the correlation of a class' own model exceeds that of the model of all workloads.

    Paper: a percentage of the agnostic correlation. Here: of at least MIN_CORRELATION, or G has no bound.
    """
    return 100.0 * (correlation - agnostic) / max(abs(agnostic), MIN_CORRELATION)


def effective_gain(gains: Sequence[float], sizes: Sequence[int]) -> float:
    """EG = 1/n * sum_e max(0, G(e)) * |e|, percent: the paper's effective prediction gain."""
    return sum(max(0.0, gain) * size for gain, size in zip(gains, sizes, strict=True)) / sum(sizes)


def gaining_fraction(gains: Sequence[float], sizes: Sequence[int]) -> float:
    """f: the share of workloads in classes with positive gain."""
    return sum(size for gain, size in zip(gains, sizes, strict=True) if gain > 0) / sum(sizes)


def agnostic_forecast(
    series: Sequence[Float],
    slots_per_day: int,
    settings: ForecastSettings,
    progress: Progress = _ignore,
    keep: Keep = _made_anew,
) -> AgnosticForecast:
    """Train the model of all workloads, once per fold, and evaluate it and the plain rules on the workloads held out.

    `series`: n arrays (length, D) of usage without gaps, units >= 0; `keep`: keeps what long trainings give. Raises
    InputError if series cannot be used.
    """
    windows = StandardisedSeries(series, slots_per_day, settings.window, settings.horizon)
    fold = divided_into_folds(series, windows.usable, settings)
    none, last_value, seasonal = (np.full(windows.varies.shape, np.nan) for _ in range(3))
    of_all = np.ones_like(fold, np.bool_)
    make = partial(_cross_validate, windows, fold, of_all, settings, none, 1, progress)
    correlation, seconds = keep(of_all, 1, make)
    for i in windows.usable:
        last_value[i], seasonal[i] = _plain_rules(windows, int(i), settings)
    return AgnosticForecast(settings, windows, fold, correlation, last_value, seasonal, seconds)


def prediction_gain(
    agnostic: AgnosticForecast, labels: Int, progress: Progress = _ignore, keep: Keep = _made_anew
) -> GainReport:
    """How much better usage is forecast by a model per class than by one model of all workloads, out of sample.

    `agnostic`: the model of all; `labels` (n,) >= 1 of its workloads; `keep`: as of `agnostic_forecast`. Whole
    workloads are held out, each in one fold; folds depend on no label. All models have the same capacity, first weights
    and number of gradient steps. A class with fewer than `min_class` workloads that are long enough has G = 0 and a
    note; held-out workloads of a class with fewer than MIN_TRAINING in the other folds count with the correlation of
    the model of all.
    """
    settings = agnostic.settings
    correlation, kinds = agnostic.correlation.copy(), np.unique(labels)
    rows, seconds = [], 0.0
    for done, label in enumerate(kinds):
        members = labels == label
        if (members & (agnostic.fold >= 0)).sum() >= settings.min_class:
            before = agnostic.correlation
            make = partial(_cross_validate, agnostic.windows, agnostic.fold, members, settings, before, MIN_TRAINING)
            correlation[members], spent = keep(members, MIN_TRAINING, make)
            seconds += spent
        rows.append(_class_gain(int(label), members, correlation, agnostic))
        progress(done + 1, len(kinds))
    gains, sizes = [row.gain for row in rows], [row.size for row in rows]
    return GainReport(
        classes=tuple(rows),
        effective_gain=effective_gain(gains, sizes),
        fraction=gaining_fraction(gains, sizes),
        correlation=_mean(correlation),
        agnostic=_mean(agnostic.correlation),
        last_value=_mean(agnostic.last_value),
        seasonal=_mean(agnostic.seasonal),
        window=agnostic.windows.window,
        horizon=settings.horizon,
        seconds=seconds,
        agnostic_seconds=agnostic.seconds,
    )


def _cross_validate(
    windows: StandardisedSeries,
    fold: Int,
    members: Bool,
    settings: ForecastSettings,
    before: Float,
    least: int,
    progress: Progress = _ignore,
) -> Judged:
    """Correlations of `members` (n,) by models of the members in the other folds, and the seconds spent.

    Members for which fewer than `least` are left to train on keep what they have in `before` (n, D).
    """
    began, correlation = time.perf_counter(), before.copy()
    count = int(fold.max()) + 1
    for number in range(count):
        held_out = np.flatnonzero(members & (fold == number))
        training = np.flatnonzero(members & (fold >= 0) & (fold != number))
        if len(held_out) and len(training) >= least:
            model = train_forecaster(windows, training, settings, number)
            correlation[held_out] = evaluate_forecaster(model, windows, held_out, settings)
        progress(number + 1, count)
    return correlation[members], time.perf_counter() - began


def _class_gain(label: int, members: Bool, correlation: Float, agnostic: AgnosticForecast) -> ClassGain:
    """The row of a class: `members` (n,), `correlation` (n, D) of the class models."""
    evaluated = members & (agnostic.fold >= 0)
    own, of_all = _mean(correlation[members]), _mean(agnostic.correlation[members])
    size, count, note, gain = int(members.sum()), int(evaluated.sum()), "", 0.0
    if count < agnostic.settings.min_class:
        note = f"{count} of {size} workloads are long enough; a model needs {agnostic.settings.min_class}"
    elif np.isnan(own):
        note = "usage is constant"
    else:
        gain = percentage_gain(own, of_all)
    return ClassGain(label, size, count, own, of_all, gain, note)


def divided_into_folds(series: Sequence[Float], usable: Int, settings: ForecastSettings) -> Int:
    """(n,) fold of each workload, -1 = not usable: workloads of like level are spread over the folds at random."""
    rng = np.random.default_rng([settings.seed, 0])
    level = np.array([series[i].mean(axis=0) for i in usable])
    order = usable[
        level.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable").sum(axis=1).argsort(kind="stable")
    ]
    count = min(settings.folds, len(usable))
    fold = np.full(len(series), -1, np.int64)
    for start in range(0, len(order), count):
        block = order[start : start + count]
        fold[block] = rng.permutation(count)[: len(block)]
    return fold


def _plain_rules(windows: StandardisedSeries, workload: int, settings: ForecastSettings) -> tuple[Float, Float]:
    """(D,) and (D,) correlations of last-value and daily-seasonal forecasts; of the latter NaN below a day."""
    last = windows.evaluation_rows(workload, settings.max_forecasts)
    target = last + windows.horizon
    days = -(-windows.horizon // windows.slots_per_day)  # the last such slot that has been seen
    before = target - days * windows.slots_per_day
    seen = before >= windows.first[workload]
    seasonal = np.full(windows.values.shape[1], np.nan)
    if seen.sum() >= MIN_FORECASTS:
        seasonal = correlations(windows.value(target[seen]), windows.value(before[seen]))
    return correlations(windows.value(target), windows.value(last)), seasonal


def _mean(found: Float) -> float:
    """Mean of the correlations that exist, NaN if none does."""
    known = found[np.isfinite(found)]
    return float(known.mean()) if len(known) else float("nan")


def without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """The same with None for NaN, which JSON does not know."""
    return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in row.items()}


def _with_nan(row: dict[str, Any]) -> dict[str, Any]:
    """The same with NaN for None."""
    return {name: float("nan") if value is None else value for name, value in row.items()}
