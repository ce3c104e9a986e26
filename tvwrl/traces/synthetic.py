"""Generates workload populations with the statistics of real ones, from fitted figures and a seed.

`google` and `alibaba` are frozen, because tasks of the benchmark play the first: their series are sums of smooth noises
that are corrected until autocorrelations at four lags agree. All others are made by `held_series`, in one pass.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.traces.held_series import held_series, rounded, to_distribution
from tvwrl.traces.population_file import check_population
from tvwrl.traces.statistics import DAY_SECONDS, SHAPE_LEVELS, lag_correlation, lags, row_correlation
from tvwrl.types import Float, InputError, Trace

POPULATIONS = ("google", "google-v2", "alibaba")
MOST_ROWS = 100_000_000  # of usage that are generated: they take about 4 GB of memory
BLOCK = 16  # workloads generated together: their series stay in the processor's cache
ROUNDS = 4  # generate-and-measure rounds that bring each series to its drawn autocorrelations
LAG_WEIGHT = np.array([3.0, 0.5, 0.2, 3.0])  # of lags(): one slot, hour, half a day, day


def synthetic_trace(
    population: str | Path = "google", workloads: int = 400, seed: int = 0, days: float | None = None
) -> Trace:
    """Generate a population of workloads with the statistics of recorded ones.

    Usage is a fraction of the reference machine, >= 0, without gaps; all workloads arrive in slot 0. Every workload is
    its own application. The same arguments give the same trace.

    Parameters
    ----------
    population : {"google", "google-v2", "alibaba"} or path
        google-v2 was judged by what schedulers earn on it and on the trace that it was fitted to, Google's of 2011:
        slots of 300 s and whole days drawn from the fitted 1 to 10. google is an earlier one of the same trace, which
        tasks of the benchmark play. alibaba has slots of 900 s and 8 days, and was fitted on one day per application:
        how much of a day repeats on the next is drawn from the hourly means of the six containers that Alibaba's 2018
        trace sample records for 8 days, independently of all else, which is a rough guess. A path is a file that
        `tvwrl population` wrote.
    workloads : int
        How many to draw, >= 1.
    seed : int
        Seed of all that is drawn.
    days : float, optional
        Length of every workload in days, instead of the drawn ones.

    Returns
    -------
    Trace
        The population, with `source` "synthetic".

    Raises
    ------
    InputError
        For an unknown population, a file that is none, no workloads, fewer than two slots, or more than about 100
        million rows of usage.

    Examples
    --------
    >>> synthetic_trace(workloads=3, days=1).usage.shape
    (864, 2)
    """
    return generate(population_figures(population), workloads, seed, days)


def population_figures(population: str | Path) -> dict[str, Any]:
    """The fitted figures of a shipped population, or of the file that `tvwrl population` wrote at a path."""
    if str(population) in POPULATIONS:
        text = files("tvwrl.traces").joinpath(f"populations/{population}.json").read_text("utf-8")
        return dict(json.loads(text))
    path = Path(population).expanduser()
    if path.suffix != ".json" or not path.is_file():
        raise InputError(
            f"population is '{population}': must be one of {', '.join(POPULATIONS)}, or a .json file that tvwrl "
            "population wrote"
        )
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None
    return check_population(content, path)


def generate(content: dict[str, Any], workloads: int, seed: int, days: float | None = None) -> Trace:
    """The trace that the figures `content` of `fit_population` describe; other arguments as in `synthetic_trace`."""
    at_least(1, workloads=workloads)
    slot_seconds, resources = content["slot_seconds"], tuple(content["resources"])
    day = DAY_SECONDS // slot_seconds
    if days is not None and not (np.isfinite(days) and round(days * day) >= 2):
        raise InputError(f"days is {days}: must give at least two slots of {slot_seconds} s")
    days = content["days"] if days is None else days
    slots = days * day if days else float(np.mean(content["tables"]["duration"]))
    refuse_too_many(MOST_ROWS, slots, workloads=workloads)
    rng = np.random.default_rng(seed)
    drawn = draw_parameters(content, workloads, rng)
    requests = fixed_requests(content, drawn)
    if days:
        duration = np.full(workloads, round(days * day))
    elif "groups" in content:
        duration = np.rint(drawn["duration"]).astype(int)
    else:
        duration = np.rint(drawn["duration"] / day).astype(int) * day
    duration = np.maximum(duration, 2).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(duration)]).astype(np.int64)
    usage = np.empty((offsets[-1], len(resources)))
    for length in np.unique(duration):
        same = np.flatnonzero(duration == length)
        for index in np.array_split(same, -(-len(same) // BLOCK)):
            block = make_series(content, {name: value[index] for name, value in drawn.items()}, int(length), rng)
            for i, series in zip(index, block, strict=True):
                usage[offsets[i] : offsets[i + 1]] = series
    known = np.array([row[:3] for row in content["kinds"]], dtype=np.float64)  # None becomes NaN
    kinds = known[drawn["kind"].astype(np.int64)]
    usage = rounded(usage)
    if not (np.isfinite(usage).all() and (usage >= 0).all()):
        raise InputError(f"population '{content['name']}': its figures give usage below 0 or not finite: fit it again")
    level = np.add.reduceat(usage, offsets[:-1]) / duration[:, None]
    request = np.stack([drawn[f"{r}_request_ratio"] for r in resources], 1) * level
    for d, own in requests.items():
        request[:, d] = own
    ids = np.array([f"{content['name']}-{i}" for i in range(workloads)], dtype=object)
    return Trace(
        name=content["name"],
        resources=resources,
        slot_seconds=slot_seconds,
        workload_id=ids,
        offsets=offsets,
        slot=np.concatenate([np.arange(k) for k in duration]).astype(np.int64),
        usage=usage,
        application=ids.copy(),
        arrival=np.zeros(workloads, dtype=np.int64),
        priority=kinds[:, 1],
        scheduling_class=kinds[:, 0],
        request=np.where(kinds[:, 2:] > 0, request, np.nan),
        reference_machine=content["reference_machine"],
        source="synthetic",
    )


def refuse_too_many(most: int, slots: float, /, **count: int) -> None:
    """Raise InputError if a number of series, of `slots` on average each, has more than `most` rows of usage."""
    for name, value in count.items():
        if value > most / slots:
            raise InputError(
                f"{name} is {value}: must be at most {int(most / slots):,} where each has {slots:,.0f} slots on "
                f"average, so that no more than {most:,} rows of usage are generated; ask for fewer {name}, or for "
                "fewer days"
            )


def make_series(content: dict[str, Any], drawn: dict[str, Float], length: int, rng: np.random.Generator) -> Float:
    """Usage (n, length, D) of n workloads of the parameters `drawn`, made as the population's are."""
    return (held_series if "groups" in content else _series)(content, drawn, length, rng)


