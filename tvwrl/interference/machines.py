"""Machines that run services and batch instances, as arrays that compiled loops share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.interference.observations import CATEGORIES
from tvwrl.types import Float, InputError, Int


class MonitoredMachines(NamedTuple):
    """M machines, updated in place as batch instances start and end. Typed loosely, for numba checks the dtypes.

    Services stay where they are; those of machine m are rows `first[m] .. first[m + 1] - 1` of `service`.
    """

    cores: Any  # (M,) float64 > 0
    memory: Any  # (M,) float64 > 0, in the unit of batch instances' memory
    cpu: Any  # (M,) float64 cores in use now, services and batch
    batch_cpu: Any  # (M,) float64 cores in use by batch
    used_memory: Any  # (M,) float64
    composition: Any  # (M, 60) int32 batch instances by category
    last_report: Any  # (M,) float64 second of the machine's last report
    first: Any  # (M + 1,) int64
    service: Any  # (services on machines,) int32

    def shares(self) -> Float:
        """(M, 2) share of cores and of memory in use now."""
        return np.stack([self.cpu / self.cores, self.used_memory / self.memory], axis=1)


def check_machines(machines: MonitoredMachines, which: Int) -> None:
    """Raise InputError for machines `which` (n,) out of range, or arrays that would lead a kernel out of bounds."""
    count, rows = len(machines.cores), len(machines.service)
    if len(which) and not (which.min() >= 0 and which.max() < count):
        raise InputError(f"machines {which.min()} to {which.max()} are asked for: must be from 0 to {count - 1}")
    if machines.composition.shape != (count, CATEGORIES) or machines.composition.dtype.kind not in "iu":
        shape, kind = machines.composition.shape, machines.composition.dtype
        raise InputError(f"composition has shape {shape} of {kind}: must be ({count}, {CATEGORIES}), whole numbers")
    first = machines.first
    if len(first) != count + 1 or first[0] != 0 or first[-1] > rows or (np.diff(first) < 0).any():
        raise InputError(f"first must hold {count + 1} rising rows of the {rows} services on machines, from 0 on")


def idle_machines(cores: float, memory: float, first: Int, service: Int) -> MonitoredMachines:
    """M equal machines without batch work, their usage 0; `first` and `service` as above."""
    count = len(first) - 1
    cpu, batch_cpu, used_memory, last_report = np.zeros((4, count))
    return MonitoredMachines(
        cores=np.full(count, cores),
        memory=np.full(count, memory),
        cpu=cpu,
        batch_cpu=batch_cpu,
        used_memory=used_memory,
        composition=np.zeros((count, CATEGORIES), np.int32),
        last_report=last_report,
        first=first,
        service=np.asarray(service, np.int32),
    )


def uniform_machines(composition: Int, services: int) -> MonitoredMachines:
    """M machines with the composition (M, 60), nothing else in use, and one instance of each of `services` services.

    >>> machines = uniform_machines(composition, len(score.services))  # doctest: +SKIP
    >>> score.of(machines, now=0.0)  # (M,) scores 0..100  # doctest: +SKIP
    """
    count = len(composition)
    machines = idle_machines(1.0, 1.0, np.arange(count + 1) * services, np.tile(np.arange(services), count))
    return machines._replace(composition=np.ascontiguousarray(composition, np.int32))
