"""Which representation to take: each is clustered by its best k; the one whose classes help forecasting most wins."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tvwrl.ec.classes import EquivalenceClasses
from tvwrl.ec.population import Population
from tvwrl.forecasting import (
    MIN_FORECASTS,
    ForecastSettings,
    StandardisedSeries,
    correlations,
    evaluate_forecaster,
    train_forecaster,
)
from tvwrl.progress import ticking
from tvwrl.types import Float, InputError, Int

if TYPE_CHECKING:
    from tvwrl.forecasting import ForecastSettings

Progress = Callable[[int, int], object]  # models trained so far, models in all

MIN_TRAINING = 2  # least workloads of a class in the training part of a fold
MIN_CORRELATION = 0.05  # least |denominator| of G: the percentage of a correlation near 0 means nothing


def _ignore(*_: int) -> None:
    pass


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
        content["classes"] = [_without_nan(row) for row in content["classes"]]
        return _without_nan(content)


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
) -> AgnosticForecast:
    """Train the model of all workloads, once per fold, and evaluate it and the plain rules on the workloads held out.

    `series`: n arrays (length, D) of usage without gaps, units >= 0. Raises InputError if they cannot be used.
    """
    began = time.perf_counter()
    windows = StandardisedSeries(series, slots_per_day, settings.window, settings.horizon)
    fold = _folds(series, windows.usable, settings)
    correlation, last_value, seasonal = (np.full(windows.varies.shape, np.nan) for _ in range(3))
    _cross_validate(windows, fold, np.ones_like(fold, np.bool_), settings, correlation, progress=progress)
    for i in windows.usable:
        last_value[i], seasonal[i] = _plain_rules(windows, int(i), settings)
    seconds = time.perf_counter() - began
    return AgnosticForecast(settings, windows, fold, correlation, last_value, seasonal, seconds)


def prediction_gain(agnostic: AgnosticForecast, labels: Int, progress: Progress = _ignore) -> GainReport:
    """How much better usage is forecast by a model per class than by one model of all workloads, out of sample.

    `agnostic`: the model of all; `labels` (n,) >= 1 of its workloads. Whole workloads are held out, each in one fold;
    folds depend on no label. All models have the same capacity, first weights and number of gradient steps. A class
    with fewer than `min_class` workloads that are long enough has G = 0 and a note; held-out workloads of a class with
    fewer than MIN_TRAINING in the other folds count with the correlation of the model of all.
    """
    began = time.perf_counter()
    correlation, kinds = agnostic.correlation.copy(), np.unique(labels)
    rows = []
    for done, label in enumerate(kinds):
        members = labels == label
        if (members & (agnostic.fold >= 0)).sum() >= agnostic.settings.min_class:
            _cross_validate(agnostic.windows, agnostic.fold, members, agnostic.settings, correlation, MIN_TRAINING)
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
        horizon=agnostic.settings.horizon,
        seconds=time.perf_counter() - began,
        agnostic_seconds=agnostic.seconds,
    )


def _cross_validate(
    windows: StandardisedSeries,
    fold: Int,
    members: npt.NDArray[np.bool_],
    settings: ForecastSettings,
    correlation: Float,
    least: int = 1,
    progress: Progress = _ignore,
) -> None:
    """Fill the rows of `correlation` (n, D) of `members` (n,) by models of the members in the other folds.

    Members for which fewer than `least` are left to train on keep what they have.
    """
    count = int(fold.max()) + 1
    for number in range(count):
        held_out = np.flatnonzero(members & (fold == number))
        training = np.flatnonzero(members & (fold >= 0) & (fold != number))
        if len(held_out) and len(training) >= least:
            model = train_forecaster(windows, training, settings, number)
            correlation[held_out] = evaluate_forecaster(model, windows, held_out, settings)
        progress(number + 1, count)


def _class_gain(
    label: int, members: npt.NDArray[np.bool_], correlation: Float, agnostic: AgnosticForecast
) -> ClassGain:
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


def _folds(series: Sequence[Float], usable: Int, settings: ForecastSettings) -> Int:
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


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """The same with None for NaN, which JSON does not know."""
    return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in row.items()}


PREFERRED = ("temporal", "dtw", "aggregate")  # order in which equal gains are resolved; the first is the paper's choice


@dataclass
class Candidate:
    """A representation with its classes, clustered, and what they gain."""

    classes: EquivalenceClasses
    seconds: float  # of representing and clustering, all k and initialisations
    gain: GainReport | None = None  # None: not measured

    @property
    def name(self) -> str:
        """The representation's."""
        return self.classes.representation

    def to_dict(self) -> dict[str, Any]:
        """For report.json."""
        search, gain = self.classes.search_, self.gain
        return {
            "representation": self.name,
            "k": self.classes.k,
            "search": search.to_dict() if search else None,
            "gain": gain.to_dict() if gain else None,
            "seconds": self.seconds,
        }


