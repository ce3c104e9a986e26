"""Rules for oversubscribed servers in the manner of Microsoft's Coach and Resource Central.

Coach: Reidys and others, "Exploiting Temporal Patterns for All-Resource Oversubscription in Cloud Platforms" (ASPLOS
2025, arXiv 2501.11179). We could read its abstract, the first page of its introduction, and notes of a reader on its
method. Resource Central: Cortez and others (SOSP 2017). We could read its abstract, the rules that others wrote after
it (three repositories; Microsoft's MARO, MIT licence, among them), but not the paper. Neither has public code. So the
rules are called `-like`, and no headline rests on them. Docstrings say what we read and what is our reconstruction;
docs/reference/production-rules.md lists the deviations.

Both predict how much of its request a new machine will use from what earlier ones did; Resource Central by random
forests, among others. Here forests learn from training workloads, and know what a workload requests.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from tvwrl.checks import percent, within
from tvwrl.compiled import njit
from tvwrl.packing import fits
from tvwrl.schedulers.base import RECONSTRUCTION, registered
from tvwrl.schedulers.knowledge import HISTORY_AND_REQUESTS
from tvwrl.schedulers.production.facts import (
    Learnt,
    Samples,
    TrainingWorkloads,
    by_kind,
    parts_of_day,
    requests_fit,
    slots_in,
)
from tvwrl.schedulers.production.predicted_peak import EachAlone, PredictedPeak, percentile, percentiles
from tvwrl.simulation import SEQUENCE, Cluster, Mask, Scenario
from tvwrl.types import Float, Int, Workload

USE_OF_REQUESTS = HISTORY_AND_REQUESTS.and_also("how much of their requests training workloads used")
WINDOWS = 6  # per day, of four hours
BUCKETS = 4  # of utilisation in Resource Central: 0-25 %, ...
SURE = 0.6  # probability of a bucket from which Resource Central uses a prediction
WARM_HOURS = 2.0  # until a workload's own usage replaces the prediction in Resource Central; ours
ROUNDING = 1e-9  # share of a request by which a percentile may exceed a bucket
FOREST = {"n_estimators": 50, "min_samples_leaf": 5, "random_state": 0}


@registered("Coach-like (Microsoft)", RECONSTRUCTION)
class CoachLike(PredictedPeak):
    """As Coach: summed guaranteed parts + the summed oversubscribed parts in the window of the day where they are
    largest.

    A day has six windows. A workload's guaranteed part is the p-th percentile of its usage in the window where that is
    largest. Its oversubscribed part in a window is its largest usage there beyond the guaranteed part. In a window in
    which it has not run yet, and for a newcomer in all windows, both are predicted from its request, by a forest that
    learns from training workloads which share of their requests the two are; where there are none, both are its
    request. The hour is that of the simulation, so a workload's day starts at an arbitrary hour of its trace.

    Read: guaranteed and oversubscribed portions of every resource, long-term predictions, complementary temporal
    patterns (abstract); six windows of four hours, 95th percentiles (notes). Reconstructed: the formula of the two
    portions, and how they add up.
    """

    name, knowledge = "coach-like", USE_OF_REQUESTS
    options: ClassVar = {"p": (50.0, 65.0, 80.0, 90.0, 95.0, 99.0)}

    def __init__(self, p: float = 95.0) -> None:
        percent(p=p)
        self.p = p
        self._learnt = Learnt(self._learn)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget predictions, and predict what the workloads of this episode use before they have run."""
        super().reset(cluster, rng)
        forest, request = self._learnt.of(cluster.simulation), _requests(cluster)
        self._share = np.ones((len(request), 2, request.shape[1]))  # (N, 2, D) of the request: guaranteed, and largest
        if forest is not None:
            self._share = forest.predict(request).reshape(self._share.shape)

    def _learn(self, training: TrainingWorkloads) -> Any:
        """A forest that predicts from requests (N, D) the shares of them (N, 2D) that are guaranteed and largest."""
        from sklearn.ensemble import RandomForestRegressor

        (workloads, slots, _), day = training.demand.shape, slots_in(24, self.scenario)
        alone, unseen, windows = np.arange(workloads), np.zeros_like(training.request), np.arange(slots) % day
        used = _parts_by_window(
            alone, unseen, unseen, training.length, training.demand, windows * WINDOWS // day, self.p, workloads
        )
        shares = np.concatenate([_share(units, training.request) for units in used], axis=1)
        return RandomForestRegressor(**FOREST).fit(training.request, shares)

    def newcomer(self, cluster: Cluster, workload: Workload) -> Float:
        """See `PredictedPeak.newcomer`: both parts, which are the same in all windows."""
        largest: Float = self._share[workload.index, 1] * cluster.request_of(workload)
        return largest

    def predict(self, samples: Samples, machines: int) -> Float:
        """See `PredictedPeak.predict`."""
        windows = parts_of_day(samples, slots_in(24, self.scenario), WINDOWS)
        before, largest = (self._share[samples.workload, which] * samples.request for which in (0, 1))
        _, peak = _parts_by_window(
            samples.machine, before, largest, samples.seen, samples.value, windows, self.p, machines
        )
        return peak


