"""The statistics behind the temporal features: tsfresh's definitions, many series at a time.

Every function repeats the operations of tsfresh 0.21 and of scipy's `linregress` in their order, so that even the
rounding of a constant series, which decides e.g. the sign of its slope, is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.types import Float

Settings = Mapping[str, Sequence[Mapping[str, Any]] | None]  # calculator -> its parameter sets, as tsfresh takes them

TREND = ("slope", "intercept", "rvalue")
CHUNK_LENGTHS = (10,)  # slots
AGGREGATES = ("max", "mean")


def autocorrelation_lags(slots_per_day: int) -> list[int]:
    """Rising lags in slots: 1, 2, 4, an eighth, a quarter and a half of a day and a day; none is longer than a day."""
    at_least(1, slots_per_day=slots_per_day)
    parts = {max(1, round(slots_per_day / part)) for part in (8, 4, 2, 1)}
    return sorted(lag for lag in parts | {1, 2, 4} if lag <= slots_per_day)


def temporal_settings(slots_per_day: int) -> dict[str, list[dict[str, Any]] | None]:
    """The temporal features of the paper ("Temporal Features", "EC Creation") as settings for tsfresh.

    Lags from one slot to a day (the paper gives none). Few aggregated trends: with all of tsfresh's 48 they outweigh
    everything else in the Euclidean distance, and silhouettes are lower.
    """
    return {
        "autocorrelation": [{"lag": lag} for lag in autocorrelation_lags(slots_per_day)],
        "linear_trend": [{"attr": attr} for attr in TREND],
        "agg_linear_trend": [
            {"attr": attr, "chunk_len": chunk, "f_agg": aggregate}
            for chunk in CHUNK_LENGTHS
            for aggregate in AGGREGATES
            for attr in TREND
        ],
        "mean": None,
        "mean_abs_change": None,
        "standard_deviation": None,
    }


def column_names(resource: str, settings: Settings) -> list[str]:
    """(F,) names of a resource's features as tsfresh writes them, e.g. `cpu__linear_trend__attr_"slope"`."""
    return [
        "__".join([resource, calculator, *(_parameter(key, values[key]) for key in sorted(values))])
        for calculator, sets in settings.items()
        for values in sets or [{}]
    ]


def _parameter(key: str, value: object) -> str:
    return f'{key}_"{value}"' if isinstance(value, str) else f"{key}_{value}"


def temporal_statistics(x: Float, settings: Settings) -> Float:
    """(B, F) features, columns as in `column_names`, of B series `x` (B, n), finite; NaN where tsfresh has NaN."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        return np.concatenate([_CALCULATORS[name](x, sets or [{}]) for name, sets in settings.items()], axis=1)


def _autocorrelation(x: Float, sets: Sequence[Mapping[str, Any]]) -> Float:
    """(B, lags): mean of (x_t - mu)(x_{t+lag} - mu) over the variance; NaN for a lag >= n or a variance <= 1e-8."""
    slots = x.shape[1]
    apart = x - x.mean(axis=1, keepdims=True)
    product = np.empty_like(x)
    variance = np.var(x, axis=1)
    variance[np.isclose(variance, 0)] = np.nan
    values = np.full((len(x), len(sets)), np.nan)
    for column, parameters in enumerate(sets):
        pairs = slots - parameters["lag"]
        if pairs > 0:
            np.multiply(apart[:, :pairs], apart[:, -pairs:], out=product[:, :pairs])
            values[:, column] = product[:, :pairs].sum(axis=1) / (pairs * variance)
    return values


def _agg_linear_trend(x: Float, sets: Sequence[Mapping[str, Any]]) -> Float:
    """(B, sets): attribute of the line through aggregates of chunks of `chunk_len` slots; NaN if n <= chunk_len."""
    lines: dict[tuple[int, str], Float] = {}  # (B, TREND) of each chunk length and aggregate
    for chunk, aggregate in dict.fromkeys((p["chunk_len"], p["f_agg"]) for p in sets):
        undefined = chunk >= x.shape[1]
        found = np.full((len(x), len(TREND)), np.nan) if undefined else _regression(_chunks(x, chunk, aggregate), TREND)
        lines[chunk, aggregate] = found
    return np.column_stack([lines[p["chunk_len"], p["f_agg"]][:, TREND.index(p["attr"])] for p in sets])


def _chunks(x: Float, chunk: int, aggregate: str) -> Float:
    """(B, ceil(n / chunk)) an aggregate of the consecutive chunks of each series; the last chunk may be shorter."""
    whole = x.shape[1] // chunk * chunk
    # The slots of a chunk come first: numpy reduces a long first axis many times faster than a short last one.
    parts = [np.ascontiguousarray(x[:, :whole].reshape(len(x), -1, chunk).transpose(2, 0, 1))]
    if whole < x.shape[1]:
        parts.append(x[:, None, whole:].transpose(2, 0, 1))
    return np.concatenate([_AGGREGATES[aggregate](part) for part in parts], axis=1)


def _mean(x: Float) -> Float:
    """Mean over the first axis; of up to 128 values rounded as `numpy.mean` does: eight interleaved sums, the rest."""
    if 8 <= len(x) <= 128:
        eighths = len(x) // 8 * 8
        s = x[:eighths].reshape(-1, 8, *x.shape[1:]).sum(axis=0)
        total = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
        for remaining in x[eighths:]:
            total += remaining
    else:
        total = x.sum(axis=0)
    mean: Float = total / len(x)
    return mean


def _regression(y: Float, attributes: Sequence[str]) -> Float:
    """(B, attributes) of least-squares lines through `y` (B, n) against 0, 1, ..., n - 1, as in `linregress`."""
    slots = y.shape[1]
    slot, level = np.arange(slots, dtype=np.float64), y.mean(axis=1)
    apart = np.empty((len(y), 2, slots))
    apart[:, 0] = slot - slot.mean()
    np.subtract(y, level[:, None], out=apart[:, 1])
    covariance = np.matmul(apart, apart.transpose(0, 2, 1)) * (1 / slots)
    xx, xy, yy = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    undefined = (xx == 0) | (yy == 0)
    r = np.where(undefined, np.where(xy == 0, np.nan, 0.0), np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0))
    slope = xy / xx
    values = {"slope": slope, "intercept": level - slope * slot.mean(), "rvalue": r}
    return np.column_stack([values[attribute] for attribute in attributes])


def _mean_abs_change(x: Float, _: object) -> Float:
    """(B, 1) mean of |x_{t+1} - x_t|; NaN for a single slot."""
    steps = np.abs(np.diff(x, axis=1))
    mean: Float = steps.sum(axis=1, keepdims=True) / np.float64(steps.shape[1])
    return mean


_AGGREGATES: Mapping[str, Callable[[Float], Float]] = {
    "max": lambda chunks: chunks.max(axis=0),
    "mean": _mean,
}

_CALCULATORS: Mapping[str, Callable[[Float, Sequence[Mapping[str, Any]]], Float]] = {
    "autocorrelation": _autocorrelation,
    "linear_trend": lambda x, sets: _regression(x, [parameters["attr"] for parameters in sets]),
    "agg_linear_trend": _agg_linear_trend,
    "mean": lambda x, _: x.mean(axis=1, keepdims=True),
    "mean_abs_change": _mean_abs_change,
    "standard_deviation": lambda x, _: np.std(x, axis=1, keepdims=True),
}
