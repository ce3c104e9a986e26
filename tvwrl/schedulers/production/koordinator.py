"""Koordinator: placement by load, and its peak predictor, turned into a filter."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, positive, within
from tvwrl.compiled import vectorize
from tvwrl.schedulers import load_aware
from tvwrl.schedulers.head_of_queue import Scored
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.schedulers.production.percentiles import weighted_percentiles
from tvwrl.schedulers.production.predicted_peak import EachAlone
from tvwrl.schedulers.production.requests import by_kind
from tvwrl.schedulers.production.usage import Samples, slots_in
from tvwrl.schedulers.scores import Compiled, share_after
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import Float, Workload

PERCENTILE = (0.95, 0.98)  # of the first resource (CPU), and of all others
HALF_LIFE = (12.0, 24.0)  # hours in which the weight of a sample halves
_LOAD_AWARE: Compiled = vectorize(load_aware.load_aware.py_func)  # over all machines at once


class LoadAware(Scored):
    """Koordinator's LoadAware (Apache-2.0): most free on the mean of CPU and memory; of machines that would exceed
    `threshold` of the CPU, or 95 % of the memory, only where there are no others: there, it would wait.

    It takes 85 % of the requested CPU and 70 % of the memory for the newcomer, here its demand in its first slot, and
    counts in whole per cent. Metrics older than three minutes keep a machine out there. Default: 0.65.

    `threshold`: share of the capacity, > 0
    """

    name, knowledge = "load-aware", CURRENT_LOAD
    options: ClassVar = {"threshold": (0.45, 0.55, 0.65, 0.75, 0.85, 0.95)}

    def __init__(self, threshold: float = load_aware.CPU_LIMIT) -> None:
        positive(threshold=threshold)
        self.threshold = threshold

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        after = share_after(cluster, workload)
        return _LOAD_AWARE(after[:, 0], after[:, -1], self.threshold)


class KoordinatorPeak(EachAlone):
    """Peak of a workload: decayed percentile of its usage, 95 % of CPU and 98 % of memory, x (1 + safety).

    The weight of a sample halves every 12 hours (CPU), 24 hours (memory). A workload that has not run for longer than
    `cold` hours counts with its request. Of the machines that pass, it takes the one with the largest mean free share
    now (Koordinator's `load-aware`).

    Source: github.com/koordinator-sh/koordinator, `pkg/koordlet/prediction` (Apache-2.0), read as code. It computes
    what batch work may use; that it decides what is placed is our construction. It has histograms whose buckets grow
    by 5 %, and samples that are the 90th percentile of a minute; here percentiles are exact, of one sample a slot.
    """

    name = "koordinator-peak"
    options: ClassVar = {"safety": (-0.2, -0.1, 0.0, 0.1, 0.25, 0.5), "cold": (2.0, 24.0)}

    def __init__(self, safety: float = 0.1, cold: float = 24.0) -> None:
        within(-1, 10, safety=safety)
        at_least(0, cold=cold)
        self.safety, self.cold, self._by_load = safety, cold, LoadAware()

    def warm_after(self, scenario: Scenario) -> int:
        """More than `cold` hours."""
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
