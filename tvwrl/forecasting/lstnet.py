"""LSTNet, the forecaster that evaluates equivalence classes: its windows, its training, its correlation with usage.

Lai et al. 2018, "Modeling Long- and Short-Term Temporal Patterns with Deep Neural Networks".
Letters: n workloads, D resources, W slots of the input window, B windows in a batch.
Imports torch at once: import this module late.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tvwrl.checks import at_least
from tvwrl.forecasting.lstnet_settings import MIN_FORECASTS, MIN_WINDOW, ForecastSettings
from tvwrl.forecasting.perceptron import seeded
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


class LSTNet(nn.Module):
    """Convolution over time, a GRU, a GRU that skips a period, a dense layer, plus a linear autoregressive part.

    Paper: one weight per lag in the autoregressive part, for all variables; inputs scaled over the whole data set.
    Here: weights per resource, as cpu and memory differ in kind; each window is standardised and the forecast scaled
    back, so that level and size of a workload, which a scheduler knows, are not what the network learns.
    """

    def __init__(self, resources: int, window: int, period: int, settings: ForecastSettings) -> None:
        super().__init__()
        kernel = min(settings.kernel, window)
        stride = min(settings.stride, kernel)
        self.skip = max(1, period // stride)  # in steps of the convolution, <= its length
        self.padding = kernel - stride
        self.convolution = nn.Conv1d(resources, settings.filters, kernel, stride=stride)
        self.recurrent = nn.GRU(settings.filters, settings.recurrent)
        self.skip_recurrent = nn.GRU(settings.filters, settings.skip_recurrent)
        self.dropout = nn.Dropout(settings.dropout)
        self.dense = nn.Linear(settings.recurrent + self.skip * settings.skip_recurrent, resources)
        self.autoregressive = nn.Parameter(torch.zeros(window, resources))
        nn.init.zeros_(self.dense.weight)  # begins with the window's mean, which is no bad forecast
        nn.init.zeros_(self.dense.bias)

    def forward(self, seen: Tensor) -> Tensor:
        """(B, D) usage `horizon` slots after the windows `seen` (B, W, D), both in the series' units."""
        mean = seen.mean(dim=1)
        scale = seen.std(dim=1, correction=0).clamp_min(1e-3)
        window = (seen - mean[:, None]) / scale[:, None]
        padded = nn.functional.pad(window.transpose(1, 2), (self.padding, 0))
        features = torch.relu(self.convolution(padded))  # (B, filters, steps)
        count, filters, steps = features.shape
        last = self.recurrent(features.permute(2, 0, 1))[1][0]
        periods = steps // self.skip
        phases = features[:, :, steps - periods * self.skip :].reshape(count, filters, periods, self.skip)
        phases = phases.permute(2, 0, 3, 1).reshape(periods, count * self.skip, filters)
        skipped = self.skip_recurrent(phases)[1][0].reshape(count, -1)
        nonlinear = self.dense(self.dropout(torch.cat([last, skipped], dim=1)))
        forecast: Tensor = mean + scale * (nonlinear + (window * self.autoregressive).sum(dim=1))
        return forecast


def train_forecaster(windows: StandardisedSeries, workloads: Int, settings: ForecastSettings, fold: int) -> LSTNet:
    """A model trained on `workloads`; weights and order of draws depend on the seed and the fold alone."""
    rng = np.random.default_rng([settings.seed, 1, fold])
    with seeded(settings.threads, int(rng.integers(2**31))):
        model = LSTNet(windows.values.shape[1], windows.window, windows.period, settings)
        optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=settings.steps)
        varies = torch.from_numpy(windows.varies)
        for _ in range(settings.steps):
            chosen, last = windows.draw(workloads, settings.batch, rng)
            actual = windows.values[torch.from_numpy(last + windows.horizon)]
            error = (model(windows.at(last)) - actual) * varies[torch.from_numpy(chosen)]
            loss = nn.functional.smooth_l1_loss(error, torch.zeros_like(error))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            cycle.step()
    return model.eval()


def evaluate_forecaster(
    model: LSTNet, windows: StandardisedSeries, workloads: Int, settings: ForecastSettings
) -> Float:
    """(workloads, D) correlations of a model on workloads that it was not trained on."""
    rows = [windows.evaluation_rows(int(i), settings.max_forecasts) for i in workloads]
    with seeded(settings.threads, settings.seed), torch.no_grad():
        last = np.concatenate(rows)
        parts = [model(windows.at(last[start : start + 4096])) for start in range(0, len(last), 4096)]
    forecasts = np.split(torch.cat(parts).double().numpy(), np.cumsum([len(row) for row in rows])[:-1])
    pairs = zip(rows, forecasts, strict=True)
    return np.array([correlations(windows.value(row + windows.horizon), forecast) for row, forecast in pairs])
