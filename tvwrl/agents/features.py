"""The input features of the `shared` policy: label grids, forecasts and expected costs summarised by machine."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tvwrl.compiled import njit
from tvwrl.forecasting import ROUNDING, SEGMENTS
from tvwrl.packing import overbooked
from tvwrl.schedulers import ACCEPTED_OVERSHOOT, LEAST_SPREAD, OVERSHOOT, RESERVING, UNUSED, border, expected_costs
from tvwrl.types import Bool, Byte, Float, Float32, Int

FEW, SURE = 10.0, 4.0  # workloads and standard deviations that are scaled to 1
SMALL, GREAT = 1000.0, 4.0  # costs enter as asinh(cost / SMALL) / GREAT: linear while small, then logarithmic
COSTS, PEAKS = 3, 2  # features by `cost_features`: of all rules, and of those that reserve peaks
# Rules that an untrained policy can resemble
BUILT_IN = ("expected-cost", "expected-cost-known-peak", "expected-cost-peak", "best-fit-peak")
TIGHTER = 4000.0  # what a spare unit costs a machine in the preference of best-fit-peak
DOUBT = 2000.0  # penalty that lowers a machine's prior logit by 1
SURELY = 8.0  # prior logits lie within +- this


class Terms(NamedTuple):
    """What the reward charges."""

    weights: Float  # (4, D), from `PenaltyWeights.per_resource`
    units: float  # `peak_units`
    whole: bool  # whether demand is in whole units


def feature_count(resources: int, history: int, classes: int) -> int:
    """Features of one machine: see `machine_features`."""
    return resources * (history + 4 + 2 * classes)


def machine_features(grid: Byte, classes: int) -> Float32:
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


def about_the_workload(resources: int) -> Bool:
    """(F,) which of `forecast_features` depend on the workload that waits; the others describe the machine alone."""
    by_segment = [False, False, True, True] * len(SEGMENTS)
    by_peak = [False, True, True, False, False]
    return np.array((by_segment + by_peak) * resources + [False] * len(SEGMENTS))


def forecast_features(
    forecast: Float32,
    own: Float32,
    capacity: Float32,
    kept: Bool | None = None,
) -> Float32:
    """(B, M, F) features of each machine's expected load; with `kept` (F,), only those where it is true.

    `forecast`: (B, M, K) forecasts summed by machine
    `own`: (B, K) forecast of the head of the queue
    `capacity`: (B, M, D) in `peak_units`

    Per segment: the number of workloads still running; and per resource, as shares of capacity, the expected largest
    and mean load, the largest load with the head of the queue, and how many standard deviations that is below capacity.
    Per resource: the expected peak over the remaining lives, without and with the head of the queue, how many standard
    deviations the latter is below capacity, whether there is any capacity, and how much.
    """
    batch, machines, _ = forecast.shape
    count = forecast_feature_count(capacity.shape[2])
    columns = np.arange(count) if kept is None else np.flatnonzero(kept)
    out = np.empty((batch, machines, len(columns)), np.float32)
    _expect(forecast, own, capacity, len(SEGMENTS), columns, np.empty(count, np.float32), out)
    return out


def cost_feature_count(rule: str) -> int:
    """Features of one machine: see `cost_features`."""
    return COSTS + PEAKS * (rule in RESERVING)


def cost_features(
    rule: str,
    forecast: Float32,
    own: Float32,
    capacity: Float32,
    left: Float32,
    terms: Terms,
    hold: bool,
) -> tuple[Float32, Float32]:
    """Features (B, M, F) of what a workload costs on each machine, and prior logits (B, M), or (B, M + 1) with `hold`.

    `rule`: one of `BUILT_IN`, whose choices the logits resemble
    `forecast`, `own`, `capacity`: as in `forecast_features`
    `left`: (B, M, D) share of the grid's columns that is free with the head of the queue

    A machine is eligible if it has capacity and room: for rules that reserve peaks, room for the sum of peaks; for
    others, room now, which is ignored if no machine has it. Features: expected overshoot, unused capacity, and how much
    more the machine costs by the rule than the cheapest eligible one; for rules that reserve peaks, also whether their
    sum fits, and the share of capacity that it leaves. Logits: the cheapest eligible machine is the most probable
    choice; holding is more probable if no machine is eligible, or if overshoot costs more than the longest wait that a
    workload accepts.
    """
    batch, machines, resources = capacity.shape
    costs = expected_costs(forecast, own, capacity, terms.units, terms.weights, terms.whole)
    known = rule in RESERVING
    spare = np.zeros((batch, machines, resources if known else 0))
    dominant = np.zeros(batch, np.int64)
    if known:
        peak = 3 * len(SEGMENTS) * resources
        peaks, largest = own[:, peak : peak + resources], capacity.max(axis=1)
        dominant = np.divide(peaks, largest, out=np.zeros_like(peaks), where=largest > 0).argmax(axis=1)
        _spare(forecast, own, capacity, terms.units, terms.whole, spare)
    seen = np.empty((batch, machines, cost_feature_count(rule)), np.float32)
    logits = np.empty((batch, machines + hold), np.float32)
    limit, tight = ACCEPTED_OVERSHOOT * terms.weights[3, 0], rule == "best-fit-peak"
    _cost_features(costs, capacity, left, spare, dominant, tight, limit, terms.units, seen, logits)
    return seen, logits


@njit
def _spare(forecast: Float32, own: Float32, capacity: Float32, units: float, whole: bool, out: Float) -> None:
    """Units left on each machine if all lifetime peaks are reserved; negative if they do not fit."""
    batch, machines, resources = capacity.shape
    peak = 3 * len(SEGMENTS) * resources
    alive = peak + 2 * resources
    for b in range(batch):
        for m in range(machines):
            for d in range(resources):
                rounding = ROUNDING * (forecast[b, m, alive] + own[b, alive])
                reserved = forecast[b, m, peak + d] + own[b, peak + d] - rounding
                out[b, m, d] = border(capacity[b, m, d], units, whole) - reserved * units


@njit
def _cost_features(
    costs: Float,
    capacity: Float32,
    left: Float32,
    spare: Float,
    dominant: Int,
    tight: bool,
    limit: float,
    units: float,
    seen: Float32,
    logits: Float32,
) -> None:
    batch, machines, resources = left.shape
    known = spare.shape[2] > 0
    able, price = np.empty(machines, np.bool_), np.empty(machines)
    for b in range(batch):
        room = False
        for m in range(machines):
            on, fits, least = False, True, np.inf
            for d in range(resources):
                size = capacity[b, m, d]
                on = on or size > 0
                if known:
                    fits = fits and not overbooked(spare[b, m, d], size * units)
                    least = min(least, spare[b, m, d] / (size * units) if size > 0 else 0.0)
                else:
                    fits = fits and not overbooked(left[b, m, d], 1.0)
            able[m] = fits and on
            room = room or able[m]
            price[m] = costs[b, m, UNUSED]
            if tight:
                price[m] = TIGHTER * spare[b, m, dominant[b]]
            if not known:
                price[m] += costs[b, m, OVERSHOOT]
            else:
                seen[b, m, COSTS] = fits
                seen[b, m, COSTS + 1] = least
        best, least = 0, np.inf
        for m in range(machines):
            able[m] = able[m] or (not room and capacity[b, m].any())
            if able[m] and price[m] < least:
                best, least = m, price[m]
        chances = 0.0
        for m in range(machines):
            beyond = price[m] - least
            seen[b, m, 0] = _squash(costs[b, m, OVERSHOOT])
            seen[b, m, 1] = _squash(costs[b, m, UNUSED])
            seen[b, m, 2] = _squash(beyond)
            logits[b, m] = max(-beyond / DOUBT, -SURELY) if able[m] else -SURELY
            chances += math.exp(logits[b, m])
        if logits.shape[1] > machines:  # relative to all machines together
            danger = -SURELY if known else min(max((costs[b, best, OVERSHOOT] - limit) / DOUBT, -SURELY), SURELY)
            logits[b, machines] = math.log(chances) + (danger if room else SURELY)


@njit(inline="always")
def _squash(cost: float) -> float:
    return math.asinh(cost / SMALL) / GREAT if cost != 0.0 else 0.0  # many costs are 0


@njit
def _expect(
    forecast: Float32, own: Float32, capacity: Float32, segments: int, columns: Int, row: Float32, out: Float32
) -> None:
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
                    row[f] = most * scale
                    row[f + 1] = forecast[b, m, 2 * wide + c] * scale
                    row[f + 2] = together * scale
                    row[f + 3] = _sure(size - together, spread)
                    f += 4
                together = forecast[b, m, peak + d] + own[b, peak + d]
                spread = forecast[b, m, peak + resources + d] + own[b, peak + resources + d]
                row[f] = forecast[b, m, peak + d] * scale
                row[f + 1] = together * scale
                row[f + 2] = _sure(size - together, max(spread, np.float32(LEAST_SPREAD)))
                row[f + 3] = size > 0
                row[f + 4] = size
                f += 5
            for j in range(segments):
                row[f + j] = forecast[b, m, alive + j] / np.float32(FEW)
            for i in range(len(columns)):
                out[b, m, i] = row[columns[i]]


@njit(inline="always")
def _sure(room: np.float32, variance: np.float32) -> np.float32:
    return np.float32(min(max(room / np.sqrt(variance), -SURE), SURE) / SURE)


@njit
def _summarise(grid: Byte, classes: int, out: Float32) -> None:
    batch, machines, resources, history, columns = grid.shape
    width = history + 4 + 2 * classes
    share = np.float32(1.0 / columns)
    count = np.zeros((2, classes + 1), np.int64)  # pixels of each class in the newest row, and in all
    sums = np.zeros((2, history * columns + 1), np.float32)  # what so many pixels add up to
    for n in range(history * columns):
        sums[0, n + 1] = sums[0, n] + share
        sums[1, n + 1] = sums[1, n] + share / history
    for b in range(batch):
        for m in range(machines):
            for d in range(resources):
                first = d * width
                total = squares = most = np.float32(0.0)
                count[:] = 0
                for r in range(history):
                    if r == history - 1:
                        count[0] = count[1]
                    used = 0
                    while used < columns:
                        label = grid[b, m, d, r, used]
                        if label == 0 or label == classes + 1:
                            break  # rows are filled from the left
                        used += 1
                        count[1, label if label <= classes else 0] += 1  # background load has no class
                    load = np.float32(used) * share
                    out[b, m, first + r] = load
                    total += load
                    squares += load * load
                    most = max(most, load)
                for label in range(1, classes + 1):
                    newest = count[1, label] - count[0, label]
                    out[b, m, first + history + 3 + label] = sums[0, newest]
                    out[b, m, first + history + 3 + classes + label] = sums[1, count[1, label]]
                mean = total / history
                size = 0
                for c in range(columns):
                    size += grid[b, m, d, history - 1, c] != classes + 1
                out[b, m, first + history] = mean
                out[b, m, first + history + 1] = most
                out[b, m, first + history + 2] = np.sqrt(max(squares / history - mean * mean, np.float32(0.0)))
                out[b, m, first + history + 3] = np.float32(size) * share
