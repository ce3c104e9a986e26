"""What the simulated cluster looked like at given times: batch work and pressures by machine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.interference.observations import CATEGORIES
from tvwrl.interference.testbed.instance_kernels import add_running, count_running
from tvwrl.interference.testbed.laws import Pressures
from tvwrl.interference.testbed.simulation import Record
from tvwrl.types import Float


class Snapshots(NamedTuple):
    """The cluster at T times."""

    seconds: Float  # (T,)
    composition: Any  # (T, M, 60) int32 instances by the category that the scheduler assumed
    batch_cpu: Float  # (T, M) cores
    pressures: Pressures


def take_snapshots(record: Record, seconds: Float) -> Snapshots:
    """The cluster at each of `seconds` (T,), rising; an instance runs from its start until just before its end."""
    deployment, arrivals = record.deployment, record.arrivals
    task, machine, start, end = record.stays()
    rows = (np.searchsorted(seconds, start), np.searchsorted(seconds, end), machine)
    shape = (len(seconds), deployment.count)

    def total(value: Float) -> Float:
        found = np.zeros(shape)
        add_running(*rows, value[task], found)
        return found

    composition = np.zeros((*shape, CATEGORIES), np.int32)
    count_running(*rows, arrivals.assumed[task], composition)
    batch, services = total(arrivals.cpu), deployment.service_cpu(seconds)
    return Snapshots(
        seconds=seconds,
        composition=composition,
        batch_cpu=batch,
        pressures=Pressures(
            bandwidth=total(arrivals.cpu * arrivals.intensity),
            cache=total(arrivals.intensity),
            queue=batch / (deployment.cores - services),
            cpu=(batch + services) / deployment.cores,
        ),
    )
