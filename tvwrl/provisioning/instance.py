"""A provisioning problem: applications, their replicas, what each needs, and which must not crowd one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.types import Float, InputError, Int, Strings


@dataclass(frozen=True, eq=False)
class Affinity:
    """Affinity limits a_ij of ordered pairs of A applications, as compressed sparse rows in both directions.

    On a machine that holds any replica of i there are at most a_ij replicas of j (paper 001, Eq. 2). Both directions
    bind: what is on a machine limits what comes, and what comes must allow what is there.
    """

    start: Int  # (A + 1,) arcs of i are `start[i] .. start[i + 1] - 1` of the next two, in order of input
    to: Int  # (E,) j
    limit: Int  # (E,) a_ij >= 0
    into_start: Int  # (A + 1,) the same arcs by j
    into: Int  # (E,) i
    into_limit: Int  # (E,) a_ij

    @classmethod
    def of(cls, applications: int, i: Int, j: Int, limit: Int) -> Affinity:
        """From E arcs (i, j, a_ij). Raises InputError for unknown applications, negative limits, and pairs twice."""
        for what, ends in (("i", i), ("j", j)):
            wrong = np.flatnonzero((ends < 0) | (ends >= applications))
            if wrong.size:
                raise InputError(
                    f"affinity {wrong[0]}: {what} is {ends[wrong[0]]}: must be 0 to {applications - 1}, an application"
                )
        if (limit < 0).any():
            row = int(np.argmax(limit < 0))
            raise InputError(f"affinity {row}: limit is {limit[row]}: must be at least 0")
        key = np.sort(i * np.int64(applications) + j)
        if (twice := key[1:][key[1:] == key[:-1]]).size:
            pair = divmod(int(twice[0]), applications)
            raise InputError(f"affinity between applications {pair[0]} and {pair[1]} is given twice")
        rows, columns = (np.argsort(ends, kind="stable") for ends in (i, j))
        return cls(
            _starts(i, applications),
            j[rows].astype(np.int64),
            limit[rows].astype(np.int64),
            _starts(j, applications),
            i[columns].astype(np.int64),
            limit[columns].astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.to)


@dataclass(frozen=True, eq=False)
class Instance:
    """A applications of several replicas each. Demand is of one replica, at H times (H = 1: its maximum)."""

    name: str
    application: Strings  # (A,) names, unique
    replicas: Int  # (A,) >= 1
    demand: Float  # (A, H, D) in the units of capacity (cores, GiB), >= 0, of one replica
    resources: tuple[str, ...]  # (D,)
    affinity: Affinity

    def __post_init__(self) -> None:
        if len(self.application) == 0:
            raise InputError(f"instance '{self.name}' has no applications")
        self._need(self.replicas >= 1, "replicas", self.replicas, "at least 1")
        good = np.isfinite(self.demand) & (self.demand >= 0)
        self._need(np.asarray(good.all(axis=(1, 2))), "demand", np.nanmin(self.demand, axis=(1, 2)), "a number >= 0")
        names, counts = np.unique(self.application.astype(str), return_counts=True)
        if (counts > 1).any():
            raise InputError(f"application '{names[np.argmax(counts)]}' is given {counts.max()} times")

    def _need(self, good: npt.NDArray[np.bool_], field: str, values: npt.NDArray[Any], limit: str) -> None:
        if not good.all():
            wrong = int(np.argmin(good))
            raise InputError(f"{field} of application '{self.application[wrong]}' is {values[wrong]}: must be {limit}")

    def __len__(self) -> int:
        return len(self.application)

    @cached_property
    def peak(self) -> Float:
        """(A, D) largest demand of one replica."""
        peak: Float = self.demand.max(axis=1)
        return peak

    @cached_property
    def total(self) -> Float:
        """(H, D) demand of all replicas together."""
        total: Float = np.einsum("a,ahd->hd", self.replicas.astype(np.float64), self.demand)
        return total


@dataclass(frozen=True)
class Fleet:
    """Machines to plan with, in the order in which they are opened.

    Machines beyond the last row are like the last one, without end, unless `fixed`: then there are no others, and
    planners place as many replicas as they can (Section 7).
    """

    capacity: Float  # (F, D) > 0
    fixed: bool = False

    @classmethod
    def of(cls, capacity: Sequence[float]) -> Fleet:
        """As many machines of one kind as it takes."""
        return cls(np.array([capacity], dtype=np.float64))

    def __post_init__(self) -> None:
        if self.capacity.ndim != 2 or not self.capacity.size:
            raise InputError("a fleet needs at least one machine")
        if not (np.isfinite(self.capacity) & (self.capacity > 0)).all():
            raise InputError(f"capacity is {self.capacity.tolist()}: must be numbers > 0")

    def rows(self, machines: int) -> Float:
        """(machines, D) capacities of the first so many."""
        rows: Float = self.capacity[np.minimum(np.arange(machines), len(self.capacity) - 1)]
        return rows


def check_fits(instance: Instance, fleet: Fleet) -> None:
    """Raise InputError, naming the first, if an application is larger than every machine of the fleet."""
    room = np.any(np.all(instance.peak[:, None] <= fleet.capacity[None], axis=2), axis=1)
    if not room.all():
        wrong = int(np.argmin(room))
        peak = ", ".join(f"{value:g}" for value in instance.peak[wrong])
        largest = ", ".join(f"{value:g}" for value in fleet.capacity.max(axis=0))
        raise InputError(
            f"application '{instance.application[wrong]}' needs {peak} ({', '.join(instance.resources)}) per replica: "
            f"larger than every machine ({largest})"
        )


def _starts(ends: Int, applications: int) -> Int:
    return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=applications))]).astype(np.int64)
