"""Forecast-Fit: the tightest machine whose load is forecast to stay within its capacity."""

from __future__ import annotations

import numpy as np

from tvwrl.forecasting import Forecast
from tvwrl.packing import fits
from tvwrl.schedulers.head_of_queue import FilterAndScore
from tvwrl.schedulers.knowledge import FORECASTS
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, Workload

CAUTION = 1.0  # standard deviations; the best of 0.5 to 3 on validation sequences of all four real traces


class ForecastFit(FilterAndScore):
    """The head of the queue goes to the machine with the highest expected load.

    A machine passes if it has room now and, in every segment of the forecast, for the expected largest demand of all
    its workloads plus `caution` standard deviations. An idle machine passes if it has room now.
    """

    knowledge, needs_forecasts = FORECASTS, True

    def __init__(self, name: str = "forecast-fit", caution: float = CAUTION) -> None:
        self.name, self.caution = name, caution

    def passes(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `FilterAndScore.passes`."""
        load, spread = _expected(cluster, workload)
        quantile, capacity = load + self.caution * np.sqrt(spread), cluster.capacity[:, None]
        room: Mask = np.all(fits(quantile, capacity, capacity), axis=1)
        return room

    def score(self, cluster: Cluster, workload: Workload) -> Float:
        """Expected load of all segments and resources as a share of capacity."""
        fullness: Float = (_expected(cluster, workload)[0] / cluster.divisor[:, None]).mean(axis=(1, 2))
        return fullness


def _expected(cluster: Cluster, workload: Workload) -> tuple[Float, Float]:
    """(M, J, D) largest load in each segment, units, if the workload were placed there, and its variance."""
    resources = cluster.capacity.shape[1]
    together = Forecast(cluster.forecast + cluster.forecast_of(workload), resources)
    peak_units = cluster.simulation.scenario.peak_units
    return together.most * peak_units, together.spread * peak_units**2
