"""The input features of the `shared` policy: label grids, forecasts and expected costs summarised by machine."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import njit
from tvwrl.forecasting.segments import SEGMENTS
from tvwrl.packing.fit import overbooked
from tvwrl.schedulers.expected_cost import LEAST_SPREAD, OVERSHOOT, UNUSED
from tvwrl.types import Float

FEW, SURE = 10.0, 4.0  # workloads and standard deviations that are scaled to 1
SMALL, GREAT = 1000.0, 4.0  # costs enter as asinh(cost / SMALL) / GREAT: linear while small, then logarithmic
COSTS = 3  # number of features that `cost_features` returns
DOUBT = 2000.0  # penalty that lowers a machine's prior logit by 1
SURELY = 8.0  # prior logits lie within +- this


def feature_count(resources: int, history: int, classes: int) -> int:
    """Features of one machine: see `machine_features`."""
    return resources * (history + 4 + 2 * classes)


def machine_features(grid: npt.NDArray[np.uint8], classes: int) -> npt.NDArray[np.float32]:
    """(B, M, F) features from label grids (B, M, D, h, C), all as shares of the grid's C columns.

    Per resource: the load in each of the h rows (oldest first); its mean, maximum and standard deviation over the
    rows; the machine's own size; the units of each class in the newest row; and their mean over all rows.
    """
    batch, machines, resources, history, _ = grid.shape
    out = np.zeros((batch, machines, feature_count(resources, history, classes)), np.float32)
    _summarise(grid, classes, out)
    return out


def forecast_feature_count(resources: int) -> int:
    """Features of one machine: see `forecast_features`."""
    return len(SEGMENTS) * (4 * resources + 1) + 5 * resources


def about_the_workload(resources: int) -> npt.NDArray[np.bool_]:
    """(F,) which of `forecast_features` depend on the workload that waits; the others describe the machine alone."""
    by_segment = [False, False, True, True] * len(SEGMENTS)
    by_peak = [False, True, True, False, False]
    return np.array((by_segment + by_peak) * resources + [False] * len(SEGMENTS))


def sizes(features: npt.NDArray[np.float32], resources: int, history: int, classes: int) -> npt.NDArray[np.float32]:
    """(B, M, D) capacities as shares of the grid's columns, read from `machine_features`."""
    width = history + 4 + 2 * classes
    return features[:, :, history + 3 :: width][:, :, :resources]


