"""Bootstrap intervals of means and interquartile means over arrival sequences, alone and paired."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvwrl.types import Float, InputError

RESAMPLES = 10_000
FEW = 6  # seeds, below which the range is told instead of an interval
BLOCK = 4_000_000  # most draws held in memory at a time

Statistic = Callable[[Float], Float]  # (R, n) or (R, n, k) -> (R,): of each sample of n sequences


def mean(samples: Float) -> Float:
    """(R,) arithmetic mean of each sample of `samples` (R, n)."""
    return np.asarray(samples.mean(axis=1))


def interquartile_mean(samples: Float) -> Float:
    """(R,) mean of the middle half of each sample of `samples` (R, n): a quarter, rounded down, is cut at each end.

    Less moved by a few extreme sequences than the mean, less scattered than the median (Agarwal et al. 2021).
    """
    count = samples.shape[1]
    return np.asarray(np.sort(samples, axis=1)[:, count // 4 : count - count // 4].mean(axis=1))


def estimate(values: Float, statistic: Statistic = mean) -> float:
    """The statistic of `values` (n,) or (n, k), what holds a NaN left out; NaN if nothing is left."""
    values = _known(values)
    return float(statistic(values[None])[0]) if len(values) else float("nan")


def bootstrap_interval(
    values: Float,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    statistic: Statistic = mean,
) -> tuple[float, float]:
    """Percentile bootstrap interval (low, high) of a statistic of `values` (n,) or (n, k), in its unit (Efron 1979).

    The entries are independent of one another (one per sequence); the k columns of one stay together. What holds a NaN
    is left out; fewer than two entries say nothing of their spread and give (NaN, NaN), as does a statistic that is
    NaN for a resample. `level` in (0, 1): how often the interval should hold the true value.
    """
    values = _known(values)
    if len(values) < 2:
        return float("nan"), float("nan")
    block = max(1, BLOCK // values.size)
    sizes = [min(block, resamples - done) for done in range(0, resamples, block)]
    found = np.concatenate([statistic(values[rng.integers(len(values), size=(n, len(values)))]) for n in sizes])
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def interval_or_range(values: Float) -> tuple[float, float]:
    """95 % bootstrap interval (low, high) of the mean of `values` (n,), one per seed; of fewer than `FEW` their range.

    Resamples of so few tell hardly more than the range, and must not pass for an interval.
    """
    values = _known(values)
    if 1 < len(values) < FEW:
        return float(values.min()), float(values.max())
    return bootstrap_interval(values, np.random.default_rng(0))


def told(values: Float, decimals: int = 1, sign: str = "") -> str:
    """Mean of `values` (n,), one per seed, and what `interval_or_range` gives of them, if anything: 1.5 [1.0, 2.0]."""
    low, high = interval_or_range(values)
    centre = f"{estimate(values):{sign}.{decimals}f}"
    return centre + (f" [{low:{sign}.{decimals}f}, {high:{sign}.{decimals}f}]" if np.isfinite(low) else "")


def spread_words(seeds: int) -> str:
    """What `interval_or_range` gives of so many seeds."""
    return "range of the seeds" if seeds < FEW else "95 % bootstrap interval"


def paired_bootstrap(
    a: Float,
    b: Float,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    statistic: Statistic = mean,
) -> tuple[float, float, float]:
    """Statistic of a minus that of b and its percentile bootstrap interval (low, high); `a`, `b` (n,) on the same
    sequences in order.

    Pairing takes out what a hard sequence does to both, so the interval is narrower than that of two independent
    samples wherever the two rise and fall together. An interval without 0 separates the two at this level. Raises
    InputError if the shapes differ.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"paired samples have shapes {a.shape} and {b.shape}: must be equal and one-dimensional")
    pairs = np.stack([a, b], axis=1)

    def difference(samples: Float) -> Float:
        return statistic(samples[..., 0]) - statistic(samples[..., 1])

    return (estimate(pairs, difference), *bootstrap_interval(pairs, rng, resamples, level, difference))


def share_closed(samples: Float) -> Float:
    """(R,) percent of the way from the mean of column 0 to that of column 1 which column 2 of `samples` (R, n, 3) has
    come: 0 = like column 0, 100 = like column 1; NaN where column 1 is not above column 0."""
    worst, best, mine = np.moveaxis(samples.mean(axis=1), 1, 0)
    return np.asarray(np.where(best > worst, 100 * (mine - worst) / np.where(best > worst, best - worst, 1.0), np.nan))


def _known(values: Float) -> Float:
    """What holds no NaN."""
    values = np.asarray(values, dtype=np.float64)
    return values[~np.isnan(values.reshape(len(values), -1)).any(axis=1)] if len(values) else values