def fixed_requests(content: dict[str, Any], drawn: dict[str, Float]) -> dict[int, Float]:
    """(n,) requests by the number of each resource whose requests do not follow from levels that are measured later.

    They are the common one that is nearest, where there are such, and where usage stays within requests, levels and
    multiples in `drawn` are changed so that it can.
    """
    out = {}
    for d, r in enumerate(content["resources"]):
        sizes, within = (np.array(content[name][d] if name in content else []) for name in ("sizes", "within_request"))
        if not (sizes.size or within.any()):
            continue
        own = drawn[f"{r}_request_ratio"] * drawn[f"{r}_level"]
        if sizes.size:
            distance = np.abs(np.log(np.maximum(own, 1e-12))[:, None] - np.log(np.maximum(sizes, 1e-12)))
            own = np.where(np.isnan(own), np.nan, sizes[distance.argmin(1)])
        if within.any():
            drawn[f"{r}_level"] = np.fmin(drawn[f"{r}_level"], own)
        level = drawn[f"{r}_level"]
        drawn[f"{r}_request_ratio"] = np.divide(own, level, out=np.full_like(own, np.nan), where=level > 0)
        out[d] = own
    return out


def draw_parameters(content: dict[str, Any], n: int, rng: np.random.Generator) -> dict[str, Float]:
    """Parameters of `n` workloads, (n,) per name, drawn jointly through the fitted copula; NaN = unknown.

    The copula is Gaussian, or a mixture of Gaussians around the centres of groups of workloads ("groups").
    """
    from scipy.special import ndtr

    names, k = content["parameters"], len(content["parameters"])
    correlation = np.eye(k)
    correlation[np.tril_indices(k, -1)] = content["copula"]
    factor = np.linalg.cholesky(nearest_correlation(correlation + np.tril(correlation, -1).T))
    latent = rng.standard_normal((n, k)) @ factor.T
    if groups := content.get("groups"):
        group = rng.choice(len(groups["share"]), n, p=np.array(groups["share"]) / np.sum(groups["share"]))
        latent = np.array(groups["centre"])[group] + latent * np.array(groups["spread"])
    probability = rounded(ndtr(latent))
    out = {name: np.full(n, np.nan) for name in names}
    for name, table in content["tables"].items():
        own = probability[:, names.index(name)]
        if groups and name == "duration":  # a recorded one: series of whole days stay so
            out[name] = np.array(table)[np.minimum((own * len(table)).astype(int), len(table) - 1)]
        else:
            out[name] = np.interp(own, np.linspace(0.0, 1.0, len(table)), table)
    shares = np.cumsum([row[3] for row in content["kinds"]])
    kind = np.searchsorted(shares, probability[:, names.index("kind")])
    out["kind"] = np.minimum(kind, len(shares) - 1).astype(np.float64)
    return out


