"""What machines look like, as PyTorch operations, for files that other programs run: grids and forecasts.

They repeat, in the same precision, what the kernels in `tvwrl.agents.features` do with one machine after another: a
kernel cannot be exported. A deviation is the root of a difference of nearly equal numbers, so sums are taken in the
kernel's order, row by row.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tvwrl.agents.features import FEW, SURE
from tvwrl.forecasting import SEGMENTS
from tvwrl.schedulers import LEAST_SPREAD

SEGMENT_COUNT = len(SEGMENTS)


class MachineFeatures(nn.Module):
    """See `tvwrl.agents.features.machine_features`."""

    sums: Tensor

    def __init__(self, classes: int, history: int, columns: int) -> None:
        super().__init__()
        self.classes, self.history, self.share = classes, history, float(np.float32(1.0 / columns))
        share = np.float32(1.0 / columns)
        sums = np.zeros((2, history * columns + 1), np.float32)  # what so many pixels add up to, one after another
        for n in range(history * columns):
            sums[0, n + 1] = sums[0, n] + share
            sums[1, n + 1] = float(sums[1, n]) + float(share) / history
        self.register_buffer("sums", torch.from_numpy(sums))

    def forward(self, grid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, M, F) of label grids (B, M, D, h, C), whose rows are filled from the left; and as in
        `SharedPolicy.size_and_use` capacities and load in this slot, but (B, D, M).
        """
        label = grid.float()
        there = label != self.classes + 1  # columns that the machine has
        load = (there & (label != 0)).float().sum(-1) * self.share
        rows = load.unbind(-1)
        total, squares, most = rows[0], rows[0] * rows[0], rows[0]
        for row in rows[1:]:
            total, squares, most = total + row, squares + row * row, torch.maximum(most, row)
        mean = total.double() / self.history
        deviation = torch.sqrt((squares.double() / self.history - mean * mean).clamp(min=0.0))
        size = there[..., -1, :].float().sum(-1) * self.share
        summary = torch.stack([mean.float(), most, deviation.float(), size], dim=-1)
        newest, every = [], []
        for own in range(1, self.classes + 1):
            count = (label == own).float().sum(-1)
            newest.append(count[..., -1])
            every.append(count.sum(-1))
        parts = [
            load,
            summary,
            looked_up(self.sums[0], torch.stack(newest, -1).long()),
            looked_up(self.sums[1], torch.stack(every, -1).long()),
        ]
        return torch.cat(parts, dim=-1).flatten(2), size.transpose(1, 2), rows[-1].transpose(1, 2)


def looked_up(table: Tensor, place: Tensor) -> Tensor:
    """`table[place]` of a table (n,), as ONNX Runtime does it fastest."""
    return table.index_select(0, place.reshape(-1)).reshape(place.shape)


class Columns:
    """The columns of forecasts (..., K, M) of machines, or (..., K, 1) of a workload; see `Forecast`.

    Segments are (..., D, J, M), peaks (..., D, M). Machines come last, as runtimes are fast at long rows.
    """

    def __init__(self, values: Tensor, resources: int) -> None:
        wide = SEGMENT_COUNT * resources
        segments = (values.shape[0], SEGMENT_COUNT, resources, values.shape[2])
        self.most = values[:, :wide].reshape(segments).transpose(1, 2)
        self.spread = values[:, wide : 2 * wide].reshape(segments).transpose(1, 2)
        self.mean = values[:, 2 * wide : 3 * wide].reshape(segments).transpose(1, 2)
        self.peak = values[:, 3 * wide : 3 * wide + resources]
        self.peak_spread = values[:, 3 * wide + resources : 3 * wide + 2 * resources]
        self.alive = values[:, 3 * wide + 2 * resources : 3 * wide + 2 * resources + SEGMENT_COUNT]


def of_machines(load: Columns, capacity: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The part of `forecast_features` that depends on machines alone, for capacities (B, D, M).

    (B, D, J, 2, M) largest and mean load; (B, D, 1, M) peak; (B, D, 2, M) capacity; (B, J, M) workloads.
    """
    on = capacity > 0
    scale = _scale(capacity)
    segments = torch.stack([load.most * scale[:, :, None], load.mean * scale[:, :, None]], dim=3)
    there = torch.stack([on.float(), capacity], dim=2)
    return segments, (load.peak * scale)[:, :, None], there, load.alive / FEW


def of_workload(load: Columns, own: Columns, capacity: Tensor) -> tuple[Tensor, Tensor]:
    """The part of `forecast_features` that depends on the workload: (B, D, J, 2, M) and (B, D, 2, M) of its peak."""
    scale = _scale(capacity)
    together = load.most + own.most
    sure = _sure(capacity[:, :, None] - together, load.spread + own.spread)
    peak = load.peak + own.peak
    surely = _sure(capacity - peak, load.peak_spread + own.peak_spread)
    return torch.stack([together * scale[:, :, None], sure], dim=3), torch.stack([peak * scale, surely], dim=2)


def forecast_features(load: Columns, own: Columns, capacity: Tensor) -> Tensor:
    """(B, M, F): all of `tvwrl.agents.features.forecast_features`."""
    segments, peak, there, alive = of_machines(load, capacity)
    with_it, peak_with_it = of_workload(load, own, capacity)
    both = torch.cat([segments, with_it], dim=3).flatten(2, 3)
    return _by_machine(torch.cat([both, peak, peak_with_it, there], dim=2), alive)


def features_of_machines(load: Columns, capacity: Tensor) -> Tensor:
    """(B, M, F): those of `forecast_features` that are not `about_the_workload`."""
    segments, peak, there, alive = of_machines(load, capacity)
    return _by_machine(torch.cat([segments.flatten(2, 3), peak, there], dim=2), alive)


def features_of_workload(load: Columns, own: Columns, capacity: Tensor) -> Tensor:
    """(B, M, F): those of `forecast_features` that are `about_the_workload`."""
    segments, peak = of_workload(load, own, capacity)
    return _by_machine(torch.cat([segments.flatten(2, 3), peak], dim=2))


def _by_machine(by_resource: Tensor, *more: Tensor) -> Tensor:
    """(B, M, F) of features (B, D, F, M), resource by resource, and of others (B, F, M)."""
    return torch.cat([by_resource.flatten(1, 2), *more], dim=1).transpose(1, 2)


def _scale(capacity: Tensor) -> Tensor:
    on = capacity > 0
    return torch.where(on, 1.0 / torch.where(on, capacity, torch.ones_like(capacity)), torch.zeros_like(capacity))


def _sure(room: Tensor, variance: Tensor) -> Tensor:
    return (room / torch.sqrt(variance.clamp(min=LEAST_SPREAD))).clamp(-SURE, SURE) / SURE
