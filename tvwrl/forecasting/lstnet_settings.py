"""Hyper-parameters of LSTNet, with a line of help each; torch is not needed to read them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import tyro

from tvwrl.checks import at_least, below, positive

MIN_FORECASTS = 16  # least per evaluated workload: the correlation of a handful of points is noise
MIN_WINDOW = 8  # slots; a shorter window shows no dynamics


@dataclass(frozen=True)
class ForecastSettings:
    """Hyper-parameters of the forecaster, the same for the models of classes and of all workloads."""

    window: int = 48
    """Slots that a forecast sees (48 slots of 1800 s are a day); fewer if less than half of the workloads last that
    long."""
    horizon: int = 4
    """Slots ahead that are forecast."""
    steps: int = 300
    """Gradient steps per model, the same for a class as for all workloads."""
    batch: int = 128
    """Windows per gradient step."""
    learning_rate: float = 1e-2
    """Largest learning rate of AdamW; it rises and falls in one cycle."""
    filters: int = 32
    """Filters of the convolution."""
    kernel: int = 6
    """Slots that a filter spans (LSTNet: 6)."""
    stride: int = 3
    """Stride of the filters, slots (LSTNet: 1); the default saves more than half of the time."""
    recurrent: int = 32
    """Hidden units of the GRU."""
    skip_recurrent: int = 4
    """Hidden units of the GRU that skips a day."""
    dropout: float = 0.1
    """Dropout of the recurrent outputs in training."""
    folds: int = 3
    """Folds of cross-validation over the workloads."""
    min_class: int = 5
    """Fewest sufficiently long workloads for a class to get its own model; a smaller class has no gain."""
    max_forecasts: int = 300
    """Largest number of forecasts for a held-out workload, spread evenly over its life."""
    seed: tyro.conf.Suppress[int] = 0
    """Seed of folds, weights and batches; of a command that of all its random choices."""
    threads: int = 1
    """CPU threads of PyTorch; the last digits of results may depend on it."""

    def __post_init__(self) -> None:
        floors = {"window": MIN_WINDOW, "folds": 2, "max_forecasts": MIN_FORECASTS, "kernel": self.stride, "seed": 0}
        for field in dataclasses.fields(self):
            value, least = getattr(self, field.name), floors.get(field.name, 1)
            if "int" in str(field.type):
                at_least(least, **{field.name: value})
        positive(learning_rate=self.learning_rate)
        below(1, dropout=self.dropout)
