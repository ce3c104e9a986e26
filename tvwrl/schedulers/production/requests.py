"""What rules share that place by declared requests: who is admitted, and which machine is the tightest."""

from __future__ import annotations

import numpy as np

from tvwrl.packing.fit import fits
from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.types import Float, Int, Workload


def admitted(cluster: Cluster, workload: Workload, passes: Mask) -> Mask:
    """(M,) machines with room now that pass a rule's filter (M,), and all idle ones with room now.

    Idle machines pass so that every workload is placed in the end; in the sources it might wait without end.
    """
    mask: Mask = cluster.room_now(workload) & (passes | (cluster.active == 0))
    return mask


def requested(cluster: Cluster, workload: Workload) -> Float:
    """(M, D) units: the requests of what runs on each machine and of the workload."""
    units: Float = cluster.reserved_requests + cluster.request_of(workload)
    return units


def requests_fit(cluster: Cluster, workload: Workload, overcommit: float) -> Mask:
    """(M,) machines whose capacity, times `overcommit`, holds all requests together."""
    return fits(requested(cluster, workload), overcommit * cluster.capacity, cluster.capacity)


def tightest_requests(cluster: Cluster, workload: Workload) -> Float:
    """(M,) higher is tighter: minus the units that stay unrequested of the resource of which the workload requests the
    largest share, the first of equals."""
    d = int((cluster.request_of(workload) / cluster.capacity.max(axis=0)).argmax())
    tight: Float = requested(cluster, workload)[:, d] - cluster.capacity[:, d]
    return tight


def milli(units: Float) -> Int:
    """Whole thousandths of units, as the sources count thousandths of a core."""
    whole: Int = np.rint(1000.0 * units).astype(np.int64)
    return whole
