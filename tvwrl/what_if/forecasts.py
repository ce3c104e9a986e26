"""Forecasts of pods by a network that was fitted on workloads of another size.

A network knows workloads of 1 to `peak_units` units, and a pod may need a hundredth of one. So each pod is forecast at
a scale at which the most that it has used so far is 2 to 4 units: a power of 2, which changes as the pod grows. The
forecast is then brought back. Only what was seen of the pod decides on its scale.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvwrl.forecasting import Forecaster
from tvwrl.forecasting.base import BLOCK
from tvwrl.forecasting.beginnings import Beginnings
from tvwrl.forecasting.segments import SEGMENTS, Forecast, columns
from tvwrl.schedulers.expected_cost import ROUNDING
from tvwrl.traces.windows import Windows
from tvwrl.types import Float, ForecastTable, Int

MOST_UNITS = 4.0  # of what a pod has used so far, at its scale
LEAST = 2.0**-20  # units below which usage is as good as none
STEPS = 65535  # of a column of the table


def pod_forecasts(forecaster: Forecaster, windows: Windows) -> ForecastTable:
    """The forecasts of pods (N,), as of `Forecaster.table`, in one sequence.

    Peaks are larger by what Expected-Cost takes off for rounding, as these are not rounded to steps that matter.
    """
    count, slots, resources = windows.demand.shape
    units, wide = forecaster.peak_units, columns(resources)
    pods, power, beginnings = _at_scales(windows, units)
    lifetime = windows.demand.max(axis=1) / units
    steps = _steps(power.max(axis=0), lifetime.max(axis=0))
    values = np.zeros((1, count, slots + 1, len(steps)), np.uint16)
    peak, peak_spread, running = _places(resources)
    for begin in range(0, len(beginnings), BLOCK):
        part = beginnings[slice(begin, begin + BLOCK)]
        found = forecaster.predict(part).forecast().values * _factors(power[part.row], resources)
        found[:, peak] += ROUNDING * found[:, [running]]
        values[0, pods[part.row], part.seen, :wide] = np.round(found / steps[:wide])
    values[..., wide:] = np.round(lifetime / steps[wide:])[None, :, None] * values.any(axis=3, keepdims=True)
    values[:, :, 0] = values[:, :, 1]
    return ForecastTable(values, steps, np.stack([peak, peak_spread, wide + np.arange(resources)]))


def _places(resources: int) -> tuple[Int, Int, int]:
    """Columns of the forecast peak (D,), its variance (D,) and the probability of running in the next slot."""
    every = Forecast(np.arange(columns(resources), dtype=np.float64), resources)
    return every.peak.astype(np.int64), every.peak_spread.astype(np.int64), int(every.alive[0])


def _steps(power: Float, lifetime: Float) -> npt.NDArray[np.float32]:
    """(K + D,) steps in which nothing is above `STEPS`: for the largest scales and lifetime peaks (D,) of all pods."""
    largest = _factors(power[None], len(power))[0].astype(np.float64)
    largest[_places(len(power))[0]] += ROUNDING
    return np.concatenate([largest, np.maximum(lifetime, LEAST)]).astype(np.float32) / np.float32(STEPS - 1)


def _at_scales(windows: Windows, units: int) -> tuple[Int, Float, Beginnings]:
    """The windows at every scale at which they are needed: their pods (n,), scales (n, D), and which beginnings."""
    most = np.maximum.accumulate(windows.demand, axis=1)
    exponent = np.ceil(np.log2(np.maximum(most, LEAST) / MOST_UNITS)).astype(np.int64)  # (N, L, D)
    pod, slot = np.nonzero(np.arange(windows.demand.shape[1]) < windows.length[:, None])
    kinds, place = np.unique(np.column_stack([pod, exponent[pod, slot]]), axis=0, return_inverse=True)
    pods, power = kinds[:, 0], 2.0 ** kinds[:, 1:]
    scaled = windows[pods]
    resources = power.shape[1]
    metadata = scaled.metadata.copy()
    metadata[:, :resources] = np.minimum(metadata[:, :resources] / power, units)
    demand = np.minimum(scaled.demand / power[:, None], units)
    return (
        pods,
        power,
        Beginnings(
            Windows(demand, scaled.length, metadata, scaled.clock, scaled.fold, scaled.series), place.ravel(), slot + 1
        ),
    )


def _factors(power: Float, resources: int) -> npt.NDArray[np.float32]:
    """(m, K) by what to multiply each column of the forecasts of m workloads whose scales are `power` (m, D)."""
    segments, square = len(SEGMENTS), power**2
    parts = [np.tile(power, segments), np.tile(square, segments), np.tile(power, segments), power, square]
    factors: npt.NDArray[np.float32] = np.concatenate(
        [*parts, np.ones((len(power), segments))], axis=1, dtype=np.float32
    )
    return factors
