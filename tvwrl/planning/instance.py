"""A provisioning problem: applications, their replicas, what each needs, and which must not crowd one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.checks import at_least, below
from tvwrl.types import Float, InputError, Int, Strings, size_of, summary

Int32 = npt.NDArray[np.int32]

NO_LIMIT = np.iinfo(np.int32).max  # replicas per machine where no affinity limits them
NO_ARCS = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class Affinity:
    """Affinity limits a_ij of ordered pairs of A applications, as compressed sparse rows in both directions.

    On a machine that holds any replica of i there are at most a_ij replicas of j (Eq. 2). Both directions
    bind: what is on a machine limits what comes, and what comes must allow what is there. An arc from i to itself is
    the same rule with j = i, a *self limit*: at most a_ii >= 1 replicas of i on any machine.
    """

    start: Int  # (A + 1,) arcs of i are `start[i] .. start[i + 1] - 1` of the next two, in order of input
    to: Int32  # (E,) j
    limit: Int32  # (E,) a_ij >= 0, a_ii >= 1
    into_start: Int  # (A + 1,) the same arcs by j
    into: Int32  # (E,) i
    into_limit: Int32  # (E,) a_ij

    @classmethod
    def of(
        cls,
        applications: int,
        i: npt.NDArray[np.integer[Any]] = NO_ARCS,
        j: npt.NDArray[np.integer[Any]] = NO_ARCS,
        limit: npt.NDArray[np.integer[Any]] = NO_ARCS,
        place: Callable[[int], str] = "affinity {}".format,
    ) -> Affinity:
        """From E arcs (i, j, a_ij); `place` says in messages where an arc was found.

        Raises InputError for unknown applications, negative limits, self limits of 0, and pairs given twice.
        """
        from tvwrl.planning.sources.affinity_kernels import first_twice

        for what, ends in (("i", i), ("j", j)):
            wrong = np.flatnonzero((ends < 0) | (ends >= applications))
            if wrong.size:
                raise InputError(f"{place(int(wrong[0]))}: {what} is {ends[wrong[0]]}: must be 0 to {applications - 1}")
        low = (limit < 0) | (limit >= NO_LIMIT) | (limit == 0) & (i == j)
        if low.any():
            arc = int(np.argmax(low))
            least = "1 for an application and itself" if i[arc] == j[arc] else "0"
            raise InputError(f"{place(arc)}: limit is {limit[arc]}: must be at least {least}")
        order = np.argsort(i, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=applications))])
        to = j[order].astype(np.int32, copy=False)
        if (twice := first_twice(start, to)) >= 0:
            raise InputError(f"{place(int(order[twice]))}: the limit of these two applications is given a second time")
        return cls.of_rows(start, to, limit[order].astype(np.int32, copy=False))

    @classmethod
    def of_rows(cls, start: Int, to: Int32, limit: Int32) -> Affinity:
        """From compressed sparse rows that are known to be good: nothing is checked, nothing copied."""
        from scipy.sparse import csr_array

        into = csr_array((limit, to, start.astype(np.int32)), shape=(len(start) - 1,) * 2).tocsc()
        return cls(start, to, limit, into.indptr.astype(np.int64), into.indices, into.data)

    def __len__(self) -> int:
        return len(self.to)

    def __repr__(self) -> str:
        return summary(self, applications=len(self.start) - 1, limits=len(self))

    @property
    def origin(self) -> Int32:
        """(E,) i of each arc, as `to` is its j."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    @cached_property
    def own(self) -> Int32:
        """(A,) most replicas of each application on one machine by its self limit; NO_LIMIT without one."""
        from tvwrl.packing.affinity import own_limits

        own: Int32 = own_limits(self.start, self.to, self.limit)
        return own


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

    def __repr__(self) -> str:
        sizes = {"applications": len(self), "replicas": int(self.replicas.sum()), "limits": len(self.affinity)}
        return summary(self, name=self.name, **sizes, times=self.demand.shape[1], resources=self.resources)

    def only(self, which: Int) -> Instance:
        """The applications `which` (n,) alone, with the limits among them."""
        place = np.full(len(self), -1)
        place[which] = np.arange(len(which))
        i, j = place[self.affinity.origin], place[self.affinity.to]
        both = (i >= 0) & (j >= 0)
        return replace(
            self,
            application=self.application[which],
            replicas=self.replicas[which],
            demand=self.demand[which],
            affinity=Affinity.of(len(which), i[both], j[both], self.affinity.limit[both]),
        )

    @property
    def density(self) -> float:
        """Affinity limits by ordered pairs of different applications, 0 to 1 (a little more with self limits)."""
        pairs = len(self) * (len(self) - 1)
        return len(self.affinity) / pairs if pairs else 0.0

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
    cost: Float | None = None  # (F,) > 0 of each machine that is used; None: 1 each

    @classmethod
    def of(cls, capacity: Sequence[float]) -> Fleet:
        """As many machines of one kind as it takes."""
        return cls(np.array([capacity], dtype=np.float64))

    @classmethod
    def of_kinds(
        cls,
        kinds: Sequence[Sequence[float]],
        count: Sequence[int] = (),
        fixed: bool = False,
        slack: float = 0.0,
        cost: Sequence[float] | None = None,
    ) -> Fleet:
        """`count` machines of each of these kinds in turn, by default one; of each, `slack` (0 to below 1) is reserved.

        `cost` is that of one machine of each kind. Raises InputError for kinds of different resources, counts that are
        too few, or below 1, and costs that are too few, or not above 0.
        """
        if not kinds:
            raise InputError("no machine is given: give its capacity, one number per resource, as in 64 128")
        if len({len(kind) for kind in kinds}) > 1:
            raise InputError(f"machine: {', '.join(map(str, kinds))}: must all have the same resources")
        if count and len(count) != len(kinds):
            raise InputError(f"count has {len(count)} numbers: must be {len(kinds)}, one for each machine given")
        at_least(1, count=count)
        below(1, slack=slack)
        rows = np.array(kinds, dtype=np.float64) * (1.0 - slack)
        if cost is not None and len(cost) != len(kinds):
            raise InputError(f"cost has {len(cost)} numbers: must be {len(kinds)}, one for each machine given")
        costs = None if cost is None else np.repeat(np.array(cost, dtype=np.float64), count or 1)
        return cls(np.repeat(rows, count or 1, axis=0), fixed, costs)

    def __post_init__(self) -> None:
        if self.capacity.ndim != 2 or not self.capacity.size:
            raise InputError("a fleet needs at least one machine")
        if not (np.isfinite(self.capacity) & (self.capacity > 0)).all():
            raise InputError(f"capacity is {self.capacity.tolist()}: must be numbers > 0")
        if self.cost is not None and not (np.isfinite(self.cost) & (self.cost > 0)).all():
            raise InputError(f"cost is {np.unique(self.cost).tolist()}: must be numbers > 0")

    def __repr__(self) -> str:
        return summary(self, **size_of(self.capacity), fixed=self.fixed)

    @cached_property
    def costs(self) -> Float:
        """(F,) of each machine that is used."""
        return np.ones(len(self.capacity)) if self.cost is None else self.cost

    def first(self, machines: int) -> Fleet:
        """The first so many of those listed, and no others."""
        return Fleet(self.capacity[:machines], True, None if self.cost is None else self.cost[:machines])

    def rows(self, machines: int) -> Float:
        """(machines, D) capacities of the first so many."""
        rows: Float = self.capacity[np.minimum(np.arange(machines), len(self.capacity) - 1)]
        return rows


def check_fits(instance: Instance, fleet: Fleet, source: str = "") -> None:
    """Raise InputError, naming the first (and its `source`), if an application is larger than every machine."""
    from tvwrl.packing.fit import fits

    resources = ", ".join(instance.resources)
    if fleet.capacity.shape[1] != len(instance.resources):
        given, needed = fleet.capacity.shape[1], len(instance.resources)
        raise InputError(f"machine has {given} number{'s' * (given != 1)}: must be {needed} ({resources})")
    room = fits(instance.peak[:, None], fleet.capacity, fleet.capacity).any(axis=1)
    if not room.all():
        wrong = int(np.argmin(room))
        peak = ", ".join(f"{value:g}" for value in instance.peak[wrong])
        largest = ", ".join(f"{value:g}" for value in fleet.capacity.max(axis=0))
        raise InputError(
            f"{source or instance.name}, row {wrong + 1}: application '{instance.application[wrong]}' needs {peak} "
            f"({resources}) per replica: larger than every machine ({largest})"
        )
