"""The one rule for "fits", for every scheduler, planner, simulated cluster and baseline.

A load fits a capacity unless it exceeds it by more than rounding: `TOLERANCE`, a share of the capacity, so that the
unit does not matter. Where nothing is left a capacity of 0 (switched off) takes a demand of 0 only.

Kernels call `exceeds`, `lacks`, `has_room` and `most_that_fit`; code in numpy calls `fits` and `replicas_that_fit`.
Referees share no code with what they check: they have a tolerance of their own, of the same size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from tvwrl.types import Float

TOLERANCE = 1e-9  # share of the capacity; more than rounding makes of a sum of millions of demands
SINGLE_TOLERANCE = 1e-6  # the same for sums in single precision
BLOCK = np.uint64(32)  # dimensions compared at once


@njit(cache=True, inline="always")
def lacks(demand: float, residual: float, capacity: float) -> bool:
    """Whether `demand` does not fit `residual`, what is left of `capacity`; all in the same unit."""
    return demand > residual + TOLERANCE * capacity


@njit(cache=True, inline="always")
def exceeds(load: float, capacity: float) -> bool:
    """Whether `load` does not fit `capacity`, in the same unit."""
    return load > capacity + TOLERANCE * capacity


@njit(cache=True)
def has_room(demand, i, residual, m, capacity):  # type: ignore[no-untyped-def]
    """Whether row i of `demand` (A, K) fits what is left of machine m, `residual` (M, K), in every dimension.

    `capacity` (F, K): of machine m row m; machines beyond the last row are like the last one.
    """
    # By blocks without branches, the busiest dimensions first. Unsigned indices need no look at the end that negative
    # ones count from: only so do the blocks compile to vector instructions.
    row, machine, kind = np.uint64(i), np.uint64(m), np.uint64(min(m, len(capacity) - 1))
    begin, dimensions = np.uint64(0), np.uint64(demand.shape[1])
    while begin < dimensions:
        end, full = min(begin + BLOCK, dimensions), False
        for k in range(begin, end):
            full |= lacks(demand[row, k], residual[machine, k], capacity[kind, k])
        if full:
            return False
        begin = end
    return True


@njit(cache=True)
def most_that_fit(demand, i, residual, m, capacity, most):  # type: ignore[no-untyped-def]
    """How many of at most `most` copies of row i of `demand` fit machine m; arrays as in `has_room`.

    The floor of residual by demand: Eq. 1 of paper 001 prints a ceiling.
    """
    if most < 1 or not has_room(demand, i, residual, m, capacity):
        return 0
    if most == 1:
        return 1
    ratio, kind = float(most), min(m, len(capacity) - 1)
    for k in range(demand.shape[1]):
        if demand[i, k] > 0.0:
            ratio = min(ratio, (residual[m, k] + TOLERANCE * capacity[kind, k]) / demand[i, k])
    return max(int(ratio), 1)


def fits(demand: Float, residual: Float | float, capacity: Float | float) -> npt.NDArray[np.bool_]:
    """(...) whether `demand` fits `residual` in every dimension; all broadcast to (..., K), in the same units.

    >>> fits(np.array([0.1, 3.0]), np.array([[0.3 - 0.2, 4.0], [1.0, 2.0]]), np.array([0.3, 4.0]))
    array([ True, False])
    """
    room: npt.NDArray[np.bool_] = np.all(demand <= residual + TOLERANCE * capacity, axis=-1)
    return room


def enlarged(capacity: Float) -> Float:
    """Capacities that lower bounds reckon with: larger by twice the tolerance, so that they allow whatever fits."""
    return capacity * (1.0 + 2.0 * TOLERANCE)


def replicas_that_fit(demand: Float, residual: Float, capacity: Float) -> Float:
    """(...) how many copies of `demand` fit `residual`: whole numbers >= 0, infinite where nothing is needed.

    All broadcast to (..., K), in the same units.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Any = np.floor((residual + TOLERANCE * capacity) / demand)
    most: Float = np.where(demand > 0, np.maximum(ratio, 0.0), np.inf).min(axis=-1)
    return most
