"""Rules that place by measured load: Crane, Katalyst's default mode, Trimaran's LowRiskOverCommitment.

The code of all three was read; all are under Apache-2.0. Nothing is copied; the formulas are written anew. All take a
random one of the best machines; here the first is taken. CPU and memory are the first and the last resource.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tvwrl.checks import positive
from tvwrl.packing.fit import fits
from tvwrl.schedulers.head_of_queue import HeadOfQueue, best
from tvwrl.schedulers.knowledge import CURRENT_LOAD, REQUESTS, Knowledge
from tvwrl.schedulers.production.past_load import PastLoad
from tvwrl.schedulers.production.requests import admitted, milli
from tvwrl.schedulers.production.usage import running, slots_in, summed
from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.simulation.state import SEQUENCE, START
from tvwrl.types import Float, InputError, Int, Workload

LOAD_AND_REQUESTS = Knowledge(REQUESTS.group, f"{REQUESTS.note}; current and past load of machines")
MOST = 100.0  # the best score


class _ByPastLoad(HeadOfQueue):
    """A rule that looks at the load of machines in past slots."""

    hours = 24.0

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget past load."""
        self._day = slots_in(self.hours, cluster.simulation.scenario)
        self._past = PastLoad(cluster, self._day)

    def levels(self, cluster: Cluster) -> tuple[Float, Float, Float]:
        """(M, 2) units of CPU and memory, three times: the newest load, the largest of an hour and that of a day."""
        loads = self._past.newest(cluster, self._day)[..., [0, -1]]
        hour = slots_in(1.0, cluster.simulation.scenario)
        return loads[-1], loads[-hour:].max(axis=0), loads.max(axis=0)


class Crane(_ByPastLoad):
    """Crane's dynamic scheduler: leaves out machines that are or lately were busy, and prefers those that were not.

    Source: gocrane/crane-scheduler at c2c0533, `pkg/plugins/dynamic`, `pkg/controller/annotator` and the policy that it
    ships. Filter: the load's share is not above `threshold` in the newest report (there: the mean of 5 minutes), nor
    above `threshold` + 0.1 in the hour before, for CPU and for memory. Score: `crane_score`. The newcomer is not added,
    no request is looked at, and the day's maximum only scores. Default: 0.65.

    Ours: a report is one slot, where the source refreshes the hour's and the day's maxima every 15 minutes and 3 hours,
    and both windows of the hot value are the current slot.

    `threshold`: share of the capacity, > 0
    """

    name, knowledge = "crane", CURRENT_LOAD
    options: ClassVar = {"threshold": (0.45, 0.55, 0.65, 0.75, 0.85, 0.95)}
    LATELY = 0.1  # how much higher the hour's threshold is

    def __init__(self, threshold: float = 0.65) -> None:
        positive(threshold=threshold)
        self.threshold = threshold

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        divisor = cluster.divisor[:, [0, -1]]
        now, hour, day = (np.round(level / divisor, 5) for level in self.levels(cluster))
        calm = (now <= self.threshold) & (hour <= round(self.threshold + self.LATELY, 5))
        placed = np.bincount(_placed_since(cluster, cluster.slot)[1], minlength=len(divisor))
        return best(admitted(cluster, workload, np.all(calm, axis=1)), crane_score(now, hour, day, placed))


def crane_score(now: Float, hour: Float, day: Float, placed: Int) -> Float:
    """(M,) 0 to 100: the free share, weighted 0.2, 0.3 and 0.5, less 10 for each point of the hot value.

    `now`, `hour`, `day`: (M, 2) used shares of CPU and memory; the last two are maxima
    `placed`: (M,) workloads placed lately; each five of the last five minutes and each two of the last one are a point
    """
    free = 0.2 * (1.0 - now) + 0.3 * (1.0 - hour) + 0.5 * (1.0 - day)
    hot = placed // 5 + placed // 2
    score: Float = np.clip(np.floor(MOST * free.sum(axis=1) / 2.0) - 10.0 * hot, 0.0, MOST)
    return score


