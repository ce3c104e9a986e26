"""Guided ejection search for ever cheaper sets of machines that hold all replicas, or for room for more of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tvwrl.packing import int64
from tvwrl.planning.base import Progress, Watch
from tvwrl.planning.instance import Fleet
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.plan import Plan
from tvwrl.planning.planners import SIZES, BySize, FirstFit
from tvwrl.types import InputError, Int

Rows = tuple[Int, Int, Int]  # applications, machines, replicas there
Save = Callable[[Callable[[], Plan]], None]  # takes what makes the plan: saying why replicas are left over takes long


class Clock:
    def __init__(self, seconds: float, progress: Progress | None) -> None:
        self.began, self.start, self.seconds = time.process_time(), time.monotonic(), seconds
        self._progress = progress

    def elapsed(self) -> float:
        """Elapsed share of the time."""
        return (time.monotonic() - self.start) / self.seconds if self.seconds else 1.0

    def report(self, machines: int) -> None:
        if self._progress is not None:
            self._progress(min(self.elapsed(), 1.0), machines)


class BestSoFar:
    """The best plan so far: the fewest replicas left over, then the least cost of machines and moves."""

    def __init__(self, made: Callable[[Rows], Plan], clock: Clock, save: Save | None) -> None:
        self._made, self._clock, self._save = made, clock, save
        self.left, self.cost, self.machines = np.inf, np.inf, 0
        self.rows: Rows | None = None

    def offer(self, left: int, cost: float, machines: int, rows: Callable[[], Rows]) -> bool:
        """Take a plan if it is better."""
        if (left, cost) >= (self.left, self.cost):
            return False
        self.left, self.cost, self.machines, self.rows = left, cost, machines, rows()
        if self._save is not None:
            self._save(self.plan)
        self._clock.report(machines)
        return True

    def plan(self) -> Plan:
        assert self.rows is not None
        return self._made(self.rows)


def cost_of(fleet: Fleet, used: Int) -> float:
    """Cost of the machines `used` (n,), those beyond the last listed like it."""
    return float(fleet.costs[np.minimum(used, len(fleet.costs) - 1)].sum())


START = FirstFit(BySize(SIZES["Avg"]))
ABOVE = 0.015  # share of the demand by which the machines that the search begins with exceed it
NEAR = 1.05  # a plan to start from is gone on with if it costs at most this multiple of these machines
OPEN_MORE_AT = (0.5, 0.65, 0.8, 0.9)  # shares of the time at which a search without a plan opens more machines
EXAMINED = 12, 50  # machines examined for a replica, at least and at most: PER_STEP / unplaced replicas
PER_STEP = 20_000
MOVES, FEW = 3, 100  # random moves after a replica that ejected others, while at most FEW are unplaced
STEPS = 500  # of the search between two checks of the clock
EXCHANGED = 4  # machines of one kind that are closed at once for others, at most
SPARE = 32  # applications that a machine may hold beyond the most that any holds at the start
PATIENCE = 20_000  # steps after which another way to do with cheaper machines is tried, at first
FEW_MOVES = 500  # the same where only some replicas may move: what went so far has mostly moved too many
NOTHING = (np.zeros(0, np.int64),) * 3  # rows


def filled(problem: PackingProblem, rows: Rows, size: Int) -> Rows:
    """A plan of a fixed fleet, and with it what of the rest has room as it is: the smallest copies first.

    `size`: (A,) replicas in a copy
    """
    from tvwrl.packing import contents_of, refill

    kinds, every = Kinds.among(problem.fleet), np.arange(len(problem.kinds))
    capacity = np.empty((len(kinds), len(problem.capacity)))
    capacity[kinds.of] = problem.kinds
    contents = contents_of(problem.applications, capacity, kinds.of, every, rows, SPARE)
    share = (problem.demand / problem.capacity).max(axis=1) / size
    refill(problem.applications, contents, np.argsort(share, kind="stable"), np.zeros(0, np.int64))
    return rows_of(contents)


def rows_of(contents: Any) -> Rows:
    """What is on the open machines, by their numbers in the fleet."""
    machines = int(contents.open[0])
    there = np.arange(contents.application.shape[1]) < contents.kinds[:machines, None]
    machine = contents.number[np.nonzero(there)[0]]
    application, replicas = (part[:machines][there].astype(np.int64) for part in (contents.application, contents.count))
    return application, machine, replicas


class EjectionSearch:
    """Guided ejection search (see `packing.repair`) on some machines of a fleet.

    Begins with as many machines as have a little more than the demand, at the least cost. Whenever all replicas are
    placed, it closes a machine, or exchanges machines for cheaper ones. Rules that fill one machine after the other
    give better starts than rules that spread, although they need more machines to place everything.
    """

    def __init__(
        self,
        problem: PackingProblem,
        best: BestSoFar,
        clock: Clock,
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
        self._value = np.inf, np.inf  # of the state that was offered last, if it may be
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
        from tvwrl.packing import contents_of, entries, put_back

        problem, kinds, count = self._problem, self._kinds, None
        if not (problem.fleet.fixed and 0 < self._best.left < np.inf):
            count = kinds.cheapest(self._demand * (1 + ABOVE))
        if count is None and not self._best.left:
            count = kinds.cheapest(self._demand)
        number = np.arange(len(self._kind)) if count is None else kinds.first(count, self._kind)
        capacity = np.empty((len(self._kinds), len(problem.capacity)))
        capacity[self._kinds.of] = problem.kinds
        if start is not None:
            used = np.unique(start[1])
            if not (self._moves or pinned.any()):
                near = cost_of(problem.fleet, used) <= NEAR * float(self._kinds.cost[self._kind[number]].sum())
                start = start if near else None
        if start is None:
            chosen = Fleet(problem.fleet.capacity[np.minimum(number, len(problem.kinds) - 1)], fixed=True)
            rows = entries(START.pack(PackingProblem(problem.instance, chosen), Watch()))
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
        few = self._moves is not None and self._moves[1] is not None
        first = FEW_MOVES if few else PATIENCE
        if self._homes and self.left and self._moves:
            self._fill()  # before others have to move for what is on no machine yet
        elif self._homes and self.left:
            self._open_more()
        if self._homes and (self.left == 0 or self._problem.fleet.fixed):
            self._offer()
        open_more_at = iter(OPEN_MORE_AT)
        until, patience, since, tried = next(open_more_at), first, 0, 0
        kept: Any = self._copy() if self._homes and self.left == 0 and not self._too_many else None
        fullest: Any = self._copy() if few and self._fills and not self._too_many else None  # to go back to
        ways: list[tuple[Int, Int]] = []
        while (self._best.left, self._best.cost) > (0, least):
            if self.left == 0 and not (kept is not None and ways and self._too_many):
                # As good as the best will do, as where a rule found that one: else no way back would be known.
                if self._offer() or (kept is None and self._value <= (self._best.left, self._best.cost)):
                    kept, patience = self._copy(), first
                last = ways[tried] if ways else None
                ways, tried = list(self._ways()), 0
                if not ways:
                    return
                if last is not None:  # what led to a plan is tried again first: as many dear machines give way in turn
                    ways.sort(key=lambda way, last=last: not all(map(np.array_equal, way, last)))  # type: ignore[misc]
                self._take(ways[0])
                since = self.steps
            elif kept is None and self._clock.elapsed() > until:
                self._open_more()
                until = next(open_more_at, 1.0)
            elif (
                kept is not None
                and (self.left == 0 or self.steps - since > patience)
                and (len(ways) > 1 or self._moves)
            ):
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
                self._offer()
                if fullest is None:
                    self._fewest = self.left
                elif not self._too_many:
                    self._fewest, fullest, since = self.left, self._copy(), self.steps
            if self._fills and fullest is not None and (self.left < self._fewest or self.steps - since > first):
                self._restore(fullest)
                since = self.steps
            self._clock.report(self._best.machines)

    @property
    def _too_many(self) -> bool:
        """Whether more replicas than may move are elsewhere, or on no machine."""
        from tvwrl.packing import replicas_away

        if self._moves is None or self._moves[1] is None:
            return False
        return bool(replicas_away(self._contents, self._size) > self._moves[1])

    def _fill(self) -> None:
        """Place what has room, moving nothing: the largest first, on machines that are opened for it if need be."""
        from tvwrl.packing import refill

        problem, kinds = self._problem, self._kinds
        share = (problem.demand / problem.capacity).max(axis=1)
        rate = kinds.cost / (kinds.capacity / kinds.capacity.max(axis=0)).mean(axis=1)
        refill(self._applications, self._contents, np.argsort(-share, kind="stable"), np.argsort(rate, kind="stable"))

    def _offer(self) -> bool:
        """Offer the current state, with as few moves as can be had; whether it is the best so far."""
        from tvwrl.packing import replicas_away, return_home

        s = self._contents
        if self._moves:
            while return_home(self._applications, s):
                pass
        used = s.kinds[: s.open[0]] > 0
        cost = float(self._kinds.cost[s.kind[: s.open[0]][used]].sum())
        if self._moves:
            each, most = self._moves
            away = int(replicas_away(s, self._size))
            self._value = np.inf, np.inf
            if most is not None and away > most:
                return False
            cost += each * away
        left = int(self._size[s.pool[: self.left]].sum())
        self._value = left, cost
        return self._best.offer(left, cost, int(used.sum()), lambda: rows_of(s))

    def _place(self, aim: int) -> int:
        """Search a while for a state with at most `aim` unplaced replicas; returns the steps taken."""
        from tvwrl.packing import search as eject

        examined = int(np.clip(PER_STEP / max(self.left, 1), *EXAMINED))
        moves = MOVES if self.left <= FEW and not self._moves else 0
        in_turn = not self._fills
        return int(eject(self._applications, self._contents, STEPS, examined, moves, aim, in_turn, self._rng))

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
                if u != t:
                    ways += [
                        (a * one[t], b * one[u])
                        for a, b in self._exchanges(int(t), int(u), int(opened[t]), int(closed[u]))
                    ]
            for close, more in ways:
                room, asked = (opened - close + more) @ kinds.capacity, self._demand > 0
                share = float((room[asked] / self._demand[asked]).min(initial=np.inf))
                if share >= 1.0 - 1e-9:
                    found.append((share, close, more))
        for _, close, more in sorted(found, key=lambda way: -way[0]):
            yield close, more
        if len(kinds) > 1 and (other := kinds.nearest(self._demand, opened, float(kinds.cost @ opened))) is not None:
            yield np.maximum(opened - other, 0), np.maximum(other - opened, 0)

    def _exchanges(self, t: int, u: int, opened: int, closed: int) -> Iterator[tuple[int, int]]:
        """So many machines of kind t to close, and so many of u to open, that cost less: few of them, or one of u."""
        each, other = float(self._kinds.cost[t]), float(self._kinds.cost[u])
        fewest = int(np.floor(other / each + 1e-9)) + 1  # for one of u
        for close in sorted({*range(1, EXCHANGED + 1), fewest}):
            cheaper = min(int(np.ceil(close * each / other - 1e-9)) - 1, closed)
            if close <= opened and cheaper >= 1 and math.gcd(close, cheaper) == 1:
                yield close, cheaper

    def _take(self, way: tuple[Int, Int]) -> None:
        """Close machines, then open others, so that these are the last that were opened."""
        from tvwrl.packing import close_machine, open_machine

        close, more = way
        for t in np.repeat(np.arange(len(close)), close):
            close_machine(self._applications, self._contents, int64(t))
        for t in np.repeat(np.arange(len(more)), more):
            open_machine(self._contents, int64(t))

    def _open_more(self) -> None:
        """Open about as many more as the unplaced replicas need, the largest first."""
        from tvwrl.packing import open_machine

        each = max(1, (self._problem.replicas.sum() - self.left) // max(int(self._contents.open[0]), 1))
        for _ in range(-(-self.left // each)):
            if not any(open_machine(self._contents, int64(t)) for t in self._kinds.largest_first):
                return

    def _copy(self) -> tuple[Any, ...]:
        return tuple(part.copy() for part in self._contents)

    def _restore(self, kept: tuple[Any, ...]) -> None:
        for name, now, then in zip(self._contents._fields, self._contents, kept, strict=True):
            if name != "weight":  # what was learnt stays
                now[...] = then
