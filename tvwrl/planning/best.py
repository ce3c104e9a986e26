"""The search with a time budget: a portfolio of rules, then guided ejection on ever cheaper sets of machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.planning.instance import Fleet, Instance, check_fits
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.plan import Plan
from tvwrl.planning.planners import Watch
from tvwrl.planning.registry import planner
from tvwrl.types import Float, InputError, Int

NAME = "best"
PORTFOLIO = ("FF", "SpreadWFD-Avg-BinSearch", "SpreadWFD-AvgExp-BinSearch", "WFD-AvgExp")  # cheap ones that won often
PORTFOLIO_SHARE = 0.5  # of the time; rules that have not started by then are left out
START = "FFD-Avg"  # of the search
ABOVE = 0.015  # share of the demand by which the machines that the search begins with exceed it
OPEN_MORE_AT = (0.5, 0.65, 0.8, 0.9)  # shares of the time at which a search without a plan opens more machines
EXAMINED = 12, 50  # machines examined for a replica, at least and at most: PER_STEP / unplaced replicas
PER_STEP = 20_000
MOVES, FEW = 3, 100  # random moves after a replica that ejected others, while at most FEW are unplaced
STEPS = 500  # of the search between two checks of the clock
SPARE = 32  # applications that a machine may hold beyond the most that any holds at the start
PATIENCE = 20_000  # steps after which another way to do with cheaper machines is tried, at first

Progress = Callable[[float, int], None]  # share of the time gone, 0 to 1, and machines of the best plan


@dataclass
class BestPlan:
    """The plan found, and how."""

    plan: Plan
    bound: float  # lower bound on the cost of machines; a plan that reaches it ends the search
    portfolio: dict[str, int] = field(default_factory=dict)  # machines of each rule that ran
    steps: int = 0  # replicas that the search placed


@dataclass(frozen=True)
class Kinds:
    """The different machines of a fleet, by capacity and cost."""

    capacity: Float  # (T, D)
    cost: Float  # (T,)
    of: Int  # (F,) kind of each machine listed
    most: Float  # (T,) machines that there are; inf of the kind that an open fleet goes on with

    @classmethod
    def among(cls, fleet: Fleet) -> Kinds:
        rows, of = np.unique(np.column_stack([fleet.capacity, fleet.costs]), axis=0, return_inverse=True)
        most = np.bincount(of.ravel()).astype(np.float64)
        if not fleet.fixed:
            most[of.ravel()[-1]] = np.inf
        return cls(rows[:, :-1], rows[:, -1], of.ravel(), most)

    def cheapest(self, demand: Float) -> Int | None:
        """(T,) machines of each kind that together have `demand` (D,) at the least cost; None if there are too few."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        if len(self.cost) == 1:
            count = np.ceil(np.round((demand / self.capacity[0]).max(), 9))
            return np.array([count], dtype=np.int64) if count <= self.most[0] else None
        found = milp(
            self.cost,
            integrality=np.ones(len(self.cost)),
            bounds=Bounds(0, self.most),
            constraints=LinearConstraint(self.capacity.T, lb=demand),
            options={"time_limit": 1.0, "mip_rel_gap": 1e-6},
        )
        return None if found.x is None else np.rint(found.x).astype(np.int64)


def plan_best(
    instance: Instance,
    fleet: Fleet,
    seconds: float,
    seed: int = 0,
    progress: Progress | None = None,
    save: Callable[[Plan], None] | None = None,
    bound: float = 0,
    start: Plan | None = None,
    moves_cost: float = 0.0,
    most_moves: int | None = None,
) -> BestPlan:
    """The cheapest plan of `instance` that is found in `seconds` >= 0; first fit's takes as long as it takes.

    On a fleet that does not hold all replicas: the plan that leaves the fewest over. `progress` is told the share of
    time gone and the machines of the best plan; `save` is handed every better plan as soon as it is there.
    `bound`: a lower bound on the cost, where one better than Eq. 4's is known; a plan that reaches it ends the search.
    `start`: the plan to improve, in place of the portfolio; a replica that it places elsewhere adds `moves_cost` >= 0
    to the cost, and `most_moves` limits how many these may be. The seed decides what the search does, the clock how far
    it comes. Raises InputError if an application is larger than every machine, or seconds are negative.
    """
    at_least(0, seconds=seconds, moves_cost=moves_cost, most_moves=most_moves)
    check_fits(instance, fleet)
    clock = _Clock(seconds, progress, save)
    problem, best = PackingProblem(instance, fleet), _Best(clock)
    found: dict[str, int] = {}
    if start is None:
        found = _portfolio(problem, clock, best)
    else:
        used = np.unique(start.machine)
        left = int(instance.replicas.sum() - start.replicas.sum())
        best.offer(left, _cost(fleet, used), lambda: replace(start, algorithm=NAME))
    least = max(bound, _least_cost(problem))
    search = _Search(problem, best, clock, seed, start, moves_cost, most_moves)
    search.run(least)
    if best.plan is None:
        raise InputError("not all replicas were placed: ...")
    plan = replace(best.plan, seconds=time.process_time() - clock.began)
    return BestPlan(plan, least, found, search.steps)


