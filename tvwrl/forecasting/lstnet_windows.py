"""Windows of series to forecast from, and the correlation of a forecast with what followed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tvwrl.checks import at_least
from tvwrl.forecasting.lstnet_settings import MIN_FORECASTS, MIN_WINDOW
from tvwrl.traces import checked_series
from tvwrl.types import Float, InputError, Int

PERIODS = 3  # least number of periods in a window: a recurrence over periods needs several
FLAT = 1e-6  # a standard deviation below this, relative to the largest value, is rounding


class StandardisedSeries:
    """Series in standard units (each with mean 0 and standard deviation 1 per resource) and where their windows lie.

    Standard units weigh the errors of all workloads alike, as a correlation does. The network standardises each window
    anyhow, so that nothing of the future reaches a forecast but what "flat" means: below 1/1000 of the series' own.
    """

    def __init__(self, series: Sequence[Float], slots_per_day: int, window: int, horizon: int) -> None:
        series = checked_series(series, least=0.0)
        at_least(1, slots_per_day=slots_per_day)
        self.length = np.array([len(one) for one in series], dtype=np.int64)  # (n,) slots
        self.first = np.cumsum(self.length) - self.length  # (n,) row of a workload's first slot
        self.horizon, self.slots_per_day = horizon, slots_per_day
        room = self.length - horizon - MIN_FORECASTS + 1  # (n,) longest window that leaves enough forecasts
        self.window = min(window, int(np.sort(room)[len(room) // 2]))
        usable = np.flatnonzero(room >= self.window)
        if self.window < MIN_WINDOW or len(usable) < 2:
            needed = MIN_WINDOW + horizon + MIN_FORECASTS - 1
            raise InputError(
                f"series are too short to compare classes by forecasts: half of the {len(series)} workloads, and "
                f"no fewer than 2, must have at least {needed} slots: window {MIN_WINDOW}, horizon {horizon}, "
                f"{MIN_FORECASTS} forecasts"
            )
        self.usable: Int = usable  # workloads with enough windows
        mean = np.array([one.mean(axis=0) for one in series])
        spread = np.array([one.std(axis=0) for one in series])
        self.varies = spread > FLAT * np.array([one.max(axis=0) for one in series])  # (n, D)
        scale = np.where(self.varies, spread, np.inf)
        standard = [(one - mean[i]) / scale[i] for i, one in enumerate(series)]
        self.values = torch.from_numpy(np.concatenate(standard).astype(np.float32))  # (rows, D)
        most = max(1, self.window // PERIODS)
        self.period = max(part for part in range(1, most + 1) if slots_per_day % part == 0)

    def at(self, last: Int) -> Tensor:
        """(B, W, D) windows whose last slots are the rows `last` (B,)."""
        rows: Tensor = self.values[torch.from_numpy(last[:, None] + np.arange(1 - self.window, 1))]
        return rows

    def value(self, rows: Int) -> Float:
        """(P, D) usage at `rows`."""
        found: Float = self.values.numpy()[rows].astype(np.float64)
        return found

    def draw(self, workloads: Int, batch: int, rng: np.random.Generator) -> tuple[Int, Int]:
        """(B,) workloads, each as likely as another however long, and (B,) rows of the last slots of their windows."""
        chosen = rng.choice(workloads, batch)
        starts = self.length[chosen] - self.window - self.horizon + 1
        return chosen, self.first[chosen] + rng.integers(starts) + self.window - 1

    def evaluation_rows(self, workload: int, most: int) -> Int:
        """(P,) rows of the last slots of the windows that evaluate a workload, at most `most`."""
        slots = np.arange(self.window - 1, self.length[workload] - self.horizon)
        if len(slots) > most:
            slots = slots[np.linspace(0, len(slots) - 1, most).astype(np.int64)]
        rows: Int = self.first[workload] + slots
        return rows


def correlations(actual: Float, forecast: Float) -> Float:
    """(D,) Pearson correlation over time of (P, D) usage and forecast of one workload (LSTNet's CORR).

    NaN where usage was constant, of which nothing can be forecast; 0 where only the forecast was.
    """
    actual, forecast = actual - actual.mean(axis=0), forecast - forecast.mean(axis=0)
    spread, forecast_spread = actual.std(axis=0), forecast.std(axis=0)
    product = np.where(forecast_spread > FLAT, spread * forecast_spread, np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Float = np.where(spread > FLAT, (actual * forecast).mean(axis=0) / product, np.nan)
    return found
