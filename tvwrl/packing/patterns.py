"""Compiled: patterns, what one machine may hold: the most valuable one, or all maximal ones that are worth enough.

A depth-first search over the applications, each as often as it fits, the most copies first. What the others can add is
bounded by what they are worth at most, and in every dimension by the room left times the best worth for its use.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import inner, njit
from tvwrl.packing.fit import has_room
from tvwrl.types import Float, Int

Short = npt.NDArray[np.int16]
SMALL = 1e-9  # of value: less is rounding


class Machine(NamedTuple):
    """A machine, the applications in the order in which they are tried, and what their copies are worth there."""

    room: Float  # (K,) float64 capacity
    slack: Float  # (K,) float64 by which a bound has to allow for more: see `packing.fit.enlarged`
    demand: Float  # (A, K) float64 of one copy, >= 0
    needed: Float  # (A, K) float64, see `packing.fit.needed`
    low: Int  # (A,) int64 copies that have to be there
    high: Int  # (A,) int64 copies at most
    limit: Int  # (A, A) int64: beside i at most so many of j
    value: Float  # (A, U + 1) float64: worth of 0 .. U copies, never falling, 0 of none


def compile_kernels() -> None:
    """Compile what searches with a time limit use, or load it, so that this takes none of their time."""
    one, whole = np.ones((1, 1)), np.zeros((1, 1), np.int64)
    machine = Machine(
        np.ones(1), np.zeros(1), one, one, np.zeros(1, np.int64), np.ones(1, np.int64), whole, np.eye(1, 2, 1)
    )
    best_pattern(machine, 10)
    all_patterns(machine, 0.0, 1, 10)


@njit
def best_pattern(p: Machine, most_nodes: int) -> tuple[Short, float, float]:
    """The most valuable pattern (A,), its value, and what no pattern is worth more than.

    The last two are equal if the search was not cut off after `most_nodes`.
    """
    found = np.zeros((1, len(p.low)), np.int16)
    value = np.full(1, -np.inf)
    _, whole = _search(p, -np.inf, True, found, value, most_nodes)
    return found[0], value[0], value[0] if whole else _bounds(p)[0][0].min()


@njit
def all_patterns(p: Machine, least: float, most: int, most_nodes: int) -> tuple[Short, bool]:
    """Maximal patterns (n, A) of at least the value `least`, and whether these are all: at most `most` are returned."""
    found = np.zeros((most, len(p.low)), np.int16)
    value = np.zeros(most)
    count, whole = _search(p, least, False, found, value, most_nodes)
    return found[: min(count, most)], whole and count <= most


@inner
def _bounds(p: Machine) -> tuple[Float, Float]:
    """(A + 1, K + 1) from each application on: the most that they are worth, and the best worth for a unit of room.

    In row 0 the latter are multiplied by the room of the empty machine.
    """
    applications, dimensions = p.demand.shape
    bound = np.zeros((applications + 1, dimensions + 1))
    for i in range(applications - 1, -1, -1):
        bound[i] = bound[i + 1]
        bound[i, dimensions] += p.value[i, p.high[i]]
        for copies in range(1, p.high[i] + 1):
            for k in range(dimensions):
                used = copies * p.demand[i, k]
                if used > 0.0:
                    bound[i, k] = max(bound[i, k], p.value[i, copies] / used)
                elif p.value[i, copies] > 0.0:
                    bound[i, k] = np.inf
    most = bound.copy()
    for k in range(dimensions):
        most[0, k] *= p.room[k] + p.slack[k]
    return most, bound


@inner
def _search(p: Machine, least: float, only_best: bool, found: Short, value: Float, most_nodes: int) -> tuple[int, bool]:
    """Write patterns to `found`; how many there are, and whether none was missed because of `most_nodes`."""
    applications, dimensions = p.demand.shape
    _, bound = _bounds(p)
    residual = np.empty((applications + 1, dimensions))
    residual[0] = p.room
    worth = np.zeros(applications + 1)
    copies = np.zeros(applications, np.int64)
    next_one = np.full(applications, -2, np.int64)  # copies to try next; -2: not looked at yet
    count, nodes, depth = 0, 0, 0
    best = least
    while depth >= 0:
        nodes += 1
        if nodes > most_nodes:
            return count, False
        if depth == applications:
            if only_best:
                if worth[depth] > best + SMALL or count == 0:
                    best, count = worth[depth], 1
                    value[0] = best
                    found[0] = copies
            elif worth[depth] >= least - SMALL and _is_maximal(p, copies, residual):
                if count < len(found):
                    found[count], value[count] = copies, worth[depth]
                count += 1
                if count > len(found):
                    return count, False
            depth -= 1
            continue
        if next_one[depth] == -2:
            more = bound[depth, dimensions]
            for k in range(dimensions):
                more = min(more, bound[depth, k] * (residual[depth, k] + p.slack[k]))
            reached = worth[depth] + more
            if reached < least - SMALL or (only_best and count > 0 and reached <= best + SMALL):
                next_one[depth] = -2
                depth -= 1
                continue
            next_one[depth] = _most(p, depth, copies, residual)
        if next_one[depth] < p.low[depth] or next_one[depth] < 0:
            copies[depth], next_one[depth] = 0, -2
            depth -= 1
            continue
        now = next_one[depth]
        copies[depth] = now
        next_one[depth] = now - 1
        residual[depth + 1] = residual[depth] - now * p.demand[depth]
        worth[depth + 1] = worth[depth] + p.value[depth, now]
        depth += 1
    return count, True


@inner
def _most(p: Machine, i: int, copies: Int, residual: Float) -> int:
    """How many copies of i fit beside those of the applications before it."""
    most = p.high[i]
    for j in range(i):
        if copies[j] > 0:
            most = min(most, p.limit[j, i])
            if copies[j] > p.limit[i, j]:
                most = 0
    fit = 0
    left = np.empty((1, len(p.room)))
    left[0] = residual[i]
    while fit < most and has_room(p.needed, i, left, 0):
        left[0] -= p.demand[i]
        fit += 1
    return fit


@inner
def _is_maximal(p: Machine, copies: Int, residual: Float) -> bool:
    """Whether no application has room for one more copy."""
    applications = len(copies)
    for i in range(applications):
        if copies[i] >= p.high[i] or not has_room(p.needed, i, residual, applications):
            continue
        free = True
        for j in range(applications):
            allowed = copies[i] + 1 <= p.limit[j, i] and copies[j] <= p.limit[i, j]
            if j != i and copies[j] > 0 and not allowed:
                free = False
                break
        if free:
            return False
    return True
