"""Rules in the manner of GPA, the Gaussian percentile approximation, and of chance constraints for normal demand.

GPA: Janus and Rzadca, "SLO-aware Colocation of Data Center Tasks Based on Instantaneous Processor Requirements" (SoCC
2017, arXiv 1709.01384). Chance constraints: Cohen, Keller, Mirrokni and Zadimoghaddam, "Overcommitment in Cloud
Services" (Management Science 2019). We could read the abstracts and first pages of both, and there is no code. So the
rules are called `-like`, and no headline rests on them.

Read: high percentiles of the summed usage of ten or more tasks are well described by a normal distribution; a newcomer
fits if the percentile of the service level stays below the capacity. Reconstructed: how mean and deviation are
estimated, in two ways, and the default service level. Machines here hold fewer than ten workloads.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import ClassVar

import numpy as np

from tvwrl.checks import below, fraction
from tvwrl.compiled import njit
from tvwrl.schedulers.base import RECONSTRUCTION, registered
from tvwrl.schedulers.production.facts import Samples, slots_in
from tvwrl.schedulers.production.predicted_peak import PredictedPeak
from tvwrl.types import Float, Int

LEAST = 2  # samples; workloads with fewer count at their requests, without deviation


@registered("GPA-like", RECONSTRUCTION)
class GPALike(PredictedPeak):
    """As GPA: mean + z(slo) x deviation of a machine's summed usage, over the slots in which all its workloads ran.

    At most the last 24 hours count. The newcomer, and workloads with one sample, count at their requests. The deviation
    is that of a population (division by n). The code is ours, from the description.
    """

    name = "gpa-like"
    options: ClassVar = {"slo": (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)}

    def __init__(self, slo: float = 0.99) -> None:
        fraction(slo=slo)
        below(1, slo=slo)
        self.z = NormalDist().inv_cdf(slo)

    def predict(self, samples: Samples, machines: int) -> Float:
        """See `PredictedPeak.predict`."""
        return _of_sums(*samples[1:5], slots_in(24, self.scenario), self.z, machines)


@registered("GPA-like, independent", RECONSTRUCTION)
class IndependentGPALike(GPALike):
    """As GPA if workloads were independent: summed means + z(slo) x root of their summed variances.

    Each workload's mean and variance are over its whole life so far. This is the chance constraint of Cohen and others
    for normal demand. Estimates as in `gpa-like`. The code is ours.
    """

    name = "gpa-independent-like"

    def predict(self, samples: Samples, machines: int) -> Float:
        """See `PredictedPeak.predict`."""
        level, variance = _of_each(*samples[1:5], machines)
        return level + self.z * np.sqrt(variance)


@njit
def _of_each(machine: Int, request: Float, seen: Int, value: Float, machines: int) -> tuple[Float, Float]:
    """(machines, D) summed means, the requests of the young included, and summed variances."""
    resources = value.shape[2]
    level, variance = np.zeros((machines, resources)), np.zeros((machines, resources))
    for r in range(len(machine)):
        for d in range(resources):
            total = squares = 0.0
            for k in range(seen[r]):
                total += value[r, k, d]
            mean = total / max(seen[r], 1)
            for k in range(seen[r]):
                squares += (value[r, k, d] - mean) ** 2
            young = seen[r] < LEAST
            level[machine[r], d] += request[r, d] if young else mean
            variance[machine[r], d] += 0.0 if young else squares / seen[r]
    return level, variance


@njit
def _of_sums(machine: Int, request: Float, seen: Int, value: Float, most: int, z: float, machines: int) -> Float:
    resources = value.shape[2]
    depth, peak = np.full(machines, most), np.zeros((machines, resources))
    for r in range(len(machine)):
        if seen[r] >= LEAST:
            depth[machine[r]] = min(depth[machine[r]], seen[r])
    used = np.zeros((machines, min(most, value.shape[1]), resources))
    runs = np.zeros(machines, np.bool_)
    for r in range(len(machine)):
        m = machine[r]
        if seen[r] < LEAST:
            peak[m] += request[r]
            continue
        runs[m] = True
        for k in range(depth[m]):
            for d in range(resources):
                used[m, k, d] += value[r, k, d]
    for m in range(machines):
        for d in range(resources):
            if runs[m]:
                part = used[m, : depth[m], d]
                peak[m, d] += part.mean() + z * part.std()
    return peak
