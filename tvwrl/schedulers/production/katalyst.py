"""Katalyst's load-aware placement: by workload portraits (usage by hour of the day), and by the load of machines."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, percent
from tvwrl.compiled import njit
from tvwrl.schedulers.base import PRODUCTION_RULE, registered
from tvwrl.schedulers.knowledge import REQUESTS
from tvwrl.schedulers.production.facts import (
    FLAT,
    ByPastLoad,
    Samples,
    by_kind,
    estimated_load,
    milli,
    parts_of_day,
    rounded,
    slots_in,
)
from tvwrl.schedulers.production.predicted_peak import PredictedPeak
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, Int, Workload

MEMORY = 95.0  # limit of its use, percent
HOURS = 24  # in a portrait
SIGMA = 3.0
TARGET = (50.0, 70.0)  # percent of CPU and of memory in use with the highest score


@registered("Katalyst, portraits", PRODUCTION_RULE)
class Katalyst(PredictedPeak):
    """Predicts use in the busiest hour of the day, newcomer included: the limits are `cpu` % of CPU and 95 % of memory,
    the targets 50 and 70 %. The limits hold for the measured load as well.

    The portrait of a workload is mean + 3 deviations (of a population) of its usage for each hour of the day. The
    newcomer, and workloads that have run for less than `cold` hours, count at 85 % of the CPU and 70 % of the memory
    that they request. The score is 100 at the target and falls on both sides; it is a whole number, the mean of both
    resources. Percents are rounded.

    Source: the code of two pull requests of github.com/kubewharf/katalyst-core (Apache-2.0): 654 (filter and score,
    with portraits off by default) and 652 (mean + 3 deviations, there for an overcommitment ratio); thresholds from
    pull request 94 of katalyst-api. None was merged by April 2026. Combining them is ours. In the source, a portrait
    covers all replicas of a service over seven days; here it covers one workload, which is often too young for one.
    Hours of the day without a sample count like the newcomer; this happens if `cold` is below 24 or slots are longer
    than an hour. The hour is that of the simulation.
    """

    name = "katalyst"
    options: ClassVar = {"cpu": (50.0, 60.0, 70.0, 80.0, 90.0, 100.0), "cold": (2.0, 24.0)}

    def __init__(self, cpu: float = 70.0, cold: float = 24.0) -> None:
        percent(cpu=cpu)
        at_least(0, cold=cold)
        self.cpu, self.cold = cpu, cold

    def predict(self, samples: Samples, machines: int) -> Float:
        """(machines, D) units in the busiest hour of the day."""
        hours = parts_of_day(samples, slots_in(24, self.scenario), HOURS)
        flat = samples.request * by_kind(FLAT, samples.request.shape[1])
        warm = samples.seen >= slots_in(self.cold, self.scenario)
        portrait = _portraits(samples.machine, flat, samples.seen * warm, samples.value, hours, machines)
        fullest: Float = portrait.max(axis=1)
        return fullest

    def percent(self, cluster: Cluster, workload: Workload) -> Float:
        """(M, D) percent in use in the busiest hour if the workload were placed there."""
        own = cluster.request_of(workload) * by_kind(FLAT, cluster.capacity.shape[1])
        return 100.0 * (self.peaks(cluster) + own) / cluster.divisor

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        limit = by_kind((self.cpu, MEMORY), cluster.capacity.shape[1])
        room: Mask = np.all(rounded(self.percent(cluster, workload)) <= limit, axis=1)
        return room & load_within(cluster, self.cpu)

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        percent = self.percent(cluster, workload)
        closeness = target_score(percent, by_kind(TARGET, percent.shape[1]))
        whole: Float = closeness.sum(axis=1) // percent.shape[1]
        return whole


def load_within(cluster: Cluster, cpu: float) -> Mask:
    """(M,) whether the measured load, in whole percent, is at most `cpu` of the CPU and 95 of the memory."""
    percent = 100.0 * cluster.load[:, [0, -1]] / cluster.divisor[:, [0, -1]]
    calm: Mask = np.all(rounded(percent) <= (cpu, MEMORY), axis=1)
    return calm


def target_score(percent: Float, target: Float) -> Float:
    """(...) 0 to 100, whole: rises from `target` (unused) to 100 (at the target), then falls from it to 0 (full)."""
    rising = (100.0 - target) * percent / target + target
    falling = target * (100.0 - percent) / (100.0 - target)
    return rounded(np.where(percent <= target, rising, np.where(percent <= 100.0, falling, 0.0)))


@registered("Katalyst, load", PRODUCTION_RULE)
class KatalystLoad(ByPastLoad):
    """Katalyst's load-aware plugin in its default mode, without portraits of workloads.

    Source: kubewharf/katalyst-core, pull request 654, and katalyst-api, pull request 94, which sets its defaults; both
    were still open in April 2026. Filter: round(100 x load / capacity) is at most `threshold` for CPU and 95 for
    memory, without the newcomer. Score: `katalyst_score` of the newest load plus 85 % of the CPU and 70 % of the memory
    requested by the newcomer and by workloads placed since the last report. Default: 70.

    Ours: a report covers one slot, while the source takes the mean of 15 minutes.

    `threshold`: percent of the CPU, 1 to 100
    """

    name = "katalyst-load"
    knowledge = REQUESTS.and_also("load of machines now and in the last 24 hours")
    options: ClassVar = {"threshold": (50.0, 60.0, 70.0, 80.0, 90.0, 100.0)}

    def __init__(self, threshold: float = 70.0) -> None:
        percent(threshold=threshold)
        self.threshold = threshold

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        return load_within(cluster, self.threshold)

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        _, hour, day = self.levels(cluster)
        now = estimated_load(cluster, workload, FLAT)
        return katalyst_score(now, hour, day, cluster.divisor[:, [0, -1]])


def katalyst_score(now: Float, hour: Float, day: Float, size: Float) -> Float:
    """(M,) 0 to 100: the free share of CPU and memory, averaged over three load levels with weights 30, 30 and 40.

    `now`, `hour`, `day`: (M, 2) units of load; the last two are maxima
    `size`: (M, 2) units

    Whole numbers throughout, as in the source: amounts in thousandths, free shares in whole percent.

    >>> katalyst_score(*(np.array([[x, 4.0]]) for x in (3.7, 5.0, 6.0)), np.array([[8.0, 8.0]]))
    array([43.])
    """
    whole, levels = milli(size), (milli(now), milli(hour), milli(day))
    free = [100 * np.maximum(whole - level, 0) // np.maximum(whole, 1) for level in levels]
    shares = (30 * free[0] + 30 * free[1] + 40 * free[2]) // 100
    score: Float = (shares.sum(axis=1) // 2).astype(float)
    return score


@njit
def _portraits(machine: Int, flat: Float, seen: Int, value: Float, hours: Int, machines: int) -> Float:
    """(machines, 24, D) summed portraits; a workload with `seen` 0 has none yet."""
    resources = value.shape[2]
    portrait = np.zeros((machines, HOURS, resources))
    count, total, squares = np.zeros(HOURS), np.zeros(HOURS), np.zeros(HOURS)
    for r in range(len(machine)):
        for d in range(resources):
            count[:], total[:], squares[:] = 0.0, 0.0, 0.0
            for k in range(seen[r]):
                count[hours[k]] += 1.0
                total[hours[k]] += value[r, k, d]
            for k in range(seen[r]):
                squares[hours[k]] += (value[r, k, d] - total[hours[k]] / count[hours[k]]) ** 2
            for h in range(HOURS):
                own = flat[r, d]
                if count[h] > 0:
                    own = total[h] / count[h] + SIGMA * np.sqrt(squares[h] / count[h])
                portrait[machine[r], h, d] += own
    return portrait