@dataclass
class Comparison:
    """The candidates, the one chosen, and the reason."""

    candidates: list[Candidate]
    chosen: Candidate
    why: str
    chance: GainReport | None = None  # what the chosen labels gain when dealt out at random


def compare(
    population: Population,
    makes: Sequence[Callable[[], EquivalenceClasses]],
    settings: ForecastSettings | None,
    wanted: str | None = None,
) -> Comparison:
    """Cluster by every representation, measure what the forecaster gains by the classes, and choose one.

    Without `settings` nothing is forecast; `wanted` names the representation to choose whatever its gain.

    Raises InputError where workloads cannot be clustered as asked.
    """
    candidates = [_clustered(population, make()) for make in makes]
    why_not, gain_of = "the forecaster was left out", None
    if settings is not None:
        try:
            gain_of = _gain_function(population, settings)
        except InputError as error:  # too little to forecast is no reason to have no classes
            why_not = str(error)
    if gain_of:
        for candidate in candidates:
            candidate.gain = gain_of(candidate.name, candidate.classes.labels_)
    comparison = _choose(candidates, wanted, why_not)
    if gain_of and settings:
        dealt = np.random.default_rng(settings.seed).permutation(comparison.chosen.classes.labels_)
        comparison.chance = gain_of("labels dealt out at random", dealt)
    return comparison


def _clustered(population: Population, classes: EquivalenceClasses) -> Candidate:
    begun = time.perf_counter()
    ks = classes.ks if classes.n_classes is None else [classes.n_classes]
    with ticking(f"clustering by {classes.representation}", total=len(ks) * classes.n_init) as bar:
        classes.cluster(population, bar.update)
    return Candidate(classes, time.perf_counter() - begun)


def _gain_function(population: Population, settings: ForecastSettings) -> Callable[[str, Int], GainReport]:
    """A function from the name of a progress bar and labels to their gain; trains the model of all workloads once."""

    @contextmanager
    def shown(name: str) -> Iterator[Callable[[int, int], None]]:
        with ticking(f"forecaster, {name}") as bar:

            def show(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            yield show

    def gain_of(name: str, labels: Int) -> GainReport:
        with shown(name) as show:
            return prediction_gain(of_all, labels, show)

    with shown("all workloads") as show:
        of_all = agnostic_forecast(population.series, population.slots_per_day, settings, show)
    return gain_of


def _choose(candidates: list[Candidate], wanted: str | None, why_not: str) -> Comparison:
    by_name = {candidate.name: candidate for candidate in candidates}
    first = next(by_name[name] for name in PREFERRED if name in by_name)
    default = "the paper's choice" if first.name == PREFERRED[0] else "the first that is left of the paper's order"
    if wanted is not None:
        return Comparison(candidates, by_name[wanted], "it was asked for")
    if len(candidates) == 1:
        return Comparison(candidates, first, "no other was compared")
    gains = {name: c.gain.effective_gain for name, c in by_name.items() if c.gain is not None}
    if not gains:
        return Comparison(candidates, first, f"{default}; no gain was measured: {why_not}")
    if not all(c.gain.beats_plain_rules for c in candidates if c.gain is not None):
        why = f"{default}; the forecaster does not beat plain rules here, so gains mean nothing"
        return Comparison(candidates, first, why)
    best = max((by_name[name] for name in PREFERRED if name in gains), key=lambda c: gains[c.name])
    if gains[best.name] == 0:
        return Comparison(candidates, first, f"{default}; no classes help the forecaster")
    return Comparison(candidates, best, "its classes have the highest effective prediction gain")
