"""Koordinator: placement by load, and its peak predictor used as a filter."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, fraction, within
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
HALF_LIFE = (12.0, 24.0)  # hours after which the weight of a sample has halved
_LOAD_AWARE: Compiled = vectorize(load_aware.load_aware.py_func)  # over all machines at once


class LoadAware(Scored):
    """Koordinator's LoadAware (Apache-2.0): takes the machine with the largest mean free share of CPU and memory.

    It takes a machine that would exceed `threshold` of the CPU or 95 % of the memory only if there is no other.
    Koordinator would let the workload wait; it also estimates the newcomer at 85 % of its requested CPU and 70 % of its
    memory (here: its demand in the first slot), counts in whole percent, and excludes machines whose metrics are older
    than three minutes. Default: 0.65.

    `threshold`: share of the capacity, above 0 and at most 1
    """

    name, knowledge = "load-aware", CURRENT_LOAD
    options: ClassVar = {"threshold": (0.45, 0.55, 0.65, 0.75, 0.85, 0.95)}

    def __init__(self, threshold: float = load_aware.CPU_LIMIT) -> None:
        fraction(threshold=threshold)
        self.threshold = threshold

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        after = share_after(cluster, workload)
        return _LOAD_AWARE(after[:, 0], after[:, -1], self.threshold)


class KoordinatorPeak(EachAlone):
    """A workload's peak is a decayed percentile of its usage (CPU: 95th, memory: 98th) x (1 + safety).

    The weight of a sample halves every 12 hours (CPU) or 24 hours (memory). Until a workload has run for more than
    `cold` hours, it counts at its request. Of the machines that pass, the rule takes the one with the largest mean free
    share now (Koordinator's `load-aware`).

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
