"""Perfect forecasts: what really comes, in the form of a forecast, to measure what better forecasts could gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvwrl.forecasting.segments import HORIZON, SEGMENTS, Forecast
from tvwrl.types import Float, Int, SequenceSet


def with_perfect_forecasts(sequences: SequenceSet, peak_units: int) -> SequenceSet:
    """The same sequences, whose forecasts are what really comes, without variance.

    As in other tables, a workload that waits has the forecast of one slot seen.

    Parameters
    ----------
    sequences : SequenceSet
        S sequences that were drawn with forecasts.
    peak_units : int
        Units of demand that 1 of a forecast stands for, >= 1.

    Examples
    --------
    >>> with_perfect_forecasts(problem.sequences("test", 2, seed=0), 8)  # doctest: +SKIP
    """
    table = sequences.forecast
    assert table is not None, "these sequences were drawn without forecasts"
    values, resources = np.zeros_like(table.values), len(sequences.resources)
    lifetime = table.peaks[2]
    values[..., lifetime] = table.values[..., lifetime]
    for i, (demand, length) in enumerate(zip(sequences.demand / peak_units, sequences.length, strict=True)):
        parts = _what_comes(demand, length, resources)
        known = np.arange(1, demand.shape[1] + 1) <= length[:, None]  # it has not ended
        values[i, :, 1:, : parts.shape[2]] = np.round(parts / table.steps[: parts.shape[2]]) * known[..., None]
    values[:, :, 0] = values[:, :, 1]
    return replace(sequences, forecast=replace(table, values=values))


def _what_comes(demand: Float, length: Int, resources: int) -> Float:
    """(N, L, K) forecasts after 1, 2, ..., L slots of workloads with demand (N, L, D), as shares, and length (N,)."""
    count, slots, _ = demand.shape
    padded = np.pad(demand, ((0, 0), (0, HORIZON), (0, 0)))
    ahead = np.lib.stride_tricks.sliding_window_view(padded, HORIZON + 1, axis=1)  # (N, L, D, slots ahead)
    parts = [ahead[..., first : last + 1] for first, last in SEGMENTS]
    most = np.stack([part.max(axis=3) for part in parts], axis=2)
    mean = np.stack([part.mean(axis=3) for part in parts], axis=2)
    peak = np.flip(np.maximum.accumulate(np.flip(demand, 1), axis=1), 1)
    left = length[:, None] - np.arange(1, slots + 1)
    alive = left[..., None] >= np.array([first for first, _ in SEGMENTS])
    shape = (count, slots, -1)
    found: Float = np.concatenate(
        [part.reshape(shape) for part in (most, 0 * most, mean, peak, 0 * peak, alive)], axis=2, dtype=np.float64
    )
    assert Forecast(found, resources).alive.shape[-1] == len(SEGMENTS)
    return found