def daily_profiles(trace: Trace, shapes: int = 4) -> list[list[list[float]]]:
    """Mean daily shape and principal deviations from it, (D, shapes, 24), by hours from the trace's start.

    A workload's own hourly profile (zero mean, unit variance) is about the first row plus standard normal multiples
    of the others.
    """
    day, out = DAY_SECONDS // trace.slot_seconds, []
    rows: list[list[Float]] = [[] for _ in trace.resources]
    for i in range(len(trace)):
        hour = trace.slot[trace.offsets[i] : trace.offsets[i + 1]] % day * 24 // day
        count = np.bincount(hour, minlength=24)
        for d, x in enumerate(trace.series(i).T):
            if count.all() and x.std() > 1e-6 * x.mean():
                profile = np.bincount(hour, x, 24) / count
                rows[d].append((profile - profile.mean()) / max(profile.std(), 1e-12))
    for name, found in zip(trace.resources, rows, strict=True):
        if not found:
            raise InputError(
                f"trace '{trace.name}': no workload's {name} changes and is recorded in all hours of a day, so there "
                "is no daily shape to fit"
            )
        mean = np.mean(found, axis=0)
        _, scale, axes = np.linalg.svd(found - mean, full_matrices=False)
        deviations = (scale[:, None] * axes / np.sqrt(len(found)))[: shapes - 1]
        out.append(np.round(np.vstack([mean, deviations]), 3).tolist())
    return out


def workload_kinds(trace: Trace, known: list[Any] | None = None) -> tuple[list[Any], Float]:
    """Rows [class, priority, request known, share], rising by mean request, and the row (N,) of each workload."""
    known_requests = np.isfinite(trace.request)  # of some resources perhaps: cores without memory
    size = np.where(known_requests, trace.request, 0.0).sum(1)
    columns = np.stack([trace.scheduling_class, trace.priority, known_requests.any(1)], 1)
    keys = [tuple(None if np.isnan(v) else float(v) for v in row) for row in columns]
    if known is None:
        mean = {key: np.mean([s for k, s in zip(keys, size, strict=True) if k == key]) for key in set(keys)}
        order = sorted(mean, key=lambda key: (key[2], np.nan_to_num(mean[key]), str(key)))
        known = [[*key, round(keys.count(key) / len(keys), 4)] for key in order]
    row = {tuple(k[:3]): float(i) for i, k in enumerate(known)}
    return known, np.array([row[key] for key in keys])


def nearest_correlation(matrix: Float) -> Float:
    """The matrix with its negative eigenvalues raised to a small positive one and a unit diagonal."""
    fixed = np.clip(matrix, -0.99, 0.99)
    for _ in range(3):  # restoring the diagonal can lower an eigenvalue again
        np.fill_diagonal(fixed, 1.0)
        values, axes = np.linalg.eigh(fixed)
        fixed = (axes * np.maximum(values, 0.02)) @ axes.T
        scale = np.sqrt(np.diag(fixed))
        fixed = fixed / np.outer(scale, scale)
    return np.asarray(fixed)


