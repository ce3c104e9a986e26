"""Cheapest sets of patterns: what machines of every kind may hold, by column generation, as bounds and as plans.

A pattern is what one machine holds. The master programme chooses how many machines of each kind hold which pattern
(Gilmore and Gomory 1961); its duals say what a copy of each application is worth, and a depth-first search finds the
most valuable pattern of each kind, with all limits, until none is worth more than it costs. Then:

- the programme's value is a lower bound on the cost, and so is what any duals prove meanwhile (Lagrange);
- whole numbers of the patterns found so far make a plan (restricted master);
- a plan that is better than the best one has only patterns whose reduced cost is below the gap. If these are few enough
  to be listed, the master over all of them finds the cheapest plan, and proves that it is (Baldacci et al. 2008).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.planning.best_so_far import Rows
from tvwrl.planning.equal_cost import EXACT, slack
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.pattern_master import Duals, Homes, Kind, Master
from tvwrl.planning.solver import run_milp
from tvwrl.types import Float, Int

MOST_APPLICATIONS, MOST_KINDS, MOST_DIMENSIONS = 150, 100, 200  # of problems for which this is tried
MOST_COPIES = 200  # of an application that one machine can hold: searches for a pattern try each number of them
MOST_TOGETHER = MOST_APPLICATIONS**2 * 200  # applications times replicas: beyond, ejection needs the time more
QUICK, LONG = 30_000, 3_000_000  # nodes of a search for one pattern, before and after quick ones found none
LISTED, NODES = 60_000, 30_000_000  # patterns of all kinds that are listed at most, and nodes for one kind
SMALL = 1e-7  # of a reduced cost: less is rounding
NEXT = 1e-5  # share of the cost by which the next list goes beyond what is proved, at most
STEPS = 12  # lists of patterns, ever longer, at most
MOST_RATIO = 1e4  # of prices up to which the solver's tolerances do no harm
ROOT, MASTER = 0.5, 0.3  # shares of the time, for the bound, and for each integer programme


@dataclass
class Outcome:
    """What was found."""

    rows: Rows | None = None  # the best plan; None: none
    left: int = 0  # replicas that it leaves over
    cost: float = np.inf  # of its machines and moves
    bound: float = -np.inf  # no plan of all replicas costs less, moves included


@dataclass
class PatternSearch:
    """The search for one problem until `deadline`, a reading of time.monotonic(), which calls `report` now and then."""

    master: Master
    deadline: float
    report: Callable[[], None] = lambda: None
    _exact: Duals | None = None  # of the master programme over all patterns

    @staticmethod
    def suits(problem: PackingProblem, homes: Homes | None) -> bool:
        """Whether a problem is small enough."""
        from tvwrl.packing import replicas_that_fit

        kinds = len(Kinds.among(problem.fleet)) + (0 if homes is None else len(np.unique(homes.rows[1])))
        if (
            len(problem.instance) > MOST_APPLICATIONS
            or kinds > MOST_KINDS
            or len(problem.capacity) > MOST_DIMENSIONS
            or len(problem.instance) * int(problem.replicas.sum()) > MOST_TOGETHER
        ):
            return False
        together = np.minimum(problem.instance.affinity.own, problem.replicas)
        rooms = np.unique(problem.kinds, axis=0)
        held = [np.minimum(replicas_that_fit(problem.demand, room, room), together).max(initial=0) for room in rooms]
        return int(max(held)) <= MOST_COPIES

    def __post_init__(self) -> None:
        from tvwrl.packing import UNLIMITED

        self._problem = self.master.problem
        arcs, count = self._problem.instance.affinity, len(self._problem.instance)
        self._limit: Int = np.full((count, count), int(UNLIMITED), np.int64)
        self._limit[arcs.origin, arcs.to] = arcs.limit
        np.fill_diagonal(self._limit, int(UNLIMITED))  # those are in `Kind.high`

    def generate(self, known: Rows | None, least: float, most: float) -> Outcome:
        """The best plan of the patterns that column generation finds, and what it proves.

        `known`: a plan whose patterns are taken up; `least`: no plan of all replicas costs less; `most`: the cost of a
        plan of all replicas that is known, moves included, infinite if there is none
        """
        begun, outcome = time.monotonic(), Outcome(bound=least)
        if known is not None:
            self.master.take_up(known)
        duals, exact = self._generate(outcome, begun + ROOT * (self.deadline - begun), most)
        if duals is not None:
            self._exact = duals if exact else None
            self._round_up(outcome)
            self._offer(outcome, self.master.patterns, self.master.of, MASTER * self._left())
        return outcome

    def list_all(self, least: float, most: float, seconds: float) -> Outcome:
        """The best plan of all patterns that one which costs ever a little more than `least` can have, up to `most`.

        After `generate`, with what is known since, in at most so many `seconds`. What such lists do not hold is proved
        to cost more.
        """
        outcome, until = Outcome(bound=least), min(time.monotonic() + seconds, self.deadline)
        if self._exact is None or not np.isfinite(most):
            return outcome
        same = slack(self._problem.fleet.costs, most, self.master.each)
        for step in range(1, STEPS + 1):
            self._round_up(outcome)
            if outcome.bound >= most - same:
                break
            aim = outcome.bound + min(same, NEXT * max(most, 1.0))
            if self.master.each:  # moves make costs that no sum of machines has
                aim += (most - aim) * step / STEPS
            listed = self._list(self._exact, aim, until)
            if listed is None or not self._offer(outcome, *listed, until - time.monotonic()):
                break
            if outcome.rows is not None and not outcome.left and outcome.cost <= aim:
                outcome.bound = outcome.cost
                break
            outcome.bound = max(outcome.bound, min(aim, most))
        return outcome

    def list_fuller(self, least: float, left: int, cost: float, seconds: float) -> Outcome:
        """The best plan of all patterns that one can have which leaves fewer than `left` > 0 replicas over.

        Or as many, for less than `cost`; otherwise as `list_all`.
        """
        outcome, until = Outcome(bound=least), min(time.monotonic() + seconds, self.deadline)
        if self._exact is not None:
            listed = self._list(self._exact, self.master.weighed(left, cost), until)
            if listed is not None:
                self._offer(outcome, *listed, until - time.monotonic())
        return outcome

    def _left(self) -> float:
        """Seconds left."""
        return max(self.deadline - time.monotonic(), 0.0)

    def _generate(self, outcome: Outcome, until: float, most: float) -> tuple[Duals | None, bool]:
        """Column generation: the last duals, and whether no pattern is left that would pay."""
        nodes = QUICK
        while True:
            duals = self.master.solve(self._left())
            if duals is None:
                return None, False
            added, worth, whole = 0, np.zeros(len(self.master.kinds)), True
            for t, kind in enumerate(self.master.kinds):
                pattern, value, bound = self._best_pattern(kind, duals, nodes)
                worth[t], whole = bound, whole and bound <= value + SMALL
                if pattern is not None and kind.cost - value - duals.machine[t] < -SMALL:
                    self.master.take(t, pattern)
                    added += 1
                self.report()
                if time.monotonic() > until:
                    return duals, False
            outcome.bound = max(outcome.bound, self._proved(duals, worth))
            if outcome.bound >= most * (1 - SMALL):
                return duals, False
            if not added:
                if whole:
                    return duals, True
                if nodes == LONG:
                    return duals, False
                nodes = LONG

    def _worth(self, kind: Kind, duals: Duals) -> Float:
        """(A, U + 1) what 0 .. U copies of each application are worth on a machine."""
        copies = np.arange(int(kind.high.max(initial=0)) + 1)
        stay = (self.master.each + duals.kept) * self.master.size
        worth: Float = duals.copy[:, None] * copies + stay[:, None] * np.minimum(copies, kind.home[:, None])
        return worth

    def _machine(self, kind: Kind, duals: Duals, paying: bool) -> tuple[Any, Int]:
        """The kernel's view of a machine: the applications that fit, or pay, in the order of what they are worth."""
        from tvwrl.packing import Machine, enlarged

        worth, problem = self._worth(kind, duals), self._problem
        used = np.maximum((problem.demand / kind.room).max(axis=1), 1e-12)
        chosen = np.flatnonzero((kind.high > 0) & ((not paying) | (worth[:, -1] > 0) | (kind.low > 0)))
        rate = worth[chosen, np.minimum(1, worth.shape[1] - 1)] / used[chosen]
        order = chosen[np.argsort(-rate, kind="stable")]
        take = (problem.demand[order], problem.applications.needed[order], kind.low[order], kind.high[order])
        limit = np.ascontiguousarray(self._limit[np.ix_(order, order)])
        demand, needed, low, high = map(np.ascontiguousarray, take)
        slack = enlarged(kind.room) - kind.room
        return Machine(kind.room, slack, demand, needed, low, high, limit, np.ascontiguousarray(worth[order])), order

    def _best_pattern(self, kind: Kind, duals: Duals, nodes: int) -> tuple[Int | None, float, float]:
        """The most valuable pattern found, its value, and what none is worth more than."""
        from tvwrl.packing import best_pattern

        machine, order = self._machine(kind, duals, True)
        if not len(order):
            return None, 0.0, 0.0
        found, value, bound = best_pattern(machine, nodes)
        if not np.isfinite(value):
            return None, 0.0, float(bound)
        pattern = np.zeros(len(self.master.copies), np.int64)
        pattern[order] = found
        return pattern, float(value), float(max(bound, value))

    def _proved(self, duals: Duals, worth: Float) -> float:
        """What these duals prove: no plan of all replicas costs less (Lagrange)."""
        scale = 1.0
        for kind, most in zip(self.master.kinds, worth, strict=True):
            if np.isinf(kind.most) and most > kind.cost:
                scale = min(scale, kind.cost / most)
        proved = scale * float(self.master.copies @ duals.copy) + self.master.constant
        proved += scale * duals.kept * (self.master.must_stay or 0.0)
        for kind, most in zip(self.master.kinds, worth, strict=True):
            if np.isinf(kind.most):
                continue
            surplus = kind.cost - (most if kind.home.any() else scale * most)
            proved += surplus if kind.low.any() else kind.most * min(surplus, 0.0)
        return proved - SMALL

    def _offer(self, outcome: Outcome, patterns: Sequence[Int], of: Sequence[int], seconds: float) -> bool:
        """Take the best plan of patterns if it is better; whether it is known to be their best."""
        rows, best = self.master.whole(patterns, of, min(seconds, self._left()))
        if rows is not None:
            left, price = self.master.value(rows)
            if outcome.rows is None or (left, price) < (outcome.left, outcome.cost - SMALL):
                outcome.rows, outcome.left, outcome.cost = rows, left, price
        return best

    def _round_up(self, outcome: Outcome) -> None:
        """The bound as the least that machines with the volume of all replicas cost above it, if moves cost nothing."""
        from scipy.optimize import Bounds, LinearConstraint

        if not np.isfinite(outcome.bound) or self.master.each:
            return
        kinds, demand = Kinds.among(self._problem.fleet), self._problem.instance.total.max(axis=0)
        if kinds.cost.max() > MOST_RATIO * kinds.cost.min():
            return
        found = run_milp(
            kinds.cost,
            integrality=np.ones(len(kinds)),
            bounds=Bounds(0, kinds.most),
            constraints=[
                LinearConstraint(kinds.capacity.T, demand * (1 - 1e-8), np.inf),
                LinearConstraint(kinds.cost[None], outcome.bound - 2 * SMALL, np.inf),
            ],
            options={"time_limit": min(1.0, max(self._left(), 0.01)), "mip_rel_gap": EXACT},
        )
        if found.status == 0:
            outcome.bound = max(outcome.bound, float(kinds.cost @ np.rint(found.x)) - SMALL)

    def _list(self, duals: Duals, aim: float, until: float) -> tuple[list[Int], list[int]] | None:
        """All patterns that a plan which costs no more than `aim` can have; None if they are too many."""
        from tvwrl.packing import all_patterns

        gap, patterns, of = aim - duals.value + 2 * SMALL, list[Int](), list[int]()
        for t, kind in enumerate(self.master.kinds):
            if time.monotonic() > until:
                return None
            machine, order = self._machine(kind, duals, False)
            if not len(order):
                continue
            worth = kind.cost - duals.machine[t] - gap
            found, whole = all_patterns(machine, worth, max(LISTED - len(patterns), 1), NODES)
            if not whole:
                return None
            full = np.zeros((len(found), len(self.master.copies)), np.int64)
            full[:, order] = found
            patterns += list(full)
            of += [t] * len(full)
        forced = [
            p for p, t in enumerate(self.master.of) if self.master.kinds[t].low.any()
        ]  # so that the master has a solution
        patterns, of = (
            [*patterns, *(self.master.patterns[p] for p in forced)],
            [*of, *(self.master.of[p] for p in forced)],
        )
        return (patterns, of) if patterns else None
