"""Running replicas that an application no longer has: which of them stop, and how that is said.

Of an application of which more run than it has, those stop that are where its blacklist, or that of a member of its
group, does not allow them; then those on the machines with the fewest running replicas of all applications, since these
are the nearest to being empty, the last listed first. Members of a group stop on the same machines, so that copies stay
whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tvwrl.planning.instance import counted
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem

STOPPING = "stopping"  # name in `Plan.details`: replicas that stop by application, those included that are not known
NAMED = 5  # applications that a line names


def without_stopping(problem: PlanningProblem, running: Plan, gone: Mapping[str, int]) -> Plan:
    """What runs, less the replicas that are more than an application has; `details` counts these, and those `gone`."""
    instance, last = problem.instance, len(problem.fleet.capacity) - 1
    placed = np.bincount(running.application, weights=running.replicas, minlength=len(instance)).astype(np.int64)
    held = np.bincount(running.machine, weights=running.replicas)
    group = np.arange(len(instance))
    group[problem.bundles.member] = len(instance) + problem.bundles.owner
    barred = {(int(group[i]), m) for i, m in problem.barred.tolist()}
    kept, stopping = running.replicas.copy(), dict[str, int]()
    for i in np.flatnonzero(placed > instance.replicas).tolist():
        surplus = int(placed[i] - instance.replicas[i])
        stopping[str(instance.application[i])] = surplus

        def rank(row: int, i: int = i) -> tuple[bool, float, int]:
            machine = int(running.machine[row])
            return (int(group[i]), min(machine, last)) not in barred, held[machine], -machine

        for row in sorted(np.flatnonzero(running.application == i).tolist(), key=rank):
            stops = min(surplus, int(kept[row]))
            kept[row] -= stops
            surplus -= stops
    stopping |= gone
    if not stopping:
        return running
    there = kept > 0
    plan = Plan.of(running.algorithm, running.application[there], running.machine[there], kept[there])
    return replace(plan, details={STOPPING: stopping})


def stopping_in(running: Plan | None) -> dict[str, int]:
    """Replicas that stop, by application, of what `plan_file.read_running` has read."""
    return {} if running is None else running.details.get(STOPPING, {})


def about_stopping(problem: PlanningProblem, running: Plan | None) -> list[str]:
    """A line on the replicas that stop, if there are any."""
    if not (stopping := stopping_in(running)):
        return []
    has = set(map(str, problem.instance.application))
    parts = [
        f"{count:,} of '{name}'{'' if name in has else ', which is not among the applications'}"
        for name, count in list(stopping.items())[:NAMED]
    ]
    if (others := len(stopping) - NAMED) > 0:
        parts.append(f"and of {counted(others, 'other application')}")
    total = sum(stopping.values())
    return [
        f"{counted(total, 'running replica')} stop{'s' * (total == 1)}, as there are to be fewer: {'; '.join(parts)}"
    ]
