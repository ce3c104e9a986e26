"""Rules that predict the peak usage of each machine, and take a machine if the newcomer's request fits on top."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tvwrl.compiled import njit
from tvwrl.packing import fits
from tvwrl.schedulers.best_fit import tightest
from tvwrl.schedulers.head_of_queue import FilterAndScore
from tvwrl.schedulers.knowledge import HISTORY_AND_REQUESTS
from tvwrl.schedulers.production.facts import Samples, running, summed, usage_samples
from tvwrl.simulation import SEQUENCE, Cluster, Mask, Scenario
from tvwrl.types import Float, Int, Workload


@njit
def percentiles(value: Float, seen: Int, percent: float) -> Float:
    """(R, D) percentile of the first `seen` (R,) of each workload's samples (R, h, D), 0 where there are none.

    `percent`: 0 to 100; between two samples by linear interpolation, as numpy's default
    """
    out = np.zeros((len(value), value.shape[2]))
    for r in range(len(value)):
        for d in range(value.shape[2]):
            out[r, d] = percentile(value[r, :, d], seen[r], percent)
    return out


@njit
def weighted_percentiles(value: Float, seen: Int, share: Float, weight: Float) -> Float:
    """(R, D) the smallest sample at which all samples up to it have at least a given share of the total weight.

    `share`: (D,) above 0, at most 1; `weight`: (h, D) > 0, of a sample by its age
    """
    out = np.zeros((len(value), value.shape[2]))
    for r in range(len(value)):
        for d in range(value.shape[2]):
            out[r, d] = _weighted(value[r, :, d], seen[r], share[d], weight[:, d])
    return out


@njit(inline="always")
def percentile(sample: Float, count: int, percent: float) -> float:
    """The percentile of the first `count` samples, 0 if `count` is 0; see `percentiles`."""
    rank = max(count - 1, 0) * percent / 100.0
    low = int(rank)
    first, last = max(count - 2 - low, 0), count - 1 - low  # places of the two neighbours, counted from the largest
    limit, passed, upper, value = math.inf, 0, -math.inf, 0.0
    while passed <= last:
        value, equal = -math.inf, 0
        for k in range(count):
            if value < sample[k] < limit:
                value, equal = sample[k], 1
            elif sample[k] == value:
                equal += 1
        passed += equal
        if upper < value and passed > first:
            upper = value
        limit = value
    return value + (rank - low) * (upper - value) if count > 0 else 0.0


@njit(inline="always")
def _weighted(sample: Float, count: int, share: float, weight: Float) -> float:
    total = 0.0
    for k in range(count):
        total += weight[k]
    limit, left, value = math.inf, total, 0.0  # left: weight of all samples below the limit
    while count > 0 and left >= share * total:
        value, equal = -math.inf, 0.0
        for k in range(count):
            if value < sample[k] < limit:
                value, equal = sample[k], weight[k]
            elif sample[k] == value:
                equal += weight[k]
        limit, left = value, left - equal
    return value


class PredictedPeak(FilterAndScore):
    """Takes the tightest machine where the predicted peak of the running workloads plus the newcomer's request fits.

    A machine must also have room for the newcomer's demand in its first slot; an idle machine needs only that. The
    tightest machine has the least free capacity, after prediction and request, of the request's dominant resource. A
    subclass defines one method, `predict`. Predictions are cached within a slot and repeated for the machines on which
    a workload was placed.
    """

    knowledge = HISTORY_AND_REQUESTS
    options: ClassVar[Mapping[str, tuple[float, ...]]] = {}  # option -> values to tune it over; the name may set it

    def history(self, scenario: Scenario) -> int | None:
        """How many of the newest samples of each workload `predict` needs; None: all."""
        return None

    def look(self, cluster: Cluster, rows: Int | None = None) -> Samples:
        """The samples for `predict`, of all running workloads or of `rows` of them."""
        return usage_samples(cluster, self.history(self.scenario), rows)

    @abstractmethod
    def predict(self, samples: Samples, machines: int) -> Float:
        """(machines, D) units: predicted peak usage of the workloads on each machine; `samples.machine` < machines."""

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget predictions."""
        self.scenario = cluster.simulation.scenario
        self._of: tuple[Any, ...] = ()
        self._placed = running(cluster)

    def peaks(self, cluster: Cluster) -> Float:
        """(M, D) units: predicted peak usage of the workloads now on each machine."""
        workload, machine = running(cluster)
        counters, before = cluster.simulation.state.counters[cluster.b], len(self._placed[0])
        of = (cluster.simulation, cluster.b, cluster.slot, int(counters[SEQUENCE]))
        same = np.array_equal((workload[:before], machine[:before]), self._placed)
        if of != self._of or not same:
            self._peaks = self.predict(self.look(cluster), len(cluster.machines))
        elif len(workload) > before:
            changed = np.unique(machine[before:])
            samples = self.look(cluster, np.flatnonzero(np.isin(machine, changed)))
            local = samples._replace(machine=np.searchsorted(changed, samples.machine))
            self._peaks[changed] = self.predict(local, len(changed))
        self._of, self._placed = of, (workload, machine)
        return self._peaks

    def newcomer(self, cluster: Cluster, workload: Workload) -> Float:
        """(D,) units that must be left for a newcomer: its request."""
        return cluster.request_of(workload)

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        return fits(self.newcomer(cluster, workload), cluster.capacity - self.peaks(cluster), cluster.capacity)

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        return tightest(cluster, self.peaks(cluster), self.newcomer(cluster, workload))


class EachAlone(PredictedPeak):
    """Predicts a peak for each workload, and adds them up. Cold (young) workloads count at their requests, unless a
    subclass knows better (`before_warm`)."""

    @abstractmethod
    def warm_after(self, scenario: Scenario) -> int:
        """The number of samples after which a workload is warm, at least 1."""

    @abstractmethod
    def peak_of_each(self, samples: Samples) -> Float:
        """(R, D) units: predicted peak of each workload; values of cold ones are ignored."""

    def before_warm(self, samples: Samples) -> Float:
        """(R, D) units: what workloads count before they are warm; values of warm ones are ignored."""
        return samples.request

    def predict(self, samples: Samples, machines: int) -> Float:
        """See `PredictedPeak.predict`."""
        warm = samples.seen >= self.warm_after(self.scenario)
        return summed(
            np.where(warm[:, None], self.peak_of_each(samples), self.before_warm(samples)), samples.machine, machines
        )
