"""The independent referee of plans: every replica, every capacity at every time, every affinity limit, from scratch.

It shares no code with planners or kernels and reads of an instance only what was given: replicas, demand, capacities
and the arcs i -> j (rows `start`, `to`, `limit`; the same arcs by j are the planners' own index).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.types import Int

TOLERANCE = 2e-9  # share of the capacity: twice what planners allow, as sums in another order differ
EXAMPLES = 5  # faults of each kind that are described


@dataclass(frozen=True)
class Verdict:
    """Counts of a plan and of its faults, and the first faults of each kind in words."""

    algorithm: str
    replicas: int
    placed: int
    whole: int  # applications all of whose replicas are on machines
    machines: int  # machines with at least one replica
    misplaced: int  # applications with too many or too few replicas, and rows that name no application or machine
    over_capacity: int  # combinations of machine, time and resource with demand above capacity
    broken_limits: int  # combinations of a machine and two applications with more replicas than their limit allows
    examples: tuple[str, ...]

    @property
    def missing(self) -> int:
        """Replicas that are on no machine: faults (`misplaced`) unless the fleet is fixed."""
        return self.replicas - self.placed

    @property
    def feasible(self) -> bool:
        """Whether no capacity is exceeded and no rule broken."""
        return self.misplaced == self.over_capacity == self.broken_limits == 0


class _Faults:
    def __init__(self) -> None:
        self.counts = {"misplaced": 0, "over_capacity": 0, "broken_limits": 0}
        self.examples: list[str] = []

    def add(self, kind: str, example: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= EXAMPLES:
            self.examples.append(example)


def validate(instance: Instance, fleet: Fleet, plan: Plan) -> Verdict:
    """Check a plan against its instance and fleet; faults are counted and described in the verdict, never raised.

    On a fixed fleet replicas may be left over. Loads may exceed capacities by the share `TOLERANCE`. Raises ValueError
    only if the plan's arrays differ in length; any numbers in them are allowed, and checked.

    >>> validate(instance, fleet, plan(instance, fleet, "FF")).feasible  # doctest: +SKIP
    True
    """
    faults = _Faults()
    placed, whole = _check_replicas(instance, fleet, plan, faults)
    if not faults.counts["misplaced"]:
        _check_capacity(instance, fleet, plan, faults)
        _check_affinity(instance, plan, faults)
    replicas, machines = int(instance.replicas.sum()), len(np.unique(plan.machine))
    return Verdict(plan.algorithm, replicas, placed, whole, machines, examples=tuple(faults.examples), **faults.counts)


def _check_replicas(instance: Instance, fleet: Fleet, plan: Plan, faults: _Faults) -> tuple[int, int]:
    """Check rows and numbers of replicas. Returns how many replicas, and how many whole applications, are placed."""
    rows = zip(plan.application.tolist(), plan.machine.tolist(), plan.replicas.tolist(), strict=True)
    counts, seen = [0] * len(instance), set()
    numbered = len(fleet.capacity) + int(instance.replicas.sum())  # no plan needs more
    last = len(fleet.capacity) if fleet.fixed else min(plan.machines, numbered)
    for row, (i, machine, replicas) in enumerate(rows):
        if not 0 <= i < len(instance):
            faults.add("misplaced", f"row {row}: there is no application {i}")
            continue
        if not 0 <= machine < last:
            faults.add("misplaced", f"row {row}: machine {machine} is not open: there are {last}")
        if replicas < 1:
            faults.add("misplaced", f"row {row}: {replicas} replicas")
        if (i, machine) in seen:
            faults.add("misplaced", f"row {row}: application '{instance.application[i]}' on machine {machine} again")
        seen.add((i, machine))
        counts[i] += replicas
    placed = whole = 0
    for i, (has, found) in enumerate(zip(instance.replicas.tolist(), counts, strict=True)):
        placed += min(has, found)
        whole += found == has
        if found > has or (found < has and not fleet.fixed):
            name = instance.application[i]
            faults.add("misplaced", f"application '{name}': {found} replicas placed, it has {has}")
    return placed, whole


def fragments(instance: Instance, fleet: Fleet, plan: Plan) -> int:
    """Machines of a fixed fleet that are left less of something than the least any application needs (Eq. 16, 17 of
    the LRASched paper: Q_n = 0)."""
    whole = np.ones(len(fleet.capacity), dtype=bool)
    for h, d in np.ndindex(instance.demand.shape[1:]):
        load = np.zeros(len(whole))
        np.add.at(load, plan.machine, plan.replicas * instance.demand[plan.application, h, d])
        whole &= load + instance.demand[:, h, d].min() <= fleet.capacity[:, d] * (1 + TOLERANCE)
    return int(len(whole) - whole.sum())


def utilisation(instance: Instance, fleet: Fleet, plan: Plan) -> float:
    """Share of a fixed fleet that is reserved: the mean over times of 1 - R_free / R_total (LRASched, 4.2.1).

    Capacities of different resources are added up as they are: they should be shares of one machine.
    """
    reserved = plan.replicas @ instance.demand[plan.application].sum(axis=2)  # (H,)
    return float(reserved.mean() / fleet.capacity.sum())


def _check_capacity(instance: Instance, fleet: Fleet, plan: Plan, faults: _Faults) -> None:
    """Load of every machine, one time and resource after the other."""
    capacity = fleet.rows(plan.machines)
    for h in range(instance.demand.shape[1]):
        for d, resource in enumerate(instance.resources):
            demand = plan.replicas * instance.demand[plan.application, h, d]
            load = np.bincount(plan.machine, weights=demand, minlength=plan.machines)
            for machine in np.flatnonzero(load > capacity[:, d] * (1 + TOLERANCE)).tolist():
                faults.add(
                    "over_capacity",
                    f"machine {machine}, time {h}: {resource} {load[machine]:g} of {capacity[machine, d]:g}",
                )


def _check_affinity(instance: Instance, plan: Plan, faults: _Faults) -> None:
    """Check the limits of each application against everything on the machines that hold it."""
    arcs, by_machine = instance.affinity, np.argsort(plan.machine, kind="stable")
    begin = np.searchsorted(plan.machine[by_machine], np.arange(plan.machines + 1))
    limit_of = np.full(len(instance), np.iinfo(np.int64).max)
    for i, machines in _machines_of(plan):
        row = slice(arcs.start[i], arcs.start[i + 1])
        if row.stop == row.start:
            continue
        limit_of[arcs.to[row]] = arcs.limit[row]
        beside = np.concatenate([by_machine[begin[machine] : begin[machine + 1]] for machine in machines])
        limits = limit_of[plan.application[beside]]
        for at in beside[plan.replicas[beside] > limits].tolist():
            j, machine = int(plan.application[at]), int(plan.machine[at])
            faults.add(
                "broken_limits",
                f"machine {machine}: {plan.replicas[at]} replicas of '{instance.application[j]}' beside "
                f"'{instance.application[i]}', which allows {limit_of[j]}",
            )
        limit_of[arcs.to[row]] = np.iinfo(np.int64).max


def _machines_of(plan: Plan) -> Iterator[tuple[int, Int]]:
    """Each application that is placed, with its machines."""
    if not len(plan.application):
        return
    order = np.argsort(plan.application, kind="stable")
    applications, first = np.unique(plan.application[order], return_index=True)
    yield from zip(applications.tolist(), np.split(plan.machine[order], first[1:]), strict=True)
