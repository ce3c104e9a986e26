"""An instance and a fleet in the arrays of the packing core: flat dimensions, busiest first, and empty packings."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.planning.bounds_on_machines import by_volume
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.types import Float, Int


class PackingProblem:
    """What all planners of one instance and fleet share. K = H x D dimensions; the busiest are tested first."""

    capacity: Float  # (K,) largest of the fleet: what demand and residual are shares of
    kinds: Float  # (F, K) capacity of the fleet's machines
    demand: Float  # (A, K)
    replicas: npt.NDArray[np.int32]  # (A,)
    total: Float  # (K,) demand of all replicas
    busy: Int  # (K,) which dimension of (H, D), flat, each is

    def __init__(self, instance: Instance, fleet: Fleet) -> None:
        self.instance, self.fleet = instance, fleet
        times, resources = instance.demand.shape[1:]
        kinds = np.tile(fleet.capacity, (1, times))
        self.busy = busy = np.argsort(-instance.total.ravel() / kinds.max(axis=0), kind="stable")
        self.kinds = np.ascontiguousarray(kinds[:, busy])
        self.capacity = self.kinds.max(axis=0)
        self.demand = np.ascontiguousarray(instance.demand.reshape(-1, times * resources)[:, busy])
        self.replicas = instance.replicas.astype(np.int32)
        self.total = instance.total.ravel()[busy]

    @cached_property
    def needed(self) -> Float:
        """(A, K) what a machine must have left for one replica: see `packing.fit.needed`."""
        from tvwrl.packing import needed

        return needed(self.demand, self.kinds)

    @cached_property
    def applications(self) -> Any:
        """`packing.affinity.Applications`."""
        from tvwrl.packing import Applications

        arcs = self.instance.affinity
        into = arcs.into_start, arcs.into, arcs.into_limit
        return Applications(self.demand, self.needed, self.replicas, arcs.own, arcs.start, arcs.to, arcs.limit, *into)

    @cached_property
    def degree(self) -> Int:
        """(A,) applications linked with each by affinity, in either direction."""
        from tvwrl.packing import degrees

        degree: Int = degrees(self.applications)
        return degree

    @cached_property
    def sizes(self) -> Any:
        """`packing.filling.Sizes`: applications by equal demand."""
        from tvwrl.packing import Sizes, needed

        demand, of = np.unique(self.demand, axis=0, return_inverse=True)
        member = np.argsort(of.ravel(), kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(of.ravel()))])
        rank = np.argsort(member[first[:-1]], kind="stable")  # sizes in the order of input of their first member
        start = np.concatenate([[0], np.cumsum(np.diff(first)[rank])])
        member = np.concatenate([member[first[g] : first[g + 1]] for g in rank])
        demand = np.ascontiguousarray(demand[rank])
        share: Any = np.ascontiguousarray((demand.astype(np.float32) / self.capacity.astype(np.float32)).T)
        size = np.empty(len(member), np.int64)
        size[member] = np.repeat(np.arange(len(demand)), np.diff(start))
        asked: Any = (demand > 0).all(axis=0)
        return Sizes(demand, needed(demand, self.kinds), start, member, size, share, asked)

    @property
    def most_machines(self) -> int:
        """Machines that a plan can open: all of a fixed fleet, else one for every replica beyond those listed."""
        listed = len(self.kinds)
        return listed if self.fleet.fixed else listed - 1 + int(self.replicas.sum())

    @cached_property
    def fewest_machines(self) -> int:
        """Eq. 4, and not more than a fixed fleet has."""
        needed = by_volume(self.instance, self.fleet)
        return min(needed, len(self.kinds)) if self.fleet.fixed else needed

    def packing(self, machines: int, opened: bool = False) -> Any:
        """An empty `packing.affinity.Packing` of at most `machines`, all open or none."""
        from tvwrl.packing import UNLIMITED, Packing

        count = int(self.replicas.sum())
        residual = np.empty((machines, len(self.capacity)))  # rows of machines that stay closed cost no memory
        if opened:
            residual[:] = self.kinds[np.minimum(np.arange(machines), len(self.kinds) - 1)]
        return Packing(
            capacity=self.kinds,
            residual=residual,
            open=np.array([machines if opened else 0]),
            left=self.replicas.copy(),
            first=np.concatenate([[0], np.cumsum(self.replicas, dtype=np.int64)]),
            used=np.zeros(len(self.replicas), np.int32),
            most=np.zeros(len(self.replicas), np.int32),
            machine=np.empty(count, np.int32),
            count=np.empty(count, np.int32),
            cap=np.full(machines, UNLIMITED, np.int32),
            held=np.zeros(machines, np.int32),
        )

    def ordering(self, packing: Any, measure: Any, emptiest_first: bool, full_last: bool = True) -> Any:
        """A `packing.orders.Ordering` of the open machines of a packing."""
        from tvwrl.packing import Ordering, refresh, weights

        machines, opened = len(packing.residual), int(packing.open[0])
        total = packing.residual[:opened].sum(axis=0)
        ordering = Ordering(
            measure=measure,
            sign=1.0 if emptiest_first else -1.0,
            capacity=self.capacity,
            total=total,
            weight=weights(measure, total, max(opened, 1), self.capacity),
            count=np.array([opened]),
            middle=np.zeros(1, np.int64),
            least=self.needed.min(axis=0, keepdims=True) if full_last else np.full((1, len(total)), -np.inf),
            old=np.zeros(1, np.bool_),
            order=np.arange(machines, dtype=np.int32),
            key=np.zeros(machines),
            spare_order=np.empty(machines, np.int32),
            spare_key=np.empty(machines),
        )
        if opened:
            refresh(ordering, packing, 0, True)
        return ordering

    def probes(self, packing: Any) -> Any:
        """`packing.best_fit.Probes` of an empty packing."""
        from tvwrl.packing import Probes

        machines = len(packing.residual)
        return Probes(np.empty(machines, np.int64), np.empty((machines, 2)))

    def queue(self, packing: Any) -> Any:
        """`packing.filling.Queue` of the applications with replicas left, in order of input."""
        from tvwrl.packing import Queue

        count, left = len(self.replicas), np.flatnonzero(packing.left)
        order, spare = np.empty((2, count), np.int32)
        order[count - len(left) :] = left
        numbers = np.empty((4, count), np.int64)
        begin, first = np.array([count - len(left)]), np.array([count])
        return Queue(order, begin, numbers[0], numbers[1], first, spare, numbers[2], numbers[3])

    def pairs(self, packing: Any) -> Any:
        """`packing.matching.Pairs` of the open machines of an empty packing."""
        from tvwrl.packing import UNLIMITED, Pairs

        machines, applications = len(packing.residual), len(self.replicas)
        total = packing.residual.sum(axis=0)
        return Pairs(
            heap=np.empty(machines, np.int32),
            size=np.zeros(1, np.int64),
            value=np.empty(machines),
            best=np.empty(machines, np.int32),
            top=np.full(machines, -1, np.int32),
            below=np.empty(len(packing.machine), np.int32),
            whose=np.empty(len(packing.machine), np.int32),
            total=total,
            frozen=total.copy(),
            head=self.sizes.start[:-1].copy(),
            cap=np.full(applications, UNLIMITED, np.int32),
            here=np.zeros(applications, np.int32),
            touched=np.empty(applications, np.int32),
            scores=np.empty(len(self.sizes.demand)),
            pull=np.empty(len(self.capacity)),
        )
