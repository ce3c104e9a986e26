"""The independent referee of paper 002: counts what a placement breaks and uses, from the machine of every replica.

It shares no code with what places, and reads of a problem only what was given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.flow.problem import NOWHERE, Problem
from tvwrl.types import Float, InputError, Int

TOLERANCE = 2e-9  # share of the capacity; twice what planners allow, for sums in another order


@dataclass(frozen=True, eq=False)
class Verdict:
    """What came of a placement. Efficiency of a machine: share of its capacity that is demanded, mean over times."""

    replicas: int
    placed: int
    violations: (
        int  # replicas that break a constraint: more than a limit allows, or not all of a bundle's copy together
    )
    above_limits: int  # of these, replicas of j above a_ij beside i, each counted once
    apart: int  # of these, those of copies that are not whole on one machine
    over_capacity: int  # (machine, time, resource) above capacity
    machines: int  # that hold a replica
    efficiency: Float  # (machines, D) of machines in use, rising by machine number


def validate(problem: Problem, machine: Int) -> Verdict:
    """Check `machine` (R,), the machine of every replica or NOWHERE, against its problem.

    Raises InputError if it has another length or names machines that do not exist.
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
    """Replicas of j above a_ij on machines that hold i; one too many for several i counts once."""
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
    """Replicas of bundles' copies that are not all on one machine, nor all nowhere."""
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
