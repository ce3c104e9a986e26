"""Google's predictors of a machine's peak ("Take It to the Limit: Peak Prediction-driven Resource Overcommitment in
Datacenters", EuroSys 2021).

Source: github.com/googleinterns/cluster-resource-forecast (Apache-2.0), read as code. The paper was not read: that a
workload is admitted where prediction and request fit is from summaries of it. Usage counts up to the request (`cap`).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least
from tvwrl.compiled import njit
from tvwrl.schedulers.production.predicted_peak import PredictedPeak
from tvwrl.schedulers.production.usage import Samples, slots_in
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import Float

HOURS = 2.0  # of history, and until a workload is warm


class NSigma(PredictedPeak):
    """Google's N-sigma predictor: mean and deviation of the machine's usage.

    r_k = summed usage / summed requests of warm workloads, k slots ago, over the last two hours; predicted:
    min(1, mean(r) + n x deviation(r)) x summed requests of the warm, plus the requests of the cold. Warm: two hours of
    samples. Deviation: of a sample (division by n - 1).

    Source: `n_sigma_predictor.py`; n = 5 and two hours are from its documentation, where samples are 5 minutes apart.
    In slots of 30 minutes two hours are four samples, few for a deviation.
    """

    name = "n-sigma"
    options: ClassVar = {"n": (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)}

    def __init__(self, n: float = 5.0, cap: bool = True) -> None:
        at_least(0, n=n)
        self.n, self.cap = n, cap

    def history(self, scenario: Scenario) -> int:
        """Two hours, at least the two samples that a deviation needs."""
        return max(slots_in(HOURS, scenario), 2)

    def predict(self, samples: Samples, machines: int) -> Float:
        """See `PredictedPeak.predict`."""
        warm = samples.seen >= self.history(self.scenario)
        peak: Float = _n_sigma(*samples[1:5], warm, self.n, self.cap, machines)
        return peak


@njit
def _n_sigma(machine, request, count, value, warm, n, cap, machines):  # type: ignore[no-untyped-def]
    _, slots, resources = value.shape
    used, limit = np.zeros((machines, slots, resources)), np.zeros((machines, slots, resources))
    depth, peak = np.zeros(machines, np.int64), np.zeros((machines, resources))
    for r in range(len(machine)):
        m = machine[r]
        if not warm[r]:
            peak[m] += request[r]
            continue
        depth[m] = max(depth[m], count[r])
        for k in range(count[r]):
            for d in range(resources):
                sample = value[r, k, d]
                used[m, k, d] += min(sample, request[r, d]) if cap else sample
                limit[m, k, d] += request[r, d]
    for m in range(machines):
        for d in range(resources):
            if depth[m] < 2:
                continue
            total = squares = 0.0
            for k in range(depth[m]):
                total += used[m, k, d] / limit[m, k, d] if limit[m, k, d] > 0 else 0.0
            mean = total / depth[m]
            for k in range(depth[m]):
                ratio = used[m, k, d] / limit[m, k, d] if limit[m, k, d] > 0 else 0.0
                squares += (ratio - mean) ** 2
            deviation = np.sqrt(squares / (depth[m] - 1))
            peak[m, d] += min(1.0, mean + n * deviation) * limit[m, 0, d]
    return peak