def _least_cost(problem: PackingProblem) -> float:
    """Least cost of machines that have the volume of all replicas."""
    fleet = problem.fleet
    kinds = Kinds.among(fleet)
    count = kinds.cheapest(problem.instance.total.max(axis=0))
    return float(kinds.cost @ count) if count is not None else 0.0


class _Clock:
    def __init__(self, seconds: float, progress: Progress | None, save: Callable[[Plan], None] | None) -> None:
        self.began, self.start, self.seconds = time.process_time(), time.monotonic(), seconds
        self._progress, self._save = progress, save

    def elapsed(self) -> float:
        """Elapsed share of the time."""
        return (time.monotonic() - self.start) / self.seconds if self.seconds else 1.0

    def report(self, machines: int) -> None:
        if self._progress is not None:
            self._progress(min(self.elapsed(), 1.0), machines)

    def record(self, plan: Plan) -> None:
        """Save a plan that is better than all before."""
        if self._save is not None:
            self._save(plan)
        self.report(plan.machines)


class _Best:
    """The best plan so far: the fewest replicas left over, then the least cost of machines and moves."""

    def __init__(self, clock: _Clock) -> None:
        self._clock = clock
        self.value = (np.inf, np.inf)
        self.plan: Plan | None = None

    def offer(self, left: int, cost: float, plan: Callable[[], Plan]) -> bool:
        """Take a plan if it is better."""
        if (left, cost) >= self.value:
            return False
        self.value, self.plan = (left, cost), plan()
        self._clock.record(self.plan)
        return True


def _portfolio(problem: PackingProblem, clock: _Clock, best: _Best) -> dict[str, int]:
    """Offer the plans of the rules that there is time for; returns the machines that each rule uses.

    Of a finite fleet they are shown the machines that would be cheapest by volume first.
    """
    found: dict[str, int] = {}
    kinds, number = Kinds.among(problem.fleet), np.arange(len(problem.kinds))
    shown = problem
    if problem.fleet.fixed and len(kinds.cost) > 1 and (count := kinds.cheapest(problem.instance.total.max(axis=0))) is not None:
        number = np.concatenate([_first_of(kinds, count), np.setdiff1d(number, _first_of(kinds, count))])
        shown = PackingProblem(problem.instance, replace(problem.fleet, capacity=problem.fleet.capacity[number]))
    for name in PORTFOLIO:
        deadline = clock.start + PORTFOLIO_SHARE * clock.seconds if best.plan is not None else None
        if deadline is not None and time.monotonic() > deadline:
            break
        try:
            packing = planner(name).pack(shown, Watch(deadline=deadline))
        except TimeoutError:
            continue
        plan = shown.plan(NAME, packing, 0.0)
        left = int(packing.left.sum())
        if left and not problem.fleet.fixed:
            continue  # machines like the last are too small for some, and the others were full: the search may do better
        listed = plan.machine < len(number)
        machine = np.where(listed, number[np.minimum(plan.machine, len(number) - 1)], plan.machine)
        plan = Plan.of(NAME, plan.application, machine, plan.replicas)
        used = np.unique(machine)
        found[name] = len(used)
        best.offer(left, _cost(problem.fleet, used), lambda plan=plan: plan)
    return found


def _first_of(kinds: Kinds, count: Int) -> Int:
    """Numbers of the first `count` (T,) listed machines of each kind, the largest kinds first."""
    order = np.argsort(-kinds.capacity[:, 0], kind="stable")
    return np.concatenate([np.flatnonzero(kinds.of == t)[: count[t]] for t in order])


