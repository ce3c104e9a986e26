"""Crane's dynamic scheduler: places by the load of machines now and in the last day.

We read its code (Apache-2.0) and copied nothing. It takes a random one of the best machines; here the first is taken.
CPU and memory are the first and the last resource.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tvwrl.checks import fraction
from tvwrl.schedulers.base import PRODUCTION_RULE, registered
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.schedulers.production.facts import ByPastLoad, placed_since
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, Int, Workload


@registered("Crane", PRODUCTION_RULE)
class Crane(ByPastLoad):
    """Crane's dynamic scheduler: excludes machines that are or recently were busy, and prefers those with low load.

    Source: gocrane/crane-scheduler at c2c0533, `pkg/plugins/dynamic`, `pkg/controller/annotator` and the policy that it
    ships. Filter: for CPU and for memory, the load's share is at most `threshold` in the newest report (in the source:
    the mean of 5 minutes) and at most `threshold` + 0.1 in the last hour. Score: `crane_score`. The rule ignores the
    newcomer's demand and all requests, and uses the day's maximum only in the score. Default: 0.65.

    Ours: every slot has a report, while the source refreshes the hour's and the day's maxima every 15 minutes and 3
    hours; both windows of the hot value are the current slot.

    `threshold`: share of the capacity, above 0 and at most 1
    """

    name = "crane"
    knowledge = CURRENT_LOAD.and_also("load of machines in the last 24 hours")
    options: ClassVar = {"threshold": (0.45, 0.55, 0.65, 0.75, 0.85, 0.95)}
    LATELY = 0.1  # added to `threshold` for the hour's maximum

    def __init__(self, threshold: float = 0.65) -> None:
        fraction(threshold=threshold)
        self.threshold = threshold

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        now, hour, _ = self._shares(cluster)
        calm: Mask = np.all((now <= self.threshold) & (hour <= round(self.threshold + self.LATELY, 5)), axis=1)
        return calm

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """See `Scored.score`."""
        placed = np.bincount(placed_since(cluster, cluster.slot)[1], minlength=len(cluster.machines))
        return crane_score(*self._shares(cluster), placed)

    def _shares(self, cluster: Cluster) -> tuple[Float, Float, Float]:
        """(M, 2) shares of the capacity, three times: see `ByPastLoad.levels`."""
        now, hour, day = (np.round(level / cluster.divisor[:, [0, -1]], 5) for level in self.levels(cluster))
        return now, hour, day


def crane_score(now: Float, hour: Float, day: Float, placed: Int) -> Float:
    """(M,) 0 to 100: the free share, weighted 0.2, 0.3 and 0.5, minus 10 for each point of the hot value.

    `now`, `hour`, `day`: (M, 2) used shares of CPU and memory; the last two are maxima
    `placed`: (M,) workloads placed recently; every five in the last five minutes and every two in the last minute give
        one point
    """
    free = 0.2 * (1.0 - now) + 0.3 * (1.0 - hour) + 0.5 * (1.0 - day)
    hot = placed // 5 + placed // 2
    score: Float = np.clip(np.floor(100.0 * free.sum(axis=1) / 2.0) - 10.0 * hot, 0.0, 100.0)
    return score
