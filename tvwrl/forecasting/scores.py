"""How good forecasts were: proper scores of distributions against what came after, on unseen beginnings.

Letters: m beginnings, J segments, D resources, V levels of demand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

import numpy as np

from tvwrl.checks import at_least, one_of
from tvwrl.forecasting.base import BLOCK, Forecaster
from tvwrl.forecasting.beginnings import Beginnings, Outcomes
from tvwrl.forecasting.segments import Distribution
from tvwrl.traces import SequenceSampler, Split
from tvwrl.types import Float, InputError, Int

JUDGED = 1500  # windows whose beginnings are judged
STREAM = 3  # of random numbers, beside those that forecasters learn from
SHARES = tuple(round(0.05 * i, 2) for i in range(21))  # at which the calibration curve is drawn


@dataclass(frozen=True)
class Scores:
    """Means over beginnings; the lower `crps`, `brier` and `peak_crps`, the better.

    A calibrated central 90 % interval covers 90 % of what came, and its calibration curve is the diagonal. Demand
    has few levels, so what came may lie on an edge of an interval: it then counts by the part of its probability that
    lies inside, as if it were spread evenly over its step of the distribution function (Czado, Gneiting & Held 2009).
    What nothing is known of is NaN.

    Parameters
    ----------
    crps : array of float
        (J,) continuous ranked probability score of the largest demand in each of the `SEGMENTS`, shares of the peak.
    brier : array of float
        (J,) squared error of the probability of running at a segment's first slot, 0..1.
    within_50 : array of float
        (J,) share of what came that lies within the central 50 % interval, 0..1.
    within_90 : array of float
        (J,) the same of the central 90 % interval.
    running_crps : array of float
        (J,) CRPS of demand alone: where a workload ran at a segment's first slot, given that it does.
    peak_crps : array of float
        () CRPS of the largest demand of the rest of the life, shares of the peak.
    peak_within_50 : array of float
        () share of these that lies within the central 50 % interval, 0..1.
    peak_within_90 : array of float
        () the same of the central 90 % interval.
    calibration : array of float
        (21,) share of what came that lies below the quantile of 0, 0.05, ..., 1.

    Examples
    --------
    >>> scores = score(forecaster, judged_beginnings(sampler, "validation", 0))  # doctest: +SKIP
    >>> scores.within_90.mean()  # the nearer to 0.9, the better  # doctest: +SKIP
    """

    crps: Float
    brier: Float
    within_50: Float
    within_90: Float
    running_crps: Float
    peak_crps: Float
    peak_within_50: Float
    peak_within_90: Float
    calibration: Float


def judged_beginnings(sampler: SequenceSampler, split: Split, seed: int, count: int = JUDGED) -> Beginnings:
    """Draw beginnings of workloads to judge forecasters by, as those that forecasters learn from are drawn.

    The same arguments give the same beginnings, so forecasters can be compared on them.

    Parameters
    ----------
    sampler : SequenceSampler
        What cuts windows from a trace.
    split : {"train", "validation", "test"}
        Whose series they are cut from: validation to choose a forecaster, test to report it.
    seed : int
        Seed of the draw, >= 0.
    count : int
        How many windows, >= 1; each has several beginnings.

    Returns
    -------
    Beginnings
        The beginnings, and what came after them.

    Raises
    ------
    InputError
        For an unknown split, a negative seed and no windows.

    Examples
    --------
    >>> from tvwrl.simulation import Scenario
    >>> from tvwrl.traces import SequenceSampler, open_trace
    >>> sampler = SequenceSampler(open_trace("synthetic:google"), Scenario())
    >>> beginnings = judged_beginnings(sampler, "validation", seed=0, count=100)
    >>> len(beginnings) > 100
    True
    """
    one_of(get_args(Split), split=split)
    at_least(0, seed=seed)
    at_least(1, count=count)
    rng = np.random.default_rng([seed, STREAM])
    return Beginnings.draw(sampler.stacked(sampler.windows(split, count, rng), split), rng)


def score(forecaster: Forecaster, beginnings: Beginnings) -> Scores:
    """Score what a fitted forecaster says of some beginnings, each of which counts alike.

    Parameters
    ----------
    forecaster : Forecaster
        A forecaster that was fitted, or read from a file.
    beginnings : Beginnings
        Those of `judged_beginnings`, at least one, of workloads that the forecaster did not learn from.

    Returns
    -------
    Scores
        Means over the beginnings.

    Raises
    ------
    InputError
        If there are no beginnings, or the forecaster was not fitted.

    Examples
    --------
    >>> from tvwrl.forecasting import make_forecaster, training_windows
    >>> from tvwrl.simulation import Scenario
    >>> from tvwrl.traces import SequenceSampler, open_trace
    >>> sampler = SequenceSampler(open_trace("synthetic:google"), Scenario())
    >>> forecaster = make_forecaster("last-value", peak_units=6, step_seconds=1800).fit(training_windows(sampler, 100))
    >>> scores = score(forecaster, judged_beginnings(sampler, "validation", seed=0, count=100))
    >>> scores.crps.shape  # one for each of the SEGMENTS
    (6,)
    """
    if not len(beginnings):
        raise InputError("beginnings has 0 of them: must be at least 1")
    if not hasattr(forecaster, "values_"):
        raise InputError(f"forecaster is {forecaster!r}, which is not fitted: call its fit first")
    parts = [beginnings[slice(start, start + BLOCK)] for start in range(0, len(beginnings), BLOCK)]
    return score_distributions(((forecaster.predict(part), Outcomes.of(part)) for part in parts), forecaster.peak_units)


def score_distributions(pairs: Iterable[tuple[Distribution, Outcomes]], peak_units: int) -> Scores:
    """Scores of distributions of m beginnings each against what came after; demand in units is at most `peak_units`."""
    found: dict[str, list[Float]] = {}
    for forecast, outcome in pairs:
        for name, values in _by_beginning(forecast, outcome, peak_units).items():
            found.setdefault(name, []).append(values)
    means = {}
    for name, parts in found.items():  # of what is known; NaN where nothing is
        values = np.concatenate(parts)
        known = ~np.isnan(values)
        count = known.sum(axis=0)
        means[name] = np.where(count > 0, np.where(known, values, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
    return Scores(**means)


def skill(own: Float | float, reference: Float | float) -> Float:
    """1 - score / reference, as share: 1 for a perfect forecast, 0 for one like the reference; NaN if that is 0."""
    own, reference = np.asarray(own, np.float64), np.asarray(reference, np.float64)
    return np.where(reference > 0, 1 - own / np.where(reference > 0, reference, 1), np.nan)


def ranked_probability(chances: Float, level: Int) -> Float:
    """(...) continuous ranked probability score of `chances` (..., V + 1) for what came, `level` (...), 0..V.

    Each level is 1 / V of the peak wide, so the score is a share of the peak: for a sure forecast, its absolute error.
    """
    below = np.cumsum(chances, axis=-1)[..., :-1]
    came = level[..., None] <= np.arange(below.shape[-1])
    scores: Float = ((below - came) ** 2).mean(axis=-1) if below.shape[-1] else np.zeros(level.shape)
    return scores


def probability_integral(chances: Float, level: Int) -> tuple[Float, Float]:
    """(...) probability of less than what came, `level` (...), and of at most that, by `chances` (..., V + 1)."""
    at_most = np.minimum(np.cumsum(chances, axis=-1), 1.0)
    high = np.take_along_axis(at_most, level[..., None], axis=-1)[..., 0]
    low = high - np.take_along_axis(chances, level[..., None], axis=-1)[..., 0]
    return np.maximum(low, 0.0), high


def share_below(step: tuple[Float, Float], share: float) -> Float:
    """(...) how much of a `step` of the distribution function (`probability_integral`) lies below `share`."""
    low, high = step
    width = high - low
    inside = np.clip(share - low, 0, width) / np.where(width > 0, width, 1)
    below: Float = np.where(width > 1e-9, inside, (high < share) + 0.5 * (high == share))
    return below


def _by_beginning(forecast: Distribution, outcome: Outcomes, peak_units: int) -> dict[str, Float]:
    """The scores of each beginning, by their names in `Scores`: (m, ...)."""
    most_chances, peak_chances = np.asarray(forecast.most, np.float64), np.asarray(forecast.peak, np.float64)
    levels = most_chances.shape[-1] - 1
    found: dict[str, Float] = {"brier": (forecast.alive.astype(np.float64) - outcome.alive) ** 2}
    most, peak = outcome.levels(levels, peak_units)
    step = probability_integral(most_chances, most)
    for before, chances, level, own in (
        ("", most_chances, most, step),
        ("peak_", peak_chances, peak, probability_integral(peak_chances, peak)),
    ):
        found[f"{before}crps"] = ranked_probability(chances, level).mean(axis=-1)
        for percent in (50, 90):
            ends = (0.5 - percent / 200, 0.5 + percent / 200)
            inside = share_below(own, ends[1]) - share_below(own, ends[0])
            found[f"{before}within_{percent}"] = inside.mean(axis=-1)
    given = most_chances[..., 1:] / np.maximum(most_chances[..., 1:].sum(axis=-1, keepdims=True), 1e-9)
    running = ranked_probability(given, np.maximum(most - 1, 0)).mean(axis=-1) * (levels - 1) / levels
    found["running_crps"] = np.where(outcome.alive, running, np.nan)
    found["calibration"] = np.stack([share_below(step, share).mean(axis=(1, 2)) for share in SHARES], axis=1)
    return found
