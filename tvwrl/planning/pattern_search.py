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
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvwrl.planning.ejection import Rows, cost_of
from tvwrl.planning.kinds import EXACT, Kinds, slack
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.solver import run_milp
from tvwrl.types import Float, Int


@dataclass(frozen=True)
class Homes:
    """Where copies run, and what it means to move them."""

    rows: Rows  # applications, machines, copies
    each: float  # cost of moving one replica, >= 0
    most: int | None  # replicas that may move; None: any number
    pinned: Any  # (A,) bool: whose copies must stay


@dataclass(frozen=True)
class Kind:
    """Machines that are alike, and what they may hold."""

    numbers: Int  # of those listed
    cost: float
    most: float  # how many there are; infinite of the kind that an open fleet goes on with
    room: Float  # (K,)
    home: Int  # (A,) copies that run there
    low: Int  # (A,) copies that have to be there
    high: Int  # (A,) copies at most


@dataclass(frozen=True)
class Duals:
    """What the master programme says: worth of a copy (A,), price of a machine of each kind (T,), of a kept replica."""

    copy: Float
    machine: Float
    kept: float
    value: float  # of the programme


@dataclass
class Master:
    """The programme of one problem, with the patterns found so far.

    `size`: (A,) replicas in a copy of each application
    """

    problem: PackingProblem
    size: Int
    homes: Homes | None = None
    kinds: list[Kind] = field(default_factory=list)
    patterns: list[Int] = field(default_factory=list)  # (A,) copies
    of: list[int] = field(default_factory=list)  # kind of each pattern
    _seen: set[tuple[int, bytes]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.copies: Int = self.problem.replicas.astype(np.int64)
        self._make_kinds()
        self.constant = self.each * self.running  # the cost if everything moved
        finite = sum(kind.cost * kind.most for kind in self.kinds if np.isfinite(kind.most))
        dearest = max(kind.cost for kind in self.kinds)
        more = 0.0 if self.problem.fleet.fixed else dearest * float(self.copies.sum())
        self._penalty = 1.0 + self.constant + finite + more
        for t, kind in enumerate(self.kinds):
            self.take(t, kind.low)
            for i in np.flatnonzero(kind.high) if not kind.low.any() else ():
                alone = np.zeros_like(kind.low)
                alone[i] = kind.high[i]
                self.take(t, alone)

    @property
    def each(self) -> float:
        """Cost of moving a replica."""
        return 0.0 if self.homes is None else self.homes.each

    @property
    def running(self) -> float:
        """Replicas that run."""
        return 0.0 if self.homes is None else float(self.size[self.homes.rows[0]] @ self.homes.rows[2])

    @property
    def must_stay(self) -> float | None:
        """Replicas that must stay where they run, because only some may move; None: any may move."""
        return None if self.homes is None or self.homes.most is None else self.running - self.homes.most

    def _make_kinds(self) -> None:
        problem, count = self.problem, len(self.problem.instance)
        kinds, listed = Kinds.among(problem.fleet), len(problem.kinds)
        nothing = np.zeros(count, np.int64)
        homes = np.zeros(0, np.int64)
        if self.homes is not None:
            application, machine, copies = self.homes.rows
            homes = np.unique(machine)
            for m in homes.tolist():
                here = machine == m
                home = np.bincount(application[here], copies[here], count).astype(np.int64)
                row = min(m, listed - 1)
                low = np.where(self.homes.pinned, home, 0)
                self._add(np.array([m]), float(kinds.cost[kinds.of[row]]), 1.0, problem.kinds[row], home, low)
        for t in range(len(kinds)):
            own = np.flatnonzero(kinds.of == t)
            numbers = np.setdiff1d(own, homes)
            most = np.inf if np.isinf(kinds.most[t]) else float(len(numbers))
            if most:
                self._add(numbers, float(kinds.cost[t]), most, problem.kinds[own[0]], nothing, nothing)

    def _add(self, numbers: Int, cost: float, most: float, room: Float, home: Int, low: Int) -> None:
        from tvwrl.packing import replicas_that_fit

        fit = replicas_that_fit(self.problem.demand, room, room)
        own = np.minimum(self.problem.instance.affinity.own, self.problem.replicas)
        high = np.maximum(np.minimum(fit, own).astype(np.int64), low)
        self.kinds.append(Kind(numbers, cost, most, room, home, low, high))

    def take(self, t: int, pattern: Int) -> None:
        key = (t, pattern.astype(np.int16).tobytes())
        if key not in self._seen and pattern.any():
            self._seen.add(key)
            self.patterns.append(pattern.astype(np.int64))
            self.of.append(t)

    def take_up(self, rows: Rows) -> None:
        """The patterns of a plan."""
        application, machine, copies = rows
        where = {int(m): t for t, kind in enumerate(self.kinds) for m in kind.numbers}
        last = next((t for t, kind in enumerate(self.kinds) if np.isinf(kind.most)), -1)
        numbers, of = np.unique(machine, return_inverse=True)
        held = np.zeros((len(numbers), len(self.copies)), np.int64)
        np.add.at(held, (of.ravel(), application), copies)
        for m, pattern in zip(numbers.tolist(), held, strict=True):
            self.take(where.get(m, last), pattern)

    def _columns(self, patterns: Sequence[Int], of: Sequence[int]) -> tuple[Float, Any, Any, Any, Float, Any]:
        """Costs of patterns and slacks, A_ub and b_ub (covers, counts, kept), A_eq and b_eq (machines that must be
        used), and which kinds these are."""
        from scipy.sparse import coo_array, csr_array, hstack, vstack

        held, kind = np.array(patterns), np.array(of)
        home = np.array([one.home for one in self.kinds])[kind]
        kept = np.minimum(held, home) @ self.size
        cost = np.array([one.cost for one in self.kinds])[kind] - self.each * kept
        count, moving = len(self.copies), int(self.must_stay is not None)
        slack = count + moving  # copies that are missing, and replicas that move although they may not
        cover = hstack([csr_array(-held.T.astype(np.float64)), -csr_array(np.eye(count, slack))])
        forced: Any = np.array([one.low.any() for one in self.kinds])
        finite = np.array([np.isfinite(one.most) for one in self.kinds]) & ~forced
        where = np.arange(len(kind))
        machines = coo_array((np.ones(len(kind)), (kind, where)), shape=(len(self.kinds), len(kind) + slack)).tocsr()
        rows, high = [cover, machines[finite]], [-self.copies, np.array([one.most for one in self.kinds])[finite]]
        if self.must_stay is not None:
            rows.append(csr_array(np.concatenate([-kept, np.zeros(count), [-1.0]])[None].astype(np.float64)))
            high.append(np.array([-self.must_stay]))
        # One move too many must weigh more than all replicas left over: such a plan is of no use
        too_many = self._penalty * (1.0 + float(self.copies @ self.size))
        costs = np.concatenate([cost, self._penalty * self.size, np.full(moving, too_many)])
        return costs, vstack(rows).tocsr(), np.concatenate(high), machines[forced], np.ones(int(forced.sum())), forced

    def solve(self, seconds: float) -> Duals | None:
        """The programme over the patterns found so far."""
        from scipy.optimize import linprog

        cost, rows, high, same, ones, forced = self._columns(self.patterns, self.of)
        equal = {"A_eq": same, "b_eq": ones} if len(ones) else {}
        options = {"time_limit": max(seconds, 0.01)}
        found = linprog(cost, A_ub=rows, b_ub=high, method="highs", options=options, **equal)
        if not found.success:
            return None
        dual, count = -found.ineqlin.marginals, len(self.copies)
        finite = np.array([np.isfinite(one.most) for one in self.kinds]) & ~forced
        machine = np.zeros(len(self.kinds))
        machine[finite] = -dual[count : count + int(finite.sum())]
        if len(ones):
            machine[forced] = found.eqlin.marginals
        kept = float(dual[-1]) if self.must_stay is not None else 0.0
        return Duals(np.maximum(dual[:count], 0.0), machine, max(kept, 0.0), float(found.fun) + self.constant)

    def whole(self, patterns: Sequence[Int], of: Sequence[int], seconds: float) -> tuple[Rows | None, bool]:
        """The plan that whole numbers of patterns make, if one was found in time, and whether it is their best."""
        from scipy.optimize import Bounds, LinearConstraint

        cost, rows, high, same, ones, _ = self._columns(patterns, of)
        limits = [LinearConstraint(rows, -np.inf, high), *([LinearConstraint(same, ones, ones)] if len(ones) else [])]
        found = run_milp(
            cost,
            integrality=np.concatenate([np.ones(len(of)), np.zeros(len(cost) - len(of))]),
            bounds=Bounds(0, np.inf),
            constraints=limits,
            options={"time_limit": max(seconds, 0.01), "mip_rel_gap": EXACT},
        )
        if found.x is None:
            return None, False
        best = bool(found.status == 0)
        if self.must_stay is not None and found.x[-1] > 0.5:
            return None, best  # more move than may
        return self._plan(patterns, of, np.rint(found.x[: len(of)]).astype(np.int64)), best

    def _plan(self, patterns: Sequence[Int], of: Sequence[int], times: Int) -> Rows:
        """Machines for patterns; copies beyond those that there are are taken off, those that run there last."""
        chosen = np.flatnonzero(times)
        kind = np.repeat(np.array(of, np.int64)[chosen], times[chosen])
        there = np.repeat(np.array([patterns[p] for p in chosen.tolist()]), times[chosen], axis=0)
        there = there.reshape(len(kind), len(self.copies))
        home = np.array([one.home for one in self.kinds])[kind].reshape(there.shape)
        machine = np.zeros(len(kind), np.int64)
        beyond = max([len(self.problem.kinds), *(int(one.numbers.max(initial=-1)) + 1 for one in self.kinds)])
        for t, one in enumerate(self.kinds):
            own = np.flatnonzero(kind == t)
            more = max(len(own) - len(one.numbers), 0)
            machine[own] = np.concatenate([one.numbers[: len(own)], np.arange(beyond, beyond + more)])
            beyond += more
        at_home, size = np.minimum(there, home), there.sum(axis=1)
        for i, surplus in enumerate((there.sum(axis=0) - self.copies).tolist()):
            for strangers in (True, False):
                if surplus <= 0:
                    break
                order = np.argsort(size, kind="stable")
                most = there[order, i] - (at_home[order, i] if strangers else 0)
                taken = np.clip(surplus - (np.cumsum(most) - most), 0, most)
                there[order, i] -= taken
                size[order] -= taken
                surplus -= int(taken.sum())
        row, application = np.nonzero(there)
        return application, machine[row], there[row, application]

    def value(self, rows: Rows) -> tuple[int, float]:
        """Replicas left over, and the cost of machines and moves."""
        return value_of(self.problem, self.size, self.homes, rows)

    def weighed(self, left: float, cost: float) -> float:
        """What the programme minimises, of a plan that leaves so many replicas over."""
        return cost + self._penalty * left


def value_of(problem: PackingProblem, size: Int, homes: Homes | None, rows: Rows) -> tuple[int, float]:
    """Replicas that a plan leaves over, and the cost of its machines and moves."""
    application, machine, copies = rows
    left = int((problem.replicas - np.bincount(application, copies, len(size))) @ size)
    price = cost_of(problem.fleet, np.unique(machine))
    if homes is not None and homes.each:
        now = {(i, m): n for i, m, n in zip(*(part.tolist() for part in rows), strict=True)}
        for i, m, n in zip(*(part.tolist() for part in homes.rows), strict=True):
            price += homes.each * int(size[i]) * max(n - now.get((i, m), 0), 0)
    return left, price


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

    def _machine(self, kind: Kind, duals: Duals, paying: bool) -> tuple[Any, Int]:
        """The kernel's view of a machine: the applications that fit, or pay, in the order of what they are worth."""
        from tvwrl.packing import Machine, enlarged

        problem, copies = self._problem, np.arange(int(kind.high.max(initial=0)) + 1)
        stay = (self.master.each + duals.kept) * self.master.size
        # (A, U + 1) what 0 .. U copies of each application are worth there
        worth: Float = duals.copy[:, None] * copies + stay[:, None] * np.minimum(copies, kind.home[:, None])
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
