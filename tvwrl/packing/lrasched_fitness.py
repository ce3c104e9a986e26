"""LRASched's measure of applications and fitness of machines (paper 000, Eq. 20 and 21), for planner and scheduler."""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import njit
from tvwrl.types import Float


def measure(demand: Float) -> tuple[Float, Float]:
    """Total demand (K,) of a batch, and the measure (n,) of its applications: their shares of it, summed (Eq. 20).

    `demand` (n, K) of all replicas of each application. The total is 1 where nothing is needed.
    """
    total = demand.sum(axis=0)
    total[total == 0] = 1.0
    return total, (demand / total).sum(axis=1)


@njit
def fitness_weights(demand, total, free, weight):  # type: ignore[no-untyped-def]
    """Write w_k = s_k / (S_k F_k) to `weight` (K,): the fitness of a machine with residual C is sum_k w_k C_k (Eq. 21).

    `demand` (K,) s of one replica; `total` (K,) S of the batch; `free` (K,) F of all machines. A dimension that is free
    nowhere counts nothing.
    """
    for k in range(len(weight)):
        weight[k] = demand[k] / total[k] / free[k] if free[k] > 0.0 else 0.0


def fitness(demand: Float, total: Float, residual: Float) -> Float:
    """(M,) fitness of machines with `residual` (M, K) for a replica with `demand` (K,); `total` (K,): see `measure`."""
    weight = np.empty(len(demand))
    fitness_weights(demand, total, residual.sum(axis=0), weight)
    found: Float = (residual * weight).sum(axis=1)
    return found
