"""The search with a time budget: a portfolio of rules, then guided ejection on ever cheaper sets of machines."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.parallel import run_calls
from tvwrl.planning.base import BUDGET, SEARCH, Abilities, Options, Progress, Watch, make_planner, register
from tvwrl.planning.ejection import NOTHING, BestSoFar, Clock, EjectionSearch, Rows, Save, cost_of, filled
from tvwrl.planning.kinds import Kinds, slack
from tvwrl.planning.milp import solve
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.pattern_search import Homes, Master, Outcome, PatternSearch, value_of
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.types import InputError, Int

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
        application, machine, replicas = rows
        last = len(self.number) - 1
        return application, np.where(machine > last, machine, self.number[np.minimum(machine, last)]), replicas

    def renumbered(self, rows: Rows) -> Rows:
        """Rows of the fleet with the numbers that machines have here."""
        return replace(self, number=np.argsort(self.number)).listed(rows)


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
            packing = None
            with contextlib.suppress(TimeoutError):
                packing = make_planner(name).pack(shown.problem, Watch(deadline=deadline))
            # On an open fleet replicas are left over if its last kind is too small for them, and the others were full.
            if packing is not None and (problem.fleet.fixed or not packing.left.any()):
                rows = shown.rows(packing)
                used = np.unique(rows[1])
                found[name] = len(used)
                left = int(problem.replicas @ size - rows[2] @ size[rows[0]])
                best.offer(left, cost_of(problem.fleet, used), len(used), lambda rows=rows: rows)  # type: ignore[misc]
            clock.report(best.machines)
    return found


FIRST_SHARE, LIST_SHARE = 0.2, 0.5  # of what is left of that, for the integer programme, then for lists of patterns
SMALL = 3_000  # variables of the integer programme at most
PATTERNS_SHARE = 0.75  # of the time, at most, for the search by patterns
TRIED = "nor did the search find any by moving others"


@dataclass
class Found:
    """The plan found, and how."""

    plan: Plan
    bound: float  # lower bound on the cost of machines; a plan that reaches it is the last
    portfolio: dict[str, int] = field(default_factory=dict)  # machines of each rule that ran
    steps: int = 0  # replicas that the search placed
    value: tuple[float, float] = (0.0, 0.0)  # replicas left over, and the cost of machines and moves


def search(
    problem: PlanningProblem,
    seconds: float,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    save: Save | None = None,
    bound: float = 0.0,
    start: Plan | None = None,
    moves_cost: float = 0.0,
    most_moves: int | None = None,
    searches: int = 1,
) -> Found:
    """Search for the cheapest plan for a time; first fit's takes as long as it takes.

    On a fixed fleet that does not hold all replicas: the plan that leaves the fewest over.

    Parameters
    ----------
    problem : PlanningProblem
        Applications and machines.
    seconds : float
        Of the clock, >= 0; 0: first fit's plan, or, where that leaves replicas over, that of another rule.
    seed : int
        Decides what the search does; the clock, how far it comes. >= 0.
    progress : callable or None
        Called now and then with the share of time gone and the machines of the best plan.
    save : callable or None
        Called as soon as there is a better plan, with a function that makes the best plan so far.
    bound : float
        A lower bound on the cost, if one better than the volume is known; a plan that reaches it is the last.
    start : Plan or None
        A plan to improve, in place of the portfolio; default: what runs, if moves count.
    moves_cost : float
        Added to the cost for each replica that is not where it is in the plan to start from, >= 0.
    most_moves : int or None
        How many these may be; None: any number.
    searches : int
        How many run side by side in processes, with seeds of their own, >= 1; the best plan of any counts.

    Returns
    -------
    Found
        The plan, a lower bound on the cost, and how it was found.

    Raises
    ------
    InputError
        An option is out of range, `start` moves pinned replicas, or, on an open fleet, not all replicas can be placed.

    Examples
    --------
    >>> from tvwrl.planning import generate_cluster
    >>> search(generate_cluster(machines=23, replicas=62), seconds=0.0).plan.algorithm
    'best'
    """
    at_least(0, seconds=seconds, moves_cost=moves_cost, most_moves=most_moves, seed=seed)
    at_least(1, searches=searches)
    unit = float(problem.fleet.costs.min())
    if unit != 1.0:  # so that tolerances mean the same, whatever the currency
        in_units = replace(problem, fleet=replace(problem.fleet, cost=problem.fleet.costs / unit))
        found = search(
            in_units,
            seconds,
            seed=seed,
            progress=progress,
            save=save,
            bound=bound / unit,
            start=start,
            moves_cost=moves_cost / unit,
            most_moves=most_moves,
            searches=searches,
        )
        return replace(found, bound=found.bound * unit, value=(found.value[0], found.value[1] * unit))
    if searches > 1:
        options = {"bound": bound, "start": start, "moves_cost": moves_cost, "most_moves": most_moves}
        return _best_of(problem, seconds, range(seed, seed + searches), options, progress, save)
    from tvwrl.packing import compile_kernels

    if seconds:
        compile_kernels()
    merged, clock = problem.merged, Clock(seconds, progress)
    if not problem.fleet.fixed:
        merged.check_all_fit()
    if not len(merged.kept):
        return Found(merged.plan(SEARCH, NOTHING, 0.0, TRIED), 0.0)
    shown = by_kind(merged.packing_problem) if seconds else as_listed(merged.packing_problem)
    work = shown.problem

    def made(rows: Rows) -> Plan:
        return merged.plan(SEARCH, shown.listed(rows), time.process_time() - clock.began, TRIED)

    best = BestSoFar(made, clock, save)
    counted = moves_cost > 0 or most_moves is not None
    pinned: Any = np.zeros(len(merged.instance), dtype=bool)  # vertices with a member that must not move
    if problem.pinned is not None:
        pinned[merged.vertex[problem.pinned]] = True
    pinned = pinned[merged.kept]
    start = start or (problem.running if counted or pinned.any() else None)
    if start is not None and pinned.any() and validate(problem, start).unpinned:
        raise InputError("the plan to improve moves replicas that must not move: plan anew, or unpin them")
    rows: Rows | None = None
    if start is not None:  # of the vertices that the packing problem has
        vertex, machine, copies = merged.merge(start)
        at = np.full(len(merged.instance), -1)
        at[merged.kept] = np.arange(len(merged.kept))
        there = at[vertex] >= 0
        rows = shown.renumbered((at[vertex[there]], machine[there], copies[there]))
    size = np.bincount(merged.vertex, weights=merged.count)[merged.kept].astype(np.int64)  # replicas in a copy
    portfolio = run_portfolio(work, clock, best, size) if rows is None else {}
    # What no machines that have the volume of all replicas cost less than
    least = max(bound, Kinds.among(work.fleet).least_cost(work.instance.total.max(axis=0)))
    homes = Homes(rows, moves_cost, most_moves, pinned) if rows is not None and (counted or pinned.any()) else None

    def ejecting(rows: Rows | None) -> EjectionSearch:
        moves = (moves_cost, most_moves) if counted else None
        return EjectionSearch(work, best, clock, seed, rows, pinned, size, moves)

    # Made at once where something runs, since it refuses what is pinned where it does not fit.
    ejection = None if homes is None else ejecting(rows)
    if seconds and PatternSearch.suits(work, homes):
        until = clock.start + PATTERNS_SHARE * seconds
        patterns = PatternSearch(Master(work, size, homes), until, lambda: clock.report(best.machines))
        least = _by_patterns(patterns, best, least)
        rows = best.rows if rows is None else rows
    enough = least + slack(work.fleet.costs, least, moves_cost)
    if best.rows is None or (best.left, best.cost) > (0, enough):
        ejection = ejection or ejecting(rows)
        ejection.run(enough)
    elif not best.left:
        least = max(least, best.cost)  # nothing is in between
    if work.fleet.fixed and best.rows is not None and best.left:
        rows = filled(work, best.rows, size)
        left, cost = value_of(work, size, homes, rows)
        best.offer(left, cost, len(np.unique(rows[1])), lambda: rows)
    if best.rows is None:
        moves = "" if most_moves is None else f" with at most {most_moves} moves: allow more moves, or"
        raise InputError(
            f"not all replicas were placed in {seconds:g} s{moves or ':'} allow more time, or list a machine last that "
            "is large enough for every application"
        )
    return Found(best.plan(), least, portfolio, ejection.steps if ejection is not None else 0, (best.left, best.cost))


def _by_patterns(patterns: PatternSearch, best: BestSoFar, least: float) -> float:
    """Offer plans of patterns, and of the integer programme; returns what no plan of all replicas costs less than."""
    work, homes = patterns.master.problem, patterns.master.homes

    def cost() -> float:
        return best.cost if not best.left else np.inf

    def take(outcome: Outcome) -> float:
        if outcome.rows is not None:
            rows = outcome.rows
            best.offer(outcome.left, outcome.cost, len(np.unique(rows[1])), lambda: rows)
        return outcome.bound

    least = take(patterns.generate(best.rows, least, cost()))
    size = len(work.instance) * (len(work.kinds) if work.fleet.fixed else best.machines)

    def programme(least: float, seconds: float) -> float:
        """By the integer programme, where it is small enough."""
        if homes is not None or size > SMALL or seconds <= 0 or not np.isfinite(cost()):
            return least
        if cost() <= least + slack(work.fleet.costs, cost()):
            return least
        assert best.rows is not None
        solved = solve(work.instance, work.fleet, Plan.of(SEARCH, *best.rows), seconds, least)
        rows = solved.plan.application, solved.plan.machine, solved.plan.replicas
        return take(Outcome(rows, *patterns.master.value(rows), max(least, solved.bound)))

    # Some problems are easy for the one and hard for the other, and which is not known before.
    least = programme(least, FIRST_SHARE * (patterns.deadline - time.monotonic()))
    seconds = LIST_SHARE * (patterns.deadline - time.monotonic())
    if best.left and best.rows is not None:
        least = take(patterns.list_fuller(least, int(best.left), best.cost, seconds))
    least = take(patterns.list_all(least, cost(), seconds))
    return programme(least, patterns.deadline - time.monotonic())


def _best_of(
    problem: PlanningProblem,
    seconds: float,
    seeds: range,
    options: dict[str, Any],
    progress: Progress | None,
    save: Save | None,
) -> Found:
    """The best of searches with these seeds, each in a process."""
    best: Found | None = None
    calls = [(_searched, (problem, seconds, seed, options)) for seed in seeds]
    for ended, (_, result) in enumerate(run_calls(calls, len(seeds), None, processes=True), 1):
        found: Found = result["found"]
        if best is None or found.value < best.value:
            best = found
            if save is not None:
                save(lambda plan=found.plan: plan)  # type: ignore[misc]
        if progress is not None:
            progress(ended / len(seeds), len(np.unique(best.plan.machine)))
    assert best is not None
    return best


def _searched(problem: PlanningProblem, seconds: float, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    return {"found": search(problem, seconds, seed=seed, **options)}


def by_search(problem: PlanningProblem, options: Options, start: Plan | None = None) -> Plan:
    """The plan of `search`; what of the options is not about it counts for nothing."""
    return search(
        problem,
        options.seconds,
        seed=options.seed,
        progress=options.progress,
        start=start,
        moves_cost=options.moves_cost,
        most_moves=options.most_moves,
        searches=options.searches,
    ).plan


register(
    SEARCH, "Search within the time given", BUDGET, Abilities(True, True, True, True), "this project", lambda: by_search
)