def forecast_features(
    forecast: npt.NDArray[np.float32], own: npt.NDArray[np.float32], capacity: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """(B, M, F) features of each machine's expected load.

    `forecast`: (B, M, K) forecasts summed by machine
    `own`: (B, K) forecast of the head of the queue
    `capacity`: (B, M, D) in `peak_units`

    Per segment: the number of workloads still running; and per resource, as shares of capacity, the expected largest
    and mean load, the largest load with the head of the queue, and how many standard deviations that is below capacity.
    Per resource: the expected peak over the remaining lives, without and with the head of the queue, how many standard
    deviations the latter is below capacity, whether there is any capacity, and how much.
    """
    batch, machines, _ = forecast.shape
    out = np.zeros((batch, machines, forecast_feature_count(capacity.shape[2])), np.float32)
    _expect(forecast, own, capacity, len(SEGMENTS), out)
    return out


def cost_features(
    costs: Float, sizes: npt.NDArray[np.float32], left: npt.NDArray[np.float32], limit: float, hold: bool
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Features (B, M, COSTS) and prior logits (B, M), or (B, M + 1) with `hold`, of expected costs.

    `costs`: (B, M, 2) from `expected_costs`
    `sizes`, `left`: (B, M, D) capacity, and capacity left with the head of the queue
    `limit`: cost of overshoot above which to hold

    A machine is able if it has capacity, and room for the head of the queue unless no machine has. Features:
    overshoot, unused capacity, and how much more than the cheapest able machine the two cost together. Logits:
    roughly what `expected-cost` would choose. The cheapest able machine is the most probable choice; holding is more
    probable if no machine has room or overshoot costs more than `limit`.
    """
    batch, machines, _ = sizes.shape
    seen = np.empty((batch, machines, COSTS), np.float32)
    logits = np.empty((batch, machines + hold), np.float32)
    _cost_features(costs, sizes, left, limit, seen, logits)
    return seen, logits


@njit
def _cost_features(costs, sizes, left, limit, seen, logits):  # type: ignore[no-untyped-def]
    batch, machines, resources = sizes.shape
    able = np.empty(machines, np.bool_)
    for b in range(batch):
        room = False
        for m in range(machines):
            on, able[m] = False, True
            for d in range(resources):
                on = on or sizes[b, m, d] > 0
                able[m] = able[m] and not overbooked(left[b, m, d], sizes[b, m, d])
            able[m] = able[m] and on
            room = room or able[m]
        best, least = 0, np.inf
        for m in range(machines):
            able[m] = able[m] or (not room and sizes[b, m].any())
            total = costs[b, m, OVERSHOOT] + costs[b, m, UNUSED]
            if able[m] and total < least:
                best, least = m, total
        chances = 0.0
        for m in range(machines):
            beyond = costs[b, m, OVERSHOOT] + costs[b, m, UNUSED] - least
            seen[b, m, 0] = math.asinh(costs[b, m, OVERSHOOT] / SMALL) / GREAT
            seen[b, m, 1] = math.asinh(costs[b, m, UNUSED] / SMALL) / GREAT
            seen[b, m, 2] = math.asinh(beyond / SMALL) / GREAT
            logits[b, m] = max(-beyond / DOUBT, -SURELY) if able[m] else -SURELY
            chances += math.exp(logits[b, m])
        if logits.shape[1] > machines:  # relative to all machines together
            danger = min(max((costs[b, best, OVERSHOOT] - limit) / DOUBT, -SURELY), SURELY)
            logits[b, machines] = math.log(chances) + (danger if room else SURELY)


@njit
def _expect(forecast, own, capacity, segments, out):  # type: ignore[no-untyped-def]
    batch, machines, resources = capacity.shape
    wide = segments * resources
    peak, alive = 3 * wide, 3 * wide + 2 * resources
    for b in range(batch):
        for m in range(machines):
            f = 0
            for d in range(resources):
                size = capacity[b, m, d]
                scale = np.float32(1.0) / size if size > 0 else np.float32(0.0)
                for j in range(segments):
                    c = j * resources + d
                    most = forecast[b, m, c]
                    together = most + own[b, c]
                    spread = max(forecast[b, m, wide + c] + own[b, wide + c], np.float32(LEAST_SPREAD))
                    out[b, m, f] = most * scale
                    out[b, m, f + 1] = forecast[b, m, 2 * wide + c] * scale
                    out[b, m, f + 2] = together * scale
                    out[b, m, f + 3] = _sure(size - together, spread)
                    f += 4
                together = forecast[b, m, peak + d] + own[b, peak + d]
                spread = forecast[b, m, peak + resources + d] + own[b, peak + resources + d]
                out[b, m, f] = forecast[b, m, peak + d] * scale
                out[b, m, f + 1] = together * scale
                out[b, m, f + 2] = _sure(size - together, max(spread, np.float32(LEAST_SPREAD)))
                out[b, m, f + 3] = size > 0
                out[b, m, f + 4] = size
                f += 5
            for j in range(segments):
                out[b, m, f + j] = forecast[b, m, alive + j] / np.float32(FEW)


@njit(inline="always")
def _sure(room, variance):  # type: ignore[no-untyped-def]
    return np.float32(min(max(room / np.sqrt(variance), -SURE), SURE) / SURE)


@njit
def _summarise(grid, classes, out):  # type: ignore[no-untyped-def]
    batch, machines, resources, history, columns = grid.shape
    width = history + 4 + 2 * classes
    share = np.float32(1.0 / columns)
    for b in range(batch):
        for m in range(machines):
            for d in range(resources):
                first = d * width
                now, often = first + history + 3, first + history + 3 + classes  # index of label 0, which is not stored
                total = squares = most = np.float32(0.0)
                for r in range(history):
                    used = 0
                    for c in range(columns):
                        label = grid[b, m, d, r, c]
                        if label == 0 or label == classes + 1:
                            continue
                        used += 1
                        if label > classes:  # background load has no class
                            continue
                        out[b, m, often + label] += share / history
                        if r == history - 1:
                            out[b, m, now + label] += share
                    load = np.float32(used) * share
                    out[b, m, first + r] = load
                    total += load
                    squares += load * load
                    most = max(most, load)
                mean = total / history
                size = 0
                for c in range(columns):
                    size += grid[b, m, d, history - 1, c] != classes + 1
                out[b, m, first + history] = mean
                out[b, m, first + history + 1] = most
                out[b, m, first + history + 2] = np.sqrt(max(squares / history - mean * mean, np.float32(0.0)))
                out[b, m, first + history + 3] = np.float32(size) * share
