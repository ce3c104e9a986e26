"""One planner with a time budget: a portfolio of rules, then a search that empties machine after machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tvwrl.provisioning.instance import Fleet, Instance, check_fits
from tvwrl.provisioning.plan import Plan
from tvwrl.provisioning.planners import Planner, Watch
from tvwrl.provisioning.registry import planner
from tvwrl.provisioning.workspace import Workspace
from tvwrl.types import InputError

NAME = "best"
PORTFOLIO = ("FF", "SpreadWFD-AvgExp-BinSearch", "SpreadWFD-Avg-BinSearch", "WFD-AvgExp")  # cheap ones that won often
PORTFOLIO_SHARE = 0.4  # of the time: what is not begun by then is left out
LOOKS = 500  # machines that the search looks at for a replica
STEPS = 500  # of the search between two looks at the clock
SPARE = 32  # applications that a machine may hold beyond what any holds at the start

Progress = Callable[[float, int], None]  # share of the time gone, 0 to 1, and machines of the best plan


@dataclass
class BestPlan:
    """What was found, and how."""

    plan: Plan
    bound: int  # machines that the volume of all replicas needs (Eq. 4); where it is reached the search ends
    portfolio: dict[str, int] = field(default_factory=dict)  # machines of each rule that was run
    steps: int = 0  # of the search: replicas that it placed


def plan_best(
    instance: Instance,
    fleet: Fleet,
    seconds: float,
    seed: int = 0,
    progress: Progress | None = None,
    save: Callable[[Plan], None] | None = None,
) -> BestPlan:
    """The plan with the fewest machines that is found in `seconds` > 0; first fit's takes as long as it takes.

    On a fixed fleet: with the fewest replicas left over. `save` is handed every better plan as soon as it is there.
    The seed decides what the search does, the clock how far it comes. Raises InputError if an application is larger
    than every machine, or seconds is not above 0.
    """
    if not seconds > 0:
        raise InputError(f"seconds is {seconds}: must be > 0")
    check_fits(instance, fleet)
    clock = _Clock(seconds, progress, save)
    work = Workspace(instance, fleet)
    packing, found = _portfolio(work, clock)
    best = BestPlan(clock.keep(work.plan(NAME, packing, 0.0)), work.fewest_machines, found)
    _Ejection(work, packing, clock, seed).improve(best)
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


def _portfolio(work: Workspace, clock: _Clock) -> tuple[Any, dict[str, int]]:
    """The best packing of the rules that there is time for, and the machines of each."""
    best: Any = None
    found: dict[str, int] = {}
    for name in PORTFOLIO:
        deadline = clock.start + PORTFOLIO_SHARE * clock.seconds if best is not None else None
        if deadline is not None and time.monotonic() > deadline:
            break
        try:
            packing = _pack(planner(name), work, deadline)
        except TimeoutError:
            continue
        _check_placed(work, packing)
        machines = int(packing.open[0])
        found[name] = machines
        if best is None or (packing.left.sum(), machines) < (best.left.sum(), int(best.open[0])):
            best = packing
        clock.tell(int(best.open[0]))
    return best, found


def _pack(rule: Planner, work: Workspace, deadline: float | None) -> Any:
    return rule.pack(work, Watch(deadline=deadline))


def _check_placed(work: Workspace, packing: Any) -> None:
    if packing.left.any() and not work.fleet.fixed:
        wrong = int(np.argmax(packing.left > 0))
        raise InputError(
            f"application '{work.instance.application[wrong]}': {packing.left[wrong]} replicas are left over: machines "
            "like the last of the fleet are too small for it, and the others are full"
        )


class _Ejection:
    """Guided ejection search, from a packing; see `packing.repair`."""

    def __init__(self, work: Workspace, packing: Any, clock: _Clock, seed: int) -> None:
        from tvwrl.packing.repair import shelves_of

        self._work, self._clock, self._seed = work, clock, seed
        self._shelves = shelves_of(work.applications, packing, SPARE)
        self._alike = bool((work.kinds == work.kinds[0]).all())

    def improve(self, best: BestPlan) -> None:
        """Until the time is over, or nothing is left to gain."""
        from tvwrl.packing.repair import close_machine, search

        shelves, fixed = self._shelves, self._work.fleet.fixed
        left = int(shelves.homeless[0])
        while self._clock.gone() < 1.0:
            if fixed and left == 0 or not fixed and best.plan.machines <= best.bound:
                return
            if not fixed and shelves.homeless[0] == 0:
                close_machine(shelves, self._alike)
            aim = left - 1 if fixed else 0
            self._seed += 1
            best.steps += search(self._work.applications, shelves, STEPS, LOOKS, aim, self._seed)
            if shelves.homeless[0] <= aim:
                left = int(shelves.homeless[0])
                best.plan = self._clock.keep(self._plan())
            else:
                self._clock.tell(best.plan.machines)

    def _plan(self) -> Plan:
        """The plan that the shelves are."""
        s, machines = self._shelves, int(self._shelves.open[0])
        there = np.arange(s.application.shape[1]) < s.kinds[:machines, None]
        machine = np.nonzero(there)[0]
        application, replicas = (part[:machines][there].astype(np.int64) for part in (s.application, s.count))
        return Plan(NAME, application, machine, replicas, int(machine.max()) + 1 if len(machine) else 0)
