"""Means and interquartile means with bootstrap intervals: over one axis, paired, and over seeds and sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tvwrl.experiments.engine import Rows
from tvwrl.experiments.episode_rows import complete_only
from tvwrl.types import Float, InputError

if TYPE_CHECKING:
    import polars as pl

RESAMPLES = 10_000
FEWER = 2_000  # of thousands of values each
LEVEL = 0.95  # how often an interval should hold the true value
FEW_SEEDS = 6  # with fewer seeds than this, their range is reported instead of an interval
BLOCK = 4_000_000  # most values of resamples held in memory at a time

Statistic = Callable[[Float], Float]  # (R, n) or (R, n, k) -> (R,): of each sample of n entries


def mean(samples: Float) -> Float:
    """(R,) arithmetic mean of each sample of `samples` (R, n)."""
    return np.asarray(samples.mean(axis=1))


def interquartile_mean(samples: Float) -> Float:
    """(R,) mean of the middle half of each sample of `samples` (R, n): a quarter, rounded down, is cut at each end.

    Extreme entries move it less than the mean, and it scatters less than the median (Agarwal et al. 2021).
    """
    count = samples.shape[1]
    return np.asarray(np.sort(samples, axis=1)[:, count // 4 : count - count // 4].mean(axis=1))


def share_closed(samples: Float) -> Float:
    """(R,) percent of the way from the mean of column 0 of `samples` (R, n, 3) to column 1's that column 2 covers.

    0 = like column 0, 100 = like column 1; NaN where column 1 is not above column 0.
    """
    worst, best, mine = np.moveaxis(samples.mean(axis=1), 1, 0)
    return np.asarray(np.where(best > worst, 100 * (mine - worst) / np.where(best > worst, best - worst, 1.0), np.nan))


# ---- one axis: entries that are independent of one another, such as arrival sequences or seeds


def point_estimate(values: Float, statistic: Statistic = mean) -> float:
    """The statistic of `values` (n,) or (n, k) without entries that hold a NaN; NaN if nothing is left."""
    values = _known(values)
    return float(statistic(values[None])[0]) if len(values) else float("nan")


def bootstrap_interval(
    values: Float, rng: np.random.Generator | None = None, statistic: Statistic = mean, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """95 % percentile bootstrap interval (low, high) of a statistic of `values` (n,) or (n, k) (Efron 1979).

    The k columns of an entry stay together. Entries that hold a NaN are left out; fewer than two entries give
    (NaN, NaN), as does a statistic that is NaN for a resample. `rng`: of the resampling; default: seed 0.

    >>> low, high = bootstrap_interval(np.array([1.0, 2.0, 3.0, 4.0]))
    """
    values = _known(values)
    if len(values) < 2:
        return float("nan"), float("nan")
    rng = rng or np.random.default_rng(0)
    block = max(1, BLOCK // values.size)
    sizes = [min(block, resamples - done) for done in range(0, resamples, block)]
    found = np.concatenate([statistic(values[rng.integers(len(values), size=(n, len(values)))]) for n in sizes])
    return _middle(found)


def paired_bootstrap(
    a: Float, b: Float, rng: np.random.Generator | None = None, statistic: Statistic = mean, resamples: int = RESAMPLES
) -> tuple[float, float, float]:
    """Statistic of `a` minus that of `b`, both (n,) of the same sequences in order, and its 95 % interval (low, high).

    Pairing removes what a hard sequence does to both, so the interval is narrower than that of two independent samples
    wherever the two rise and fall together. An interval without 0 separates the two at this level. All three are NaN if
    any value is: a sequence without a value is one that a schedule did not complete, and the others are a selection.
    Raises InputError if the shapes differ.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"paired samples have shapes {a.shape} and {b.shape}: must be equal and one-dimensional")
    pairs = np.stack([a, b], axis=1)
    if np.isnan(pairs).any():
        return float("nan"), float("nan"), float("nan")

    def difference(samples: Float) -> Float:
        return statistic(samples[..., 0]) - statistic(samples[..., 1])

    return (point_estimate(pairs, difference), *bootstrap_interval(pairs, rng, difference, resamples))


def ratio_bootstrap(a: Float, b: Float, resamples: int = FEWER) -> tuple[float, float, float]:
    """Mean of `a` (n,) over mean of `b` (m,), and its 95 % interval (low, high); both are resampled by themselves.

    NaN bounds where one has fewer than two values.

    >>> ratio_bootstrap(np.array([2.0, 2.0]), np.array([1.0, 1.0]))
    (2.0, 2.0, 2.0)
    """
    ratio = float(a.mean() / b.mean())
    if min(len(a), len(b)) < 2:
        return ratio, float("nan"), float("nan")
    rng = np.random.default_rng(0)
    drawn = [v[rng.integers(len(v), size=(resamples, len(v)))].mean(1) for v in (a, b)]
    return (ratio, *_middle(drawn[0] / drawn[1]))


