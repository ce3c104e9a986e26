"""The volume bound where machines are of several kinds or cost different amounts."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.kinds import Kinds
from tvwrl.types import Float, InputError, Int

TOO_MUCH = "not all replicas can be placed: together they demand more than the machines that may hold them have"
LARGEST = 2_000_000  # coefficients of the linear programme; beyond them, all replicas count as one volume


def by_volume(instance: Instance, fleet: Fleet, deadline: float = math.inf) -> tuple[float, bool]:
    """Least cost of machines for the volume of all replicas, each on machines of kinds that it fits.

    min sum_t c_t y_t subject to sum_v d_v x_vt <= C_t y_t, sum_t x_vt = n_v, 0 <= y_t <= count_t. x_vt exists only if a
    copy of v fits an empty machine of kind t; applications with equal demand are one. If that takes until `deadline`, a
    reading of time.monotonic(), all replicas count as one volume; the second value says whether they do not. Raises
    InputError if there is no solution.
    """
    from tvwrl.packing import enlarged

    kinds, unit = Kinds.among(fleet), float(fleet.costs.min())
    kinds = replace(kinds, cost=kinds.cost / unit)  # the solver's tolerances are absolute
    rows, which = np.unique(instance.demand.reshape(len(instance), -1), axis=0, return_inverse=True)
    copies: Any = np.bincount(which.ravel(), weights=instance.replicas, minlength=len(rows))
    room = np.tile(enlarged(kinds.capacity), instance.demand.shape[1])  # (T, K)
    fitting: Any = (rows[:, None] <= room[None]).all(axis=2)
    if fitting.sum() * room.shape[1] <= LARGEST:
        found = _solve(rows, copies, fitting, room, kinds, deadline - time.monotonic())
        if found is not None:
            return found * unit, True
    whole = _solve((copies @ rows)[None], np.ones(1), np.ones((1, len(room)), dtype=bool), room, kinds, math.inf)
    if whole is None:
        return 0.0, False
    return whole * unit, fitting.sum() * room.shape[1] > LARGEST


def _solve(sizes: Float, copies: Float, fitting: Any, room: Float, kinds: Kinds, seconds: float) -> float | None:
    """The value of the linear programme; None if `seconds` were not enough."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    v, t = np.nonzero(fitting)
    x, dimensions, count = np.arange(len(v)), room.shape[1], len(room)
    rows: list[Int] = [t * dimensions + k for k in range(dimensions)]
    loads = np.concatenate([*(sizes[v, k] for k in range(dimensions)), -room.ravel()])
    places = np.concatenate([*rows, np.arange(count * dimensions)])
    columns = np.concatenate([*[x] * dimensions, len(v) + np.repeat(np.arange(count), dimensions)])
    width = len(v) + count
    found = linprog(
        np.concatenate([np.zeros(len(v)), kinds.cost]),
        A_ub=coo_array((loads, (places, columns)), shape=(count * dimensions, width)).tocsr(),
        b_ub=np.zeros(count * dimensions),
        A_eq=coo_array((np.ones(len(v)), (v, x)), shape=(len(sizes), width)).tocsr(),
        b_eq=copies,
        bounds=[(0, None)] * len(v) + [(0, None if np.isinf(n) else n) for n in kinds.most],
        method="highs",
        options={"time_limit": max(seconds, 0.05)} if math.isfinite(seconds) else {},
    )
    if found.status == 2:
        raise InputError(TOO_MUCH)
    if not found.success:  # out of time, or numbers too far apart for the solver
        return None
    return float(found.fun)
