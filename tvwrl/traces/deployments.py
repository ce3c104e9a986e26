"""Generates the pods of Deployments: replicas of an application that restart, come and go, and are alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tvwrl.checks import at_least
from tvwrl.traces.held_series import rounded
from tvwrl.traces.statistics import DAY_SECONDS
from tvwrl.traces.synthetic import (
    MOST_ROWS,
    draw_parameters,
    fixed_requests,
    make_series,
    population_figures,
    refuse_too_many,
)
from tvwrl.types import Float, InputError, Trace

DAYS = 14.0  # two weeks, so that a week comes back
LIFE_DAYS = 3.0  # mean life of a pod
LEAST_HOURS = 6.0  # the shortest life
GAP_DAYS = 0.5  # mean time without a pod, where a replica is not replaced at once
REPLACED = 0.5  # share of the pods whose replica goes on in the next slot
WEEKLY = 0.5  # share of the applications that use less on two days of seven
MOST_AT_ONCE = 10_000_000  # rows of the replicas of an application, which are generated together: about 2 GB
QUIETEST = 0.3  # the least that is left of usage then


def deployments_trace(
    population: str | Path = "google-v2",
    workloads: int = 400,
    replicas: int = 4,
    seed: int = 0,
    days: float | None = None,
) -> Trace:
    """Generate the pods of applications that have replicas, whose usage is that of a synthetic population.

    An application has the level, variation and course over a day of one workload of the population, and half of the
    applications use less on two days of seven. Each replica has a share of the application's own course, which is drawn
    from 0..1, and for the rest one like it: so what an application used before tells much, or little, of its next pod.
    Replicas restart: a pod lives for three days on average, and the next one follows at once, or, for half of them,
    after half a day on average. Every pod is a workload. The same arguments give the same trace.

    Parameters
    ----------
    population : str or path
        As of `synthetic_trace`.
    workloads : int
        Pods in all, >= 1.
    replicas : int
        Replicas of an application on average, 1 to `workloads`; each has one at least.
    seed : int
        Seed of all that is drawn.
    days : float, optional
        Length of the trace in days; default: 14.

    Returns
    -------
    Trace
        The pods by application, with `source` "synthetic"; usage is a fraction of the reference machine, >= 0.

    Raises
    ------
    InputError
        For an unknown population, no workloads or replicas, less than a day, more than about 100 million rows of usage,
        or 10 million of an application.

    Examples
    --------
    >>> trace = deployments_trace(workloads=30, replicas=3, days=4)
    >>> len(trace), len(set(trace.application)) < 10
    (30, True)
    """
    at_least(1, workloads=workloads, replicas=replicas)
    at_least(0, seed=seed)
    if replicas > workloads:
        raise InputError(f"replicas is {replicas}: must be at most workloads, {workloads}, as each is one at least")
    content = population_figures(population)
    seconds, resources = content["slot_seconds"], tuple(content["resources"])
    days = DAYS if days is None else days
    if not (np.isfinite(days) and days >= 1):
        raise InputError(f"days is {days}: must be at least 1, so that replicas restart")
    slots = round(days * DAY_SECONDS / seconds)
    if slots < 2:
        raise InputError(f"days is {days}: must give at least two slots of {seconds} s")
    refuse_too_many(MOST_ROWS, slots * min(1.0, LIFE_DAYS / days), workloads=workloads)
    refuse_too_many(MOST_AT_ONCE, slots, replicas=replicas)
    rng = np.random.default_rng(seed)
    pods: list[tuple[int, int, Float]] = []  # application, first slot, usage
    requests: list[Float] = []  # of each application
    kinds: list[Float] = []
    known = np.array([row[:3] for row in content["kinds"]], dtype=np.float64)  # None becomes NaN
    while len(pods) < workloads:
        application = len(requests)
        drawn = draw_parameters(content, 1, rng)
        fixed = fixed_requests(content, drawn)
        count = 1 + int(rng.poisson(replicas - 1))
        series = make_series(content, {name: np.repeat(own, count + 1) for name, own in drawn.items()}, slots, rng)
        own, like = series[0], rng.random()
        week = _weekly(slots, DAY_SECONDS // seconds, rng)
        for other in series[1:]:
            usage = (like * own + (1 - like) * other) * week[:, None]
            pods += [(application, begin, usage[begin:end]) for begin, end in _lives(slots, seconds, rng)]
        kinds.append(known[int(drawn["kind"][0])])
        ratio = np.array([drawn[f"{name}_request_ratio"][0] for name in resources])
        request = ratio * own.mean(axis=0)
        for d, known_request in fixed.items():
            request[d] = known_request[0]
        requests.append(np.where(kinds[-1][2] > 0, request, np.nan))
    pods = pods[:workloads]
    of, first, parts = (list(column) for column in zip(*pods, strict=True))
    duration = np.array([len(part) for part in parts])
    kind = np.array(kinds)[of]
    return Trace(
        name=f"{content['name']}-deployments",
        resources=resources,
        slot_seconds=seconds,
        workload_id=np.array([f"app-{a}-pod-{i}" for i, a in enumerate(of)], dtype=object),
        offsets=np.concatenate([[0], np.cumsum(duration)]).astype(np.int64),
        slot=np.concatenate([begin + np.arange(n) for begin, n in zip(first, duration, strict=True)]).astype(np.int64),
        usage=rounded(np.concatenate(parts)),
        application=np.array([f"app-{a}" for a in of], dtype=object),
        arrival=np.array(first, dtype=np.int64),
        priority=kind[:, 1],
        scheduling_class=kind[:, 0],
        request=np.array(requests)[of],
        reference_machine=content["reference_machine"],
        source="synthetic",
    )


def _weekly(slots: int, day: int, rng: np.random.Generator) -> Float:
    """(slots,) what an application's usage is multiplied by: 1, but for two days of seven in some."""
    quiet = rng.uniform(QUIETEST, 1.0) if rng.random() < WEEKLY else 1.0
    usual: Float = np.where(np.arange(slots) // day % 7 >= 5, quiet, 1.0)
    return usual


def _lives(slots: int, seconds: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """First slot and end of the pods of one replica, one after the other."""
    day = DAY_SECONDS / seconds
    least = max(2, round(LEAST_HOURS / 24 * day))
    lives, begin = [], int(rng.exponential(LIFE_DAYS * day)) if rng.random() < REPLACED else 0
    while begin + least <= slots:
        end = min(slots, begin + max(least, round(rng.exponential(LIFE_DAYS) * day)))
        lives.append((begin, end))
        begin = end + (0 if rng.random() < REPLACED else 1 + int(rng.exponential(GAP_DAYS) * day))
    return lives
