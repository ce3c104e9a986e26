"""One planner with a time budget: a portfolio of rules, then a search that empties machine after machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tvwrl.checks import positive
from tvwrl.provisioning.instance import Fleet, Instance, check_fits
from tvwrl.provisioning.packing_problem import PackingProblem
from tvwrl.provisioning.plan import Plan
from tvwrl.provisioning.planners import Watch
from tvwrl.provisioning.registry import planner

NAME = "best"
PORTFOLIO = ("FF", "SpreadWFD-Avg-BinSearch", "SpreadWFD-AvgExp-BinSearch", "WFD-AvgExp")  # cheap ones that won often
PORTFOLIO_SHARE = 0.5  # of the time; rules that have not started by then are left out
START = "FFD-Avg"  # of the search
ABOVE = 0.015  # share of the bound by which the search starts above it
OPEN_MORE_AT = (0.5, 0.65, 0.8, 0.9)  # shares of the time at which a search without a plan opens more machines
EXAMINED = 12, 50  # machines examined for a replica, at least and at most: PER_STEP / unplaced replicas
PER_STEP = 20_000
MOVES, FEW = 3, 100  # random moves after a replica that ejected others, while at most FEW are unplaced
STEPS = 500  # of the search between two checks of the clock
SPARE = 32  # applications that a machine may hold beyond the most that any holds at the start

Progress = Callable[[float, int], None]  # share of the time gone, 0 to 1, and machines of the best plan


@dataclass
class BestPlan:
    """The plan found, and how."""

    plan: Plan
    bound: int  # lower bound on the machines; a plan that reaches it ends the search
    portfolio: dict[str, int] = field(default_factory=dict)  # machines of each rule that ran
    steps: int = 0  # replicas that the search placed


def plan_best(
    instance: Instance,
    fleet: Fleet,
    seconds: float,
    seed: int = 0,
    progress: Progress | None = None,
    save: Callable[[Plan], None] | None = None,
    bound: int = 0,
) -> BestPlan:
    """The plan of `instance` with the fewest machines that is found in `seconds` > 0; first fit's takes as long as it
    takes.

    On a fixed fleet: with the fewest replicas left over. `progress` is told the share of time gone and the machines of
    the best plan; `save` is handed every better plan as soon as it is there.
    `bound`: a lower bound on the machines, where one better than Eq. 4's is known; a plan that reaches it ends the
    search. The seed decides what the search does, the clock how far it comes. Raises InputError if an application is
    larger than every machine, or seconds is not above 0.
    """
    positive(seconds=seconds)
    check_fits(instance, fleet)
    clock = _Clock(seconds, progress, save)
    problem = PackingProblem(instance, fleet)
    plan, found = _portfolio(problem, clock)
    best = BestPlan(plan, max(bound, problem.fewest_machines), found)
    (_fill_fixed if fleet.fixed else _empty_machines)(problem, best, clock, seed)
    best.plan = replace(best.plan, seconds=time.process_time() - clock.began)
    return best


class _Clock:
    def __init__(self, seconds: float, progress: Progress | None, save: Callable[[Plan], None] | None) -> None:
        self.began, self.start, self.seconds = time.process_time(), time.monotonic(), seconds
        self._progress, self._save = progress, save

    def elapsed(self) -> float:
        """Elapsed share of the time."""
        return (time.monotonic() - self.start) / self.seconds

    def report(self, machines: int) -> None:
        if self._progress is not None:
            self._progress(min(self.elapsed(), 1.0), machines)

    def record(self, plan: Plan) -> Plan:
        """Save and return a plan that is better than all before."""
        if self._save is not None:
            self._save(plan)
        self.report(plan.machines)
        return plan


def _portfolio(problem: PackingProblem, clock: _Clock) -> tuple[Plan, dict[str, int]]:
    """The best plan of the rules that there is time for, and the machines that each rule uses."""
    best: Any = None
    found: dict[str, int] = {}
    for name in PORTFOLIO:
        deadline = clock.start + PORTFOLIO_SHARE * clock.seconds if best is not None else None
        if deadline is not None and time.monotonic() > deadline:
            break
        try:
            packing = planner(name).pack(problem, Watch(deadline=deadline))
        except TimeoutError:
            continue
        problem.check_all_placed(packing)
        machines = int(packing.open[0])
        found[name] = machines
        if best is None or (packing.left.sum(), machines) < (best.left.sum(), int(best.open[0])):
            best = packing
            plan = clock.record(problem.plan(NAME, packing, 0.0))
        clock.report(plan.machines)
    return plan, found


class _Ejection:
    """Guided ejection search (see `packing.repair`) from a packing that leaves replicas unplaced.

    Rules that fill one machine after the other give better starts than rules that spread, although they need more
    machines to place everything.
    """

    def __init__(self, problem: PackingProblem, machines: int, most: int, seed: int) -> None:
        """Start with `machines`; up to `most` can be opened."""
        from tvwrl.packing.contents import contents_of

        self._problem, self._rng = problem, np.random.default_rng(seed)
        fleet = Fleet(problem.fleet.rows(machines), fixed=True)
        packing = planner(START).pack(PackingProblem(problem.instance, fleet), Watch())
        self.contents = contents_of(problem.applications, packing, problem.kinds, most, SPARE)
        self._alike = bool((problem.kinds == problem.kinds[0]).all())

    @property
    def left(self) -> int:
        """Unplaced replicas."""
        return int(self.contents.unplaced[0])

    def search(self, aim: int) -> int:
        """Search a while for a state with at most `aim` unplaced replicas; returns the steps taken."""
        from tvwrl.packing.repair import search

        examined = int(np.clip(PER_STEP / max(self.left, 1), *EXAMINED))
        moves = MOVES if self.left <= FEW else 0
        in_turn = not self._problem.fleet.fixed  # on a fixed fleet some may have to stay out
        return int(search(self._problem.applications, self.contents, STEPS, examined, moves, aim, in_turn, self._rng))

    def close_machine(self) -> None:
        """Close one machine; its replicas become unplaced."""
        from tvwrl.packing.repair import close_machine

        close_machine(self._problem.applications, self.contents, self._alike)

    def open_machines(self) -> None:
        """Open about as many more as the unplaced replicas need."""
        each = max(1, (self._problem.replicas.sum() - self.left) // int(self.contents.open[0]))
        self.contents.open[0] = min(len(self.contents.kinds), self.contents.open[0] + -(-self.left // each))

    def plan(self) -> Plan:
        """The current plan."""
        s, machines = self.contents, int(self.contents.open[0])
        there = np.arange(s.application.shape[1]) < s.kinds[:machines, None]
        machine = np.nonzero(there)[0]
        application, replicas = (part[:machines][there].astype(np.int64) for part in (s.application, s.count))
        return Plan.of(NAME, application, machine, replicas)


def _fill_fixed(problem: PackingProblem, best: BestPlan, clock: _Clock, seed: int) -> None:
    """Place more replicas on a fixed fleet that does not hold all."""
    left = int(problem.replicas.sum() - best.plan.replicas.sum())
    machines = len(problem.kinds)
    search = _Ejection(problem, machines, machines, seed)
    while left and clock.elapsed() < 1.0:
        best.steps += search.search(left - 1)
        if search.left < left:
            left = search.left
            best.plan = clock.record(search.plan())
        clock.report(best.plan.machines)


def _empty_machines(problem: PackingProblem, best: BestPlan, clock: _Clock, seed: int) -> None:
    """Find plans on ever fewer machines, starting a little above the bound; if those are too few, with more."""
    first = min(best.plan.machines - 1, int(np.ceil(best.bound * (1 + ABOVE))))
    if first < best.bound:
        return
    search = _Ejection(problem, first, best.plan.machines - 1, seed)
    open_more_at = iter(OPEN_MORE_AT)
    until = next(open_more_at)
    while clock.elapsed() < 1.0:
        best.steps += search.search(0)
        if search.left == 0:
            best.plan, until = clock.record(search.plan()), 1.0
            if best.plan.machines <= best.bound:
                return
            search.close_machine()
        elif clock.elapsed() > until:
            search.open_machines()
            until = next(open_more_at, 1.0)
        clock.report(best.plan.machines)
