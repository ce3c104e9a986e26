"""Machines that run services and batch instances, as arrays that compiled loops share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.types import Float, Int


class Machines(NamedTuple):
    """M machines, changed in place as batch instances start and end. Typed loosely, since numba sees the dtypes.

    Services stay where they are; those of machine m are rows `first[m] .. first[m + 1] - 1` of `service` and `quota`.
    """

    cores: Any  # (M,) float64 > 0
    memory: Any  # (M,) float64 > 0, in the unit of batch instances' memory
    cpu: Any  # (M,) float64 cores in use now, services and batch
    batch_cpu: Any  # (M,) float64 cores in use by batch
    used_memory: Any  # (M,) float64
    composition: Any  # (M, 60) int32 batch instances by category
    heard: Any  # (M,) float64: second of the last report of the machine; a scorer must not trust older ones
    first: Any  # (M + 1,) int64
    service: Any  # (services on machines,) int32
    quota: Any  # (services on machines,) float64 cores requested

    def shares(self) -> Float:
        """(M, 2) share of cores and of memory in use now."""
        return np.stack([self.cpu / self.cores, self.used_memory / self.memory], axis=1)


def alike(composition: Int, services: int) -> Machines:
    """M machines of which only the composition (M, 60) is known, each with one instance of each of `services`."""
    count = len(composition)
    return Machines(
        cores=np.ones(count),
        memory=np.ones(count),
        cpu=np.zeros(count),
        batch_cpu=np.zeros(count),
        used_memory=np.zeros(count),
        composition=np.ascontiguousarray(composition, np.int32),
        heard=np.zeros(count),
        first=np.arange(count + 1) * services,
        service=np.tile(np.arange(services, dtype=np.int32), count),
        quota=np.ones(count * services),
    )
