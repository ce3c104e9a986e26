"""Forecast-Fit: the tightest machine whose load is forecast to stay within its capacity."""

from __future__ import annotations

import numpy as np

from tvwrl.forecasting.segments import Forecast
from tvwrl.packing.fit import fits
from tvwrl.schedulers.head_of_queue import Greedy
from tvwrl.schedulers.knowledge import FORECASTS
from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.types import Float, Workload

CAUTION = 1.0  # standard deviations; the best of 0.5 to 3 on validation sequences of all four real traces


class ForecastFit(Greedy):
    """The head of the queue goes to the machine with the highest expected load.

    A machine passes if it has room now and, in every segment of the forecast, for the expected largest demand of all
    its workloads plus `caution` standard deviations. An idle machine passes if it has room now.
    """

    needs_forecasts = True

    def __init__(self, name: str = "forecast-fit", caution: float = CAUTION) -> None:
        super().__init__(name, FORECASTS, self._room_expected, _fullest_expected)
        self.caution = caution

    def _room_expected(self, cluster: Cluster, workload: Workload) -> Mask:
        load, spread = _expected(cluster, workload)
        quantile, capacity = load + self.caution * np.sqrt(spread), cluster.capacity[:, None]
        room = fits(quantile, capacity, capacity).all(axis=1)
        mask: Mask = cluster.room_now(workload) & (room | (cluster.active == 0))
        return mask


def _expected(cluster: Cluster, workload: Workload) -> tuple[Float, Float]:
    """(M, J, D) largest load in each segment, units, if the workload were placed there, and its variance."""
    resources = cluster.capacity.shape[1]
    together = Forecast(cluster.forecast + cluster.forecast_of(workload), resources)
    peak_units = cluster.simulation.scenario.peak_units
    return together.most * peak_units, together.spread * peak_units**2


def _fullest_expected(cluster: Cluster, workload: Workload) -> Float:
    """Expected load of all segments and resources as a share of capacity."""
    fullness: Float = (_expected(cluster, workload)[0] / cluster.divisor[:, None]).mean(axis=(1, 2))
    return fullness
