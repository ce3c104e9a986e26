"""The search with a time budget: a portfolio of rules, then guided ejection on ever cheaper sets of machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.planning.instance import Fleet
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.plan import Plan
from tvwrl.planning.planners import Watch
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.rules import rule
from tvwrl.types import InputError, Int

SEARCH = "best"
PORTFOLIO = ("FF", "SpreadWFD-Avg-BinSearch", "SpreadWFD-AvgExp-BinSearch", "WFD-AvgExp")  # cheap ones that won often
PORTFOLIO_SHARE = 0.5  # of the time; rules that have not started by then are left out
START = "FFD-Avg"  # of the search
ABOVE = 0.015  # share of the demand by which the machines that the search begins with exceed it
NEAR = 1.05  # a plan to start from is gone on with if it costs at most this multiple of these machines
OPEN_MORE_AT = (0.5, 0.65, 0.8, 0.9)  # shares of the time at which a search without a plan opens more machines
EXAMINED = 12, 50  # machines examined for a replica, at least and at most: PER_STEP / unplaced replicas
PER_STEP = 20_000
MOVES, FEW = 3, 100  # random moves after a replica that ejected others, while at most FEW are unplaced
STEPS = 500  # of the search between two checks of the clock
SPARE = 32  # applications that a machine may hold beyond the most that any holds at the start
PATIENCE = 20_000  # steps after which another way to do with cheaper machines is tried, at first
TRIED = "nor did the search find any by moving others"

NOTHING = (np.zeros(0, np.int64),) * 3  # rows

Progress = Callable[..., None]  # share of the time gone, 0 to 1, and machines of the best plan
Rows = tuple[Int, Int, Int]  # applications, machines, replicas there


@dataclass
class Found:
    """The plan found, and how."""

    plan: Plan
    bound: float  # lower bound on the cost of machines; a plan that reaches it ends the search
    portfolio: dict[str, int] = field(default_factory=dict)  # machines of each rule that ran
    steps: int = 0  # replicas that the search placed


def search(
    problem: PlanningProblem,
    seconds: float,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    save: Callable[[Plan], None] | None = None,
    bound: float = 0.0,
    start: Plan | None = None,
    moves_cost: float = 0.0,
    most_moves: int | None = None,
) -> Found:
    """The cheapest plan that is found in `seconds` >= 0; first fit's takes as long as it takes.

    On a fixed fleet that does not hold all replicas: the plan that leaves the fewest over.

    Args:
        problem: applications and machines.
        seconds: of the clock. 0: first fit's plan, or, where that leaves replicas over, that of another rule.
        seed: decides what the search does; the clock, how far it comes.
        progress: called now and then with the share of time gone and the machines of the best plan.
        save: called with every better plan as soon as it is there.
        bound: a lower bound on the cost, where one better than the volume is known; a plan that reaches it ends the
            search.
        start: a plan to improve, in place of the portfolio; default: the running one, if moves count.
        moves_cost: >= 0, added to the cost for each replica that is not where it is in the plan to start from.
        most_moves: how many these may be; default: any number.

    Raises InputError if an option is out of range, or, on an open fleet, if not all replicas can be placed.
    """
    at_least(0, seconds=seconds, moves_cost=moves_cost, most_moves=most_moves, seed=seed)
    merged, clock = problem.merged, _Clock(seconds, progress)
    if not problem.fleet.fixed:
        merged.check_all_fit()
    if not len(merged.kept):
        return Found(merged.plan(SEARCH, NOTHING, 0.0, TRIED), 0.0)
    work = merged.packing_problem
    best = _Best(lambda rows: merged.plan(SEARCH, rows, time.process_time() - clock.began, TRIED), clock, save)
    counted = moves_cost > 0 or most_moves is not None
    pinned = _pinned(problem)
    start = start or (problem.running if counted or pinned.any() else None)
    rows = None if start is None else _kept(problem, start)
    size = np.bincount(merged.vertex, weights=merged.count)[merged.kept].astype(np.int64)  # replicas in a copy
    found = _portfolio(work, clock, best, size) if rows is None else {}
    least = max(bound, _least_cost(work))
    tried = _Search(work, best, clock, seed, rows, pinned, size, (moves_cost, most_moves) if counted else None)
    tried.run(least)
    if best.rows is None:
        raise InputError(
            f"not all replicas were placed in {seconds:g} s: allow more time, or list a machine last that is large "
            "enough for every application"
        )
    return Found(best.plan(), least, found, tried.steps)


def _pinned(problem: PlanningProblem) -> Any:
    """(n,) bool: whether a vertex of the packing problem has a member that must not move."""
    merged = problem.merged
    pinned = np.zeros(len(merged.instance), dtype=bool)
    if problem.pinned is not None:
        pinned[merged.vertex[problem.pinned]] = True
    return pinned[merged.kept]


def _kept(problem: PlanningProblem, start: Plan) -> Rows:
    """Rows of a plan, in vertices of the packing problem."""
    merged = problem.merged
    vertex, machine, copies = merged.merge(start)
    at = np.full(len(merged.instance), -1)
    at[merged.kept] = np.arange(len(merged.kept))
    there = at[vertex] >= 0
    return at[vertex[there]], machine[there], copies[there]


def _least_cost(problem: PackingProblem) -> float:
    """Least cost of machines that have the volume of all replicas."""
    kinds = Kinds.among(problem.fleet)
    count = kinds.cheapest(problem.instance.total.max(axis=0))
    return 0.0 if count is None else float(kinds.cost @ count)


class _Clock:
    def __init__(self, seconds: float, progress: Progress | None) -> None:
        self.began, self.start, self.seconds = time.process_time(), time.monotonic(), seconds
        self._progress = progress

    def elapsed(self) -> float:
        """Elapsed share of the time."""
        return (time.monotonic() - self.start) / self.seconds if self.seconds else 1.0

    def report(self, machines: int) -> None:
        if self._progress is not None:
            self._progress(min(self.elapsed(), 1.0), machines)


class _Best:
    """The best plan so far: the fewest replicas left over, then the least cost of machines and moves."""

    def __init__(self, made: Callable[[Rows], Plan], clock: _Clock, save: Callable[[Plan], None] | None) -> None:
        self._made, self._clock, self._save = made, clock, save
        self.left, self.cost, self.machines = np.inf, np.inf, 0
        self.rows: Rows | None = None

    def offer(self, left: int, cost: float, machines: int, rows: Callable[[], Rows]) -> bool:
        """Take a plan if it is better."""
        if (left, cost) >= (self.left, self.cost):
            return False
        self.left, self.cost, self.machines, self.rows = left, cost, machines, rows()
        if self._save is not None:
            self._save(self.plan())
        self._clock.report(machines)
        return True

    def plan(self) -> Plan:
        assert self.rows is not None
        return self._made(self.rows)


def _portfolio(problem: PackingProblem, clock: _Clock, best: _Best, size: Int) -> dict[str, int]:
    """Offer the plans of the rules that there is time for; returns the machines that each rule uses.

    Of a fixed fleet they are shown the machines that would be cheapest by volume first.
    """
    found: dict[str, int] = {}
    ways: list[tuple[PackingProblem, Int, tuple[str, ...]]] = [(problem, np.arange(len(problem.kinds)), PORTFOLIO)]
    if problem.fleet.fixed:
        kinds = Kinds.among(problem.fleet)
        count = kinds.cheapest(problem.instance.total.max(axis=0)) if len(kinds) > 1 else None
        if count is not None:
            chosen = _first_of(kinds, kinds.of, count)
            number = np.concatenate([chosen, np.setdiff1d(ways[0][1], chosen)])
            shown = PackingProblem(problem.instance, replace(problem.fleet, capacity=problem.fleet.capacity[number]))
            ways = [(problem, ways[0][1], PORTFOLIO[:1]), (shown, number, PORTFOLIO)]
    for shown, number, names in ways:
        for name in names:
            deadline = clock.start + PORTFOLIO_SHARE * clock.seconds if best.rows is not None else None
            if deadline is not None and time.monotonic() > deadline:
                return found
            if (rows := _packed(shown, name, number, deadline)) is not None:
                used = np.unique(rows[1])
                found[name] = len(used)
                left = int(problem.replicas @ size - rows[2] @ size[rows[0]])
                best.offer(left, _cost(problem.fleet, used), len(used), lambda rows=rows: rows)  # type: ignore[misc]
            clock.report(best.machines)
    return found


def _packed(problem: PackingProblem, name: str, number: Int, deadline: float | None) -> Rows | None:
    """The plan of a rule, on machines by their `number`; None if it takes too long or fails."""
    from tvwrl.packing.affinity import entries

    try:
        packing = rule(name).pack(problem, Watch(deadline=deadline))
    except TimeoutError:
        return None
    if packing.left.any() and not problem.fleet.fixed:
        return None  # the machines without end are too small for some, and the others were full
    application, machine, replicas = entries(packing)
    return application, np.where(machine < len(number), number[np.minimum(machine, len(number) - 1)], machine), replicas


def _first_of(kinds: Kinds, of: Int, count: Int) -> Int:
    """Numbers of the first `count` (T,) machines of each kind, `of` (M,) that of each machine; the largest first."""
    return np.concatenate([np.flatnonzero(of == t)[: count[t]] for t in kinds.largest_first])


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
        start: Rows | None,
        pinned: Any,
        size: Int,  # replicas in a copy of each application
        moves: tuple[float, int | None] | None,  # what one costs, and how many there may be
    ) -> None:
        self._problem, self._best, self._clock, self.steps = problem, best, clock, 0
        self._rng, self._applications = np.random.default_rng(seed), problem.applications
        self._kinds, self._demand = Kinds.among(problem.fleet), problem.instance.total.max(axis=0)
        self._size, self._fewest = size, int(problem.replicas.sum())  # copies left over in any state so far
        self._moves, self._homes = moves, False  # whether it begins with a plan
        listed = len(problem.kinds)
        extra = (
            0 if problem.fleet.fixed else max(best.machines, int(problem.replicas.sum()) if best.rows is None else 0)
        )
        if start is not None:
            extra = max(extra, int(start[1].max(initial=-1)) + 1)
        self._kind = self._kinds.of[np.minimum(np.arange(max(listed, extra)), listed - 1)]
        self._contents = self._begin(start, pinned)

    def _begin(self, start: Rows | None, pinned: Any) -> Any:
        """The contents of the machines to begin with."""
        from tvwrl.packing.affinity import entries
        from tvwrl.packing.contents import contents_of
        from tvwrl.packing.repair import put_back

        problem, number = self._problem, self._first_machines()
        capacity = np.empty((len(self._kinds), len(problem.capacity)))
        capacity[self._kinds.of] = problem.kinds
        if start is not None:
            used = np.unique(start[1])
            if not (self._moves or pinned.any()):
                near = _cost(problem.fleet, used) <= NEAR * float(self._kinds.cost[self._kind[number]].sum())
                start = start if near else None
        if start is None:
            chosen = Fleet(problem.fleet.capacity[np.minimum(number, len(problem.kinds) - 1)], fixed=True)
            rows = entries(rule(START).pack(PackingProblem(problem.instance, chosen), Watch()))
            return contents_of(self._applications, capacity, self._kind, number, rows, SPARE)
        order = np.argsort(start[0], kind="stable")
        homes = start[0][order], start[1][order], start[2][order]
        self._homes = True
        spare = SPARE + int(np.bincount(start[1]).max(initial=0))
        contents = contents_of(self._applications, capacity, self._kind, used, NOTHING, spare, homes)
        first = np.argsort(~pinned[homes[0]], kind="stable")  # what may not move gets its place before what may
        left = put_back(self._applications, contents, *(column[first] for column in homes))
        contents.weight[pinned] = np.inf
        if (wrong := np.flatnonzero(pinned & (left > 0))).size:
            name = problem.instance.application[wrong[0]]
            raise InputError(f"application '{name}' must not move, but what runs of it breaks a limit or a capacity")
        if not self._moves:
            contents.stay[:] = 0
        return contents

    def _first_machines(self) -> Int:
        """(n,) numbers of the machines to begin with."""
        kinds, count = self._kinds, None
        if not (self._problem.fleet.fixed and 0 < self._best.left < np.inf):
            count = kinds.cheapest(self._demand * (1 + ABOVE))
        if count is None:
            count = kinds.cheapest(self._demand) if not self._best.left else None
        return np.arange(len(self._kind)) if count is None else _first_of(kinds, self._kind, count)

    @property
    def left(self) -> int:
        """Unplaced replicas."""
        return int(self._contents.unplaced[0])

    @property
    def _fills(self) -> bool:
        """Whether the fleet is fixed, and no plan is known that places all on it: some may have to stay out."""
        return self._problem.fleet.fixed and self._best.left > 0

    def run(self, least: float) -> None:
        """Search until the time is over, or a plan costs no more than `least`."""
        if self._homes and (self.left == 0 or self._problem.fleet.fixed):
            self._offer()
        open_more_at = iter(OPEN_MORE_AT)
        until, patience, since, tried = next(open_more_at), PATIENCE, 0, 0
        kept: Any = None
        ways: list[tuple[Int, Int]] = []
        while (self._best.left, self._best.cost) > (0, least):
            if self.left == 0:
                if self._offer():
                    kept, patience = self._copy(), PATIENCE
                ways, tried = list(self._ways()), 0
                if not ways:
                    return
                self._take(ways[0])
                since = self.steps
            elif kept is None and self._clock.elapsed() > until:
                self._open_more()
                until = next(open_more_at, 1.0)
            elif kept is not None and self.steps - since > patience and (len(ways) > 1 or self._moves):
                tried += 1
                if tried == len(ways):
                    tried, patience = 0, 2 * patience
                self._restore(kept)
                self._take(ways[tried])
                since = self.steps
            if self._clock.elapsed() >= 1.0:
                return
            self.steps += self._place(max(self._fewest - 1, 0) if self._fills else 0)
            if self._fills and self.left < self._fewest:
                self._fewest = self.left
                self._offer()
            self._clock.report(self._best.machines)

    def _offer(self) -> bool:
        """Offer the current state, with as few moves as can be had; whether it is the best so far."""
        from tvwrl.packing.repair import replicas_away, return_home

        cost, s = self._cost(), self._contents
        if self._moves:
            while return_home(self._applications, s):
                pass
            each, most = self._moves
            away = int(replicas_away(s))
            if most is not None and away > most:
                return False
            cost += each * away
        left = int(self._size[s.pool[: self.left]].sum())
        return self._best.offer(left, cost, int((s.kinds[: s.open[0]] > 0).sum()), self._rows)

    def _place(self, aim: int) -> int:
        """Search a while for a state with at most `aim` unplaced replicas; returns the steps taken."""
        from tvwrl.packing.repair import search as eject

        examined = int(np.clip(PER_STEP / max(self.left, 1), *EXAMINED))
        moves = MOVES if self.left <= FEW and not self._moves else 0
        in_turn = not self._fills
        return int(eject(self._applications, self._contents, STEPS, examined, moves, aim, in_turn, self._rng))

    def _cost(self) -> float:
        """Of the machines that hold anything."""
        s = self._contents
        used = s.kinds[: s.open[0]] > 0
        return float(self._kinds.cost[s.kind[: s.open[0]][used]].sum())

    def _ways(self) -> Iterator[tuple[Int, Int]]:
        """Machines to close and to open (T,), of each kind, that cost less and leave enough for the volume of demand.

        Those that leave the most room come first.
        """
        kinds, s = self._kinds, self._contents
        opened = np.bincount(s.kind[: s.open[0]], minlength=len(kinds))
        closed = np.bincount(self._kind, minlength=len(kinds)) - opened
        one, found = np.eye(len(kinds), dtype=np.int64), []
        for t in np.flatnonzero(opened):
            ways = [(one[t], 0 * one[t])]
            for u in np.flatnonzero(closed):
                fewer = int(np.floor(kinds.cost[u] / kinds.cost[t] + 1e-9)) + 1  # closed for one of u
                cheaper = int(np.ceil(kinds.cost[t] / kinds.cost[u] - 1e-9)) - 1  # opened for one of t
                ways += [(fewer * one[t], one[u])] * int(u != t and fewer <= opened[t])
                ways += [(one[t], cheaper * one[u])] * int(u != t and 1 <= cheaper <= closed[u])
            for close, more in ways:
                room = (opened - close + more) @ kinds.capacity
                share = float((room / np.maximum(self._demand, 1e-300)).min())
                if share >= 1.0 - 1e-9:
                    found.append((share, close, more))
        for _, close, more in sorted(found, key=lambda way: -way[0]):
            yield close, more

    def _take(self, way: tuple[Int, Int]) -> None:
        """Open and close machines."""
        from tvwrl.packing.repair import close_machine, open_machine

        close, more = way
        for t in np.repeat(np.arange(len(more)), more):
            open_machine(self._contents, np.int64(t))
        for t in np.repeat(np.arange(len(close)), close):
            close_machine(self._applications, self._contents, np.int64(t))

    def _open_more(self) -> None:
        """Open about as many more as the unplaced replicas need, the largest first."""
        from tvwrl.packing.repair import open_machine

        each = max(1, (self._problem.replicas.sum() - self.left) // max(int(self._contents.open[0]), 1))
        for _ in range(-(-self.left // each)):
            if not any(open_machine(self._contents, np.int64(t)) for t in self._kinds.largest_first):
                return

    def _copy(self) -> tuple[Any, ...]:
        return tuple(part.copy() for part in self._contents)

    def _restore(self, kept: tuple[Any, ...]) -> None:
        for name, now, then in zip(self._contents._fields, self._contents, kept, strict=True):
            if name != "weight":  # what was learnt stays
                now[...] = then

    def _rows(self) -> Rows:
        """The current plan, on machines by their numbers in the fleet."""
        s, machines = self._contents, int(self._contents.open[0])
        there = np.arange(s.application.shape[1]) < s.kinds[:machines, None]
        machine = s.number[np.nonzero(there)[0]]
        application, replicas = (part[:machines][there].astype(np.int64) for part in (s.application, s.count))
        return application, machine, replicas
