"""Fits the figures that a synthetic population is generated from (populations/NAME.json) to a real trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.traces.held_series import held_parameters
from tvwrl.traces.population_file import check_population
from tvwrl.traces.synthetic import daily_profiles, nearest_correlation, workload_kinds
from tvwrl.types import Float, InputError, Int, Trace

TABLE_LEVELS = 41  # entries of a fitted quantile table; more with more groups
GROUPED_BY = {"_level": 3.0, "_variation": 3.0, "duration": 3.0, "_ratio": 1.5}  # weight by ending of a name; else 1
LEAST_WORKLOADS = 20  # of which the figures of a population are fitted
WORKLOADS_PER_GROUP = 8
LEAST_IN_GROUP = 2
COMMON = 0.02  # share of workloads that makes a request a common one
STEPS = 0.8  # share of workloads with common requests that makes requests steps, as sizes of machines are
ATTEMPTS = 5  # random starts of the search for groups; the tightest groups are kept


def fit_population(trace: Trace, name: str, groups: int | None = None, peaks: bool = False) -> dict[str, Any]:
    """Fitted figures that `tvwrl.traces.synthetic.generate` turns back into workloads like those of `trace`.

    Per parameter of `held_parameters` a quantile table; of all together a copula: their normal scores scatter around
    the means of groups of workloads, found by k-means, with the same spread and correlations in all. One group is a
    Gaussian copula; a group per workload would be a list of them. No group has fewer than `LEAST_IN_GROUP` workloads
    (those of smaller ones join the nearest). With few workloads, entries of the tables are figures of single ones.

    Where no workload ever uses more than it requested, generated ones do not, either; where most requests are one of a
    few values, generated ones are these.

    Parameters
    ----------
    trace : Trace
        Recorded usage, of one or two resources and at least `LEAST_WORKLOADS` workloads.
    name : str
        Name of the population.
    groups : int, optional
        How many at most, >= 1; default: one for `WORKLOADS_PER_GROUP` workloads.
    peaks : bool
        Whether the largest values are short and scattered, instead of clustered in few times of high usage.

    Raises
    ------
    InputError
        For too few workloads or groups, more than two resources, and figures that a population's file cannot hold.
    """
    at_least(1, groups=groups)
    if len(trace) < LEAST_WORKLOADS:
        raise InputError(f"trace '{trace.name}' has {len(trace)} workloads: a population needs {LEAST_WORKLOADS}")
    if len(trace.resources) > 2:
        raise InputError(f"trace '{trace.name}' has {len(trace.resources)} resources: a population has at most 2")
    kinds, kind = workload_kinds(trace)
    profiles = daily_profiles(trace)
    found = held_parameters(trace, profiles, peaks) | {"kind": kind}
    groups = groups or max(1, len(trace) // WORKLOADS_PER_GROUP)
    names, levels = list(found), np.linspace(0.0, 1.0, max(TABLE_LEVELS, min(groups, len(trace)) + 1))
    scores = np.stack([_normal_scores(value) for value in found.values()], 1)
    weight = [next((w for end, w in GROUPED_BY.items() if n.endswith(end)), 1.0) for n in names]
    group = group_workloads(scores * weight, groups)
    centre = np.stack([scores[group == g].mean(0) for g in range(group.max() + 1)])
    within = scores - centre[group]
    spread = np.sqrt(np.maximum((within**2).mean(0), 1e-6))
    correlation = nearest_correlation(within.T @ within / len(trace) / np.outer(spread, spread))
    tables = {
        n: np.quantile(value[np.isfinite(value)], levels, method="inverted_cdf" if n == "duration" else "linear")
        for n, value in found.items()
        if n != "kind" and np.isfinite(value).any()
    }
    content = {
        "name": name,
        "resources": list(trace.resources),
        "slot_seconds": trace.slot_seconds,
        "reference_machine": trace.reference_machine,
        "days": 0.0,
        "floor": _significant(trace.usage.min(0)),
        "within_request": _within_request(trace),
        "sizes": [_common(request) for request in trace.request.T],
        "kinds": kinds,
        "profiles": profiles,
        "parameters": names,
        "tables": {n: _significant(table) for n, table in tables.items()},
        "copula": np.round(correlation[np.tril_indices(len(names), -1)], 2).tolist(),
        "groups": {
            "share": np.bincount(group).tolist(),
            "centre": np.round(centre, 2).tolist(),
            "spread": np.round(spread, 3).tolist(),
        },
    }
    return check_population(content, Path(f"trace '{trace.name}'"))  # or its file could not be read


def group_workloads(rows: Float, groups: int) -> Int:
    """Group 0..G-1 of each row (N,), by k-means with `groups` centres; those below `LEAST_IN_GROUP` are dissolved.

    Their rows join the nearest of the others. Deterministic: the starts have fixed seeds.
    """
    from scipy.cluster.vq import kmeans2

    best = np.inf
    group = np.zeros(len(rows), int)
    for seed in range(ATTEMPTS if groups > 1 else 0):
        centre, own = kmeans2(rows, min(groups, len(rows)), minit="++", seed=seed, iter=30)
        if (miss := float(((rows - centre[own]) ** 2).sum())) < best:
            best, group = miss, own
    group = np.unique(group, return_inverse=True)[1]
    while (count := np.bincount(group)).min() < LEAST_IN_GROUP and len(count) > 1:
        smallest = int(count.argmin())
        others = np.delete(np.arange(len(count)), smallest)
        centre = np.stack([rows[group == g].mean(0) for g in others])
        for i in np.flatnonzero(group == smallest):
            group[i] = others[((centre - rows[i]) ** 2).sum(1).argmin()]
        group = np.unique(group, return_inverse=True)[1]
    return group


def _within_request(trace: Trace) -> list[bool]:
    """Per resource whether requests are known and no workload ever uses more."""
    most = np.maximum.reduceat(trace.usage, trace.offsets[:-1])
    known = np.isfinite(trace.request)
    exceeded = most > trace.request * (1.0 + 1e-6)  # never true where it is unknown
    return [bool(known[:, d].any() and not exceeded[:, d].any()) for d in range(len(trace.resources))]


def _common(request: Float) -> list[float]:
    """The common ones of requests (N,), rising, if most workloads have one of them; else none."""
    value, count = np.unique([f"{v:.5g}" for v in request[np.isfinite(request)]], return_counts=True)
    common = (count >= LEAST_IN_GROUP) & (count >= COMMON * count.sum())
    steps = count[common].sum() >= STEPS * max(count.sum(), 1)
    return sorted(value[common].astype(float).tolist()) if steps else []


def _normal_scores(values: Float) -> Float:
    """Normal quantiles of the ranks of values (N,); 0, the median, where one is unknown."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    known, out = np.isfinite(values), np.zeros(len(values))
    if known.any():
        out[known] = ndtri((rankdata(values[known]) - 0.5) / known.sum())
    return out


def _significant(values: Float) -> list[float]:
    return [float(f"{v:.5g}") for v in values]
