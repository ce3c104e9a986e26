"""LSTNet, the forecaster that evaluates equivalence classes, and its training.

Lai et al. 2018, "Modeling Long- and Short-Term Temporal Patterns with Deep Neural Networks".
Letters: n workloads, D resources, W slots of the input window, B windows in a batch.
Imports torch at once: import this module late.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tvwrl.forecasting.lstnet_settings import ForecastSettings
from tvwrl.forecasting.lstnet_windows import StandardisedSeries, correlations
from tvwrl.forecasting.seeding import seeded
from tvwrl.types import Float, Int


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
        forecast = self.nonlinear(window) + (window * self.autoregressive).sum(dim=1)
        return mean + scale * forecast

    def nonlinear(self, window: Tensor) -> Tensor:
        """(B, D) the part of the two recurrent networks, for standardised windows (B, W, D)."""
        padded = nn.functional.pad(window.transpose(1, 2), (self.padding, 0))
        features = torch.relu(self.convolution(padded))  # (B, filters, steps)
        count, filters, steps = features.shape
        last = self.recurrent(features.permute(2, 0, 1))[1][0]
        periods = steps // self.skip
        phases = features[:, :, steps - periods * self.skip :].reshape(count, filters, periods, self.skip)
        phases = phases.permute(2, 0, 3, 1).reshape(periods, count * self.skip, filters)
        skipped = self.skip_recurrent(phases)[1][0].reshape(count, -1)
        forecast: Tensor = self.dense(self.dropout(torch.cat([last, skipped], dim=1)))
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
