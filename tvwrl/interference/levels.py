"""Response times as interference levels 1..k by service (Section 5.4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.checks import at_least
from tvwrl.interference.observations import Observations
from tvwrl.types import Float, InputError, Int


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels split each service's response times at their percentiles 100 / k, 200 / k, ..."""

    k: int  # >= 2
    bounds: Float  # (services, k - 1) ms, rising; all NaN: the service has too few response times

    @classmethod
    def of(cls, observations: Observations, k: int = 10, skip_rare: bool = False) -> Levels:
        """Levels from observed response times.

        Raises InputError if k < 2 and for a service with fewer than k response times. With `skip_rare` such a service
        has no levels instead: `level` gives 0, and scores leave it out.
        """
        at_least(2, k=k)
        bounds = np.full((len(observations.services), k - 1), np.nan)
        for s, (name, rows) in enumerate(zip(observations.services, observations.by_service(), strict=True)):
            if len(rows) >= k:
                bounds[s] = np.quantile(observations.response_ms[rows], np.arange(1, k) / k)
            elif not skip_rare:
                raise InputError(
                    f"service '{name}' has {len(rows)} response times: {k} levels need at least {k}; "
                    "take fewer levels, more records, or leave such services out"
                )
        return cls(k, bounds)

    def level(self, service: Int, response_ms: Float) -> Int:
        """(n,) level 1..k of response times (n,) ms of services (n,); 0 if the service has no levels or ms is NaN.

        A response time equal to several bounds has the middle of the levels that they span.
        """
        service, response_ms = np.asarray(service), np.asarray(response_ms, dtype=np.float64)
        levels = np.zeros(len(service), dtype=np.int64)
        for s in np.unique(service[(service >= 0) & (service < len(self.bounds))]):
            if np.isnan(self.bounds[s, 0]):
                continue
            rows = np.flatnonzero((service == s) & ~np.isnan(response_ms))
            below, not_above = (np.searchsorted(self.bounds[s], response_ms[rows], side) for side in ("left", "right"))
            levels[rows] = 1 + (below + not_above + 1) // 2
        return levels
