"""Microsoft's rules for oversubscribed servers: Coach (ASPLOS 2025) and Resource Central (SOSP 2017).

Neither has public code, and we read only the abstracts of both papers: the formulas below are a reconstruction. The
papers use learnt predictions for new machines; we use the workload's own history, and its request until it has any.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tvwrl.checks import percent, within
from tvwrl.compiled import njit
from tvwrl.schedulers.production.percentiles import percentile, percentiles
from tvwrl.schedulers.production.predicted_peak import EachAlone, PredictedPeak
from tvwrl.schedulers.production.requests import requests_fit
from tvwrl.schedulers.production.usage import Samples, parts_of_day, slots_in
from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import Float, Workload

WINDOWS = 6  # per day; from summaries of the paper, as is the 95th percentile
QUARTERS = 4  # buckets of utilisation in Resource Central: 0-25 %, ...
WARM_HOURS = 2.0  # until a workload's usage counts in Resource Central; ours
ROUNDING = 1e-9  # share of a request by which a percentile may exceed a quarter


class Coach(PredictedPeak):
    """Summed guaranteed parts + the summed oversubscribed parts in the window of the day where they are largest.

    A day has six windows. A workload's guaranteed part is the p-th percentile of its usage in the window where that is
    largest. Its oversubscribed part in a window is its largest usage there beyond the guaranteed part. In a window in
    which it has not run yet, its usage is taken to be its request, so a workload younger than a day is guaranteed its
    request. We could not check how the paper defines the two parts. The hour is that of the simulation, so a workload's
    day starts at an arbitrary hour of its trace.
    """

    name = "coach"
    options: ClassVar = {"p": (50.0, 65.0, 80.0, 90.0, 95.0, 99.0)}

    def __init__(self, p: float = 95.0) -> None:
        percent(p=p)
        self.p = p

    def predict(self, samples: Samples, machines: int) -> Float:
        """See `PredictedPeak.predict`."""
        windows = parts_of_day(samples, slots_in(24, self.scenario), WINDOWS)
        peak: Float = _parts_by_window(*samples[1:5], windows, self.p, machines)
        return peak


class ResourceCentral(EachAlone):
    """Two tests, newcomer included: summed 95th percentiles of usage, rounded up to quarters of the request, fit the
    capacity; summed requests fit `max_oversub` x capacity.

    A workload with less than two hours of history counts at its request. The tests, the 125 % and the quarters are from
    memory of the paper; Microsoft's MARO (MIT licence) has the same two tests with other numbers. In the paper, only
    some customers' machines are oversubscribed; here all are.
    """

    name = "resource-central"
    options: ClassVar = {"max_oversub": (1.0, 1.25, 1.5, 2.0, 3.0, math.inf)}

    def __init__(self, max_oversub: float = 1.25) -> None:
        within(0.1, math.inf, max_oversub=max_oversub)
        self.max_oversub = max_oversub

    def warm_after(self, scenario: Scenario) -> int:
        """Two hours."""
        return slots_in(WARM_HOURS, scenario)

    def peak_of_each(self, samples: Samples) -> Float:
        """See `EachAlone.peak_of_each`."""
        least = np.maximum(samples.request, 1e-300)
        quarters = np.ceil(QUARTERS * (percentiles(samples.value, samples.seen, 95.0) / least - ROUNDING))
        return samples.request * np.minimum(quarters / QUARTERS, 1.0)

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        return super().passes(cluster, workload) & requests_fit(cluster, workload, self.max_oversub)


@njit
def _parts_by_window(machine, request, seen, value, windows, percent, machines):  # type: ignore[no-untyped-def]
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
                largest[w] = within_window[w, : count[w]].max() if count[w] > 0 else request[r, d]
                if largest[w] > most:  # otherwise its percentile is no larger
                    most = max(most, percentile(within_window[w], count[w], percent) if count[w] > 0 else largest[w])
            guaranteed[machine[r], d] += most
            for w in range(WINDOWS):
                oversubscribed[machine[r], w, d] += max(0.0, largest[w] - most)
    for m in range(machines):
        for d in range(resources):
            guaranteed[m, d] += oversubscribed[m, :, d].max()
    return guaranteed
