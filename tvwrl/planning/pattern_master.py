"""The master programme of patterns: which patterns machines of every kind hold, in parts for its duals, or whole.

A pattern is what one machine holds. The programme chooses how many machines of each kind hold which pattern (Gilmore
and Gomory 1961). Copies beyond those that there are cost nothing: they are taken off the plan. Copies that are
missing cost more than all machines, and so do replicas that move although they may not. Where moves count, or
replicas must stay, every machine on which replicas run is a kind of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvwrl.planning.best_so_far import Rows, cost_of
from tvwrl.planning.equal_cost import EXACT
from tvwrl.planning.kinds import Kinds
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
