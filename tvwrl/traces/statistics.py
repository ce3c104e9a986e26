"""Measures populations of workloads: the statistics of each workload, and the distance between two populations."""

from __future__ import annotations

import numpy as np

from tvwrl.types import Float, InputError, Trace

DAY_SECONDS = 86_400
SHAPE_LEVELS = (0.0, 0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 1.0)  # quantiles that hold the shape of a usage distribution
CONSTANT = 1e-7  # a series whose standard deviation is below this share of its mean is constant
TIES = 6  # decimals in which values are compared: many workloads have the very same level


def lag_correlation(x: Float, lag: int) -> Float:
    """Pearson correlation of each row of `x` (n, L) with itself `lag` slots later, shape (n,); NaN entries are skipped.

    NaN where fewer than 24 pairs remain or a part is constant.
    """
    if x.shape[1] <= lag + 24:
        return np.full(len(x), np.nan)
    return row_correlation(x[:, :-lag], x[:, lag:])


def row_correlation(a: Float, b: Float) -> Float:
    """Pearson correlation of the rows of `a` and `b`, both (n, L), shape (n,); a pair with a NaN is skipped."""
    sum_a, sum_b, count = a.sum(1), b.sum(1), np.full(len(a), a.shape[1])
    if np.isnan(sum_a + sum_b).any():
        known = ~(np.isnan(a) | np.isnan(b))
        a, b, count = np.where(known, a, 0.0), np.where(known, b, 0.0), known.sum(1)
        sum_a, sum_b = a.sum(1), b.sum(1)
    n = np.maximum(count, 1)
    mean_a, mean_b = sum_a / n, sum_b / n
    cross = np.einsum("nt,nt->n", a, b) / n - mean_a * mean_b
    var_a = np.einsum("nt,nt->n", a, a) / n - mean_a**2
    var_b = np.einsum("nt,nt->n", b, b) / n - mean_b**2
    limit_a, limit_b = (CONSTANT * mean_a) ** 2 + 1e-20, (CONSTANT * mean_b) ** 2 + 1e-20
    usable = (count >= 24) & (var_a > limit_a) & (var_b > limit_b)
    out = np.full(len(a), np.nan)
    out[usable] = np.clip(cross[usable] / np.sqrt(var_a[usable] * var_b[usable]), -1.0, 1.0)
    return out


