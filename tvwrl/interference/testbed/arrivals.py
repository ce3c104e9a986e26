"""Which batch tasks arrive when in the simulated cluster, and what their instances use."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from tvwrl.interference.batch_tasks import ARRIVALS_FILE, USAGE_FILE, BatchTasks, read_arrivals, read_usage
from tvwrl.interference.categories import Thresholds
from tvwrl.interference.classifier import TaskClassifier
from tvwrl.interference.testbed.laws import intensities
from tvwrl.types import Float, InputError, Int

HOUR = 3600
PER_MINUTE = 60.0  # new instances per machine (Table 1 of the paper)
STREAMS = 12  # 10,000 machines with 60 new instances a minute (Table 1) over the 51,000 a minute of the recorded hour
RECORDED_AT = 8.4  # hour of the day at which the recorded hour of Alibaba v2018 begins (trace second 203,040)
NIGHT = 0.25  # assumed: how far the arrival rate rises above its mean at 1 am (Figure 4: most at midnight)
WAVE = 60  # seconds between instances of a task that do not all run at once
NEAREST = 8  # tasks of known usage, nearest in number of instances, of which one is drawn


@dataclass(frozen=True, eq=False)
class Arrivals:
    """N batch tasks, or waves of their instances, in order of arrival; the instances of one arrive together."""

    second: Int  # (N,) >= 0, rising or equal
    instances: Int  # (N,) >= 1
    cpu: Float  # (N,) > 0, cores that an instance uses
    memory: Float  # (N,) > 0, percent of a machine of the trace that an instance uses
    makespan: Int  # (N,) >= 1, seconds that an instance runs
    category: Int  # (N,) 0..59, by true usage
    assumed: Int  # (N,) 0..59, category that the scheduler assumes on arrival
    intensity: Float  # (N,) > 0, pressure of an instance on memory (`laws.intensities`), hidden from schedulers

    def __len__(self) -> int:
        return len(self.second)

    def only(self, rows: Int) -> Arrivals:
        """The tasks `rows`: (n,) indices or (N,) bool."""
        return Arrivals(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def percent_classified(self) -> float:
        """Percent of the instances whose category the scheduler assumes correctly."""
        return float(100.0 * self.instances[self.assumed == self.category].sum() / self.instances.sum())

    def cores(self) -> float:
        """Core seconds that all instances use."""
        return float((self.instances * self.cpu * self.makespan).sum())


def match_tasks(tasks: BatchTasks, usage: BatchTasks, rng: np.random.Generator) -> Int:
    """(N,) for each of `tasks` a random row of `usage` like it: one with the same role in the same graph, if any.

    One of the `NEAREST` is drawn: by number of instances among those, by plan and number among all if there are none.
    """
    from scipy.spatial import cKDTree

    places: dict[tuple[str, str], list[int]] = {}
    for row, place in enumerate(zip(usage.tag, usage.role, strict=True)):
        places.setdefault(place, []).append(row)
    size = np.log(usage.instances)
    by_size = {place: np.array(rows)[np.argsort(size[rows], kind="stable")] for place, rows in places.items()}
    plans = [np.log(np.stack([one.plan_cpu, one.plan_memory, one.instances], axis=1)) for one in (tasks, usage)]
    source = np.empty(len(tasks), np.int64)
    draw = rng.random(len(tasks))
    unmatched = []
    for row, place in enumerate(zip(tasks.tag, tasks.role, strict=True)):
        if (known := by_size.get(place)) is None:
            unmatched.append(row)
            continue
        middle = int(np.searchsorted(size[known], plans[0][row, 2]))
        first = max(min(middle - NEAREST // 2, len(known) - NEAREST), 0)
        near = known[first : first + NEAREST]
        source[row] = near[int(draw[row] * len(near))]
    if unmatched:
        near = cKDTree(plans[1]).query(plans[0][unmatched], k=min(NEAREST, len(usage)))[1].reshape(len(unmatched), -1)
        source[unmatched] = near[np.arange(len(unmatched)), (draw[unmatched] * near.shape[1]).astype(np.int64)]
    return source


def as_arrivals(
    tasks: BatchTasks, lasts: Float, thresholds: Thresholds, rng: np.random.Generator, assumed: Int | None = None
) -> Arrivals:
    """An hour of tasks of known usage that ran `lasts` (N,) seconds; `assumed` (N,) categories, default: true ones.

    A task that ran longer than its instances had them in waves, `WAVE` seconds apart and as equal as possible.
    """
    category = thresholds.category(tasks.cpu, tasks.memory, tasks.makespan)
    makespan = np.maximum(np.rint(tasks.makespan), 1).astype(np.int64)
    spare = np.clip(lasts - makespan, 0, HOUR - 1 - tasks.seconds)
    waves = np.minimum(1 + spare // WAVE, tasks.instances).astype(np.int64)
    task = np.repeat(np.arange(len(tasks)), waves)
    number = np.arange(len(task)) - np.repeat(np.cumsum(waves) - waves, waves)
    second = (tasks.seconds[task] + number * WAVE).astype(np.int64)
    wave = Arrivals(
        second=second,
        instances=tasks.instances[task] // waves[task] + (number < tasks.instances[task] % waves[task]),
        cpu=tasks.cpu[task],
        memory=tasks.memory[task],
        makespan=makespan[task],
        category=category[task],
        assumed=(category if assumed is None else assumed)[task],
        intensity=intensities(tasks.memory, rng)[task],
    )
    return wave.only(np.argsort(second, kind="stable"))


def replay_hour(
    hour: Arrivals,
    machines: int,
    minutes: int,
    rng: np.random.Generator,
    per_minute: float = PER_MINUTE,
) -> Arrivals:
    """The recorded hour repeated, scaled to `per_minute` new instances per machine and minute.

    Every instance is kept with the same probability, so that a small cluster sees no larger bursts than a large one.
    The paper's cluster has about `STREAMS` times the recorded arrivals, so that many copies of the hour run at once,
    each shifted against the one before, lest their bursts coincide. The rate follows the hour of the day (`NIGHT`).
    Raises InputError for numbers that are not > 0.
    """
    if min(machines, minutes) < 1 or not per_minute > 0:
        raise InputError(f"{machines} machines, {minutes} minutes, {per_minute:g} per minute: must all be > 0")
    copies = kept_share(hour, machines, per_minute)
    parts = []
    for number in range(-(-minutes // 60)):
        whole, rest = divmod(copies * _rate(RECORDED_AT + number) / _rate(RECORDED_AT), 1.0)
        for stream in range(STREAMS):
            second = (hour.second + stream * HOUR // STREAMS) % HOUR + number * HOUR
            instances = hour.instances * int(whole) + rng.binomial(hour.instances, rest)
            kept = (instances > 0) & (second < 60 * minutes)
            parts.append(replace(hour, second=second, instances=instances).only(np.flatnonzero(kept)))
    one = Arrivals(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Arrivals)})
    return one.only(np.argsort(one.second, kind="stable"))


def kept_share(hour: Arrivals, machines: int, per_minute: float = PER_MINUTE) -> float:
    """Mean number of times that each copy of the recorded hour holds one of its instances; below 1: thinned."""
    return float(per_minute * machines * 60 / hour.instances.sum() / STREAMS)


def _rate(hour: float) -> float:
    """Arrival rate by hour of the day, mean 1."""
    return 1.0 + NIGHT * float(np.cos(2 * np.pi * (hour - 1.0) / 24))


# Of synthetic tasks: share, cores, percent of memory, seconds; the median is like Alibaba's, dimensions differ
_KINDS = ((0.45, 0.06, 0.06, 120.0), (0.25, 0.6, 0.12, 60.0), (0.2, 0.8, 0.6, 180.0), (0.1, 1.2, 1.6, 220.0))
SPREAD = 0.5  # of the logarithm of usage within a kind


def synthetic_hour(rng: np.random.Generator, tasks: int = 4000) -> Arrivals:
    """An hour of synthetic tasks of four kinds, categorised by thresholds of their own."""
    kind = rng.choice(len(_KINDS), tasks, p=[row[0] for row in _KINDS])
    usage = [np.array([row[i] for row in _KINDS])[kind] * np.exp(SPREAD * rng.normal(size=tasks)) for i in (1, 2, 3)]
    cpu, memory, makespan = usage
    category = Thresholds.from_usage(cpu, memory, makespan).category(cpu, memory, makespan)
    return Arrivals(
        second=np.sort(rng.integers(0, HOUR, tasks)),
        instances=np.ceil(np.exp(2.0 * rng.random(tasks) + rng.normal(size=tasks))).astype(np.int64),
        cpu=cpu,
        memory=memory,
        makespan=np.maximum(np.rint(makespan), 1).astype(np.int64),
        category=category,
        assumed=category,
        intensity=intensities(memory, rng),
    )


def read_hour(data: Path | None, truth: bool, rng: np.random.Generator) -> Arrivals:
    """An hour of recorded batch tasks from a folder of data; synthetic tasks without one.

    The hour's tasks were recorded without usage, so each is matched with a task of known usage (`match_tasks`). Of the
    latter's jobs a random half trains the classifier and the other half provides the usage. A scheduler assumes the
    category that the classifier gives the task whose usage was taken (the arriving task's own name and plan say nothing
    of it), or with `truth` the true one. Raises InputError if a file is missing or damaged.
    """
    if data is None:
        return synthetic_hour(rng)
    bad: Counter[str] = Counter()
    usage, tasks = read_usage(data / USAGE_FILE, bad), read_arrivals(data / ARRIVALS_FILE, bad)
    if bad:
        warnings.warn(f"{bad.total()} malformed task names, treated as independent: {dict(bad)}", stacklevel=2)
    thresholds = Thresholds.from_usage(usage.cpu, usage.memory, usage.makespan)
    first, job = usage.jobs()
    known = (rng.random(len(first)) < 0.5)[job]
    others = usage.only(np.flatnonzero(~known))
    source = match_tasks(tasks, others, rng)
    assumed = None
    if not truth:
        assumed = TaskClassifier(thresholds).fit(usage.only(np.flatnonzero(known))).predict(others)[source]
    used = replace(tasks, cpu=others.cpu[source], memory=others.memory[source], makespan=others.makespan[source])
    return as_arrivals(used, tasks.makespan, thresholds, rng, assumed)
