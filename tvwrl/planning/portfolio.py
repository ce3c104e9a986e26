"""The rules that a search with a time budget begins with."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvwrl.planning.best_so_far import BestSoFar, Clock, Rows, cost_of
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import Watch
from tvwrl.planning.rules import rule
from tvwrl.types import Int

PORTFOLIO = ("FF", "SpreadWFD-Avg-BinSearch", "SpreadWFD-AvgExp-BinSearch", "WFD-AvgExp")  # cheap ones that won often
PORTFOLIO_SHARE = 0.5  # of the time; rules that have not started by then are left out


@dataclass(frozen=True)
class Shown:
    """A packing problem as a planner is shown it: its machines in another order."""

    problem: PackingProblem
    number: Int  # (F,) of each machine in the fleet; those beyond the last keep theirs

    def rows(self, packing: Any) -> Rows:
        """What a rule has packed, on machines of the fleet."""
        from tvwrl.packing import entries

        return self.listed(entries(packing))

    def listed(self, rows: Rows) -> Rows:
        """Rows with the numbers that machines have in the fleet."""
        return _on(self.number, rows)

    def renumbered(self, rows: Rows) -> Rows:
        """Rows of the fleet with the numbers that machines have here."""
        return _on(np.argsort(self.number), rows)


def _on(number: Int, rows: Rows) -> Rows:
    """Rows on machines `number` (F,); those beyond the last keep theirs."""
    application, machine, replicas = rows
    last = len(number) - 1
    return application, np.where(machine > last, machine, number[np.minimum(machine, last)]), replicas


def as_listed(problem: PackingProblem) -> Shown:
    """The problem with the machines as the fleet lists them."""
    return Shown(problem, np.arange(len(problem.kinds)))


def by_kind(problem: PackingProblem) -> Shown:
    """The problem with machines of one kind one after the other, the largest first, however the fleet lists them.

    The kind that an open fleet goes on with stays the last.
    """
    kinds = Kinds.among(problem.fleet)
    if len(kinds) == 1:
        return as_listed(problem)
    number = kinds.first(np.full(len(kinds), len(problem.kinds)))
    if not problem.fleet.fixed:
        last = kinds.of[number] == kinds.of[-1]
        number = np.concatenate([number[~last], number[last]])
    return _shown(problem, number)


def _shown(problem: PackingProblem, number: Int) -> Shown:
    fleet = replace(problem.fleet.select(number), fixed=problem.fleet.fixed)
    return Shown(PackingProblem(problem.instance, fleet), number)


def cheapest_first(problem: PackingProblem) -> Shown | None:
    """The problem with the machines first that have the volume of all replicas at the least cost.

    None where their order makes no difference, or is that in which they have to be opened: on an open fleet.
    """
    kinds = Kinds.among(problem.fleet)
    if not problem.fleet.fixed or len(kinds) == 1:
        return None
    if (count := kinds.cheapest(problem.instance.total.max(axis=0))) is None:
        count = kinds.most.astype(np.int64)  # all of them, the largest first
    chosen = kinds.first(count)
    return _shown(problem, np.concatenate([chosen, np.setdiff1d(np.arange(len(problem.kinds)), chosen)]))


def run_portfolio(problem: PackingProblem, clock: Clock, best: BestSoFar, size: Int) -> dict[str, int]:
    """Offer the plans of the rules that there is time for; returns the machines that each rule uses.

    First Fit is shown the machines as they are listed too.
    """
    found: dict[str, int] = {}
    listed, ordered = as_listed(problem), cheapest_first(problem)
    ways = [(listed, PORTFOLIO)] if ordered is None else [(listed, PORTFOLIO[:1]), (ordered, PORTFOLIO)]
    for shown, names in ways:
        for name in names:
            deadline = clock.start + PORTFOLIO_SHARE * clock.seconds if best.rows is not None else None
            if deadline is not None and time.monotonic() > deadline:
                return found
            if (rows := _packed(shown, name, deadline)) is not None:
                used = np.unique(rows[1])
                found[name] = len(used)
                left = int(problem.replicas @ size - rows[2] @ size[rows[0]])
                best.offer(left, cost_of(problem.fleet, used), len(used), lambda rows=rows: rows)  # type: ignore[misc]
            clock.report(best.machines)
    return found


def _packed(shown: Shown, name: str, deadline: float | None) -> Rows | None:
    """The plan of a rule; None if it takes too long or fails."""
    try:
        packing = rule(name).pack(shown.problem, Watch(deadline=deadline))
    except TimeoutError:
        return None
    if packing.left.any() and not shown.problem.fleet.fixed:
        return None  # the machines without end are too small for some, and the others were full
    return shown.rows(packing)
