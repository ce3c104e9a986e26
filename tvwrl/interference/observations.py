"""What monitoring records, which is all a score may know: response times of services, batch work on their machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.types import Float, InputError, Int

CATEGORIES = 60  # 3 classes of CPU x 5 of memory x 4 of makespan (Section 5.2.2)
COLUMNS = ("seconds", "machine", "service", "response_ms", "composition", "batch_cpu")  # fields with a row per record


@dataclass(frozen=True, eq=False)
class Observations:
    """N records, each of one service on one machine at one time."""

    seconds: Float  # (N,) when, from the beginning of the recording
    machine: Int  # (N,) >= 0
    service: Int  # (N,) index into `services`
    response_ms: Float  # (N,) > 0, mean response time of the service's instance there, then
    composition: Int  # (N, CATEGORIES) batch instances on the machine, >= 0
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

    def _check(self, name: str, right: npt.NDArray[np.bool_], limit: str) -> None:
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

    def only(self, rows: Int | npt.NDArray[np.bool_]) -> Observations:
        """The records `rows`: (n,) indices or (N,) bool."""
        parts: dict[str, Any] = {name: getattr(self, name)[rows] for name in COLUMNS}
        return replace(self, **parts)

    def and_then(self, later: Observations) -> Observations:
        """These records and `later` ones of the same services."""
        parts: dict[str, Any] = {name: np.concatenate([getattr(self, name), getattr(later, name)]) for name in COLUMNS}
        return replace(self, **parts)