class KatalystLoad(_ByPastLoad):
    """Katalyst's load-aware plugin in its default mode, without portraits of workloads.

    Source: kubewharf/katalyst-core, pull request 654, and katalyst-api, pull request 94, which sets its defaults; both
    were still open in April 2026. Filter: round(100 x load / capacity) is at most `threshold` for CPU and 95 for
    memory, the newcomer not added. Score: `katalyst_score`, after the newcomer and what was placed since the last
    report are added to the newest load: 85 % of their requested CPU, 70 % of their memory. Default: 70.

    Ours: a report is one slot, where the source takes the mean of 15 minutes.

    `threshold`: per cent of the CPU, > 0
    """

    name, knowledge = "katalyst-load", LOAD_AND_REQUESTS
    options: ClassVar = {"threshold": (50.0, 60.0, 70.0, 80.0, 90.0, 100.0)}
    MEMORY, ESTIMATE = 95.0, (0.85, 0.70)

    def __init__(self, threshold: float = 70.0) -> None:
        positive(threshold=threshold)
        self.threshold = threshold

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        size = cluster.divisor[:, [0, -1]]
        now, hour, day = self.levels(cluster)
        calm = _rounded(MOST * now / size) <= (self.threshold, self.MEMORY)
        new, where = _placed_since(cluster, cluster.measured + 1)
        sequence = cluster.simulation.state.counters[cluster.b, SEQUENCE]
        unseen = summed(cluster.simulation.request[sequence, new], where, len(size)) + cluster.request_of(workload)
        return best(
            admitted(cluster, workload, np.all(calm, axis=1)),
            katalyst_score(now + self.ESTIMATE * unseen[:, [0, -1]], hour, day, size),
        )


