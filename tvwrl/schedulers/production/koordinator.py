"""Koordinator: placement by load, and its peak predictor used as a filter."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, fraction, within
from tvwrl.schedulers import load_scores
from tvwrl.schedulers.base import BOTH, PRODUCTION_RULE, registered
from tvwrl.schedulers.head_of_queue import FilterAndScore
from tvwrl.schedulers.knowledge import REQUESTS
from tvwrl.schedulers.production.facts import FLAT, Samples, by_kind, estimated_load, milli, rounded, slots_in
from tvwrl.schedulers.production.kubernetes import least_allocated
from tvwrl.schedulers.production.predicted_peak import EachAlone, weighted_percentiles
from tvwrl.simulation import Cluster, Mask, Scenario
from tvwrl.types import Float, Workload

PERCENTILE = (0.95, 0.98)  # of the first resource (CPU), and of all others
HALF_LIFE = (12.0, 24.0)  # hours after which the weight of a sample has halved


@registered("Load-aware (Koordinator)", BOTH)
class LoadAware(FilterAndScore):
    """Koordinator's LoadAwareScheduling: the machine with the largest mean free share of CPU and memory, of those that
    stay within usage thresholds.

    Source: koordinator-sh/koordinator at a7a1b76, `pkg/scheduler/plugins/loadaware` (Apache-2.0). Filter and score use
    the newest measured load, plus 85 % of the CPU and 70 % of the memory requested by the newcomer and by workloads
    bound since that measurement. Filter: the rounded percentage is at most `threshold` of the CPU and `memory` of the
    memory. Score: free shares in whole percent, 0 above the capacity; the floored mean of both. Defaults: 0.65, 0.95.

    Left out: what needs more than one kind of usage or workload (percentiles of usage, priority classes, DaemonSets,
    thresholds of single machines, weights), and metrics older than three minutes, which exclude a machine. A workload
    that was bound less than a report interval (a minute) before the sample counts there with its estimate, if that is
    more than it uses; here with what it uses.

    `threshold`, `memory`: share of the capacity, above 0 and at most 1
    """

    name, knowledge = "load-aware", REQUESTS.and_also("load of machines now")
    options: ClassVar = {"threshold": (0.45, 0.55, 0.65, 0.75, 0.85, 0.95)}

    def __init__(self, threshold: float = load_scores.CPU_LIMIT, memory: float = load_scores.MEMORY_LIMIT) -> None:
        fraction(threshold=threshold)
        fraction(memory=memory)
        self.threshold, self.memory = threshold, memory

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        percent = 100.0 * estimated_load(cluster, workload, FLAT) / cluster.divisor[:, [0, -1]]
        limit = np.round([100.0 * self.threshold, 100.0 * self.memory], 9)
        calm: Mask = np.all(rounded(percent) <= limit, axis=1)
        return calm

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        size = milli(cluster.capacity[:, [0, -1]])
        return least_allocated(milli(estimated_load(cluster, workload, FLAT)), size).astype(float)


@registered("Koordinator, predicted peaks", PRODUCTION_RULE)
class KoordinatorPeak(EachAlone):
    """A workload's peak is a decayed percentile of its usage (CPU: 95th, memory: 98th) x (1 + safety).

    The weight of a sample halves every 12 hours (CPU) or 24 hours (memory). Until a workload has run for more than
    `cold` hours, it counts at its request. Of the machines that pass, the rule takes the one with the best score of
    Koordinator's `load-aware`.

    Source: the code of github.com/koordinator-sh/koordinator, `pkg/koordlet/prediction` (Apache-2.0). There, the
    predictor decides how much batch workloads may use; using it for placement is our construction. The source has
    histograms whose buckets grow by 5 %, and samples that are the 90th percentile of a minute; here percentiles are
    exact, of one sample per slot.
    """

    name = "koordinator-peak"
    options: ClassVar = {"safety": (-0.2, -0.1, 0.0, 0.1, 0.25, 0.5), "cold": (2.0, 24.0)}

    def __init__(self, safety: float = 0.1, cold: float = 24.0) -> None:
        within(-1, 10, safety=safety)
        at_least(0, cold=cold)
        self.safety, self.cold, self._by_load = safety, cold, LoadAware()

    def warm_after(self, scenario: Scenario) -> int:
        """More samples than `cold` hours have."""
        return slots_in(self.cold, scenario) + 1

    def peak_of_each(self, samples: Samples) -> Float:
        """See `EachAlone.peak_of_each`."""
        _, slots, resources = samples.value.shape
        hours = np.arange(slots)[:, None] * self.scenario.step_seconds / 3600
        weight = 0.5 ** (hours / by_kind(HALF_LIFE, resources))
        decayed = weighted_percentiles(samples.value, samples.seen, by_kind(PERCENTILE, resources), weight)
        return decayed * (1.0 + self.safety)

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        return self._by_load.score(cluster, workload)
