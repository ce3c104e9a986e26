"""The rules that a search with a time budget begins with."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from tvwrl.planning.best_so_far import BestSoFar, Clock, Rows, cost_of
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import Watch
from tvwrl.planning.rules import rule
from tvwrl.types import Int

PORTFOLIO = ("FF", "SpreadWFD-Avg-BinSearch", "SpreadWFD-AvgExp-BinSearch", "WFD-AvgExp")  # cheap ones that won often
PORTFOLIO_SHARE = 0.5  # of the time; rules that have not started by then are left out


def run_portfolio(problem: PackingProblem, clock: Clock, best: BestSoFar, size: Int) -> dict[str, int]:
    """Offer the plans of the rules that there is time for; returns the machines that each rule uses.

    Of a fixed fleet they are shown the machines that would be cheapest by volume first.
    """
    found: dict[str, int] = {}
    ways: list[tuple[PackingProblem, Int, tuple[str, ...]]] = [(problem, np.arange(len(problem.kinds)), PORTFOLIO)]
    if problem.fleet.fixed:
        kinds = Kinds.among(problem.fleet)
        count = kinds.cheapest(problem.instance.total.max(axis=0)) if len(kinds) > 1 else None
        if count is not None:
            chosen = kinds.first(count)
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
                best.offer(left, cost_of(problem.fleet, used), len(used), lambda rows=rows: rows)  # type: ignore[misc]
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
