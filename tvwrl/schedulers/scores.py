"""Scores of machines for a waiting workload: (M,) numbers, higher is better. A new heuristic is one more function."""

from __future__ import annotations

import numpy as np

from tvwrl.simulation.cluster import Cluster
from tvwrl.types import Float, Workload


def _dominant(cluster: Cluster, demand: Float) -> int:
    """The resource that the demand (D,) takes the largest share of; ties go to the first."""
    return int((demand / cluster.capacity.max(axis=0)).argmax())


def tightest_now(cluster: Cluster, workload: Workload) -> Float:
    """Best-Fit (paper, "Baselines"): least free units of the workload's dominant resource now."""
    d = _dominant(cluster, workload.first_demand)
    return cluster.load[:, d] - cluster.capacity[:, d]


def tightest_peaks(cluster: Cluster, workload: Workload) -> Float:
    """Best-Fit on peaks: least units of the dominant resource that peaks leave unreserved."""
    d = _dominant(cluster, workload.peak)
    tight: Float = cluster.reserved_peaks[:, d] - cluster.capacity[:, d]
    return tight


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
