"""Validates assignments: counts violations and machines in use from the machine of every replica.

Independent of the schedulers: it shares no code with them and reads only the problem as given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.flow.problem import NOWHERE, Problem
from tvwrl.types import Float, InputError, Int

TOLERANCE = 2e-9  # share of the capacity: twice what planners allow, as sums in another order differ


@dataclass(frozen=True, eq=False)
class Verdict:
    """Counts of an assignment; the efficiency of a machine is its demand as a share of capacity, a mean over times."""

    replicas: int
    placed: int
    violations: int  # replicas that break a constraint: above_limits + apart
    above_limits: int  # replicas of j beyond a_ij beside i, each counted once
    apart: int  # placed replicas of bundle copies that are not whole on one machine
    over_capacity: int  # combinations of machine, time and resource with demand above capacity
    machines: int  # machines with at least one replica
    efficiency: Float  # (machines, D) of machines in use, by increasing number

    @property
    def feasible(self) -> bool:
        """Whether no capacity is exceeded and no constraint broken; replicas may be without a machine."""
        return self.violations == self.over_capacity == 0


def validate(problem: Problem, machine: Int) -> Verdict:
    """Check `machine` (R,), the machine of every replica or NOWHERE, against the problem.

    Raises InputError for another length and for machines that do not exist.

    >>> verdict = validate(problem, assignment.machine)  # doctest: +SKIP
    """
    replicas, machines = len(problem.application), len(problem.fleet.capacity)
    if machine.shape != (replicas,):
        raise InputError(f"machine has shape {machine.shape}: must be ({replicas},), one for each replica")
    if (wrong := (machine < NOWHERE) | (machine >= machines)).any():
        raise InputError(
            f"replica {np.argmax(wrong)} is on machine {machine[wrong][0]}: must be {NOWHERE} or below {machines}"
        )
    there = np.flatnonzero(machine != NOWHERE)
    above, apart = _above_limits(problem, machine[there], problem.application[there]), _apart(problem, machine)
    load = np.zeros((machines, *problem.instance.demand.shape[1:]))
    np.add.at(load, machine[there], problem.instance.demand[problem.application[there]])
    over = int((load > problem.fleet.capacity[:, None] * (1 + TOLERANCE)).sum())
    used = np.unique(machine[there])
    efficiency = load[used].mean(axis=1) / problem.fleet.capacity[used]
    return Verdict(replicas, len(there), above + apart, above, apart, over, len(used), efficiency)


def _above_limits(problem: Problem, machine: Int, application: Int) -> int:
    """Replicas of j beyond a_ij on machines that hold i; a replica beyond several limits counts once."""
    arcs, applications = problem.instance.affinity, len(problem.instance)
    pair, count = np.unique(application * len(problem.fleet.capacity) + machine, return_counts=True)
    who, where = np.divmod(pair, len(problem.fleet.capacity))
    begin = np.searchsorted(who, np.arange(applications + 1))
    held = np.zeros(len(problem.fleet.capacity), dtype=bool)
    found: list[tuple[Int, Int]] = []  # rows of `pair`, and replicas too many
    for i in np.flatnonzero(np.diff(arcs.start) * np.diff(begin)).tolist():
        held[where[begin[i] : begin[i + 1]]] = True
        for j, limit in zip(
            *(ends[arcs.start[i] : arcs.start[i + 1]].tolist() for ends in (arcs.to, arcs.limit)), strict=True
        ):
            rows = np.arange(begin[j], begin[j + 1])
            wrong = rows[held[where[rows]] & (count[rows] > limit)]
            if len(wrong):
                found.append((wrong, count[wrong] - limit))
        held[where[begin[i] : begin[i + 1]]] = False
    excess = np.zeros(len(pair), dtype=np.int64)
    for rows, too_many in found:
        excess[rows] = np.maximum(excess[rows], too_many)
    return int(excess.sum())


def _apart(problem: Problem, machine: Int) -> int:
    """Placed replicas of bundle copies that are neither all on one machine nor all NOWHERE."""
    bundles, apart = problem.bundles, 0
    for b in range(len(bundles)):
        rows = range(int(bundles.start[b]), int(bundles.start[b + 1]))
        members = [
            machine[problem.first[i] : problem.first[i + 1]].reshape(-1, n)
            for i, n in ((int(bundles.member[row]), int(bundles.count[row])) for row in rows)
        ]
        copies = np.concatenate(members, axis=1)
        split = (copies != copies[:, :1]).any(axis=1)
        apart += int((copies[split] != NOWHERE).sum())
    return apart