def katalyst_score(now: Float, hour: Float, day: Float, size: Float) -> Float:
    """(M,) 0 to 100: the free share of CPU and memory, of three levels of load weighted 30, 30 and 40.

    `now`, `hour`, `day`: (M, 2) units of load; the last two are maxima
    `size`: (M, 2) units

    Whole numbers throughout, as in the source: amounts in thousandths, each free share in whole per cent.

    >>> katalyst_score(*(np.array([[x, 4.0]]) for x in (3.7, 5.0, 6.0)), np.array([[8.0, 8.0]]))
    array([43.])
    """
    whole, levels = milli(size), (milli(now), milli(hour), milli(day))
    free = [100 * np.maximum(whole - level, 0) // np.maximum(whole, 1) for level in levels]
    shares = (30 * free[0] + 30 * free[1] + 40 * free[2]) // 100
    score: Float = (shares.sum(axis=1) // 2).astype(float)
    return score


class LowRiskOverCommitment(HeadOfQueue):
    """Trimaran's LowRiskOverCommitment: the machine where limits exceed the capacity, and load the requests, the least.

    Source: kubernetes-sigs/scheduler-plugins at 903da7d, `pkg/trimaran/lowriskovercommitment`. Score: `low_risk`;
    filter: requests fit (Kubernetes' own). Defaults: a smoothing window of 5, weights of 0.5.

    The source tells requests from limits, while traces declare one number. If both were the same, the risk would be 0
    or 1 and rank nothing. So the declared number is the limit here and `request` times it the request; that share is
    ours, without a source. Mean and deviation are of the newest 15 reports, one a slot (there: of 15 minutes); the
    source's default metrics have only the latest value.

    `request`: share of the limit that counts as requested, above 0; at most 1
    """

    name, knowledge = "low-risk-overcommitment", LOAD_AND_REQUESTS
    options: ClassVar = {"request": (0.25, 0.35, 0.5, 0.65, 0.8)}
    REPORTS = 15

    def __init__(self, request: float = 0.5) -> None:
        if not 0 < request <= 1:
            raise InputError(f"request is {request}: must be above 0 and at most 1")
        self.request = request

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget past load."""
        self._past = PastLoad(cluster, self.REPORTS)

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        before, added = cluster.reserved_requests, cluster.request_of(workload)
        passes = fits(self.request * (before + added), cluster.capacity, cluster.capacity)
        loads = self._past.newest(cluster, self.REPORTS) / cluster.divisor
        share = np.clip(loads[..., [0, -1]], 0.0, 1.0)
        limit, limit_before = ((units / cluster.divisor)[:, [0, -1]] for units in (before + added, before))
        parts = (self.request * limit, limit, self.request * limit_before, limit_before)
        risk = low_risk(*parts, share.mean(axis=0), share.std(axis=0)).max(axis=1)
        return best(admitted(cluster, workload, passes), _rounded(MOST * (1.0 - risk)))


SMOOTHING = 5.0  # reports; the deviation is taken times its root
WEIGHT = 0.5  # of the risk from limits; the rest is of the risk from load
HIGHEST_VARIANCE = 0.99  # share of the largest that a variable within [0, 1] of that mean can have


def low_risk(request: Float, limit: Float, request_before: Float, limit_before: Float, mean: Float, sd: Float) -> Float:
    """(...) 0 to 1: the risk of a resource, half of it from limits and half from load; all are shares of the capacity.

    Limits above the capacity: what they exceed it by, as a share of what they exceed the requests by (at most the
    capacity). Load: the probability that it exceeds the requests, given that it stays within the limits, if it has a
    beta distribution of that mean and deviation.

    `request`, `limit`: summed, with the newcomer; `request_before`, `limit_before`: without it
    `mean`, `sd`: of the measured load, within [0, 1]
    """
    request, request_before = np.minimum(request, 1.0), np.minimum(request_before, 1.0)
    excess = np.where(limit > 1.0, (limit - 1.0) / np.where(limit > 1.0, limit - request, 1.0), 0.0)
    below, fitted = _probability(mean, sd, request_before)
    ever, _ = _probability(mean, sd, np.minimum(limit_before, 1.0))
    given = np.where(fitted & (ever > 0), np.minimum(below / np.where(ever > 0, ever, 1.0), 1.0), below)
    within_limit = (limit_before < 1.0) & (request_before <= limit_before)
    below = np.where(within_limit, np.where(limit_before == 0, 1.0, given), below)
    risk: Float = np.clip(WEIGHT * excess + (1.0 - WEIGHT) * (1.0 - below), 0.0, 1.0)
    return risk


def _probability(mean: Float, sd: Float, threshold: Float) -> tuple[Float, Mask]:
    """(...) probability that the load is at most `threshold`, and where it is of a beta distribution."""
    from scipy.special import betainc

    spread = mean * (1.0 - mean)
    variance = np.minimum(SMOOTHING * sd**2, HIGHEST_VARIANCE * spread)
    fitted: Mask = (variance > 0) & (spread > 0)
    k = np.where(fitted, spread / np.where(fitted, variance, 1.0) - 1.0, 1.0)
    alpha, beta = (np.where(fitted, part, 1.0) for part in (mean * k, (1.0 - mean) * k))
    certain = (mean == 0) | ((sd == 0) & (mean <= threshold))
    return np.where(fitted, betainc(alpha, beta, threshold), certain), fitted


def _rounded(value: Float) -> Float:
    """The nearest whole number; halves are rounded up."""
    whole: Float = np.floor(value + 0.5)
    return whole


def _placed_since(cluster: Cluster, slot: int) -> tuple[Int, Int]:
    """(n,) the running workloads placed in `slot` or later, and (n,) their machines."""
    workload, machine = running(cluster)
    new = cluster.simulation.state.workloads[cluster.b, workload, START] >= slot
    return workload[new], machine[new]
