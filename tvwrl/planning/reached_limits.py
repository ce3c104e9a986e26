"""Which affinity limits a plan reaches, so that one more replica would break them, and where there is room for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import load_of
from tvwrl.types import Float, Int

BLOCK = 2**21  # pairs looked at together


@dataclass(frozen=True, eq=False)
class ReachedLimits:
    """Affinity limits that are reached somewhere: L of the instance's arcs."""

    arc: Int  # (L,) index into the arcs of `Instance.affinity`
    machines: Int  # (L,) >= 1 machines with a replica of i that have as many of j as beside i there may be
    room: Int  # (L,) those of them with the capacity for one more replica of j, which is elsewhere or nowhere


def pairs_of(problem: PlanningProblem, plan: Plan) -> int:
    """How many combinations of a row of the plan and a limit of its application there are: the work to be done."""
    return int(np.diff(problem.instance.affinity.start)[plan.application].sum())


def reached_limits(problem: PlanningProblem, plan: Plan) -> ReachedLimits:
    """The limits that a plan reaches, by their index. Limits that it breaks are for the referee to tell.

    Room is what the machine's capacity leaves at all times; other limits, groups and blacklists may still be in the
    way.
    """
    instance, arcs = problem.instance, problem.instance.affinity
    used, at = np.unique(plan.machine, return_inverse=True)
    key = at.astype(np.int64) * len(instance) + plan.application
    order = np.argsort(key)
    key, count = key[order], plan.replicas[order]
    load = load_of(instance, plan, used)
    machines, room = np.zeros(len(arcs), np.int64), np.zeros(len(arcs), np.int64)
    for row, arc in _pairs(np.diff(arcs.start)[plan.application], arcs.start[plan.application]):
        j, m = arcs.to[arc].astype(np.int64), at[row]
        sought = m * len(instance) + j
        place = np.minimum(np.searchsorted(key, sought), len(key) - 1)
        there = np.where(key[place] == sought, count[place], 0)
        reached = there == arcs.limit[arc]
        machines += np.bincount(arc[reached], minlength=len(arcs))
        more = reached & (there < instance.replicas[j])
        open_to = _with_room(problem, used, load, m[more], j[more])
        room += np.bincount(arc[more][open_to], minlength=len(arcs))
    found = np.flatnonzero(machines)
    return ReachedLimits(found, machines[found], room[found])


def _pairs(size: Int, first: Int) -> Iterator[tuple[Int, Int]]:
    """Rows of the plan and the arcs of their applications, in blocks."""
    end = np.cumsum(size)
    begin = 0
    while begin < len(size):
        done = end[begin - 1] if begin else 0
        until = max(begin + 1, int(np.searchsorted(end, done + BLOCK, side="right")))
        row = np.repeat(np.arange(begin, until), size[begin:until])
        turn = np.arange(len(row)) - np.repeat(end[begin:until] - size[begin:until] - done, size[begin:until])
        yield row, first[row] + turn
        begin = until


def _with_room(problem: PlanningProblem, used: Int, load: Float, machine: Int, application: Int) -> Int:
    """Which of these pairs, machines by their place in `used`, have room beside `load` for one more replica."""
    from tvwrl.packing import fits

    instance, fleet = problem.instance, problem.fleet
    pair, of = np.unique(machine * len(instance) + application, return_inverse=True)
    m, i = np.divmod(pair, len(instance))
    capacity = fleet.capacity[np.minimum(used, len(fleet.capacity) - 1)]
    good = np.ones(len(pair), dtype=bool)
    steady = (instance.demand == instance.demand[:, :1]).all(axis=(0, 1))
    for h in range(instance.demand.shape[1]):
        some = np.flatnonzero(~steady if h else np.ones(len(steady), bool))  # what never changes is looked at once
        need, there = instance.demand[:, h, some], capacity[:, some]
        free = there - load[:, h, some]
        left = np.flatnonzero(good)
        good[left] = fits(need[i[left]], free[m[left]], there[m[left]])
    found: Int = np.flatnonzero(good[of.ravel()])
    return found
