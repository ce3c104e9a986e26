"""Means over training seeds and arrival sequences with bootstrap intervals, and what two of them say together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tvwrl.bench.intervals import interquartile_mean
from tvwrl.types import Float, InputError

if TYPE_CHECKING:
    import polars as pl

RESAMPLES = 4000
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean, and the means of resampled seeds and sequences."""

    mean: float
    draws: Float  # (RESAMPLES,), empty where there is nothing to resample

    @property
    def interval(self) -> tuple[float, float]:
        """95 % percentile interval; NaN where there is a single value."""
        return interval(self.draws)


def interval(draws: Float) -> tuple[float, float]:
    """The middle 95 % of draws (n,) that are finite; NaN if none is."""
    known = draws[np.isfinite(draws)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def estimate(values: Float) -> Estimate:
    """Of values (seeds, sequences), NaN left out: seeds and sequences are drawn anew, independently of each other.

    The draws of sequences are the same for every array of as many, so that two estimates on the same test sequences
    are paired. Few seeds are a coarse sample: with one, the interval is over sequences alone.
    """
    seeds, sequences = values.shape
    known = np.isfinite(values)
    if not known.any():
        return Estimate(float("nan"), np.empty(0))
    mean = float(values[known].mean())
    if values.size < 2:
        return Estimate(mean, np.empty(0))
    often_seed, often_sequence = _how_often(seeds, sequences)
    total = (often_seed @ np.where(known, values, 0.0) * often_sequence).sum(axis=1)
    with np.errstate(invalid="ignore"):
        draws: Float = total / (often_seed @ known.astype(np.float64) * often_sequence).sum(axis=1)
    return Estimate(mean, draws)


def estimate_middle(values: Float) -> Estimate:
    """Interquartile mean of values (seeds, sequences) without NaN, from the same draws as `estimate`."""
    seeds, sequences = values.shape
    mean = float(interquartile_mean(values.reshape(1, -1))[0])
    if values.size < 2:
        return Estimate(mean, np.empty(0))
    drawn = [
        np.repeat(np.tile(np.arange(often.shape[1]), RESAMPLES), often.ravel()).reshape(often.shape)
        for often in _how_often(seeds, sequences)
    ]
    samples = values[drawn[0][:, :, None], drawn[1][:, None, :]]
    return Estimate(mean, interquartile_mean(samples.reshape(RESAMPLES, -1)))


def _how_often(seeds: int, sequences: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(RESAMPLES, seeds) and (RESAMPLES, sequences): how often each is in a resample; the latter for any `seeds`."""
    rng = np.random.default_rng(0)
    of_sequences, of_seeds = (rng.multinomial(n, np.full(n, 1 / n), RESAMPLES) for n in (sequences, seeds))
    return of_seeds, of_sequences


def estimates(
    rows: pl.DataFrame, metric: str, how: Callable[[Float], Estimate] = estimate
) -> dict[str, dict[str, Estimate]]:
    """group -> column -> estimate of one metric, in order of appearance; rows as of `cells.read_rows`.

    Raises InputError where the seeds of a column were not played on the same sequences.
    """
    found: dict[str, dict[str, Estimate]] = {}
    for part in rows.partition_by("group", "column", maintain_order=True):
        group, column = part.select("group", "column").row(0)
        part = part.sort("seed", "sequence")
        seeds, sequences = part["seed"].n_unique(), part["sequence"].n_unique()
        if len(part) != seeds * sequences:
            raise InputError(f"rows of {group}, {column}: {seeds} seeds and {sequences} sequences, {len(part)} rows")
        values = np.array(part[metric].to_list(), dtype=np.float64).reshape(seeds, sequences)
        found.setdefault(group, {})[column] = how(values)
    return found


def ratio(over: Estimate, under: Estimate) -> Estimate:
    """The quotient of two means on the same sequences; infinite or NaN where the lower one is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = over.draws / under.draws if len(over.draws) == len(under.draws) else np.empty(0)
        return Estimate(float(np.float64(over.mean) / np.float64(under.mean)), draws)


def minus(a: Estimate, b: Estimate) -> Estimate:
    """Mean of a minus that of b, paired: on the same sequences."""
    return Estimate(a.mean - b.mean, a.draws - b.draws if len(a.draws) == len(b.draws) else np.empty(0))


def difference(a: Estimate, b: Estimate) -> tuple[float, bool]:
    """Mean of a minus that of b, on the same sequences, and whether the interval of the difference leaves 0 out."""
    found = minus(a, b)
    low, high = found.interval
    return found.mean, low > 0 or high < 0