@registered("Resource-Central-like (Microsoft)", RECONSTRUCTION)
class ResourceCentralLike(EachAlone):
    """As Resource Central oversubscribes CPU: two tests, newcomer included. Predicted 95th percentiles of its usage fit
    the capacity; its requests fit `max_oversub` x capacity. Requests of other resources fit the capacity.

    A percentile counts as the upper end of its bucket: a quarter, half, three quarters, or all of the request. The
    bucket is predicted from the requests by a forest that learns from training workloads; where it is sure of no bucket
    (probability below 0.6), and where there are no training workloads, it is all. After two hours, the workload's own
    percentile decides.

    Read: behaviour is learnt offline from history, its predictions decide how far CPU is oversubscribed (abstract); the
    tests of usage and of requests, for CPU, memory by requests (re-implementations, which have 115 % and 120 % for our
    125 %, and 80 % and 100 % of the capacity for usage); the percentile rounded up to a bucket (one of them).
    Reconstructed: the numbers 125 %, four buckets and 0.6. There, production machines are not oversubscribed; here all
    are.
    """

    name, knowledge = "resource-central-like", USE_OF_REQUESTS
    options: ClassVar = {"max_oversub": (1.0, 1.25, 1.5, 2.0, 3.0, math.inf)}

    def __init__(self, max_oversub: float = 1.25) -> None:
        within(0.1, math.inf, max_oversub=max_oversub)
        self.max_oversub = max_oversub
        self._learnt = Learnt(_buckets)

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget predictions, and predict what the workloads of this episode use before they have run."""
        super().reset(cluster, rng)
        forest, request = self._learnt.of(cluster.simulation), _requests(cluster)
        self._share = np.ones_like(request)  # (N, D) of the request that counts
        if forest is not None:
            chances = forest.predict_proba(request)
            bucket = forest.classes_[chances.argmax(axis=1)]
            self._share[:, 0] = np.where(chances.max(axis=1) >= SURE, bucket / BUCKETS, 1.0)

    def warm_after(self, scenario: Scenario) -> int:
        """Two hours."""
        return slots_in(WARM_HOURS, scenario)

    def peak_of_each(self, samples: Samples) -> Float:
        """See `EachAlone.peak_of_each`."""
        bucket = _bucket(percentiles(samples.value, samples.seen, 95.0), samples.request)
        return samples.request * bucket / BUCKETS

    def before_warm(self, samples: Samples) -> Float:
        """See `EachAlone.before_warm`."""
        return self._share[samples.workload] * samples.request

    def newcomer(self, cluster: Cluster, workload: Workload) -> Float:
        """See `PredictedPeak.newcomer`."""
        units: Float = self._share[workload.index] * cluster.request_of(workload)
        return units

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        left, cpu = cluster.capacity - self.peaks(cluster), slice(0, 1)
        usage = fits(self.newcomer(cluster, workload)[cpu], left[:, cpu], cluster.capacity[:, cpu])
        return usage & requests_fit(cluster, workload, by_kind((self.max_oversub, 1.0), left.shape[1]))


def _requests(cluster: Cluster) -> Float:
    """(N, D) units: the requests of the workloads of this episode."""
    units: Float = cluster.simulation.request[cluster.simulation.state.counters[cluster.b, SEQUENCE]]
    return units


def _share(usage: Float, request: Float) -> Float:
    """(...) usage as a share of the request; 1 where nothing is requested."""
    return np.divide(usage, request, out=np.ones_like(usage), where=request > 0)


def _bucket(usage: Float, request: Float) -> Int:
    """(...) bucket of the share of the request that is used, 0 to `BUCKETS`; more than the request counts as it."""
    return np.minimum(np.ceil(BUCKETS * (_share(usage, request) - ROUNDING)), BUCKETS).astype(np.int64)


def _buckets(training: TrainingWorkloads) -> Any:
    """A forest that predicts from requests the bucket of the 95th percentile of CPU usage."""
    from sklearn.ensemble import RandomForestClassifier

    usage = percentiles(training.demand[..., :1], training.length, 95.0)[:, 0]
    return RandomForestClassifier(**FOREST).fit(training.request, _bucket(usage, training.request[:, 0]))


@njit
def _parts_by_window(
    machine: Int,
    before: Float,
    largest_before: Float,
    seen: Int,
    value: Float,
    windows: Int,
    percent: float,
    machines: int,
) -> tuple[Float, Float]:
    """(machines, D) summed guaranteed parts, and these with the oversubscribed parts in the fullest window.

    `before`, `largest_before`: (R, D) the guaranteed part and the largest usage in a window that was not seen yet
    """
    _, slots, resources = value.shape
    guaranteed = np.zeros((machines, resources))
    oversubscribed = np.zeros((machines, WINDOWS, resources))
    within_window, count, largest = np.zeros((WINDOWS, max(slots, 1))), np.zeros(WINDOWS, np.int64), np.zeros(WINDOWS)
    for r in range(len(machine)):
        for d in range(resources):
            count[:] = 0
            for k in range(seen[r]):
                w = windows[k]
                within_window[w, count[w]] = value[r, k, d]
                count[w] += 1
            most = 0.0
            for w in range(WINDOWS):
                largest[w] = within_window[w, : count[w]].max() if count[w] > 0 else largest_before[r, d]
                if largest[w] > most:  # otherwise its percentile is no larger
                    most = max(most, percentile(within_window[w], count[w], percent) if count[w] > 0 else before[r, d])
            guaranteed[machine[r], d] += most
            for w in range(WINDOWS):
                oversubscribed[machine[r], w, d] += max(0.0, largest[w] - most)
    both = guaranteed.copy()
    for m in range(machines):
        for d in range(resources):
            both[m, d] += oversubscribed[m, :, d].max()
    return guaranteed, both
