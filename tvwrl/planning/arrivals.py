"""A plan that goes on: replicas arrive and leave one by one, and others move only where nothing else makes room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.checks import at_least, within
from tvwrl.planning.ejection import EXAMINED, NOTHING, SPARE
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.types import InputError, Int

ENOUGH = 100  # machines that take a replica, of which the fullest gets it
MOST_CHANGED = 100  # steps of a repair, and machines that it may change


@dataclass(frozen=True)
class Arrival:
    """What became of a replica, or of a copy of a group, that arrived."""

    machine: int  # of the fleet; -1: none took it
    moved: int  # others that moved to make room
    opened: bool  # whether its machine was empty before


class RunningPlan:
    """Machines with what a plan has put on them, while replicas come and go.

    Each application of `merged` is one vertex: an application, or a group whose copies stay whole. A replica goes to
    the fullest of up to 100 machines in use that take it, else to the smallest empty one; if there is none, others are
    ejected and placed again (see `packing.running`), or, where that fails, nothing changes.

    >>> running = RunningPlan(problem, make_plan(problem, "best"))  # doctest: +SKIP
    >>> running.arrive(3).machine  # doctest: +SKIP
    17
    """

    def __init__(self, problem: PlanningProblem, plan: Plan, seed: int = 0) -> None:
        """From a plan that breaks no rule; `seed` >= 0 decides where repairs look.

        Raises InputError for an open fleet, and for a plan that breaks a rule.
        """
        from tvwrl.packing import MAX_EJECTED, Journal, contents_of, put_back

        if not problem.fleet.fixed:
            raise InputError("the fleet is unlimited: arrivals need a fixed number of machines")
        at_least(0, seed=seed)
        self.merged = problem.merged
        work = self.merged.packing_problem
        self._a, self._kinds, self._rng = work.applications, Kinds.among(work.fleet), np.random.default_rng(seed)
        capacity = np.empty((len(self._kinds), len(work.capacity)))
        capacity[self._kinds.of] = work.kinds
        vertex, machine, copies = self.merged.merge(plan)
        self._at = np.full(len(self.merged.instance), -1)
        self._at[self.merged.kept] = np.arange(len(self.merged.kept))
        spare = SPARE + int(np.bincount(machine).max(initial=0))
        s = contents_of(self._a, capacity, self._kinds.of, np.unique(machine), NOTHING, spare)
        if put_back(self._a, s, self._at[vertex], machine, copies).any():
            raise InputError(f"the plan of {plan.algorithm} breaks a rule: start from one that the referee passes")
        s.unplaced[0] = 0
        machines, width = s.application.shape
        self._s: Any = s._replace(pool=np.empty(MOST_CHANGED * MAX_EJECTED, np.int32))
        self._journal: Any = Journal(
            length=np.zeros(1, np.int64),
            machine=np.zeros(MOST_CHANGED, np.int64),
            saved=np.zeros(machines, bool),
            residual=np.zeros((MOST_CHANGED, s.residual.shape[1])),
            kinds=np.zeros(MOST_CHANGED, np.int32),
            application=np.zeros((MOST_CHANGED, width), np.int32),
            count=np.zeros((MOST_CHANGED, width), np.int32),
        )

    def arrive(self, vertex: int) -> Arrival:
        """Place one more replica of a vertex. Raises InputError for an unknown vertex, or one that fits nowhere."""
        from tvwrl.packing import admit

        i, s = self._index(vertex), self._s
        begin = int(self._rng.integers(max(int(s.open[0]), 1)))
        if (where := int(admit(self._a, s, i, begin, ENOUGH))) >= 0:
            return Arrival(int(s.number[where]), 0, False)
        if (where := self._open_for(i)) >= 0:
            return Arrival(int(s.number[where]), 0, True)
        return self._repair(i)

    def depart(self, vertex: int, machine: int) -> None:
        """Remove one replica of a vertex from a machine. Raises InputError if there is none."""
        from tvwrl.packing import release

        within(0, len(self._s.place) - 1, machine=machine)
        if not release(self._a, self._s, self._index(vertex), np.int64(self._s.place[machine])):
            raise InputError(f"machine {machine} has no replica of vertex {vertex}")

    def vertices(self) -> tuple[Int, Int, Int]:
        """Vertices, machines and copies there, (S,) each."""
        s = self._s
        there = np.arange(s.application.shape[1]) < s.kinds[:, None]
        vertex = self.merged.kept[s.application[there].astype(np.int64)]
        return vertex, s.number[np.nonzero(there)[0]], s.count[there].astype(np.int64)

    def rows(self) -> tuple[Int, Int, Int]:
        """Applications, machines and replicas there, (R,) each."""
        return self.merged.expand(*self.vertices())

    def _index(self, vertex: int) -> int:
        within(0, len(self._at) - 1, vertex=vertex)
        if (i := int(self._at[vertex])) < 0:
            raise InputError(f"vertex {vertex} fits nowhere: {self.merged.refused[vertex]}")
        return i

    def _open_for(self, i: int) -> int:
        """Place a replica of i on the smallest kind of empty machine that holds it; where that is, or -1."""
        from tvwrl.packing import add, fits, open_machine

        s = self._s
        holds = fits(self._a.demand[i], s.capacity, s.capacity)
        for t in self._kinds.largest_first[::-1]:
            if holds[t] and open_machine(s, np.int64(t)):
                where = int(s.open[0]) - 1
                add(self._a, s, i, where, 1)
                return where
        return -1

    def _repair(self, i: int) -> Arrival:
        """Make room by moving others, or leave everything as it was."""
        from tvwrl.packing import repair

        s, j = self._s, self._journal
        s.weight[:] = 1.0  # earlier ejections say nothing about this one
        if not repair(self._a, s, np.int64(i), EXAMINED[1], self._rng, j):
            return Arrival(-1, 0, False)
        machine, more = -1, 0
        for at, m in enumerate(j.machine[: j.length[0]].tolist()):
            before = dict(
                zip(j.application[at, : j.kinds[at]].tolist(), j.count[at, : j.kinds[at]].tolist(), strict=True)
            )
            now = zip(s.application[m, : s.kinds[m]].tolist(), s.count[m, : s.kinds[m]].tolist(), strict=True)
            for who, n in now:
                if (grown := n - before.get(who, 0)) > 0:
                    more += grown
                    machine = int(s.number[m]) if who == i else machine
        return Arrival(machine, more - 1, False)
