"""Trimaran's rules, which use the current and recent load of machines: kubernetes-sigs/scheduler-plugins,
`pkg/trimaran`.

All are under Apache-2.0. For LowRiskOverCommitment we read the code; the formulas of the others are from KEP 61 of that
repository. Nothing is copied. The sources take a random one of the best machines; here the first is taken. CPU and
memory are the first and the last resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from tvwrl.checks import at_least, below, fraction
from tvwrl.compiled import vectorize
from tvwrl.schedulers import load_aware
from tvwrl.schedulers.head_of_queue import FilterAndScore, Scored
from tvwrl.schedulers.knowledge import CURRENT_LOAD, REQUESTS
from tvwrl.schedulers.production.past_load import PastLoad
from tvwrl.schedulers.production.requests import requested, requests_fit, rounded
from tvwrl.schedulers.scores import Compiled, share_after
from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.types import Float, Placement, Workload

REPORTS = 15
SMOOTHING = 5.0  # reports; the deviation is multiplied by its root
WEIGHT = 0.5  # of the risk from limits; the risk from load has the rest
HIGHEST_VARIANCE = 0.99  # share of the largest variance that a variable within [0, 1] with that mean can have
# The compiled formulas, over all machines at once
_TARGET_LOAD_PACKING: Compiled = vectorize(load_aware.target_load_packing.py_func)
_RISK_BALANCING: Compiled = vectorize(load_aware.risk_balancing.py_func)


class TargetLoadPacking(Scored):
    """Trimaran's TargetLoadPacking: the machine whose CPU load comes closest to `target`; machines below it come first.

    Only CPU counts, including the newcomer's demand in its first slot; Trimaran estimates that from its request.
    Default: 0.4.

    `target`: share of the capacity, above 0 and below 1
    """

    name, knowledge = "target-load-packing", CURRENT_LOAD
    options: ClassVar = {"target": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)}

    def __init__(self, target: float = load_aware.TARGET_SHARE) -> None:
        fraction(target=target)
        below(1, target=target)
        self.target = target

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        return _TARGET_LOAD_PACKING(share_after(cluster, workload)[:, 0], self.target)


class RiskBalancing(Scored):
    """Trimaran's LoadVariationRiskBalancing: of the machines with room, the one with the least risk from recent load:
    its mean plus `margin` times its deviation.

    Trimaran computes both from the last 15 minutes, with one report a minute, and adds the newcomer's request. Here
    they are from about 15 reports, one in each slot with a waiting workload, for the first resource (CPU) and the last
    (memory), and the newcomer's demand in its first slot is added. Default: 1.

    `margin`: >= 0
    """

    name = "risk-balancing"
    knowledge = CURRENT_LOAD.and_also("load of machines in about the last 15 slots in which something waited")
    options: ClassVar = {"margin": (0.0, 0.5, 1.0, 2.0, 4.0)}

    def __init__(self, margin: float = load_aware.MARGIN) -> None:
        at_least(0, margin=margin)
        self.margin = margin

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget past load."""
        self._history, self._latest = load_aware.no_history(len(cluster.machines)), -1

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`; the load is recorded once a slot."""
        if cluster.slot > self._latest:
            self._latest = cluster.slot
            share = (cluster.load / cluster.divisor)[:, [0, -1]]
            load_aware.remember(share, self._history, load_aware.REPORT_WEIGHT)
        yield from super().schedule(cluster, pending)

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        mean = self._history[..., 0] + (workload.first_demand / cluster.divisor)[:, [0, -1]]
        deviation = np.sqrt(self._history[..., 1])
        return _RISK_BALANCING(mean[:, 0], deviation[:, 0], mean[:, 1], deviation[:, 1], self.margin)


class LowRiskOverCommitment(FilterAndScore):
    """Trimaran's LowRiskOverCommitment: the machine with the least risk that limits exceed the capacity or that load
    exceeds the requests.

    Source: kubernetes-sigs/scheduler-plugins at 903da7d, `pkg/trimaran/lowriskovercommitment`. Score: `low_risk`;
    filter: requests fit (Kubernetes' own). Defaults: a smoothing window of 5, weights of 0.5.

    The source distinguishes requests from limits, but traces declare one number. If both were that number, every risk
    would be 0 or 1 and could not rank machines. So here the declared number is the limit, and `request` times it is the
    request; that share is ours. Mean and deviation are of the newest 15 reports, one per slot (in the source: of 15
    minutes); the source's default metrics have only the latest value.

    `request`: share of the limit that counts as requested, above 0; at most 1
    """

    name = "low-risk-overcommitment"
    knowledge = REQUESTS.and_also(f"load of machines in the last {REPORTS} slots")
    options: ClassVar = {"request": (0.25, 0.35, 0.5, 0.65, 0.8)}

    def __init__(self, request: float = 0.5) -> None:
        fraction(request=request)
        self.request = request

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget past load."""
        self._past = PastLoad(cluster, REPORTS)

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        return requests_fit(cluster, workload, 1.0 / self.request)

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        loads = self._past.newest(cluster, REPORTS) / cluster.divisor
        share = np.clip(loads[..., [0, -1]], 0.0, 1.0)
        both = (requested(cluster, workload), cluster.reserved_requests)
        limit, limit_before = ((units / cluster.divisor)[:, [0, -1]] for units in both)
        parts = (self.request * limit, limit, self.request * limit_before, limit_before)
        risk = low_risk(*parts, share.mean(axis=0), share.std(axis=0)).max(axis=1)
        return rounded(100.0 * (1.0 - risk))


def low_risk(request: Float, limit: Float, request_before: Float, limit_before: Float, mean: Float, sd: Float) -> Float:
    """(...) 0 to 1: the risk of a resource, half from limits and half from load; all inputs are shares of the capacity.

    Risk from limits: the excess of limits over the capacity, divided by their excess over the requests (which count up
    to the capacity); 0 if limits stay within the capacity. Risk from load: the probability that it exceeds the
    requests, given that it stays within the limits, for a beta distribution with that mean and deviation.

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
    """(...) probability that the load is at most `threshold`, and where a beta distribution gave it."""
    from scipy.special import betainc

    spread = mean * (1.0 - mean)
    variance = np.minimum(SMOOTHING * sd**2, HIGHEST_VARIANCE * spread)
    fitted: Mask = (variance > 0) & (spread > 0)
    k = np.where(fitted, spread / np.where(fitted, variance, 1.0) - 1.0, 1.0)
    alpha, beta = (np.where(fitted, part, 1.0) for part in (mean * k, (1.0 - mean) * k))
    certain = (mean == 0) | ((sd == 0) & (mean <= threshold))
    return np.where(fitted, betainc(alpha, beta, threshold), certain), fitted
