"""Google's predictors of a machine's peak ("Take It to the Limit: Peak Prediction-driven Resource Overcommitment in
Datacenters", EuroSys 2021).

Source: the code of github.com/googleinterns/cluster-resource-forecast (Apache-2.0). We did not read the paper: that a
workload is admitted if prediction and request fit is from summaries of it. Usage counts up to the request (`cap`).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, fraction, percent
from tvwrl.compiled import njit
from tvwrl.schedulers.base import PRODUCTION_RULE, registered
from tvwrl.schedulers.knowledge import FUTURE, REQUESTS
from tvwrl.schedulers.production.facts import Samples, future_samples, slots_in, summed
from tvwrl.schedulers.production.predicted_peak import EachAlone, PredictedPeak, percentiles
from tvwrl.simulation import Cluster, Mask, Scenario
from tvwrl.types import Float, Int

HOURS = 2.0  # of history; a workload that has run for so long is warm


@registered("Borg default", PRODUCTION_RULE)
class BorgDefault(PredictedPeak):
    """Google's limit predictor with a factor: phi x summed requests of running workloads.

    In the source phi is 1; 0.9 is from summaries of the paper. The newcomer counts at its full request.
    """

    name, knowledge = "borg-default", REQUESTS
    options: ClassVar = {"phi": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)}

    def __init__(self, phi: float = 0.9) -> None:
        fraction(phi=phi)
        self.phi = phi

    def history(self, scenario: Scenario) -> int:
        """None."""
        return 0

    def predict(self, samples: Samples, machines: int) -> Float:
        """See `PredictedPeak.predict`."""
        return self.phi * summed(samples.request, samples.machine, machines)


@registered("N-sigma (Google)", PRODUCTION_RULE)
class NSigma(PredictedPeak):
    """Google's N-sigma predictor: mean plus n standard deviations of the machine's usage.

    r_k is summed usage / summed requests of warm workloads k slots ago, for k in the last two hours. The prediction is
    min(1, mean(r) + n x deviation(r)) x summed requests of warm workloads, plus the requests of cold ones. A workload
    is warm after two hours of samples. The deviation is that of a sample (division by the number of samples - 1).

    Source: `n_sigma_predictor.py`; n = 5 and two hours are from its documentation, where samples are 5 minutes apart.
    In slots of 30 minutes two hours are only four samples, few for a deviation.
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
        return _n_sigma(*samples[1:5], warm, self.n, self.cap, machines)


@registered("RC-like (Google)", PRODUCTION_RULE)
class RCLike(EachAlone):
    """Google's predictor in the style of Resource Central: the sum of each workload's own usage percentile in the last
    two hours, or of its request if it has less history.

    Source: `per_vm_percentile_predictor.py`, whose percentile is 100 by default; 99 is from summaries of the paper.
    """

    name = "rc-like"
    options: ClassVar = {"p": (50.0, 65.0, 80.0, 90.0, 95.0, 99.0, 100.0)}

    def __init__(self, p: float = 99.0, cap: bool = True) -> None:
        percent(p=p)
        self.p, self.cap = p, cap

    def history(self, scenario: Scenario) -> int:
        """Two hours."""
        return slots_in(HOURS, scenario)

    warm_after = history

    def peak_of_each(self, samples: Samples) -> Float:
        """See `EachAlone.peak_of_each`."""
        value = np.minimum(samples.value, samples.request[:, None]) if self.cap else samples.value
        return percentiles(value, samples.seen, self.p)


@registered("Max predictor (Google)", PRODUCTION_RULE)
class MaxPredictor(PredictedPeak):
    """On each machine, the larger prediction of `n-sigma` and `rc-like` (99th percentile).

    The paper's max predictor, `max_decorator.py` in the source; its members are from summaries of the paper.
    (`max_predictor.py` in the source is another rule, the sum of the largest usage of each task.)
    """

    name = "max-predictor"
    options: ClassVar = {"n": (1.0, 2.0, 3.0, 5.0, 7.0)}

    def __init__(self, n: float = 5.0) -> None:
        self._members: tuple[PredictedPeak, ...] = (NSigma(n), RCLike())

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget predictions."""
        super().reset(cluster, rng)
        for member in self._members:
            member.reset(cluster, rng)

    def history(self, scenario: Scenario) -> int:
        """As much as its members need."""
        return NSigma().history(scenario)

    def predict(self, samples: Samples, machines: int) -> Float:
        """See `PredictedPeak.predict`."""
        peaks: Float = np.max([member.predict(samples, machines) for member in self._members], axis=0)
        return peaks


@registered("Peak oracle (Google)", PRODUCTION_RULE)
class PeakOracle(PredictedPeak):
    """Google's reference: the true peak, over the next 24 hours, of the workloads now on the machine. Reads the future.

    Where no workload runs beyond this slot, it predicts their requests. It counts the newcomer at its request, so
    unlike `clairvoyant` it may do worse than other rules. Source: `oracle.py`; 24 hours are from the documentation.
    """

    name, knowledge = "peak-oracle", FUTURE

    def look(self, cluster: Cluster, rows: Int | None = None) -> Samples:
        """The next 24 hours."""
        return future_samples(cluster, slots_in(24, self.scenario), rows)

    def predict(self, samples: Samples, machines: int) -> Float:
        """See `PredictedPeak.predict`."""
        return _largest_sum(*samples[1:5], machines)


@njit
def _largest_sum(machine: Int, request: Float, seen: Int, value: Float, machines: int) -> Float:
    """(machines, D) largest sum of usage in a slot, counted up to the request; where there is none, of requests."""
    _, slots, resources = value.shape
    used, peak = np.zeros((machines, slots, resources)), np.zeros((machines, resources))
    requested, depth = np.zeros((machines, resources)), np.zeros(machines, np.int64)
    for r in range(len(machine)):
        m = machine[r]
        depth[m] = max(depth[m], seen[r])
        for d in range(resources):
            requested[m, d] += request[r, d]
        for k in range(seen[r]):
            for d in range(resources):
                used[m, k, d] += min(value[r, k, d], request[r, d])
    for m in range(machines):
        for d in range(resources):
            peak[m, d] = used[m, : depth[m], d].max() if depth[m] > 0 else requested[m, d]
    return peak


@njit
def _n_sigma(
    machine: Int, request: Float, count: Int, value: Float, warm: Mask, n: float, cap: bool, machines: int
) -> Float:
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
