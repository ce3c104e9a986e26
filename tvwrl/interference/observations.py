"""What monitoring records, which is all a score may know: response times of services, batch work on their machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tvwrl.checks import at_least
from tvwrl.types import Bool, Float, InputError, Int, Int32

CATEGORIES = 60  # 3 classes of CPU x 5 of memory x 4 of makespan (Section 5.2.2)
COLUMNS = ("seconds", "machine", "service", "response_ms", "composition", "batch_cpu")  # fields with a row per record


@dataclass(frozen=True, eq=False)
class Observations:
    """N records, each of one service on one machine at one time."""

    seconds: Float  # (N,) when, from the beginning of the recording
    machine: Int  # (N,) >= 0
    service: Int  # (N,) index into `services`
    response_ms: Float  # (N,) > 0, mean response time of the service's instance there, then
    composition: Int | Int32  # (N, CATEGORIES) batch instances on the machine, >= 0
    batch_cpu: Float  # (N,) cores that batch instances used on the machine
    services: tuple[str, ...]  # names
    quota: Float  # (services,) cores that an instance of the service requested, > 0

    def __post_init__(self) -> None:
        count = len(self.seconds)
        shapes = {"machine": (count,), "service": (count,), "response_ms": (count,), "batch_cpu": (count,)}
        for name, shape in (shapes | {"composition": (count, CATEGORIES)}).items():
            if (found := getattr(self, name).shape) != shape:
                raise InputError(f"observations: {name} has shape {found}: must be {shape}")
        for name in ("machine", "service", "composition"):
            if (kind := getattr(self, name).dtype).kind not in "iu":
                raise InputError(f"observations: {name} is {kind}: must be whole numbers")
        if self.quota.shape != (len(self.services),) or not (np.isfinite(self.quota) & (self.quota > 0)).all():
            raise InputError(f"observations: quota must hold {len(self.services)} numbers > 0, one per service")
        self._check("seconds", np.isfinite(self.seconds), "")
        for name in ("machine", "service", "batch_cpu", "composition"):
            self._check(name, np.isfinite(found := getattr(self, name)) & (found >= 0), " >= 0")
        self._check("service", self.service < len(self.services), f" < {len(self.services)}")
        self._check("response_ms", np.isfinite(self.response_ms) & (self.response_ms > 0), " > 0")

    def _check(self, name: str, right: Bool, limit: str) -> None:
        """Raise InputError with the first row where `right` (N,) or (N, CATEGORIES) is False."""
        if not right.all():
            row, *category = np.argwhere(~right)[0].tolist()
            value = getattr(self, name)[row, *category]
            where = f"row {row}, category {category[0]}" if category else f"row {row}"
            raise InputError(f"observations, {where}: {name} is {value}: must be a number{limit}")

    def by_service(self) -> list[Int]:
        """Rows (n,) of the records of each service, in order; empty for one that was not observed."""
        order = np.argsort(self.service, kind="stable")
        edges = np.searchsorted(self.service[order], np.arange(len(self.services) + 1))
        return [order[edges[s] : edges[s + 1]] for s in range(len(self.services))]

    def only(self, rows: Int | Bool) -> Observations:
        """The records `rows`: (n,) indices or (N,) bool."""
        parts: dict[str, Any] = {name: getattr(self, name)[rows] for name in COLUMNS}
        return replace(self, **parts)

    def and_then(self, later: Observations) -> Observations:
        """These records and `later` ones of the same services."""
        parts: dict[str, Any] = {name: np.concatenate([getattr(self, name), getattr(later, name)]) for name in COLUMNS}
        return replace(self, **parts)


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels split each service's response times at their percentiles 100 / k, 200 / k, ..."""

    k: int  # >= 2
    bounds: Float  # (services, k - 1) ms, rising; all NaN: the service has too few response times

    @classmethod
    def of(cls, observations: Observations, k: int = 10, skip_rare: bool = False) -> Levels:
        """Levels from observed response times.

        Raises InputError if k < 2 and for a service with fewer than k response times. With `skip_rare` such a service
        has no levels instead: `level` gives 0, and scores leave it out.
        """
        at_least(2, k=k)
        bounds = np.full((len(observations.services), k - 1), np.nan)
        for s, (name, rows) in enumerate(zip(observations.services, observations.by_service(), strict=True)):
            if len(rows) >= k:
                bounds[s] = np.quantile(observations.response_ms[rows], np.arange(1, k) / k)
            elif not skip_rare:
                raise InputError(
                    f"service '{name}' has {len(rows)} response times: {k} levels need at least {k}; "
                    "take fewer levels, more records, or leave such services out"
                )
        return cls(k, bounds)

    def level(self, service: Int, response_ms: Float) -> Int:
        """(n,) level 1..k of response times (n,) ms of services (n,); 0 if the service has no levels or ms is NaN.

        A response time equal to several bounds has the middle of the levels that they span.
        """
        service, response_ms = np.asarray(service), np.asarray(response_ms, dtype=np.float64)
        levels = np.zeros(len(service), dtype=np.int64)
        for s in np.unique(service[(service >= 0) & (service < len(self.bounds))]):
            if np.isnan(self.bounds[s, 0]):
                continue
            rows = np.flatnonzero((service == s) & ~np.isnan(response_ms))
            below, not_above = (np.searchsorted(self.bounds[s], response_ms[rows], side) for side in ("left", "right"))
            levels[rows] = 1 + (below + not_above + 1) // 2
        return levels


class MonitoredMachines(NamedTuple):
    """M machines, updated in place as batch instances start and end.

    Services stay where they are; those of machine m are rows `first[m] .. first[m + 1] - 1` of `service`.
    """

    cores: Float  # (M,) > 0
    memory: Float  # (M,) > 0, in the unit of batch instances' memory
    cpu: Float  # (M,) cores in use now, services and batch
    batch_cpu: Float  # (M,) cores in use by batch
    used_memory: Float  # (M,)
    composition: Int32  # (M, 60) batch instances by category
    last_report: Float  # (M,) second of the machine's last report
    first: Int  # (M + 1,)
    service: Int32  # (services on machines,)

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


def uniform_machines(composition: Int | Int32, services: int) -> MonitoredMachines:
    """M machines with the composition (M, 60), nothing else in use, and one instance of each of `services` services.

    >>> machines = uniform_machines(composition, len(score.services))  # doctest: +SKIP
    >>> score.of(machines, now=0.0)  # (M,) scores 0..100  # doctest: +SKIP
    """
    count = len(composition)
    machines = idle_machines(1.0, 1.0, np.arange(count + 1) * services, np.tile(np.arange(services), count))
    return machines._replace(composition=np.ascontiguousarray(composition, np.int32))
