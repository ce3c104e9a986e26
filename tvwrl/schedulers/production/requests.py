"""Shared by the rules: summed requests, and the arithmetic of their sources."""

from __future__ import annotations

import numpy as np

from tvwrl.packing import fits
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, Int, Workload


def requested(cluster: Cluster, workload: Workload) -> Float:
    """(M, D) units: the requests of the workloads on each machine plus that of the newcomer."""
    units: Float = cluster.reserved_requests + cluster.request_of(workload)
    return units


def requests_fit(cluster: Cluster, workload: Workload, overcommit: float | Float) -> Mask:
    """(M,) machines whose capacity times `overcommit` holds all requests, newcomer included.

    `overcommit`: > 0, may be infinite; of all resources, or (D,) of each
    """
    return fits(requested(cluster, workload) / overcommit, cluster.capacity, cluster.capacity)


def by_kind(of_both: tuple[float, float], resources: int) -> Float:
    """(D,) the first number for CPU (the first resource), the second for all others, which count as memory."""
    return np.array(of_both)[np.minimum(np.arange(resources), 1)]


def rounded(number: Float) -> Float:
    """To whole numbers, halves up."""
    whole: Float = np.floor(number + 0.5)
    return whole


def points(share: Float) -> Float:
    """Shares (0 to 1) as whole numbers from 0 to 100, halves up.

    What rounding errors left just below a half counts as the half: the sources compute in percent.
    """
    return rounded(np.round(100.0 * share, 9))


def milli(units: Float) -> Int:
    """Whole thousandths of units, as the sources count thousandths of a core."""
    whole: Int = np.rint(1000.0 * units).astype(np.int64)
    return whole
