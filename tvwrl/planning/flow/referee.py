"""Validates assignments: counts violations and machines in use from the machine of every replica.

Independent of the planners: it shares no code with them and reads only the problem as given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.planning.problem import NOWHERE, PlacementProblem
from tvwrl.types import Float, InputError, Int

TOLERANCE = 2e-9  # share of the capacity: twice what planners allow, as sums in another order differ
EXAMPLES = 5  # faults of each kind that are described

Faults = list[tuple[int, str]]  # how many replicas are wrong, or 1, and what is wrong, in words


@dataclass(frozen=True, eq=False)
class Verdict:
    """Counts of an assignment; the efficiency of a machine is its demand as a share of capacity, a mean over times."""

    replicas: int
    placed: int
    violating_replicas: int  # those that break a constraint: replicas_above_limits + replicas_apart
    replicas_above_limits: int  # replicas of j beyond a_ij beside i, each counted once
    replicas_apart: int  # placed replicas of bundle copies that are not whole on one machine
    over_capacity: int  # combinations of machine, time and resource with demand above capacity
    machines: int  # machines with at least one replica
    efficiency: Float  # (machines, D) of machines in use, by increasing number
    examples: tuple[str, ...]  # the first faults of each kind in words: capacities, limits, groups

    @property
    def feasible(self) -> bool:
        """Whether no capacity is exceeded and no constraint broken; replicas may be without a machine."""
        return self.violating_replicas == self.over_capacity == 0


def validate(problem: PlacementProblem, machine: Int) -> Verdict:
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
    load = np.zeros((machines, *problem.instance.demand.shape[1:]))
    np.add.at(load, machine[there], problem.instance.demand[problem.application[there]])
    faults = (
        _over_capacity(problem, load),
        _above_limits(problem, machine[there], problem.application[there]),
        _apart(problem, machine),
    )
    over, above, apart = (sum(count for count, _ in kind) for kind in faults)
    used = np.unique(machine[there])
    efficiency = load[used].mean(axis=1) / problem.fleet.capacity[used]
    examples = tuple(text for kind in faults for _, text in kind[:EXAMPLES])
    return Verdict(replicas, len(there), above + apart, above, apart, over, len(used), efficiency, examples)


def _over_capacity(problem: PlacementProblem, load: Float) -> Faults:
    """Combinations of machine, time and resource whose `load` (M, H, D) exceeds the capacity."""
    capacity, resources = problem.fleet.capacity, problem.instance.resources
    return [
        (1, f"machine {m}, time {h}: {resources[d]} {load[m, h, d]:g} of {capacity[m, d]:g}")
        for m, h, d in np.argwhere(load > capacity[:, None] * (1 + TOLERANCE)).tolist()
    ]


def _above_limits(problem: PlacementProblem, machine: Int, application: Int) -> Faults:
    """Replicas of j beyond a_ij on machines that hold i; a replica beyond several limits counts once."""
    import polars as pl

    arcs, names = problem.instance.affinity, problem.instance.application
    pair, count = np.unique(application * len(problem.fleet.capacity) + machine, return_counts=True)
    who, where = np.divmod(pair, len(problem.fleet.capacity))
    held = pl.DataFrame({"i": who, "machine": where, "count": count})
    limits = pl.DataFrame(
        {"i": np.repeat(np.arange(len(names)), np.diff(arcs.start)), "j": arcs.to.astype(np.int64), "limit": arcs.limit}
    )
    broken = (
        held.drop("count")
        .join(limits, on="i")
        .join(held, left_on=["j", "machine"], right_on=["i", "machine"])
        .filter(pl.col("count") > pl.col("limit"))
        .sort("limit", "i")
        .unique(["j", "machine"], keep="first", maintain_order=True)  # the tightest limit
        .sort("machine", "j")
    )
    return [
        (n - limit, f"machine {m}: {n} replicas of '{names[j]}' beside '{names[i]}', which allows {limit}")
        for i, m, j, limit, n in broken.iter_rows()
    ]


def _apart(problem: PlacementProblem, machine: Int) -> Faults:
    """Placed replicas of bundle copies that are neither all on one machine nor all NOWHERE."""
    bundles, names, apart = problem.bundles, problem.instance.application, []
    for b in range(len(bundles)):
        rows = slice(int(bundles.start[b]), int(bundles.start[b + 1]))
        copies = np.concatenate(
            [
                machine[problem.first[i] : problem.first[i + 1]].reshape(-1, n)
                for i, n in zip(bundles.member[rows].tolist(), bundles.count[rows].tolist(), strict=True)
            ],
            axis=1,
        )
        group = " + ".join(names[bundles.member[rows]])
        for k in np.flatnonzero((copies != copies[:, :1]).any(axis=1)).tolist():
            placed = int((copies[k] != NOWHERE).sum())
            apart.append((placed, f"copy {k} of the affinity group {group} is on machines {copies[k].tolist()}"))
    return apart