def _cost(fleet: Fleet, used: Int) -> float:
    """Cost of the machines `used` (n,), those beyond the last listed like it."""
    return float(fleet.costs[np.minimum(used, len(fleet.costs) - 1)].sum())


class _Search:
    """Guided ejection search (see `packing.repair`) on some machines of a fleet.

    Begins with as many machines as have a little more than the demand, at the least cost. Whenever all replicas are
    placed, it closes a machine, or exchanges machines for cheaper ones. Rules that fill one machine after the other
    give better starts than rules that spread, although they need more machines to place everything.
    """

    def __init__(
        self,
        problem: PackingProblem,
        best: _Best,
        clock: _Clock,
        seed: int,
        start: Plan | None,
        moves_cost: float,
        most_moves: int | None,
    ) -> None:
        from tvwrl.packing.contents import contents_of

        self._problem, self._best, self._clock, self.steps = problem, best, clock, 0
        self._rng, self._applications = np.random.default_rng(seed), problem.applications
        self._kinds, self._demand = Kinds.among(problem.fleet), problem.instance.total.max(axis=0)
        self._moves_cost, self._most_moves = moves_cost, most_moves
        listed = len(problem.kinds)
        known = best.plan.machines if best.plan is not None else listed + int(problem.replicas.sum())
        machines = listed if problem.fleet.fixed else max(listed, known)
        self._kind = self._kinds.of[np.minimum(np.arange(machines), listed - 1)]
        if start is None:
            number = self._first_machines()
            chosen = Fleet(problem.fleet.capacity[np.minimum(number, listed - 1)], fixed=True)
            packing = planner(START).pack(PackingProblem(problem.instance, chosen), Watch())
            rows, homes = _entries(packing), None
        else:
            number, place = np.unique(start.machine, return_inverse=True)
            rows = start.application, place.astype(np.int64), start.replicas
            order = np.argsort(start.application, kind="stable")
            homes = tuple(column[order] for column in (start.application, start.machine, start.replicas))
        self._homes = homes is not None and (moves_cost > 0 or most_moves is not None)
        capacity = np.empty((len(self._kinds.cost), len(problem.capacity)))
        capacity[self._kinds.of] = problem.kinds
        self._contents = contents_of(
            self._applications, capacity, self._kind, number, rows, SPARE, homes if self._homes else None
        )

    def _first_machines(self) -> Int:
        """(n,) numbers of the machines to begin with."""
        kinds, count = self._kinds, None
        if not self._best.value[0] > 0 or not self._problem.fleet.fixed:
            count = kinds.cheapest(self._demand * (1 + ABOVE))
        available = np.bincount(self._kind, minlength=len(kinds.cost))
        if count is None:
            return np.arange(len(self._kind))
        order = np.argsort(-kinds.capacity[:, 0], kind="stable")
        return np.concatenate([np.flatnonzero(self._kind == t)[: min(count[t], available[t])] for t in order])

    @property
    def left(self) -> int:
        """Unplaced replicas."""
        return int(self._contents.unplaced[0])

    def run(self, least: float) -> None:
        """Search until the time is over, or a plan costs no more than `least`."""
        open_more_at = iter(OPEN_MORE_AT)
        until, patience, since, tried = next(open_more_at), PATIENCE, 0, 0
        kept: Any = None
        ways: list[Any] = []
        while self._clock.elapsed() < 1.0 and self._best.value > (0, least):
            if self.left == 0:
                if self._homes:
                    self._go_home()
                away = self.moved()
                within = self._most_moves is None or away <= self._most_moves
                cost = self._cost() + self._moves_cost * away
                if within and self._best.offer(0, cost, self.plan):
                    kept, patience = self._copy(), PATIENCE
                ways, tried = list(self._ways()), 0
                if not ways:
                    return
                self._take(ways[0])
                since = self.steps
            elif kept is None and self._clock.elapsed() > until:
                self._open_more()
                until = next(open_more_at, 1.0)
            elif kept is not None and self.steps - since > patience and (len(ways) > 1 or self._homes):
                tried += 1
                if tried == len(ways):
                    tried, patience = 0, 2 * patience
                self._restore(kept)
                self._take(ways[tried])
                since = self.steps
            self.steps += self._place(0 if self._best.value[0] == 0 or not self._problem.fleet.fixed else self.left - 1)
            if 0 < self.left < self._best.value[0] and self._problem.fleet.fixed:
                self._best.offer(self.left, self._cost(), self.plan)
            self._clock.report(self._best.plan.machines if self._best.plan is not None else 0)

    def _place(self, aim: int) -> int:
        """Search a while for a state with at most `aim` unplaced replicas; returns the steps taken."""
        from tvwrl.packing.repair import search

        examined = int(np.clip(PER_STEP / max(self.left, 1), *EXAMINED))
        moves = MOVES if self.left <= FEW and not self._homes else 0
        in_turn = self._best.value[0] == 0 or not self._problem.fleet.fixed  # else some may have to stay out
        return int(search(self._applications, self._contents, STEPS, examined, moves, aim, in_turn, self._rng))

    def _go_home(self) -> None:
        from tvwrl.packing.repair import return_home

        while return_home(self._applications, self._contents):
            pass

    def moved(self) -> int:
        """Replicas that are elsewhere than in the plan to start from."""
        from tvwrl.packing.repair import replicas_away

        return int(replicas_away(self._contents)) if self._homes else 0

    def _opened(self) -> Int:
        """(T,) open machines of each kind."""
        return np.bincount(self._contents.kind[: self._contents.open[0]], minlength=len(self._kinds.cost))

    def _cost(self) -> float:
        """Of the machines that hold anything."""
        s = self._contents
        used = s.kinds[: s.open[0]] > 0
        return float(self._kinds.cost[s.kind[: s.open[0]][used]].sum())

    def _ways(self) -> Iterator[tuple[Int, Int]]:
        """Machines to close and to open (T,), of each kind, that cost less and leave enough for the volume of demand.

        Those that leave the most room come first.
        """
        kinds, opened = self._kinds, self._opened()
        closed = np.bincount(self._kind, minlength=len(opened)) - opened
        ways = []
        one = np.eye(len(opened), dtype=np.int64)
        for t in np.flatnonzero(opened):
            ways.append((one[t], 0 * one[t]))
            for u in np.flatnonzero(closed):
                fewer = int(np.floor(kinds.cost[u] / kinds.cost[t] + 1e-9)) + 1  # closed for one of u
                if u != t and fewer <= opened[t]:
                    ways.append((fewer * one[t], one[u]))
                cheaper = int(np.ceil(kinds.cost[t] / kinds.cost[u] - 1e-9)) - 1  # opened for one of t
                if u != t and 1 < cheaper <= closed[u]:
                    ways.append((one[t], cheaper * one[u]))
        found = []
        for close, more in ways:
            room = float((((opened - close + more) @ kinds.capacity) / np.maximum(self._demand, 1e-300)).min())
            if room >= 1.0 - 1e-9:
                found.append((room, len(found), close, more))
        for _, _, close, more in sorted(found, key=lambda way: (-way[0], way[1])):
            yield close, more

    def _take(self, way: tuple[Int, Int]) -> None:
        from tvwrl.packing.repair import close_machine, open_machine

        close, more = way
        for t in np.repeat(np.arange(len(more)), more):
            open_machine(self._contents, np.int64(t))
        for t in np.repeat(np.arange(len(close)), close):
            close_machine(self._applications, self._contents, np.int64(t))

    def _open_more(self) -> None:
        """Open about as many more as the unplaced replicas need, the largest first."""
        from tvwrl.packing.repair import open_machine

        s = self._contents
        each = max(1, (self._problem.replicas.sum() - self.left) // max(int(s.open[0]), 1))
        for _ in range(-(-self.left // each)):
            for t in np.argsort(-self._kinds.capacity[:, 0], kind="stable"):
                if open_machine(s, np.int64(t)):
                    break

    def _copy(self) -> Any:
        return tuple(part.copy() for part in self._contents)

    def _restore(self, kept: Any) -> None:
        for name, now, then in zip(self._contents._fields, self._contents, kept, strict=True):
            if name not in ("weight", "capacity"):
                now[...] = then

    def plan(self) -> Plan:
        """The current plan, on machines by their numbers in the fleet."""
        s, machines = self._contents, int(self._contents.open[0])
        there = np.arange(s.application.shape[1]) < s.kinds[:machines, None]
        machine = s.number[np.nonzero(there)[0]]
        application, replicas = (part[:machines][there].astype(np.int64) for part in (s.application, s.count))
        return Plan.of(NAME, application, machine, replicas)


def _entries(packing: Any) -> tuple[Int, Int, Int]:
    from tvwrl.packing.affinity import entries

    return entries(packing)
