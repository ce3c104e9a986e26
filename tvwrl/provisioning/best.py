"""One planner with a time budget: a portfolio of rules, then a search that empties machine after machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tvwrl.provisioning.instance import Fleet, Instance, check_fits
from tvwrl.provisioning.plan import Plan
from tvwrl.provisioning.planners import Watch
from tvwrl.provisioning.registry import planner
from tvwrl.provisioning.workspace import Workspace
from tvwrl.types import InputError

NAME = "best"
PORTFOLIO = ("FF", "SpreadWFD-Avg-BinSearch", "SpreadWFD-AvgExp-BinSearch", "WFD-AvgExp")  # cheap ones that won often
PORTFOLIO_SHARE = 0.5  # of the time: what is not begun by then is left out
START = "FFD-Avg"  # of the search
ABOVE = 0.015  # of the bound, by which the search begins above it
PATIENCE = (
    0.5,
    0.65,
    0.8,
    0.9,
)  # shares of the time after which the search, without a plan so far, opens further machines
LOOKS = 12, 50  # machines that are looked at for a replica, at least and at most: MANY / replicas without a place
MANY = 20_000
STROLLS, FEW = 3, 100  # random moves after a replica that threw others out, where at most FEW have no place
STEPS = 500  # of the search between two looks at the clock
SPARE = 32  # applications that a machine may hold beyond what any holds at the start

Progress = Callable[[float, int], None]  # share of the time gone, 0 to 1, and machines of the best plan


@dataclass
class BestPlan:
    """What was found, and how."""

    plan: Plan
    bound: int  # machines that are needed, as far as is known; where they are reached the search ends
    portfolio: dict[str, int] = field(default_factory=dict)  # machines of each rule that was run
    steps: int = 0  # of the search: replicas that it placed


def plan_best(
    instance: Instance,
    fleet: Fleet,
    seconds: float,
    seed: int = 0,
    progress: Progress | None = None,
    save: Callable[[Plan], None] | None = None,
    bound: int = 0,
) -> BestPlan:
    """The plan with the fewest machines that is found in `seconds` > 0; first fit's takes as long as it takes.

    On a fixed fleet: with the fewest replicas left over. `save` is handed every better plan as soon as it is there.
    `bound`: a lower bound on the machines, where one better than Eq. 4's is known; a plan that reaches it ends the
    search. The seed decides what the search does, the clock how far it comes. Raises InputError if an application is
    larger than every machine, or seconds is not above 0.
    """
    if not seconds > 0:
        raise InputError(f"seconds is {seconds}: must be > 0")
    check_fits(instance, fleet)
    clock = _Clock(seconds, progress, save)
    work = Workspace(instance, fleet)
    plan, found = _portfolio(work, clock)
    best = BestPlan(plan, max(bound, work.fewest_machines), found)
    (_fill_fixed if fleet.fixed else _empty_machines)(work, best, clock, seed)
    best.plan = replace(best.plan, seconds=time.process_time() - clock.began)
    return best


class _Clock:
    def __init__(self, seconds: float, progress: Progress | None, save: Callable[[Plan], None] | None) -> None:
        self.began, self.start, self.seconds = time.process_time(), time.monotonic(), seconds
        self._progress, self._save = progress, save

    def gone(self) -> float:
        """Share of the time that is over."""
        return (time.monotonic() - self.start) / self.seconds

    def tell(self, machines: int) -> None:
        if self._progress is not None:
            self._progress(min(self.gone(), 1.0), machines)

    def keep(self, plan: Plan) -> Plan:
        """Hand on a plan that is better than all before."""
        if self._save is not None:
            self._save(plan)
        self.tell(plan.machines)
        return plan


def _portfolio(work: Workspace, clock: _Clock) -> tuple[Plan, dict[str, int]]:
    """The best plan of the rules that there is time for, and the machines of each."""
    best: Any = None
    found: dict[str, int] = {}
    for name in PORTFOLIO:
        deadline = clock.start + PORTFOLIO_SHARE * clock.seconds if best is not None else None
        if deadline is not None and time.monotonic() > deadline:
            break
        try:
            packing = planner(name).pack(work, Watch(deadline=deadline))
        except TimeoutError:
            continue
        work.check_all_placed(packing)
        machines = int(packing.open[0])
        found[name] = machines
        if best is None or (packing.left.sum(), machines) < (best.left.sum(), int(best.open[0])):
            best = packing
            plan = clock.keep(work.plan(NAME, packing, 0.0))
        clock.tell(plan.machines)
    return plan, found


class _Ejection:
    """Guided ejection search (see `packing.repair`), from a packing that leaves replicas over.

    Rules that fill machines one after the other leave better starts than those that fill all alike, although they take
    more machines when they have to place everything.
    """

    def __init__(self, work: Workspace, machines: int, most: int, seed: int) -> None:
        """Begin on `machines`; up to `most` can be opened."""
        from tvwrl.packing.repair import shelves_of

        self._work, self._rng = work, np.random.default_rng(seed)
        fleet = Fleet(work.fleet.rows(machines), fixed=True)
        packing = planner(START).pack(Workspace(work.instance, fleet), Watch())
        self.shelves = shelves_of(work.applications, packing, work.kinds, most, SPARE)
        self._alike = bool((work.kinds == work.kinds[0]).all())

    @property
    def left(self) -> int:
        """Replicas without a place."""
        return int(self.shelves.homeless[0])

    def search(self, aim: int) -> int:
        """A stretch of the search for a state with at most `aim` left; returns its steps."""
        from tvwrl.packing.repair import search

        looks = int(np.clip(MANY / max(self.left, 1), *LOOKS))
        strolls = STROLLS if self.left <= FEW else 0
        in_turn = not self._work.fleet.fixed  # on a fixed fleet somebody may have to stay out
        return int(search(self._work.applications, self.shelves, STEPS, looks, strolls, aim, in_turn, self._rng))

    def close_machine(self) -> None:
        """One fewer, whose replicas lose their place."""
        from tvwrl.packing.repair import close_machine

        close_machine(self._work.applications, self.shelves, self._alike)

    def open_machines(self) -> int:
        """Enough more for those who have no place; returns how many are open then."""
        each = max(1, (self._work.replicas.sum() - self.left) // int(self.shelves.open[0]))
        self.shelves.open[0] = min(len(self.shelves.kinds), self.shelves.open[0] + -(-self.left // each))
        return int(self.shelves.open[0])

    def plan(self) -> Plan:
        """The plan that the shelves are."""
        s, machines = self.shelves, int(self.shelves.open[0])
        there = np.arange(s.application.shape[1]) < s.kinds[:machines, None]
        machine = np.nonzero(there)[0]
        application, replicas = (part[:machines][there].astype(np.int64) for part in (s.application, s.count))
        return Plan(NAME, application, machine, replicas, int(machine.max()) + 1 if len(machine) else 0)


def _fill_fixed(work: Workspace, best: BestPlan, clock: _Clock, seed: int) -> None:
    """Place more of the replicas on a fleet that does not hold all."""
    left = int(work.replicas.sum() - best.plan.replicas.sum())
    machines = len(work.kinds)
    search = _Ejection(work, machines, machines, seed)
    while left and clock.gone() < 1.0:
        best.steps += search.search(left - 1)
        if search.left < left:
            left = search.left
            best.plan = clock.keep(search.plan())
        clock.tell(best.plan.machines)


def _empty_machines(work: Workspace, best: BestPlan, clock: _Clock, seed: int) -> None:
    """Find plans on ever fewer machines, from a little above the bound on; if that is too few, with more."""
    first = min(best.plan.machines - 1, int(np.ceil(best.bound * (1 + ABOVE))))
    if first < best.bound:
        return
    search = _Ejection(work, first, best.plan.machines - 1, seed)
    patience = iter(PATIENCE)
    until = next(patience)
    while clock.gone() < 1.0:
        best.steps += search.search(0)
        if search.left == 0:
            best.plan, until = clock.keep(search.plan()), 1.0
            if best.plan.machines <= best.bound:
                return
            search.close_machine()
        elif clock.gone() > until:
            search.open_machines()
            until = next(patience, 1.0)
        clock.tell(best.plan.machines)
