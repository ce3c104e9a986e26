"""The one rule for "fits", for every scheduler, planner, simulated cluster and baseline.

A load fits a capacity unless it exceeds it by more than rounding: `TOLERANCE`, a share of the capacity, so that the
unit does not matter. Where nothing is left a capacity of 0 (switched off) takes a demand of 0 only.

Kernels call `exceeds` and `lacks`. Those that ask often take the tolerance off all demands once (`needed`), for
`has_room` and `most_that_fit`. Code in numpy calls `fits` and `replicas_that_fit`.
Referees share no code with what they check: they have a tolerance of their own, of the same size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import inner, njit
from tvwrl.types import Float

# Sizes that numba is told, so that it does not compile a kernel for several; to Python they are numbers like others.
int32 = cast("Callable[[Any], int]", np.int32)
int64 = cast("Callable[[Any], int]", np.int64)
uint64 = cast("Callable[[Any], int]", np.uint64)
TOLERANCE = 1e-9  # share of the capacity; more than rounding makes of a sum of millions of demands
SINGLE_TOLERANCE = 1e-6  # the same for sums in single precision
BLOCK = uint64(32)  # dimensions compared at once


@njit(inline="always")
def lacks(demand: float, residual: float, capacity: float) -> bool:
    """Whether `demand` does not fit `residual`, what is left of `capacity`; all in the same unit."""
    return demand > residual + TOLERANCE * capacity


@njit(inline="always")
def exceeds(load: float, capacity: float) -> bool:
    """Whether `load` does not fit `capacity`, in the same unit."""
    return load > capacity + TOLERANCE * capacity


@njit(inline="always")
def overbooked(residual: float, capacity: float) -> bool:
    """Whether `residual`, summed in single precision, shows more load than `capacity`, in the same unit."""
    return residual < -SINGLE_TOLERANCE * capacity


@njit(inline="always")
def short(residual: float, needed: float) -> bool:
    """Whether `residual` is less than `needed`, a demand less the tolerance: see `needed` below."""
    return needed > residual


@inner
def has_room(needed: Float, i: int, residual: Float, m: int) -> bool:
    """Whether machine m has left, in `residual` (M, K), what row i of `needed` (A, K) asks for in every dimension."""
    # By blocks without branches, the busiest dimensions first. Unsigned indices need no look at the end that negative
    # ones count from: only so do the blocks compile to vector instructions.
    row, machine, begin, dimensions = uint64(i), uint64(m), uint64(0), uint64(needed.shape[1])
    while begin < dimensions:
        end, full = min(begin + BLOCK, dimensions), False
        for k in range(begin, end):
            full |= short(residual[machine, k], needed[row, k])
        if full:
            return False
        begin = end
    return True


@inner
def first_lack(needed: Float, i: int, residual: Float, m: int) -> int:
    """The first dimension in which machine m has no room for row i of `needed`, K if it has; see `has_room`."""
    row, machine, k, dimensions = uint64(i), uint64(m), uint64(0), uint64(needed.shape[1])
    if has_room(needed, i, residual, m):
        return dimensions
    while not short(residual[machine, k], needed[row, k]):
        k += uint64(1)
    return k


@inner
def most_that_fit(demand: Float, needed: Float, i: int, residual: Float, m: int, most: int) -> int:
    """How many of at most `most` copies of row i of `demand` (A, K) fit machine m; other arrays as in `has_room`.

    The floor of residual by demand: Eq. 1 of paper 001 prints a ceiling.
    """
    if most < 1 or not has_room(needed, i, residual, m):
        return 0
    if most == 1:
        return 1
    ratio = float(most)
    for k in range(demand.shape[1]):
        if demand[i, k] > 0.0:
            ratio = min(ratio, 1.0 + (residual[m, k] - needed[i, k]) / demand[i, k])
    return max(int(ratio), 1)


def needed(demand: Float, capacity: Float) -> Float:
    """(A, K) what a machine must have left to take `demand` (A, K), for `has_room`: less by the tolerance.

    That of the smallest machine, for all machines alike: `capacity` (F, K) > 0. So kernels compare two numbers only.
    """
    least: Float = demand - TOLERANCE * capacity.min(axis=0)
    return least


def fits(demand: Float, residual: Float | float, capacity: Float | float) -> npt.NDArray[np.bool_]:
    """Tell whether a demand fits what is left, in every dimension; all broadcast to (..., K), in the same units.

    Parameters
    ----------
    demand : Float
        What is to be placed.
    residual : Float or float
        What is left, which may be below `demand` by rounding: `TOLERANCE`, a share of the capacity.
    capacity : Float or float
        Of the machines.

    Returns
    -------
    array of bool
        (...) Those that it fits.

    Examples
    --------
    >>> fits(np.array([0.1, 3.0]), np.array([[0.3 - 0.2, 4.0], [1.0, 2.0]]), np.array([0.3, 4.0]))
    array([ True, False])
    """
    room: npt.NDArray[np.bool_] = np.all(demand <= residual + TOLERANCE * capacity, axis=-1)
    return room


def is_used_up(residual: Float, capacity: Float) -> npt.NDArray[np.bool_]:
    """(...) whether in some dimension nothing but rounding is left of `capacity` (..., K)."""
    used_up: npt.NDArray[np.bool_] = np.any(residual <= TOLERANCE * capacity, axis=-1)
    return used_up


def enlarged(capacity: Float) -> Float:
    """(...) capacities for lower bounds: larger by twice the tolerance, so that bounds allow whatever fits.

    >>> fits(np.array([64.0 + 5e-8]), np.array([64.0]), np.array([64.0])), 64.0 + 5e-8 <= enlarged(np.array([64.0]))
    (np.True_, array([ True]))
    """
    return capacity * (1.0 + 2.0 * TOLERANCE)


def replicas_that_fit(demand: Float, residual: Float, capacity: Float) -> Float:
    """(...) how many copies of `demand` fit `residual`: whole numbers >= 0, infinite where nothing is needed.

    All broadcast to (..., K), in the same units.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Any = np.floor((residual + TOLERANCE * capacity) / demand)
    most: Float = np.where(demand > 0, np.maximum(ratio, 0.0), np.inf).min(axis=-1)
    return most