def _series(content: dict[str, Any], drawn: dict[str, Float], length: int, rng: np.random.Generator) -> Float:
    """Usage (n, length, D) of n workloads that measure as `drawn`, as nearly as the drawn figures are compatible.

    Each series is a sum of a daily shape and noises of several time constants, mapped monotonically to the drawn
    distribution. The shares of the sum and how much of it two resources have in common are corrected from what the
    result measures, ROUNDS times: a monotone map and a finite sample both move correlations.
    """
    resources, seconds, n = content["resources"], content["slot_seconds"], len(drawn["kind"])
    lag = lags(seconds)
    own = [_components(p, n, length, seconds, content["window"], rng) for p in content["profiles"]]
    goal = [np.stack([np.clip(drawn[f"{r}_{name}"], -0.99, 0.999) for name in lag], 1) for r in resources]
    common_goal = np.clip(drawn["correlation"], -0.999, 0.999)
    aim, common_aim = [g.copy() for g in goal], common_goal.copy()
    gaps = range(len(SHAPE_LEVELS) - 1)
    shape = [rounded(np.exp(np.stack([drawn[f"{r}_shape{k}"] for k in gaps], 1))) for r in resources]
    weight = LAG_WEIGHT * [2 * length >= 3 * k for k in lag.values()]  # a shorter series does not show the lag
    components = range(own[0].shape[1])
    reach = np.nan_to_num([[lag_correlation(own[0][:, i], k).mean() for i in components] for k in lag.values()])
    out = np.empty((n, length, len(resources)))
    share = [np.full((n, len(components)), 1.0 / len(components)) for _ in resources]
    for _ in range(ROUNDS):
        share = [_shares(s, reach, a, weight) for s, a in zip(share, aim, strict=True)]
        amplitude = [np.sqrt(s) for s in share]
        overlap = np.maximum(np.einsum("nc,nc->n", amplitude[0], amplitude[-1]), 1e-3)
        common = np.clip(common_aim / overlap, -0.9999, 0.9999)
        for d in range(len(resources)):
            alone = amplitude[d] * np.sqrt(1 - common**2)[:, None] if d else amplitude[d]
            x = _mix(alone, own[d])
            if d:
                x += _mix(amplitude[d] * common[:, None], own[0])
            level, variation = drawn[f"{resources[d]}_level"], drawn[f"{resources[d]}_variation"]
            out[:, :, d] = to_distribution(x, shape[d], level, variation, content["floor"][d])
            for j, k in enumerate(lag.values()):
                if weight[j] >= 1.0:
                    miss = goal[d][:, j] - np.nan_to_num(lag_correlation(out[:, :, d], k))
                    aim[d][:, j] = rounded(np.clip(aim[d][:, j] + 0.8 * miss, -0.99, 1.2))
        if len(resources) > 1:
            miss = common_goal - np.nan_to_num(row_correlation(out[:, :, 0], out[:, :, 1]))
            common_aim = rounded(np.clip(common_aim + 0.8 * miss, -1.2, 1.2))
    return out


def _components(profiles: Any, n: int, length: int, slot_seconds: int, window: int, rng: np.random.Generator) -> Any:
    """Independent float32 series (n, C, length): daily shape, drift, noises of 3 h, 30 min and one slot, a flicker.

    Each has mean 0 and variance 1. The slow noises are smoothed, so that their peaks last; all are averaged over
    `window` slots, as the source was.
    """
    from scipy.signal import lfilter

    table = np.array(profiles)
    day = DAY_SECONDS // slot_seconds
    multiples = rng.standard_normal((n, len(table)))
    multiples[:, 0] = 1.0
    hourly = multiples @ table
    position = (np.arange(day) + 0.5) * 24 / day - 0.5
    low = np.floor(position).astype(int)
    part = position - low
    one_day = hourly[:, low % 24] * (1 - part) + hourly[:, (low + 1) % 24] * part
    daily = one_day[:, np.arange(length) % day]
    hours = slot_seconds / 3600
    poles = [(np.exp(-hours / tau), np.exp(-4 * hours / tau)) for tau in (24.0, 3.0, 0.5)] + [(0.0, 0.0), (-0.6, 0.0)]
    settle = int(18.0 / hours)  # three times the slowest smoothing
    noise = rng.standard_normal((n, len(poles), settle + length), dtype=np.float32)
    for j, (slow, fast) in enumerate(poles):
        noise[:, j, 0] /= np.sqrt(1 - slow * slow)  # starts in its stationary state
        recursion = np.convolve([1.0, -slow], [1.0, -fast]).astype(np.float32)
        noise[:, j] = lfilter(np.ones(window, np.float32), recursion, noise[:, j], axis=1)
    out = np.concatenate([daily[:, None, :].astype(np.float32), noise[:, :, settle:]], axis=1)
    out -= out.mean(2, keepdims=True)
    out /= np.maximum(np.sqrt(np.einsum("nct,nct->nc", out, out) / length), 1e-12)[:, :, None]
    return out


def _mix(weight: Float, series: Any) -> Any:
    """(n, L) float32 sums of `series` (n, C, L) with `weight` (n, C): term by term, in the same order anywhere."""
    factor = weight.astype(np.float32)[:, :, None]
    total = factor[:, 0] * series[:, 0]
    for i in range(1, series.shape[1]):
        total += factor[:, i] * series[:, i]
    return total


def _shares(start: Float, reach: Float, aim: Float, weight: Float) -> Float:
    """Shares (n, C) >= 0, sum 1, of components of autocorrelations `reach` (K, C) that mix nearest to `aim` (n, K)."""
    share = 0.95 * start + 0.05 / start.shape[1]
    step, shift = -0.7 * (reach.T * weight) @ reach, 0.7 * (aim * weight) @ reach
    for _ in range(60):  # exponentiated gradient: stays on the simplex
        share *= np.exp(share @ step + shift)
        share /= share.sum(1, keepdims=True)
    return rounded(share)