def lags(slot_seconds: int) -> dict[str, int]:
    """Lags at which a series is described, in slots: one slot, an hour (at least two slots), half a day, a day."""
    day = DAY_SECONDS // slot_seconds
    return {"lag1": 1, "hour": max(2, day // 24), "halfday": day // 2, "day": day}


def population_parameters(trace: Trace) -> dict[str, Float]:
    """Everything measured of each workload, (N,) per name; a superset of `population_statistics`.

    Levels are fractions of the reference machine, durations are rows, the rest has no unit; NaN = undefined:
    correlations of a constant series, `_day` of a series shorter than 1.5 days, ratios of an unknown request or to no
    usage.
    `_shape0` and on are logarithms of the gaps between the `SHAPE_LEVELS` quantiles, in standard deviations.
    """
    n, resources, lag = len(trace), trace.resources, lags(trace.slot_seconds)
    names = ["level", "variation", "peak_ratio", *lag, *(f"shape{k}" for k in range(len(SHAPE_LEVELS) - 1))]
    out = {f"{r}_{name}": np.full(n, np.nan) for r in resources for name in names}
    out |= {"correlation": np.full(n, np.nan), "duration": np.diff(trace.offsets).astype(np.float64)}
    first, span = trace.slot[trace.offsets[:-1]], trace.slot[trace.offsets[1:] - 1] - trace.slot[trace.offsets[:-1]] + 1
    for length in np.unique(span):
        index = np.flatnonzero(span == length)
        grid = np.full((len(index), int(length), len(resources)), np.nan)  # a gap stays NaN
        for row, i in enumerate(index):
            rows = slice(trace.offsets[i], trace.offsets[i + 1])
            grid[row, trace.slot[rows] - first[i]] = trace.usage[rows]
        for d, r in enumerate(resources):
            x = grid[:, :, d]
            level, deviation = np.nanmean(x, 1), np.nanstd(x, 1)
            varies = deviation > CONSTANT * level
            out[f"{r}_level"][index] = level
            out[f"{r}_variation"][index] = np.where(varies, deviation / np.maximum(level, 1e-12), 0.0)
            quantiles = np.nanquantile(x, SHAPE_LEVELS, axis=1)
            out[f"{r}_peak_ratio"][index] = quantiles[SHAPE_LEVELS.index(0.99)] / np.maximum(level, 1e-12)
            for name, k in lag.items():
                if 2 * length >= 3 * k:
                    out[f"{r}_{name}"][index] = np.where(varies, lag_correlation(x, k), np.nan)
            for k, gap in enumerate(np.diff(quantiles, axis=0) / np.where(varies, deviation, np.nan)):
                out[f"{r}_shape{k}"][index] = np.log(gap + 1e-3)  # an empty gap stays finite
        if len(resources) > 1:
            out["correlation"][index] = row_correlation(grid[:, :, 0], grid[:, :, 1])
    for d, r in enumerate(resources):
        level = out[f"{r}_level"]
        out[f"{r}_request_ratio"] = np.divide(trace.request[:, d], level, out=np.full(n, np.nan), where=level > 1e-12)
    return out


def population_statistics(trace: Trace) -> dict[str, Float]:
    """Statistics of each workload, (N,) per name, as defined by `population_parameters`.

    Per resource r: `r_level` (mean), `r_variation` (standard deviation / mean), `r_lag1` and `r_day` (autocorrelation
    one slot and one day later), `r_peak_ratio` (99th percentile / mean), `r_request_ratio` (request / level);
    `correlation` of the first two resources; `duration` in slots.
    """
    kept = ("level", "variation", "lag1", "_day", "ratio", "correlation", "duration")
    return {name: value for name, value in population_parameters(trace).items() if name.endswith(kept)}


def compare_populations(a: Trace, b: Trace) -> dict[str, float]:
    """Two-sample Kolmogorov-Smirnov distance of each of `population_statistics`, and `joint`.

    Undefined values count as one value above all others, so a wrong share of them costs as well; a statistic that is
    undefined throughout both is NaN. `joint` is the largest absolute difference between the two matrices of Spearman
    rank correlations. Raises InputError if the resources differ.
    """
    from scipy.stats import ks_2samp

    if a.resources != b.resources:
        raise InputError(f"resources {a.resources} of {a.name} and {b.resources} of {b.name} differ")
    x, y = population_statistics(a), population_statistics(b)
    out = dict.fromkeys(x, np.nan)
    for name in x:
        pair = [np.where(np.isnan(v), np.inf, np.round(v, TIES)) for v in (x[name], y[name])]
        if np.isfinite(np.concatenate(pair)).any():
            out[name] = float(ks_2samp(pair[0], pair[1], method="asymp").statistic)
    out["joint"] = float(np.nanmax(np.abs(rank_correlation(x) - rank_correlation(y))))
    return out


def rank_correlation(columns: dict[str, Float]) -> Float:
    """Spearman correlations between the columns (N,), over rows where both are defined, shape (K, K).

    NaN for a pair with fewer than 30 such rows or a constant column.
    """
    from scipy.stats import rankdata

    values = list(columns.values())
    out = np.eye(len(values))
    for i, a in enumerate(values):
        for j, b in enumerate(values[:i]):
            known = np.isfinite(a) & np.isfinite(b)
            out[i, j] = out[j, i] = np.nan
            if known.sum() >= 30:
                ranks = np.stack([rankdata(np.round(v[known], TIES)) for v in (a, b)])
                if (ranks.std(1) > 0).all():
                    out[i, j] = out[j, i] = np.corrcoef(ranks)[0, 1]
    return out
