"""All planners: whether one can plan for a problem, and `make_plan`, which runs one."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from tvwrl.planning import best, lrasched, planners
from tvwrl.planning.base import IMPROVED, SEARCH, Options, Progress, Rule, Watch, listed_names, make_planner
from tvwrl.planning.base import abilities as abilities
from tvwrl.planning.base import family_of as family_of
from tvwrl.planning.base import title_of_planner as title_of_planner
from tvwrl.planning.best import as_listed, cheapest_first
from tvwrl.planning.ejection import NOTHING
from tvwrl.planning.flow import aladdin, firmament, medea, tetris_graphene
from tvwrl.planning.instance import counted
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.types import InputError

REGISTERED_BY = planners, lrasched, aladdin, tetris_graphene, firmament, medea, best  # importing them registers theirs
PLANNERS = listed_names()
UNWATCHED = Watch()
TRIED = "and this planner moves nothing that it has placed"


def check_planner(name: str, problem: PlanningProblem) -> None:
    """Raise InputError, saying why, if there is no planner `name` or it cannot plan for this problem."""
    can = abilities(name)
    if not can.open_fleet and not problem.fleet.fixed:
        raise InputError(f"planner '{name}' needs a fixed number of machines: give how many there are of each kind")
    if not can.keeps_constraints and len(problem.barred):
        raise InputError(f"planner '{name}' knows no blacklists")
    if not can.moves_running and problem.pinned is not None and problem.pinned.any():
        raise InputError(f"planner '{name}' places all replicas anew, but some must not move: use {SEARCH}")


def make_plan(
    problem: PlanningProblem,
    name: str,
    *,
    seed: int = 0,
    seconds: float = 30.0,
    moves_cost: float = 0.0,
    most_moves: int | None = None,
    searches: int = 1,
    medea_seconds: float = 2.0,
    progress: Progress | None = None,
    deadline: float | None = None,
) -> Plan:
    """Place the replicas of a problem by a planner.

    On an open fleet it places all, on as few machines as it can; on a fixed one as many as it can, and the plan says
    why the others have no machine. Rules try the machines of a fixed fleet in the order of `best.cheapest_first`.

    Parameters
    ----------
    problem : PlanningProblem
        Applications and machines.
    name : str
        One of `PLANNERS`, or a name of the same form with other numbers.
    seed : int
        Of planners that draw, >= 0.
    seconds : float
        Of the search, >= 0.
    moves_cost : float
        Of the search: what moving a running replica costs, >= 0, see `search`.
    most_moves : int or None
        Of the search: how many running replicas may move; None: any number.
    searches : int
        Of the search: how many run side by side, >= 1.
    medea_seconds : float
        Of each of Medea's integer programmes, > 0.
    progress : callable or None
        Called now and then with the share of the work that is done, 0 to 1.
    deadline : float or None
        Reading of `time.monotonic()` at which to stop: planners that try several numbers of machines then return
        their best plan so far.

    Returns
    -------
    Plan
        What goes where, with the name of the planner.

    Raises
    ------
    InputError
        There is no such planner, it cannot plan for the problem, or, on an open fleet, not all replicas can be placed.
    TimeoutError
        The deadline passed before there was any plan.

    Examples
    --------
    >>> from tvwrl.planning import Fleet, PlanningProblem, generate_cluster
    >>> make_plan(generate_cluster(machines=23, replicas=62), "FF").machines <= 23
    True
    """
    check_planner(name, problem)
    options = Options(seed, seconds, moves_cost, most_moves, searches, medea_seconds, progress)
    if name.endswith(IMPROVED):
        start = make_plan(problem, name.removesuffix(IMPROVED), seed=seed, medea_seconds=medea_seconds)
        found = best.by_search(problem, options, start)
        return Plan.of(name, found.application, found.machine, found.replicas, start.seconds + found.seconds)
    planner: Any = make_planner(name)
    if hasattr(planner, "pack"):
        return by_rule(problem, planner, name, Watch(progress, deadline), in_order=False)
    plan: Plan = planner(problem, options)
    return replace(plan, algorithm=name)


def by_rule(
    problem: PlanningProblem, planner: Rule, name: str, watch: Watch = UNWATCHED, in_order: bool = True
) -> Plan:
    """The plan of a rule, named or not; see `make_plan`.

    `in_order`: whether it tries the machines in the order in which they are listed
    """
    begun = time.process_time()
    if not problem.fleet.fixed:
        problem.merged.check_all_fit()
    if not len(problem.merged.kept):
        return problem.merged.plan(name, NOTHING, 0.0, TRIED)
    work = problem.merged.packing_problem
    shown = (None if in_order else cheapest_first(work)) or as_listed(work)
    packing = planner.pack(shown.problem, watch)
    watch.report(1.0)
    if packing.left.any() and not problem.fleet.fixed:
        wrong = int(np.argmax(packing.left > 0))
        left = counted(int(packing.left[wrong]), "replica")
        raise InputError(
            f"application '{work.instance.application[wrong]}': {left} left over: machines like the last of the "
            "fleet are too small for it, and the others are full: list a larger one last"
        )
    return problem.merged.plan(name, shown.rows(packing), time.process_time() - begun, TRIED)
