"""Trimaran's rules, which use the current and recent load of machines: kubernetes-sigs/scheduler-plugins,
`pkg/trimaran`.

Source: the code at 903da7d (Apache-2.0). Nothing is copied. It takes a random one of the best machines; here the first
is taken. CPU and memory are the first and the last resource.
"""

from __future__ import annotations

from typing import ClassVar, cast

import numpy as np

from tvwrl.checks import at_least, below, fraction, positive
from tvwrl.compiled import plain, vectorize
from tvwrl.schedulers import load_scores
from tvwrl.schedulers.base import BOTH, PRODUCTION_RULE, registered
from tvwrl.schedulers.best_fit import Compiled
from tvwrl.schedulers.head_of_queue import FilterAndScore, Scored
from tvwrl.schedulers.knowledge import REQUESTS
from tvwrl.schedulers.production.facts import LIMIT, PastLoad, estimated_load, points, requested, requests_fit
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, Workload

REPORTS = 15
SMOOTHING = 5.0  # reports; the deviation is multiplied by its root
WEIGHT = 0.5  # of the risk from limits; the risk from load has the rest
HIGHEST_VARIANCE = 0.99  # share of the largest variance that a variable within [0, 1] with that mean can have
# The compiled formulas, over all machines at once
_TARGET_LOAD_PACKING = cast(Compiled, vectorize(plain(load_scores.target_load_packing)))
_RISK_BALANCING = cast(Compiled, vectorize(plain(load_scores.risk_balancing)))


@registered("Target load (Trimaran)", BOTH)
class TargetLoadPacking(Scored):
    """Trimaran's TargetLoadPacking: the machine whose CPU load comes closest to `target`; machines below it come first.

    Source: `pkg/trimaran/targetloadpacking`. The load is the newest measured one, plus the limits of the newcomer and
    of workloads bound since. Score: rises from 100 x `target` on an idle machine to 100 at the target, then falls from
    100 x `target` to 0 at the capacity; a whole number. Default: 0.4.

    Left out: where no limit is declared, the source takes 1.5 times the request, or else a core; here one number is
    both, and `Simulation.request` stands in. The source counts a workload twice that was bound less than a minute
    before the newest sample, and gives a machine without metrics the score 0; here load is 0 before the first sample.

    `target`: share of the capacity, above 0 and below 1
    """

    name, knowledge = "target-load-packing", REQUESTS.and_also("load of machines now")
    options: ClassVar = {"target": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)}

    def __init__(self, target: float = load_scores.TARGET_SHARE) -> None:
        fraction(target=target)
        below(1, target=target)
        self.target = target

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        share = (estimated_load(cluster, workload, LIMIT) / cluster.divisor[:, [0, -1]])[:, 0]
        return points(_TARGET_LOAD_PACKING(share, self.target))


@registered("Load variation (Trimaran)", BOTH)
class RiskBalancing(Scored):
    """Trimaran's LoadVariationRiskBalancing: the machine with the least risk from recent load: its mean plus `margin`
    times its deviation.

    Source: `pkg/trimaran/loadvariationriskbalancing`. Mean (with the newcomer's request added) and deviation are of the
    measured load of CPU and of memory, as shares of the capacity, at most 1. The risk is half of mean + `margin` x
    deviation^(1 / `sensitivity`); the score is 100 x (1 - risk) of the riskier resource, a whole number. Workloads
    bound since the newest sample do not count, in the source neither. Defaults: 1.

    Left out: in the source a machine may lack metrics of one resource, which then does not count, or of both, which
    gives the score 0. Here load is 0 before the first sample. Mean and deviation are of the newest 15 reports, one per
    slot (in the source: of 15 minutes).

    `margin`: >= 0; `sensitivity`: > 0
    """

    name = "risk-balancing"
    knowledge = REQUESTS.and_also(f"load of machines in the last {REPORTS} slots")
    options: ClassVar = {"margin": (0.0, 0.5, 1.0, 2.0, 4.0)}

    def __init__(self, margin: float = load_scores.MARGIN, sensitivity: float = load_scores.SENSITIVITY) -> None:
        at_least(0, margin=margin)
        positive(sensitivity=sensitivity)
        self.margin, self.sensitivity = margin, sensitivity

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget past load."""
        self._past = PastLoad(cluster, REPORTS)

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        mean, deviation = recent_shares(self._past, cluster)
        mean += (cluster.request_of(workload) / cluster.divisor)[:, [0, -1]]
        moments = (mean[:, 0], deviation[:, 0], mean[:, 1], deviation[:, 1])
        return points(_RISK_BALANCING(*moments, self.margin, self.sensitivity))


@registered("Low risk (Trimaran)", PRODUCTION_RULE)
class LowRiskOverCommitment(FilterAndScore):
    """Trimaran's LowRiskOverCommitment: the machine with the least risk that limits exceed the capacity or that load
    exceeds the requests.

    Source: `pkg/trimaran/lowriskovercommitment`. Score: `low_risk`; filter: requests fit (Kubernetes' own). Defaults: a
    smoothing window of 5, weights of 0.5.

    The source distinguishes requests from limits, but traces declare one number. If both were that number, every risk
    would be 0 or 1 and could not rank machines. So here the declared number is the limit, and `request` times it is the
    request; that share is ours. Mean and deviation are of the newest 15 reports, one per slot (in the source: of 15
    minutes); the source's default metrics have only the latest value. The source gives 0 everywhere to a newcomer that
    declares nothing.

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
        both = (requested(cluster, workload), cluster.reserved_requests)
        limit, limit_before = ((units / cluster.divisor)[:, [0, -1]] for units in both)
        parts = (self.request * limit, limit, self.request * limit_before, limit_before)
        risk = low_risk(*parts, *recent_shares(self._past, cluster)).max(axis=1)
        return points(1.0 - risk)


def recent_shares(past: PastLoad, cluster: Cluster) -> tuple[Float, Float]:
    """(M, 2) mean and (M, 2) deviation of the used share of CPU and of memory, at most 1, in the newest reports."""
    share = np.clip((past.newest(cluster, REPORTS) / cluster.divisor)[..., [0, -1]], 0.0, 1.0)
    return share.mean(axis=0), share.std(axis=0)


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
    return np.clip(WEIGHT * excess + (1.0 - WEIGHT) * (1.0 - below), 0.0, 1.0)


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
