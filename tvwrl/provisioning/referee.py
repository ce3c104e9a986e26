"""The independent referee of plans: every replica, every capacity at every time, every affinity limit, from scratch.

It shares no code with planners or kernels and reads of an instance only what was given: replicas, demand, capacities
and the arcs i -> j (rows `start`, `to`, `limit`; the same arcs by j are the planners' own index).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tvwrl.provisioning.instance import Fleet, Instance
from tvwrl.provisioning.plan import Plan
from tvwrl.types import Int

TOLERANCE = 2e-9  # share of the capacity: twice what planners allow, as sums in another order differ
EXAMPLES = 5  # faults of each kind that are told


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a plan: how often, and the first few in words."""

    algorithm: str
    machines: int  # that hold a replica
    missing: int  # replicas that are on no machine
    whole: int  # applications all of whose replicas are on machines
    replicas: int  # applications with more replicas than they have, and rows that cannot be
    capacity: int  # (machine, time, resource) above capacity
    affinity: int  # (machine, i, j) above the limit
    examples: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether nothing is wrong; missing replicas are wrong unless the fleet is fixed, where `missing` tells."""
        return not (self.replicas or self.capacity or self.affinity)


class _Faults:
    def __init__(self) -> None:
        self.counts = {"replicas": 0, "capacity": 0, "affinity": 0}
        self.examples: list[str] = []

    def add(self, kind: str, example: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= EXAMPLES:
            self.examples.append(example)


def validate(instance: Instance, fleet: Fleet, plan: Plan) -> Verdict:
    """Check a plan against its instance and fleet."""
    faults = _Faults()
    missing, whole = _check_replicas(instance, fleet, plan, faults)
    if not faults.counts["replicas"]:
        _check_capacity(instance, fleet, plan, faults)
        _check_affinity(instance, plan, faults)
    machines = len(np.unique(plan.machine))
    return Verdict(plan.algorithm, machines, missing, whole, examples=tuple(faults.examples), **faults.counts)


def _check_replicas(instance: Instance, fleet: Fleet, plan: Plan, faults: _Faults) -> tuple[int, int]:
    """Rows that can be, each application with what it has; returns replicas that are nowhere, whole applications."""
    rows = zip(plan.application.tolist(), plan.machine.tolist(), plan.replicas.tolist(), strict=True)
    placed, seen = [0] * len(instance), set()
    numbered = len(fleet.capacity) + int(instance.replicas.sum())  # nobody needs more
    last = len(fleet.capacity) if fleet.fixed else min(plan.machines, numbered)
    for row, (i, machine, replicas) in enumerate(rows):
        if not 0 <= i < len(instance):
            faults.add("replicas", f"row {row}: there is no application {i}")
            continue
        if not 0 <= machine < last:
            faults.add("replicas", f"row {row}: machine {machine} is not open: there are {last}")
        if replicas < 1:
            faults.add("replicas", f"row {row}: {replicas} replicas")
        if (i, machine) in seen:
            faults.add("replicas", f"row {row}: application '{instance.application[i]}' on machine {machine} again")
        seen.add((i, machine))
        placed[i] += replicas
    missing = whole = 0
    for i, (has, found) in enumerate(zip(instance.replicas.tolist(), placed, strict=True)):
        missing += max(has - found, 0)
        whole += found == has
        if found > has or (found < has and not fleet.fixed):
            name = instance.application[i]
            faults.add("replicas", f"application '{name}': {found} replicas placed, it has {has}")
    return missing, whole


def fragments(instance: Instance, fleet: Fleet, plan: Plan) -> int:
    """Machines of a fixed fleet that are left less of something than the least any application needs (Eq. 16, 17 of
    paper 000: Q_n = 0)."""
    whole = np.ones(len(fleet.capacity), dtype=bool)
    for h, d in np.ndindex(instance.demand.shape[1:]):
        load = np.zeros(len(whole))
        np.add.at(load, plan.machine, plan.replicas * instance.demand[plan.application, h, d])
        whole &= load + instance.demand[:, h, d].min() <= fleet.capacity[:, d] * (1 + TOLERANCE)
    return int(len(whole) - whole.sum())


def utilisation(instance: Instance, fleet: Fleet, plan: Plan) -> float:
    """Share of a fixed fleet that is reserved: the mean over times of 1 - R_free / R_total (paper 000, Section 4.2.1).

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
                    "capacity",
                    f"machine {machine}, time {h}: {resource} {load[machine]:g} of {capacity[machine, d]:g}",
                )


def _check_affinity(instance: Instance, plan: Plan, faults: _Faults) -> None:
    """For each application its limits, looked up for all that is on the machines that hold it."""
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
                "affinity",
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
