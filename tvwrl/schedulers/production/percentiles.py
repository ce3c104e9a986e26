"""Percentiles of usage samples, compiled, because rules need them for thousands of workloads in every slot.

The search starts at the largest value, because rules ask for high percentiles.
"""

from __future__ import annotations

import math

import numpy as np

from tvwrl.compiled import njit
from tvwrl.types import Float, Int


def percentiles(value: Float, seen: Int, percent: float) -> Float:
    """(R, D) percentile of the first `seen` (R,) of each workload's samples (R, h, D), 0 where there are none.

    `percent`: 0 to 100; between two samples by linear interpolation, as numpy's default
    """
    out = np.zeros((len(value), value.shape[2]))
    _percentiles(value, seen, percent, out)
    return out


def weighted_percentiles(value: Float, seen: Int, share: Float, weight: Float) -> Float:
    """(R, D) the smallest sample at which all samples up to it have at least a given share of the total weight.

    `share`: (D,) above 0, at most 1; `weight`: (h, D) > 0, of a sample by its age
    """
    out = np.zeros((len(value), value.shape[2]))
    _weighted_percentiles(value, seen, share, weight, out)
    return out


@njit(_nrt=False)
def _percentiles(value, seen, percent, out):  # type: ignore[no-untyped-def]
    for r in range(len(value)):
        for d in range(value.shape[2]):
            out[r, d] = percentile(value[r, :, d], seen[r], percent)


@njit(_nrt=False)
def _weighted_percentiles(value, seen, share, weight, out):  # type: ignore[no-untyped-def]
    for r in range(len(value)):
        for d in range(value.shape[2]):
            out[r, d] = _weighted(value[r, :, d], seen[r], share[d], weight[:, d])


@njit(inline="always")
def percentile(sample, count, percent):  # type: ignore[no-untyped-def]
    """The percentile of the first `count` samples, 0 if `count` is 0; see `percentiles`."""
    rank = max(count - 1, 0) * percent / 100.0
    low = int(rank)
    first, last = max(count - 2 - low, 0), count - 1 - low  # places of the two neighbours, counted from the largest
    limit, passed, upper, value = math.inf, 0, -math.inf, 0.0
    while passed <= last:
        value, equal = -math.inf, 0
        for k in range(count):
            if value < sample[k] < limit:
                value, equal = sample[k], 1
            elif sample[k] == value:
                equal += 1
        passed += equal
        if upper < value and passed > first:
            upper = value
        limit = value
    return value + (rank - low) * (upper - value) if count > 0 else 0.0


@njit(inline="always")
def _weighted(sample, count, share, weight):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(count):
        total += weight[k]
    limit, left, value = math.inf, total, 0.0  # left: weight of all samples below the limit
    while count > 0 and left >= share * total:
        value, equal = -math.inf, 0.0
        for k in range(count):
            if value < sample[k] < limit:
                value, equal = sample[k], weight[k]
            elif sample[k] == value:
                equal += weight[k]
        limit, left = value, left - equal
    return value
