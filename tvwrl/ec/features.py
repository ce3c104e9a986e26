"""Feature vectors of workload series: the aggregate baseline, the temporal features, and their scaling to [0, 1]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tvwrl.checks import at_least, different, one_of
from tvwrl.ec.backends import load_backend
from tvwrl.traces import checked_series
from tvwrl.types import Float, InputError, Int

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
    names = []
    for calculator, sets in settings.items():
        for values in sets or [{}]:
            parameters = [f'{k}_"{v}"' if isinstance(v, str) else f"{k}_{v}" for k, v in sorted(values.items())]
            names.append("__".join([resource, calculator, *parameters]))
    return names


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


BLOCK_VALUES = 2**17  # values worked on at a time: 1 MiB stays in the cache
NO_USAGE = 1e-9  # fraction of the reference machine: below the resolution of any trace
LARGEST = 1e300  # a feature beyond it counts as undefined, so that ranges stay finite
CONSTANT = 1e-12  # relative range below which a feature varies by rounding only


def aggregate_features(series: Sequence[Float], resources: Sequence[str]) -> tuple[Float, list[str]]:
    """Total usage of each workload without its course over time: the baseline after Zhang et al. 2011.

    Paper, "Equivalence-class (EC) Analysis": total and mean of each resource, duration, and mean, standard deviation
    and normalised (by the mean) standard deviation of the memory-CPU ratio; here the ratio of each later resource
    to the first, so none for one resource. Slots in which the first resource is idle (<= 1e-9) have no ratio and are
    left out; a workload with no other slot has a ratio of 0, and a ratio of mean 0 a normalised deviation of 0.

    Args:
        series: n arrays (length, D), fraction of the reference machine, >= 0; lengths >= 1 may differ.
        resources: D names.

    Returns:
        features (n, F), F = 2 D + 1 + 3 (D - 1), all finite: totals in fraction x slots, duration in slots; and
        their F names: `cpu__total`, `cpu__mean`, ..., `duration`, `mem_per_cpu__mean`, `mem_per_cpu__std`,
        `mem_per_cpu__normalised_std`.

    Raises:
        InputError: see `temporal_features`.
    """
    checked = _checked(series, resources)
    names = [f"{resource}__{what}" for resource in resources for what in ("total", "mean")] + ["duration"]
    for later in resources[1:]:
        names += [f"{later}_per_{resources[0]}__{what}" for what in ("mean", "std", "normalised_std")]
    features = np.empty((len(checked), len(names)))
    for members, values in _blocks(checked):
        length = values.shape[2]
        total = values.sum(axis=2)
        levels = np.stack([total, total / length], axis=2).reshape(len(values), -1)
        duration = np.full((len(values), 1), float(length))
        features[members] = np.concatenate([levels, duration, _ratio_features(values)], axis=1)
    return features, names


def _ratio_features(values: Float) -> Float:
    """(b, 3 (D - 1)) mean, std and normalised std of each later resource's ratio to the first in `values` (b, D, n)."""
    first, later = values[:, :1], values[:, 1:]
    busy = first > NO_USAGE
    slots = np.maximum(busy.sum(axis=2), 1)
    ratio = np.divide(later, first, out=np.zeros_like(later), where=busy)
    mean = ratio.sum(axis=2) / slots
    apart = np.where(busy, ratio - mean[:, :, None], 0.0)
    std = np.sqrt((apart**2).sum(axis=2) / slots)
    normalised = np.divide(std, mean, out=np.zeros_like(std), where=mean > 0)
    return np.stack([mean, std, normalised], axis=2).reshape(len(values), -1)


def temporal_features(
    series: Sequence[Float],
    resources: Sequence[str],
    slots_per_day: int,
    backend: Literal["tvwrl", "tsfresh"] = "tvwrl",
) -> tuple[Float, list[str]]:
    """Autocorrelation, trends, mean, mean absolute change and standard deviation of every resource.

    Paper, "Temporal Features" and "EC Creation"; which ones exactly is `temporal_settings`. Names and values are
    tsfresh's (Christ et al. 2016); both backends take the same settings.

    Args:
        series: n arrays (length, D), finite, any unit; lengths >= 1 may differ.
        resources: D names.
        slots_per_day: >= 1; the longest lag.
        backend: "tvwrl", numpy on many series at a time, or "tsfresh" itself: 1 process, many times slower.

    Returns:
        features (n, D F'), resource after resource, and their names, e.g. `cpu__autocorrelation__lag_1`. NaN where
        tsfresh defines no value: a lag or chunk as long as the series, autocorrelation of a series with a variance
        <= 1e-8 (constant, all zero), correlation with a constant; `FeatureScaler` fills them.

    Raises:
        InputError: no series, an empty one, NaN or infinite usage, another number of resources than named, names
            that tsfresh's column names cannot hold, slots_per_day < 1, an unknown backend, tsfresh not installed.
    """
    settings = temporal_settings(slots_per_day)
    checked = _checked(series, resources)
    names = [name for resource in resources for name in column_names(resource, settings)]
    one_of(("tvwrl", "tsfresh"), backend=backend)
    if backend == "tsfresh":
        return features_by_tsfresh(checked, resources, settings)[names].to_numpy(), names
    features = np.empty((len(checked), len(names)))
    for members, values in _blocks(checked):
        rows = values.reshape(-1, values.shape[2])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            parts = [_CALCULATORS[name](rows, sets or [{}]) for name, sets in settings.items()]
        features[members] = np.concatenate(parts, axis=1).reshape(len(members), -1)
    return features, names


