"""Best-Fit and its relatives as scores of machines for a waiting workload: (M,) numbers, higher is better.

A new heuristic is one more function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from tvwrl.compiled import plain, vectorize
from tvwrl.schedulers import load_scores as formulas
from tvwrl.simulation import Cluster
from tvwrl.types import Float, Workload

Compiled = Callable[..., Float]
_STACK = cast(Compiled, vectorize(plain(formulas.stack)))  # over all machines at once


def tightest(cluster: Cluster, taken: Float, wanted: Float) -> Float:
    """(M,) minus the free units of the dominant resource, when `taken` (M, D) units are in use.

    The dominant resource is that of which `wanted` (D,) takes the largest share; the first of equals.
    """
    d = int((wanted / cluster.capacity.max(axis=0)).argmax())
    return taken[:, d] - cluster.capacity[:, d]


def tightest_now(cluster: Cluster, workload: Workload) -> Float:
    """Best-Fit (paper, "Baselines"): least free units of the workload's dominant resource now."""
    return tightest(cluster, cluster.load, workload.first_demand)


def tightest_peaks(cluster: Cluster, workload: Workload) -> Float:
    """Best-Fit on peaks: least unreserved units of the dominant resource."""
    return tightest(cluster, cluster.reserved_peaks, workload.peak)


def roomiest_peaks(cluster: Cluster, workload: Workload) -> Float:
    """Worst-Fit on peaks: most unreserved units of the dominant resource."""
    return -tightest_peaks(cluster, workload)


def first(cluster: Cluster, workload: Workload) -> Float:
    """First-Fit: the machine with the lowest number."""
    return np.zeros(len(cluster.machines))


def tightest_ahead(cluster: Cluster, workload: Workload) -> Float:
    """Least unused capacity over the workload's life. Reads the future."""
    return -cluster.residual_ahead(workload)


def emptiest(cluster: Cluster, workload: Workload) -> Float:
    """Spread: smallest share of the fuller resource in use, then fewest workloads."""
    preference: Float = -(cluster.load / cluster.divisor).max(axis=1) - 1e-6 * cluster.active
    return preference


def fullest(cluster: Cluster, workload: Workload) -> Float:
    """Stack: largest share of the fuller resource in use."""
    share: Float = (cluster.load / cluster.divisor).max(axis=1)
    return share


def fullest_to_a_limit(cluster: Cluster, workload: Workload) -> Float:
    """Stack as in paper 003 (6.1.3): highest CPU share with the workload, up to 80 %."""
    return _STACK(((cluster.load + workload.first_demand) / cluster.divisor)[:, 0])