def stratified_bootstrap(
    strata: Sequence[Float], statistic: Statistic = interquartile_mean, resamples: int = FEWER
) -> tuple[float, float, float]:
    """Statistic of the values of all strata (n_i,) together, and its 95 % interval (low, high), for which each stratum
    is resampled by itself: the tasks of a benchmark are fixed, what was played on them is drawn.

    With the interquartile mean this is what Agarwal et al. (2021) recommend for several tasks, and rliable computes.
    All three are NaN if any value is.
    """
    whole = np.concatenate(strata) if strata else np.empty(0)
    if not len(whole) or np.isnan(whole).any():
        return float("nan"), float("nan"), float("nan")
    rng, found = np.random.default_rng(0), []
    block = max(1, min(resamples, BLOCK // whole.size))
    for _ in range(0, resamples, block):
        drawn = [part[rng.integers(len(part), size=(block, len(part)))] for part in strata]
        found.append(statistic(np.concatenate(drawn, axis=1)))
    return (float(statistic(whole[None])[0]), *_middle(np.concatenate(found)[:resamples]))


def interval_or_range(values: Float) -> tuple[float, float]:
    """95 % bootstrap interval (low, high) of the mean of `values` (n,), one per seed; the range of fewer than
    `FEW_SEEDS`, whose resamples say hardly more than it and must not pass for an interval."""
    values = _known(values)
    if 1 < len(values) < FEW_SEEDS:
        return float(values.min()), float(values.max())
    return bootstrap_interval(values)


def interval_name(seeds: int) -> str:
    """What `interval_or_range` gives for this many seeds, in words."""
    return "range of the seeds" if seeds < FEW_SEEDS else "95 % bootstrap interval"


def mean_with_range(values: Float, decimals: int = 1, sign: str = "") -> str:
    """Mean of `values` (n,), one per seed, and what `interval_or_range` gives, as text: 1.5 [1.0, 2.0]."""
    return with_interval(point_estimate(values), interval_or_range(values), decimals, sign)


def mean_with_interval(values: Float, decimals: int = 1, sign: str = "") -> str:
    """Mean of `values` (n,) and its 95 % bootstrap interval, as text: 1.5 [1.0, 2.0]; the mean alone of one value."""
    return with_interval(point_estimate(values), bootstrap_interval(values), decimals, sign)


def paired_difference(a: Float, b: Float, decimals: int = 1, scale: float = 1) -> str:
    """What `paired_bootstrap` finds, times `scale`, as text: +1.5 [+1.0, +2.0]; of one pair, that it has no interval.

    >>> paired_difference(np.array([3.0]), np.array([1.0]))
    '+2.0 (one pair: no interval)'
    """
    difference, *interval = paired_bootstrap(a, b)
    why = " (one pair: no interval)" if len(a) == 1 else ""
    return with_interval(difference, (interval[0], interval[1]), decimals, "+", scale) + why


def with_interval(centre: float, interval: tuple[float, float], decimals: int, sign: str = "", scale: float = 1) -> str:
    """A value and its interval, times `scale`, as text: 1.5 [1.0, 2.0]; a dash, or no interval, where it is NaN."""
    value, low, high = (f"{scale * number:{sign}.{decimals}f}" for number in (centre, *interval))
    return ("-" if np.isnan(centre) else value) + ("" if np.isnan(interval[0]) else f" [{low}, {high}]")


def _known(values: Float) -> Float:
    """Entries without a NaN."""
    values = np.asarray(values, dtype=np.float64)
    return values[~np.isnan(values.reshape(len(values), -1)).any(axis=1)] if len(values) else values


def _middle(draws: Float) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


# ---- two axes: training seeds, each played on the same test sequences


@dataclass(frozen=True, eq=False)
class Estimate:
    """A statistic of values (seeds, sequences), and of resampled seeds and sequences."""

    mean: float
    draws: Float  # (RESAMPLES,), empty where there is nothing to resample

    @property
    def interval(self) -> tuple[float, float]:
        """95 % percentile interval; NaN where there is a single value."""
        known = self.draws[np.isfinite(self.draws)]
        return _middle(known) if len(known) else (float("nan"), float("nan"))

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval is wholly above or wholly below 0."""
        low, high = self.interval
        return low > 0 or high < 0

    def __sub__(self, other: Estimate) -> Estimate:
        """The paired difference: both on the same sequences."""
        draws = self.draws - other.draws if len(self.draws) == len(other.draws) else np.empty(0)
        return Estimate(self.mean - other.mean, draws)

    def __truediv__(self, other: Estimate) -> Estimate:
        """The paired quotient; infinite or NaN where the divisor is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            draws = self.draws / other.draws if len(self.draws) == len(other.draws) else np.empty(0)
            return Estimate(float(np.float64(self.mean) / np.float64(other.mean)), draws)


NO_ESTIMATE = Estimate(float("nan"), np.empty(0))


def crossed_estimate(values: Float, statistic: Statistic = mean) -> Estimate:
    """Statistic of `values` (seeds, sequences); seeds and sequences are resampled independently of each other.

    The draws of sequences are the same for all arrays with as many of them, so two estimates on the same test sequences
    are paired. With one seed the interval is over sequences alone. The mean leaves out NaN; other statistics need
    values without.
    """
    known = np.isfinite(values)
    if not known.any():
        return NO_ESTIMATE
    centre = float(values[known].mean()) if statistic is mean else float(statistic(values.reshape(1, -1))[0])
    if values.size < 2:
        return Estimate(centre, np.empty(0))
    seed_counts, sequence_counts = _resample_counts(*values.shape)
    if statistic is mean:
        total = (seed_counts @ np.where(known, values, 0.0) * sequence_counts).sum(axis=1)
        with np.errstate(invalid="ignore"):
            draws: Float = total / (seed_counts @ known.astype(np.float64) * sequence_counts).sum(axis=1)
        return Estimate(centre, draws)
    seeds, sequences = (
        np.repeat(np.tile(np.arange(counts.shape[1]), RESAMPLES), counts.ravel()).reshape(counts.shape)
        for counts in (seed_counts, sequence_counts)
    )
    samples = values[seeds[:, :, None], sequences[:, None, :]]
    return Estimate(centre, statistic(samples.reshape(RESAMPLES, -1)))


def estimate_of_one(values: Float) -> Estimate:
    """Mean of `values` (runs, days), and means over resampled days of a single run, drawn at random.

    Its interval holds what one run may give. That of `crossed_estimate` holds the mean of all runs, and narrows the
    more of them there are. The draws are the same for all arrays of one shape, so that estimates are paired. NaN is
    left out.
    """
    known = np.isfinite(values)
    if not known.any():
        return NO_ESTIMATE
    centre = float(values[known].mean())
    if values.size < 2:
        return Estimate(centre, np.empty(0))
    _, counts = _resample_counts(*values.shape)
    run = np.arange(RESAMPLES) % len(values)
    total = (counts * np.where(known, values, 0.0)[run]).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return Estimate(centre, total / (counts * known[run]).sum(axis=1))


@lru_cache(maxsize=8)
def _resample_counts(seeds: int, sequences: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(RESAMPLES, seeds) and (RESAMPLES, sequences): how often each is in a resample; the latter for any `seeds`."""
    rng = np.random.default_rng(0)
    of_sequences, of_seeds = (rng.multinomial(n, np.full(n, 1 / n), RESAMPLES) for n in (sequences, seeds))
    return of_seeds, of_sequences


def estimates_by_column(rows: pl.DataFrame, metric: str, statistic: Statistic = mean) -> dict[str, dict[str, Estimate]]:
    """group -> column -> `crossed_estimate` of one metric, in order of appearance.

    `rows` have `group, column, seed, sequence` and the metric. Raises InputError where the seeds of a column were not
    played on the same sequences. A column with an incomplete episode in any seed has no estimate of its measures there.
    """
    found: dict[str, dict[str, Estimate]] = {}
    rows = complete_only(rows, by=["group", "column"])
    for part in rows.partition_by("group", "column", maintain_order=True):
        group, column = part.select("group", "column").row(0)
        part = part.sort("seed", "sequence")
        seeds, sequences = part["seed"].n_unique(), part["sequence"].n_unique()
        if len(part) != seeds * sequences:
            raise InputError(f"rows of {group}, {column}: {seeds} seeds and {sequences} sequences, {len(part)} rows")
        values = np.array(part[metric].to_list(), dtype=np.float64).reshape(seeds, sequences)
        found.setdefault(group, {})[column] = crossed_estimate(values, statistic)
    return found


def select(rows: Rows, **where: Any) -> Rows:
    """The rows that have all these values."""
    return [row for row in rows if where.items() <= row.items()]


def column(rows: Rows, name: str, **where: Any) -> Float:
    """(rows,) values of a field in the rows that have all these values; NaN for None."""
    return np.array([row[name] for row in select(rows, **where)], np.float64)


def distinct(rows: Rows, name: str) -> list[Any]:
    """The different values of a field, in order of appearance."""
    return list(dict.fromkeys(row[name] for row in rows))
