"""Katalyst's load-aware placement with portraits: what workloads use in each hour of the day."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, positive
from tvwrl.compiled import njit
from tvwrl.schedulers.production.predicted_peak import PredictedPeak
from tvwrl.schedulers.production.usage import Samples, parts_of_day, slots_in
from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.types import Float, Workload

HOURS = 24
SIGMA = 3.0
MEMORY = 95.0  # largest percent of it in use in the fullest hour
TARGET = (50.0, 70.0)  # percent of CPU and of memory in use that score highest
FLAT = (0.85, 0.70)  # share of the request that stands for a workload without a portrait


class Katalyst(PredictedPeak):
    """Percent in use in the fullest hour of the day, newcomer included: at most `cpu` and 95 % of memory; targets 50
    and 70 %.

    Portrait of a workload: for each hour of the day, mean + 3 deviations (of a population) of its usage; 85 % of the
    CPU and 70 % of the memory requested for the newcomer and for workloads that have run for less than `cold` hours.
    Score: 100 at the target, falling on both sides; integers, and the mean of both resources. Percents are rounded.

    Source: two pull requests of github.com/kubewharf/katalyst-core (Apache-2.0), read as code: 654 (filter and score,
    where portraits are off by default) and 652 (mean + 3 deviations, there for a ratio of overcommitment); thresholds
    from pull request 94 of katalyst-api. None was merged by April 2026. Joining them is ours. Portraits there are of a
    service's past seven days, of all its replicas; here of the workload itself, so it is often too young for one. With
    `cold` below 24, hours in which it has not run count like the newcomer. The hour is that of the simulation.
    """

    name = "katalyst"
    options: ClassVar = {"cpu": (50.0, 60.0, 70.0, 80.0, 90.0, 100.0), "cold": (2.0, 24.0)}

    def __init__(self, cpu: float = 70.0, cold: float = 24.0) -> None:
        positive(cpu=cpu)
        at_least(0, cold=cold)
        self.cpu, self.cold = cpu, cold

    def predict(self, samples: Samples, machines: int) -> Float:
        """(machines, D) units in the fullest hour of the day."""
        hours = parts_of_day(samples, slots_in(24, self.scenario), HOURS)
        flat = samples.request * _by_kind(FLAT, samples.request.shape[1])
        warm = samples.seen >= slots_in(self.cold, self.scenario)
        portrait = _portraits(samples.machine, flat, samples.seen * warm, samples.value, hours, machines)
        fullest: Float = portrait.max(axis=1)
        return fullest

    def percent(self, cluster: Cluster, workload: Workload) -> Float:
        """(M, D) percent in use in the fullest hour if the workload were placed there."""
        own = cluster.request_of(workload) * _by_kind(FLAT, cluster.capacity.shape[1])
        percent: Float = 100.0 * (self.peaks(cluster) + own) / cluster.divisor
        return percent

    def candidates(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `HeadOfQueue.candidates`."""
        limit = _by_kind((self.cpu, MEMORY), cluster.capacity.shape[1])
        room = (_round(self.percent(cluster, workload)) <= limit).all(axis=1)
        mask: Mask = cluster.room_now(workload) & (room | (cluster.active == 0))
        return mask

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `PredictedPeak.score`."""
        percent = self.percent(cluster, workload)
        target = _by_kind(TARGET, percent.shape[1])
        rising = (100.0 - target) * percent / target + target
        falling = target * (100.0 - percent) / (100.0 - target)
        points = _round(np.where(percent <= target, rising, np.where(percent <= 100.0, falling, 0.0)))
        whole: Float = points.sum(axis=1) // percent.shape[1]
        return whole


def _by_kind(of_both: tuple[float, float], resources: int) -> Float:
    """(D,) the number for CPU, the first resource, and that for memory for all others."""
    return np.array(of_both)[np.minimum(np.arange(resources), 1)]


def _round(number: Float) -> Float:
    """To whole numbers, halves up."""
    rounded: Float = np.floor(number + 0.5)
    return rounded


@njit
def _portraits(machine, flat, seen, value, hours, machines):  # type: ignore[no-untyped-def]
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
