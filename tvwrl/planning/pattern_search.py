"""Cheapest sets of patterns: what machines of every kind may hold, by column generation, as bounds and as plans.

A pattern is what one machine holds. The master programme chooses how many machines of each kind hold which pattern
(Gilmore and Gomory 1961); its duals say what a copy of each application is worth, and a depth-first search finds the
most valuable pattern of each kind, with all limits, until none is worth more than it costs. Then:

- the programme's value is a lower bound on the cost, and so is what any duals prove meanwhile (Lagrange);
- whole numbers of the patterns found so far make a plan (restricted master);
- a plan that is better than the best one has only patterns whose reduced cost is below the gap. If these are few enough
  to be listed, the master over all of them finds the cheapest plan, and proves that it is (Baldacci et al. 2008).

Where moves count, or replicas must stay, every machine on which replicas run is a kind of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvwrl.planning.best_so_far import Rows
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.solver import run_milp
from tvwrl.types import Float, Int

MOST_APPLICATIONS, MOST_KINDS, MOST_DIMENSIONS = 150, 100, 200  # of problems for which this is tried
MOST_COPIES = 200  # of an application
QUICK, LONG = 30_000, 3_000_000  # nodes of a search for one pattern, before and after quick ones found none
LISTED, NODES = 60_000, 30_000_000  # patterns of all kinds that are listed at most, and nodes for one kind
SMALL = 1e-7  # of a reduced cost: less is rounding
STEP = 1e-5  # costs that differ by less, as a share, are taken for equal
ROOT, MASTER = 0.5, 0.3  # shares of the time, for the bound, and for each integer programme


@dataclass(frozen=True)
class Homes:
    """Where copies run, and what it means to move them."""

    rows: Rows  # applications, machines, copies
    each: float  # cost of moving one replica, >= 0
    most: int | None  # replicas that may move; None: any number
    pinned: Any  # (A,) bool: whose copies must stay


@dataclass
class Outcome:
    """What was found."""

    rows: Rows | None = None  # the best plan; None: none
    left: int = 0  # replicas that it leaves over
    cost: float = np.inf  # of its machines and moves
    bound: float = -np.inf  # no plan of all replicas costs less, moves included


@dataclass(frozen=True)
class _Kind:
    """Machines that are alike, and what they may hold."""

    numbers: Int  # of those listed
    cost: float
    most: float  # how many there are; infinite of the kind that an open fleet goes on with
    room: Float  # (K,)
    home: Int  # (A,) copies that run there
    low: Int  # (A,) copies that have to be there
    high: Int  # (A,) copies at most


@dataclass(frozen=True)
class _Duals:
    """What the master programme says: worth of a copy (A,), price of a machine of each kind (T,), of a kept replica."""

    copy: Float
    machine: Float
    kept: float
    value: float  # of the programme


@dataclass
class PatternSearch:
    """The search for one problem until `deadline`, a reading of time.monotonic().

    `size`: (A,) replicas in a copy of each application
    """

    problem: PackingProblem
    size: Int
    deadline: float
    homes: Homes | None = None
    report: Callable[[], None] = lambda: None  # called now and then
    _kinds: list[_Kind] = field(default_factory=list)
    _patterns: list[Int] = field(default_factory=list)  # (A,) copies
    _of: list[int] = field(default_factory=list)  # kind of each pattern
    _seen: set[tuple[int, bytes]] = field(default_factory=set)
    _exact: _Duals | None = None  # of the master programme over all patterns

    @staticmethod
    def suits(problem: PackingProblem, homes: Homes | None) -> bool:
        """Whether a problem is small enough."""
        kinds = len(Kinds.among(problem.fleet)) + (0 if homes is None else len(np.unique(homes.rows[1])))
        return (
            len(problem.instance) <= MOST_APPLICATIONS
            and kinds <= MOST_KINDS
            and len(problem.capacity) <= MOST_DIMENSIONS
            and int(problem.replicas.max()) <= MOST_COPIES
        )

    def __post_init__(self) -> None:
        from tvwrl.packing.affinity import UNLIMITED

        problem, arcs, count = self.problem, self.problem.instance.affinity, len(self.problem.instance)
        self._limit: Int = np.full((count, count), int(UNLIMITED), np.int64)
        self._limit[arcs.origin, arcs.to] = arcs.limit
        np.fill_diagonal(self._limit, int(UNLIMITED))  # those are in `high`
        self._copies: Int = problem.replicas.astype(np.int64)
        self._make_kinds()
        moved = (
            0.0 if self.homes is None else self.homes.each * float(self.size[self.homes.rows[0]] @ self.homes.rows[2])
        )
        self._constant = moved  # the cost if everything moved
        finite = sum(kind.cost * kind.most for kind in self._kinds if np.isfinite(kind.most))
        dearest = max(kind.cost for kind in self._kinds)
        self._penalty = 1.0 + moved + finite + (0.0 if problem.fleet.fixed else dearest * float(self._copies.sum()))
        for t, kind in enumerate(self._kinds):
            self._take(t, kind.low)
            for i in np.flatnonzero(kind.high):
                alone = kind.low.copy()
                alone[i] = kind.high[i]
                if not kind.low.any():
                    self._take(t, alone)

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
        from tvwrl.packing.fit import replicas_that_fit

        fit = replicas_that_fit(self.problem.demand, room, room)
        own = np.minimum(self.problem.instance.affinity.own, self.problem.replicas)
        high = np.maximum(np.minimum(fit, own).astype(np.int64), low)
        self._kinds.append(_Kind(numbers, cost, most, room, home, low, high))

    def generate(self, known: Rows | None, least: float, most: float) -> Outcome:
        """The best plan of the patterns that column generation finds, and what it proves.

        `known`: a plan whose patterns are taken up; `least`: no plan of all replicas costs less; `most`: the cost of a
        plan of all replicas that is known, moves included, infinite if there is none
        """
        begun, outcome = time.monotonic(), Outcome(bound=least)
        if known is not None:
            self._take_up(known)
        duals, exact = self._generate(outcome, begun + ROOT * (self.deadline - begun), most)
        if duals is not None:
            self._exact = duals if exact else None
            self._round_up(outcome)
            self._master(outcome, self._patterns, self._of)
        return outcome

    def list_all(self, least: float, most: float) -> Outcome:
        """The best plan of all patterns that a plan which costs less than `most` can have, if these are few enough.

        After `generate`, with what is known since.
        """
        outcome = Outcome(bound=least)
        if self._exact is not None and np.isfinite(most) and least < most * (1 - SMALL) and self._left():
            self._list_all(outcome, self._exact, most)
        return outcome

    def _left(self) -> float:
        """Seconds left."""
        return max(self.deadline - time.monotonic(), 0.0)

    def _take(self, t: int, pattern: Int) -> None:
        key = (t, pattern.astype(np.int16).tobytes())
        if key not in self._seen and pattern.any():
            self._seen.add(key)
            self._patterns.append(pattern.astype(np.int64))
            self._of.append(t)

    def _take_up(self, rows: Rows) -> None:
        """The patterns of a plan."""
        application, machine, copies = rows
        where = {int(m): t for t, kind in enumerate(self._kinds) for m in kind.numbers}
        last = next((t for t, kind in enumerate(self._kinds) if np.isinf(kind.most)), -1)
        for m in np.unique(machine).tolist():
            here = machine == m
            self._take(
                where.get(m, last), np.bincount(application[here], copies[here], len(self._copies)).astype(np.int64)
            )

    # The master programme

    def _columns(self, patterns: Sequence[Int], of: Sequence[int]) -> tuple[Float, Any, Any, Any, Float, Any]:
        """Costs of patterns and slacks, A_ub and b_ub (covers, counts, kept), A_eq and b_eq (machines that must be
        used), and which kinds these are."""
        from scipy.sparse import coo_array, csr_array, hstack, vstack

        held, kind = np.array(patterns), np.array(of)
        home = np.array([one.home for one in self._kinds])[kind]
        kept = np.minimum(held, home) @ self.size
        each = 0.0 if self.homes is None else self.homes.each
        cost = np.array([one.cost for one in self._kinds])[kind] - each * kept
        count = len(self._copies)
        cover = hstack([csr_array(-held.T.astype(np.float64)), -csr_array(np.eye(count))])
        forced: Any = np.array([one.low.any() for one in self._kinds])
        finite = np.array([np.isfinite(one.most) for one in self._kinds]) & ~forced
        where = np.arange(len(kind))
        machines = coo_array((np.ones(len(kind)), (kind, where)), shape=(len(self._kinds), len(kind) + count)).tocsr()
        rows, high = [cover, machines[finite]], [-self._copies, np.array([one.most for one in self._kinds])[finite]]
        if self.homes is not None and self.homes.most is not None:
            running = float(self.size[self.homes.rows[0]] @ self.homes.rows[2])
            rows.append(csr_array(np.concatenate([-kept, np.zeros(count)])[None].astype(np.float64)))
            high.append(np.array([self.homes.most - running]))
        costs = np.concatenate([cost, self._penalty * self.size])
        return costs, vstack(rows).tocsr(), np.concatenate(high), machines[forced], np.ones(int(forced.sum())), forced

    def _solve_master(self) -> _Duals | None:
        """The programme over the patterns found so far."""
        from scipy.optimize import linprog

        cost, rows, high, same, ones, forced = self._columns(self._patterns, self._of)
        equal = {"A_eq": same, "b_eq": ones} if len(ones) else {}
        options = {"time_limit": max(self._left(), 0.01)}
        found = linprog(cost, A_ub=rows, b_ub=high, method="highs", options=options, **equal)
        if not found.success:
            return None
        dual, count = -found.ineqlin.marginals, len(self._copies)
        finite = np.array([np.isfinite(one.most) for one in self._kinds]) & ~forced
        machine = np.zeros(len(self._kinds))
        machine[finite] = -dual[count : count + int(finite.sum())]
        if len(ones):
            machine[forced] = found.eqlin.marginals
        kept = float(dual[-1]) if self.homes is not None and self.homes.most is not None else 0.0
        return _Duals(np.maximum(dual[:count], 0.0), machine, max(kept, 0.0), float(found.fun) + self._constant)

    def _generate(self, outcome: Outcome, until: float, most: float) -> tuple[_Duals | None, bool]:
        """Column generation: the last duals, and whether no pattern is left that would pay."""
        nodes = QUICK
        while True:
            duals = self._solve_master()
            if duals is None:
                return None, False
            added, worth, whole = 0, np.zeros(len(self._kinds)), True
            for t, kind in enumerate(self._kinds):
                pattern, value, bound = self._best_pattern(kind, duals, nodes)
                worth[t], whole = bound, whole and bound <= value + SMALL
                if pattern is not None and kind.cost - value - duals.machine[t] < -SMALL:
                    self._take(t, pattern)
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

    def _worth(self, kind: _Kind, duals: _Duals) -> Float:
        """(A, U + 1) what 0 .. U copies of each application are worth on a machine."""
        copies = np.arange(int(kind.high.max(initial=0)) + 1)
        each = 0.0 if self.homes is None else self.homes.each
        stay = (each + duals.kept) * self.size
        worth: Float = duals.copy[:, None] * copies + stay[:, None] * np.minimum(copies, kind.home[:, None])
        return worth

    def _machine(self, kind: _Kind, duals: _Duals, paying: bool) -> tuple[Any, Int]:
        """The kernel's view of a machine: the applications that fit, or pay, in the order of what they are worth."""
        from tvwrl.packing.patterns import Machine

        worth, problem = self._worth(kind, duals), self.problem
        used = (problem.demand / kind.room).max(axis=1)
        chosen = np.flatnonzero((kind.high > 0) & ((not paying) | (worth[:, -1] > 0) | (kind.low > 0)))
        rate = worth[chosen, np.minimum(1, worth.shape[1] - 1)] / np.maximum(used[chosen], 1e-9)
        order = chosen[np.argsort(-rate, kind="stable")]
        take = (problem.demand[order], problem.applications.needed[order], kind.low[order], kind.high[order])
        limit = np.ascontiguousarray(self._limit[np.ix_(order, order)])
        demand, needed, low, high = map(np.ascontiguousarray, take)
        return Machine(kind.room, demand, needed, low, high, limit, np.ascontiguousarray(worth[order])), order

    def _best_pattern(self, kind: _Kind, duals: _Duals, nodes: int) -> tuple[Int | None, float, float]:
        """The most valuable pattern found, its value, and what none is worth more than."""
        from tvwrl.packing.patterns import best_pattern

        machine, order = self._machine(kind, duals, True)
        if not len(order):
            return None, 0.0, 0.0
        found, value, bound = best_pattern(machine, nodes)
        if not np.isfinite(value):
            return None, 0.0, float(bound)
        pattern = np.zeros(len(self._copies), np.int64)
        pattern[order] = found
        return pattern, float(value), float(max(bound, value))

    def _proved(self, duals: _Duals, worth: Float) -> float:
        """What these duals prove: no plan of all replicas costs less (Lagrange)."""
        scale = 1.0
        for kind, most in zip(self._kinds, worth, strict=True):
            if np.isinf(kind.most) and most > kind.cost:
                scale = min(scale, kind.cost / most)
        proved = scale * float(self._copies @ duals.copy) + self._constant
        if self.homes is not None and self.homes.most is not None:
            running = float(self.size[self.homes.rows[0]] @ self.homes.rows[2])
            proved += scale * duals.kept * (running - self.homes.most)
        for kind, most in zip(self._kinds, worth, strict=True):
            if np.isinf(kind.most):
                continue
            surplus = kind.cost - (most if kind.home.any() else scale * most)
            proved += surplus if kind.low.any() else kind.most * min(surplus, 0.0)
        return proved - SMALL

    # Plans

    def _master(
        self, outcome: Outcome, patterns: Sequence[Int], of: Sequence[int], seconds: float | None = None
    ) -> bool:
        """Whole numbers of patterns: the plan they make, if it is better; whether it is their best."""
        from scipy.optimize import Bounds, LinearConstraint

        cost, rows, high, same, ones, _ = self._columns(patterns, of)
        limits = [LinearConstraint(rows, -np.inf, high), *([LinearConstraint(same, ones, ones)] if len(ones) else [])]
        whole = np.concatenate([np.ones(len(of)), np.zeros(len(self._copies))])
        seconds = min(self._left(), MASTER * self._left() if seconds is None else seconds)
        found = run_milp(
            cost,
            integrality=whole,
            bounds=Bounds(0, np.inf),
            constraints=limits,
            options={"time_limit": max(seconds, 0.01), "mip_rel_gap": 1e-9},
        )
        if found.x is not None:
            plan = self._plan(patterns, of, np.rint(found.x[: len(of)]).astype(np.int64))
            left, price = self.value(plan)
            if outcome.rows is None or (left, price) < (outcome.left, outcome.cost - SMALL):
                outcome.rows, outcome.left, outcome.cost = plan, left, price
        return bool(found.status == 0)

    def _plan(self, patterns: Sequence[Int], of: Sequence[int], times: Int) -> Rows:
        """Machines for patterns; copies beyond those that there are are taken off, those that run there last."""
        free = [list(kind.numbers) for kind in self._kinds]
        beyond = max([len(self.problem.kinds), *(int(kind.numbers.max(initial=-1)) + 1 for kind in self._kinds)])
        machine, held, home = [], [], []
        for p in np.flatnonzero(times).tolist():
            for _ in range(int(times[p])):
                if free[of[p]]:
                    machine.append(int(free[of[p]].pop(0)))
                else:
                    machine.append(beyond)
                    beyond += 1
                held.append(patterns[p].copy())
                home.append(self._kinds[of[p]].home)
        there = np.array(held).reshape(len(machine), len(self._copies))
        at_home = np.minimum(there, np.array(home).reshape(there.shape))
        for i, surplus in enumerate((there.sum(axis=0) - self._copies).tolist()):
            for strangers in (True, False):
                for m in np.argsort(there.sum(axis=1), kind="stable").tolist():
                    if surplus <= 0:
                        break
                    taken = min(surplus, int(there[m, i] - (at_home[m, i] if strangers else 0)))
                    there[m, i] -= taken
                    surplus -= taken
        row, application = np.nonzero(there)
        return application, np.array(machine, np.int64)[row], there[row, application]

    def value(self, rows: Rows) -> tuple[int, float]:
        """Replicas left over, and the cost of machines and moves."""
        application, machine, copies = rows
        left = int((self._copies - np.bincount(application, copies, len(self._copies))) @ self.size)
        costs = self.problem.fleet.costs
        price = float(costs[np.minimum(np.unique(machine), len(costs) - 1)].sum())
        if self.homes is not None and self.homes.each:
            now = {(i, m): n for i, m, n in zip(*(part.tolist() for part in rows), strict=True)}
            for i, m, n in zip(*(part.tolist() for part in self.homes.rows), strict=True):
                price += self.homes.each * int(self.size[i]) * max(n - now.get((i, m), 0), 0)
        return left, price

    # Costs that machines can add up to

    def _round_up(self, outcome: Outcome) -> None:
        """The bound as the least that machines with the volume of all replicas cost above it."""
        if np.isfinite(outcome.bound) and (cost := self._next_cost(outcome.bound, above=True)) is not None:
            outcome.bound = max(outcome.bound, cost - SMALL)

    def _next_cost(self, limit: float, above: bool) -> float | None:
        """The least cost of machines at or above `limit`, or the largest below it; None: none, or moves count."""
        from scipy.optimize import Bounds, LinearConstraint

        if self.homes is not None and self.homes.each:
            return None
        kinds = Kinds.among(self.problem.fleet)
        demand, room = self.problem.instance.total.max(axis=0), kinds.capacity.T
        low = limit - 2 * SMALL if above else -np.inf
        high = np.inf if above else limit - STEP * max(limit, 1.0)
        found = run_milp(
            kinds.cost if above else -kinds.cost,
            integrality=np.ones(len(kinds)),
            bounds=Bounds(0, kinds.most),
            constraints=[
                LinearConstraint(room, demand * (1 - 1e-8), np.inf),
                LinearConstraint(kinds.cost[None], low, high),
            ],
            options={"time_limit": min(1.0, max(self._left(), 0.01)), "mip_rel_gap": 1e-9},
        )
        if found.status == 2:
            return np.inf if above else -np.inf
        return None if found.status != 0 else float(kinds.cost @ np.rint(found.x))

    def _list_all(self, outcome: Outcome, duals: _Duals, most: float) -> None:
        """Take up all patterns that a plan cheaper than `most` can have: if they are few enough, the best is proved."""
        from tvwrl.packing.patterns import all_patterns

        aim = self._next_cost(most, above=False)
        aim = most if aim is None else aim
        if aim < outcome.bound - SMALL:
            outcome.bound = most  # no sum of costs lies between
            return
        gap = aim - duals.value + 2 * SMALL
        for share in (1.0, 0.4, 0.15):
            patterns: list[Int] = []
            of: list[int] = []
            whole = True
            for t, kind in enumerate(self._kinds):
                machine, order = self._machine(kind, duals, False)
                if not len(order):
                    continue
                worth = kind.cost - duals.machine[t] - share * gap
                found, all_of_them = all_patterns(machine, worth, max(LISTED - len(patterns), 1), NODES)
                whole = whole and all_of_them
                if not whole or not self._left():
                    break
                full = np.zeros((len(found), len(self._copies)), np.int64)
                full[:, order] = found
                patterns += list(full)
                of += [t] * len(full)
            if not self._left():
                return
            if whole:
                own = [p for p in range(len(self._of)) if self._kinds[self._of[p]].low.any()]  # always possible
                patterns, of = [*patterns, *(self._patterns[p] for p in own)], [*of, *(self._of[p] for p in own)]
                if patterns and self._master(outcome, patterns, of, self._left()) and share == 1.0:
                    best = outcome.cost if outcome.rows is not None and not outcome.left else np.inf
                    outcome.bound = max(outcome.bound, min(most, best))
                return
