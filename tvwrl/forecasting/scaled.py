"""Forecasts of workloads of any size by a network that was fitted on workloads of 1 to `peak_units` units.

A pod may need a hundredth of a unit, which the network takes for a whole one. So each workload is forecast at a scale
at which the most that it has used so far is 2 to 4 units: a power of 2, which changes as the workload grows. The
forecast is then brought back. Only what was seen of a workload decides on its scale.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from tvwrl.forecasting.base import BLOCK, Forecaster
from tvwrl.forecasting.beginnings import Beginnings
from tvwrl.forecasting.segments import ROUNDING, SEGMENTS, Forecast, columns
from tvwrl.traces import Windows
from tvwrl.types import Float, Float32, ForecastTable, Int

MOST_UNITS = 4.0  # of what a workload has used so far, at its scale
LEAST = 2.0**-20  # units below which usage is as good as none
STEPS = 65535  # of a column of a table


def scaled_forecasts(forecaster: Forecaster, beginnings: Beginnings) -> Float32:
    """(m, K) forecasts after m beginnings, as of `Forecast`, in shares of the forecaster's `peak_units`.

    Peaks are larger by what Expected-Cost takes off for rounding, as these are not rounded to steps that matter.
    """
    windows, units, resources = beginnings.windows, forecaster.peak_units, beginnings.windows.demand.shape[-1]
    most = np.maximum.accumulate(windows.demand, axis=1)[beginnings.row, beginnings.seen - 1]
    kinds, place = np.unique(np.column_stack([beginnings.row, _exponent(most)]), axis=0, return_inverse=True)
    power, scaled = np.exp2(kinds[:, 1:]), windows[kinds[:, 0]]
    metadata = scaled.metadata.copy()
    metadata[:, :resources] = np.minimum(metadata[:, :resources] / power, units)
    demand = np.minimum(scaled.demand / power[:, None], units)
    past = None if scaled.past is None else np.minimum(scaled.past / power[:, None, None], units).astype(np.float32)
    known = replace(scaled, demand=demand, metadata=metadata, past=past)
    at_scale = forecaster.predict(Beginnings(known, place.ravel(), beginnings.seen)).forecast().values
    found: Float32 = (at_scale * _factors(power[place.ravel()], resources)).astype(np.float32)
    peak, _, running = _places(resources)
    found[:, peak] += ROUNDING * found[:, [running]]
    return found


def empty_table(workloads: int, slots: int, most: Float, peak_units: int) -> ForecastTable:
    """A table of one sequence without forecasts, for workloads that use up to `most` (D,) units."""
    resources = len(most)
    peak, peak_spread, _ = _places(resources)
    largest = _factors(np.exp2(_exponent(most))[None], resources)[0].astype(np.float64)  # that a value can be
    largest[peak] += ROUNDING
    largest = np.concatenate([largest, np.maximum(most / peak_units, LEAST)])
    steps = largest.astype(np.float32) / np.float32(STEPS - 1)
    values = np.zeros((1, workloads, slots + 1, len(steps)), np.uint16)
    return ForecastTable(values, steps, np.stack([peak, peak_spread, columns(resources) + np.arange(resources)]))


def unchanging(table: ForecastTable, slots: int) -> ForecastTable:
    """A table (S, N, slots + 1, K) in which a workload has the same forecast whenever it is asked for: all are one row
    of the given table, which has one for each workload. A live cluster has thousands, and asks as of now alone."""
    sequences, workloads, _, wide = table.values.shape
    by_sequence, by_workload, _, by_column = table.values.strides
    strides = by_sequence, by_workload, 0, by_column
    values: Any = as_strided(table.values, (sequences, workloads, slots + 1, wide), strides)
    return replace(table, values=values)


def in_steps(table: ForecastTable, forecasts: Float32) -> npt.NDArray[np.uint16]:
    """(m, K) forecasts as whole steps of a table."""
    whole = np.round(forecasts / table.steps[: forecasts.shape[1]])
    return np.clip(whole, 0, STEPS).astype(np.uint16)


def scaled_table(forecaster: Forecaster, windows: Windows) -> ForecastTable:
    """The forecasts of workloads (N,), as of `Forecaster.table`, in one sequence."""
    count, slots, resources = windows.demand.shape
    peaks = windows.demand.max(axis=1)
    table = empty_table(count, slots, peaks.max(axis=0), forecaster.peak_units)
    every, wide, values = Beginnings.every(windows), columns(resources), table.values
    for begin in range(0, len(every), BLOCK):
        part = every[slice(begin, begin + BLOCK)]
        values[0, part.row, part.seen, :wide] = in_steps(table, scaled_forecasts(forecaster, part))
    lifetime = np.round(peaks / forecaster.peak_units / table.steps[wide:])
    values[..., wide:] = lifetime[None, :, None] * values.any(axis=3, keepdims=True)
    values[:, :, 0] = values[:, :, 1]
    return table


def _exponent(units: Float) -> Int:
    """The power of 2 by which usage is divided, so that at most `MOST_UNITS` are left."""
    exponent: Int = np.ceil(np.log2(np.maximum(units, LEAST) / MOST_UNITS)).astype(np.int64)
    return exponent


def _places(resources: int) -> tuple[Int, Int, int]:
    """Columns of the forecast peak (D,), its variance (D,) and the probability of running in the next slot."""
    every = Forecast(np.arange(columns(resources), dtype=np.float64), resources)
    return every.peak.astype(np.int64), every.peak_spread.astype(np.int64), int(every.alive[0])


def _factors(power: Float, resources: int) -> Float32:
    """(m, K) by what to multiply each column of the forecasts of m workloads whose scales are `power` (m, D)."""
    segments, square = len(SEGMENTS), power**2
    parts = [np.tile(power, segments), np.tile(square, segments), np.tile(power, segments), power, square]
    factors: Float32 = np.concatenate([*parts, np.ones((len(power), segments))], axis=1, dtype=np.float32)
    return factors