def features_by_tsfresh(series: Sequence[Float], resources: Sequence[str], settings: Settings, n_jobs: int = 0) -> Any:
    """The pandas table, a row per workload in order, that tsfresh makes of valid series; `n_jobs` processes, 0 = none.

    Raises:
        InputError: tsfresh is not installed.
    """
    extract_features = load_backend("tsfresh").extract_features
    import pandas as pd

    workload = "_".join(["workload", *resources])  # no resource can be named so
    frame = pd.DataFrame(np.concatenate(series), columns=list(resources))
    frame.insert(0, workload, np.repeat(np.arange(len(series)), [len(one) for one in series]))
    options = {"default_fc_parameters": settings, "n_jobs": n_jobs, "disable_progressbar": True}
    return extract_features(frame, column_id=workload, **options)


def _blocks(series: Sequence[Float]) -> Iterator[tuple[Int, Float]]:
    """Workloads of equal length together, in pieces that fit the cache: indices (b,) and values (b, D, length)."""
    lengths = np.array([len(one) for one in series])
    order = np.argsort(lengths, kind="stable")
    resources = series[0].shape[1]
    for group in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        size = max(1, BLOCK_VALUES // (len(series[group[0]]) * resources))
        for begin in range(0, len(group), size):
            members = group[begin : begin + size]
            values = np.stack([series[i] for i in members])
            yield members, np.ascontiguousarray(values.transpose(0, 2, 1))


def _checked(series: Sequence[Float], resources: Sequence[str]) -> list[Float]:
    """The series as arrays (length, D); InputError for them, or for names that features cannot have."""
    different(resources=resources)
    for name in resources:
        if "__" in name or name.endswith("_"):
            raise InputError(f"resource {name!r}: its name must not contain '__' or end in '_' (names of features)")
    return checked_series(series, len(resources))


class FeatureScaler:
    """Scales every feature to [0, 1] on the training set, so that features of any unit weigh the same (paper,
    "Temporal Features").

    Follows scikit-learn: `fit`, `transform`, `fit_transform`. Undefined values (NaN, infinite, beyond 1e300) take the
    training median of the feature, 0 if it was never defined; a feature constant in training (to 1e-12, which is
    rounding) becomes 0; what lies outside the training range is clipped to [0, 1].

    Fitted attributes, each (F,) and finite: `low_` training minimum, `width_` training range, 0 = constant,
    `fill_` training median.
    """

    low_: Float
    width_: Float
    fill_: Float

    def fit(self, features: Float) -> FeatureScaler:
        """Learn range and median of `features` (n, F), n >= 1."""
        defined = np.abs(features) <= LARGEST
        columns = zip(features.T, defined.T, strict=True)
        self.fill_ = np.array([np.median(column[known]) if known.any() else 0.0 for column, known in columns])
        filled = np.where(defined, features, self.fill_)
        high = filled.max(axis=0)
        self.low_ = filled.min(axis=0)
        width = high - self.low_
        self.width_ = np.where(width > CONSTANT * np.maximum(np.abs(high), np.abs(self.low_)), width, 0.0)
        return self

    def transform(self, features: Float) -> Float:
        """(n, F) in [0, 1] of `features` (n, F)."""
        filled = np.where(np.abs(features) <= LARGEST, features, self.fill_)
        varies = self.width_ > 0
        with np.errstate(over="ignore"):  # far outside a narrow range: infinite, then clipped
            scaled = (filled - self.low_) / np.where(varies, self.width_, 1.0)
        return np.where(varies, np.clip(scaled, 0.0, 1.0), 0.0)

    def fit_transform(self, features: Float) -> Float:
        """(n, F) in [0, 1]: `fit`, then `transform` of the same features."""
        return self.fit(features).transform(features)

    def to_dict(self) -> dict[str, list[float]]:
        """Plain lists of finite numbers from which `from_dict` makes an equal scaler."""
        return {"low": self.low_.tolist(), "width": self.width_.tolist(), "fill": self.fill_.tolist()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> FeatureScaler:
        """The scaler that `to_dict` described. Raises LookupError or ValueError if it is no such description."""
        low, width, fill = numbers = np.array([content[key] for key in ("low", "width", "fill")], dtype=np.float64)
        if numbers.ndim != 2 or not np.isfinite(numbers).all() or (width < 0).any():
            raise ValueError("low, width and fill of a scaler must be lists of finite numbers, and widths >= 0")
        scaler = cls()
        scaler.low_, scaler.width_, scaler.fill_ = low, width, fill
        return scaler
