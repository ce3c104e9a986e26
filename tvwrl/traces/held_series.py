"""Series that keep a value for a while and then take another: how recorded ones are measured, and new ones made.

A series is described by its distribution and by how the variance of the Gaussian series whose monotone image it is, is
shared between a daily shape, white noise, and parts that keep a value for 10 minutes, an hour, ... on average. Recorded
series move in steps, so that most windows of them are calm. Noises of the same autocorrelation that move at all times
make every window a little restless, and a scheduler pays for that (docs/results/traces.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvwrl.traces.statistics import DAY_SECONDS, SHAPE_LEVELS, population_parameters, row_correlation
from tvwrl.types import Float, Trace

HELD_HOURS = (1 / 6, 1.0, 4.0, 12.0, 48.0, 192.0)  # mean times for which a part keeps its value
PARTS = ("daily", "white", *(f"held{k}" for k in range(len(HELD_HOURS))))
LAG_HOURS = (1 / 12, 1 / 6, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 18.0, 24.0, 36.0, 48.0, 72.0, 96.0)  # where parts are fitted
SHARES = ("daily", *(f"over{k}" for k in range(len(HELD_HOURS))))  # parameters that hold the shares of the parts
SAMPLES = 48  # series of which the autocorrelation of a part is the mean
HERMITE_TERMS = 12
LEAST_PAIRS = 12  # of which an autocorrelation is computed
PEAK_SHARE = 0.05  # of a series: its largest values, which may be scattered
DIGITS = 7  # decimals kept where processors and BLAS libraries differ in the last ones
MOVED = ("_lag1", "_hour", "_halfday", "_day", "_peak_ratio")  # parameters of a workload that shares stand in for


def held_parameters(trace: Trace, profiles: Any, peaks: bool = False) -> dict[str, Float]:
    """What `held_series` needs to know of each workload of a trace, (N,) per name; NaN = undefined.

    Levels, variations, shapes, durations, and request ratios are those of `population_parameters`. `r_daily`
    is the share of the daily shape in the variance of resource r; of the rest, `r_over0` is the share of all that is
    not white noise, `r_over1` the share of what keeps its value for an hour or more, and so on: independent errors in
    these leave an autocorrelation about as it is, those in shares of single parts even it out. `correlation` is that of
    the normal scores of the first two resources. With `peaks`, `r_peak_length` is the logarithm of the slots for which
    usage stays in its top `PEAK_SHARE` on average, and the shares are those of what is below. `profiles`: as of
    `daily_profiles`
    """
    n, day = len(trace), DAY_SECONDS // trace.slot_seconds
    out = {name: v for name, v in population_parameters(trace).items() if not name.endswith(MOVED)}
    names = (*SHARES, "peak_length") if peaks else SHARES
    out |= {f"{r}_{name}": np.full(n, np.nan) for r in trace.resources for name in names}
    out["correlation"] = np.full(n, np.nan)
    lags = np.maximum(1, np.rint(np.array(LAG_HOURS) * day / 24)).astype(int)
    reach: dict[tuple[int, int], Float] = {}
    for i in range(n):
        usage, found = _without_gaps(trace, i), []
        for d, r in enumerate(trace.resources):
            if out[f"{r}_variation"][i] == 0.0:
                continue
            values, scores = usage[:, d], _normal_scores(usage[:, d])
            length = max(1, round(2 * len(scores) / day)) * (day // 2)  # to half days: few lengths are looked up
            if (length, d) not in reach:
                parts = make_parts(profiles[d], SAMPLES, length, trace.slot_seconds, np.random.default_rng(0))
                reach[length, d] = _autocorrelation(parts, lags).mean(0)
            found.append(scores)
            limit = np.quantile(values, 1.0 - PEAK_SHARE)
            above = values > limit
            if peaks and above.mean() > PEAK_SHARE / 5 and values.min() < limit:  # else it stays at its largest value
                runs = above[0] + np.count_nonzero(above[1:] & ~above[:-1])
                out[f"{r}_peak_length"][i] = np.log(np.count_nonzero(above) / runs)
                values = np.minimum(values, limit)
            own = _autocorrelation((values - values.mean()) / values.std(), lags)
            share = fitted_shares(before_mapping(values, own), reach[length, d])
            over = share[1:][::-1].cumsum()[::-1] / max(share[1:].sum(), 1e-9)
            for name, value in zip(SHARES, [share[0], *over[1:]], strict=True):
                out[f"{r}_{name}"][i] = value
        if len(found) > 1:
            out["correlation"][i] = row_correlation(found[0][None], found[1][None])[0]
    return out


def fitted_shares(autocorrelation: Float, reach: Float) -> Float:
    """Shares (C,) >= 0, sum 1, of parts of autocorrelations `reach` (C, K) that come nearest to one of K lags.

    Lags at which neighbours are alike count more: there a small difference is a large one of what changes.
    """
    from scipy.optimize import nnls

    known = np.isfinite(autocorrelation) & np.isfinite(reach).all(0)
    weight = 1.0 / np.sqrt(np.maximum(1.0 - autocorrelation[known], 0.02))
    sums_to_one = 10.0  # its weight
    rows = np.vstack([(reach[:, known] * weight).T, np.full(len(reach), sums_to_one)])
    share, _ = nnls(rows, np.append(autocorrelation[known] * weight, sums_to_one))
    return np.asarray(share / share.sum())


def before_mapping(values: Float, autocorrelation: Float) -> Float:
    """Autocorrelations (K,) of the Gaussian series whose monotone image has these values (L,) and autocorrelations.

    The image's is the sum over n of c_n^2 rho^n, where c_n are the coefficients of the map's expansion in Hermite
    polynomials and rho is the correlation before (Cario and Nelson 1997, "Modeling and generating random vectors with
    arbitrary marginal distributions and correlation matrix"). NaN stays NaN.
    """
    from scipy.special import eval_hermitenorm, gamma, ndtri

    image = np.sort(values)
    image = (image - image.mean()) / image.std()
    z = ndtri((np.arange(len(image)) + 0.5) / len(image))
    terms = range(1, HERMITE_TERMS + 1)
    share = np.array([(image * eval_hermitenorm(n, z)).mean() ** 2 / gamma(n + 1) for n in terms])
    share = np.append(share, max(0.0, 1.0 - share.sum()))  # what is left of a heavy tail: to the next power
    before = np.linspace(-1.0, 1.0, 401)
    after = (share / share.sum()) @ before ** np.arange(1, len(share) + 1)[:, None]
    rising = np.maximum.accumulate(after) + 1e-9 * np.arange(len(after))
    known = np.isfinite(autocorrelation)
    out = np.full(len(autocorrelation), np.nan)
    out[known] = np.interp(autocorrelation[known], rising, before)
    return out


def held_series(content: dict[str, Any], drawn: dict[str, Float], length: int, rng: np.random.Generator) -> Float:
    """Usage (n, length, D) of n workloads of the parameters `drawn`, as `held_parameters` measures them."""
    resources, n = content["resources"], len(drawn["duration"])
    own = [make_parts(p, n, length, content["slot_seconds"], rng) for p in content["profiles"]]
    amplitude = []
    for r in resources:
        daily, *over = (np.clip(np.nan_to_num(drawn[f"{r}_{name}"]), 0.0, 1.0) for name in SHARES)
        falling = np.minimum.accumulate(np.stack([np.ones(n), *over, np.zeros(n)], 1), axis=1)
        rest = (1.0 - daily)[:, None] * -np.diff(falling, axis=1)
        amplitude.append(np.sqrt(rounded(np.concatenate([daily[:, None], rest], axis=1))))
    overlap = np.maximum(np.einsum("nc,nc->n", amplitude[0], amplitude[-1]), 1e-3)
    common = np.clip(np.nan_to_num(drawn["correlation"]) / overlap, -1.0, 1.0)[:, None]
    out, within_request = np.empty((n, length, len(resources))), content.get("within_request")
    for d, r in enumerate(resources):
        alone = amplitude[d] * np.sqrt(1.0 - common**2) if d else amplitude[d]
        x = np.einsum("nc,ncl->nl", alone, own[d])
        if d:
            x += np.einsum("nc,ncl->nl", amplitude[d] * common, own[0])
        if f"{r}_peak_length" in drawn:
            x = np.stack([with_peaks(*row, rng) for row in zip(x, np.exp(drawn[f"{r}_peak_length"]), strict=True)])
        gaps = np.exp(np.stack([np.nan_to_num(drawn[f"{r}_shape{k}"]) for k in range(len(SHAPE_LEVELS) - 1)], 1))
        level, most = drawn[f"{r}_level"], np.full(n, np.inf)
        if within_request and within_request[d]:
            most = np.fmin(most, np.maximum(drawn[f"{r}_request_ratio"], 1.0) * level)
        out[:, :, d] = to_distribution(x, gaps, level, drawn[f"{r}_variation"], content["floor"][d], most)
    return out


def with_peaks(x: Float, slots: float, rng: np.random.Generator) -> Float:
    """The series `x` (L,) with its largest values at times of `slots` on average, scattered over its upper half.

    Parts that keep their values put the largest ones of a long series into few long times, when all of them are high;
    where recorded peaks are short and come on most days, most windows would then have no peak. NaN slots: none.
    """
    if not np.isfinite(slots):
        return x
    slots = max(slots, 1.0)
    between = slots * (0.5 / PEAK_SHARE - 1.0)  # twice as many peaks, of which half are in the upper half
    pairs = 8 + int(2 * len(x) / (slots + between))
    spans = np.stack([rng.geometric(1.0 / between, pairs), rng.geometric(1.0 / slots, pairs)], 1).ravel()
    span = np.searchsorted(np.cumsum(spans), np.arange(len(x)), side="right")
    peak = (span % 2 == 1) & (x >= np.median(x))
    height = rng.standard_normal(len(spans) + 1)[span] + rng.standard_normal(len(x))
    return np.where(peak, x.max() + height - height.min(), x)


def make_parts(profile: Any, n: int, length: int, slot_seconds: int, rng: np.random.Generator) -> Float:
    """(n, C, length) the `PARTS` of n series, independent, each of mean 0 and variance 1."""
    table, day, slots = np.array(profile), DAY_SECONDS // slot_seconds, np.arange(length)
    multiples = rng.standard_normal((n, len(table)))
    multiples[:, 0] = 1.0
    hour = (np.arange(day) + 0.5) * 24 / day - 0.5
    low = np.floor(hour).astype(int)
    hourly = multiples @ table
    one_day = hourly[:, low % 24] * (1 - hour + low) + hourly[:, (low + 1) % 24] * (hour - low)
    out = np.empty((n, len(PARTS), length))
    out[:, 0], out[:, 1] = one_day[:, slots % day], rng.standard_normal((n, length))
    for part, hours in enumerate(HELD_HOURS, 2):
        changes = rng.random((n, length)) < min(1.0, slot_seconds / 3600 / hours)
        changes[np.arange(n), rng.integers(1, length, n)] |= ~changes[:, 1:].any(1)  # a recorded part changed, too
        since = np.maximum.accumulate(np.where(changes, slots, 0), axis=1)
        out[:, part] = np.take_along_axis(rng.standard_normal((n, length)), since, 1)
    out -= out.mean(2, keepdims=True)
    out /= np.maximum(out.std(2, keepdims=True), 1e-9)
    return out


def rounded(values: Float) -> Float:
    """`values` to DIGITS decimals, beyond the last bits in which machines differ on exp, log and the like."""
    return np.asarray(np.round(values, DIGITS), dtype=np.float64)


def to_distribution(
    x: Float, gaps: Float, level: Float, variation: Float, floor: float, most: float | Float = np.inf
) -> Float:
    """Monotone image (n, L) of `x` with `gaps` (n, G) between quantiles, mean `level`, std `variation * level`.

    None of it is above `most` (n,), which is at least the level; where that cuts, mean and deviation may be smaller.
    """
    place = np.rint(np.array(SHAPE_LEVELS) * (x.shape[1] - 1)).astype(int)
    knots = np.partition(x, np.unique(place), axis=1)[:, place]
    values = np.concatenate([np.zeros((len(x), 1)), np.cumsum(gaps, axis=1)], axis=1)
    y = np.stack([np.interp(*row) for row in zip(x, knots, values, strict=True)])
    y -= y.mean(1, keepdims=True)
    y /= np.maximum(np.sqrt(np.einsum("nt,nt->n", y, y) / y.shape[1]), 1e-12)[:, None]
    # Copula draws may put the minimum below any recorded one; half of that is allowed, the rest is clipped.
    low, high = 0.5 * np.minimum(floor, level), np.broadcast_to(most, level.shape)
    deviation, lowest, highest = level * variation, y.min(1), y.max(1)
    y *= deviation[:, None]
    y += level[:, None]
    for i in np.flatnonzero((level + deviation * lowest < low) | (level + deviation * highest > high)):
        row = y[i]
        for _ in range(4):  # clipping moves mean and deviation; the passes bring them back
            row = np.clip(row, low[i], high[i])
            row = level[i] + (row - row.mean()) * (deviation[i] / max(row.std(), 1e-12))
        row = np.clip(row, low[i], high[i])
        y[i] = np.minimum(row * (level[i] / row.mean()), high[i])
    return np.asarray(y)


def _normal_scores(values: Float) -> Float:
    """The values (L,) replaced by normal quantiles of their ranks, mean 0 and variance 1; equal ones stay equal."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores = ndtri((rankdata(values) - 0.5) / len(values))
    return np.asarray((scores - scores.mean()) / scores.std())


def _autocorrelation(x: Float, lags: Any) -> Float:
    """(..., K) of series `x` (..., L) of mean 0 and variance 1; NaN at lags that leave hardly any pairs."""
    unknown = np.full(x.shape[:-1], np.nan)
    length = x.shape[-1]
    found = [(x[..., :-k] * x[..., k:]).mean(-1) if length > k + LEAST_PAIRS else unknown for k in lags]
    return np.stack(found, -1)


def _without_gaps(trace: Trace, i: int) -> Float:
    """Usage (L, D) of workload i, with straight lines over its gaps."""
    rows = slice(trace.offsets[i], trace.offsets[i + 1])
    slot, usage = trace.slot[rows], trace.usage[rows]
    every = np.arange(slot[0], slot[-1] + 1)
    return usage if len(every) == len(slot) else np.stack([np.interp(every, slot, x) for x in usage.T], 1)
