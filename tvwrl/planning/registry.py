"""All planners by name: what each can do, and `make_plan`, which runs one."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

from tvwrl.checks import hint
from tvwrl.planning.best import SEARCH, as_listed, cheapest_first, search
from tvwrl.planning.ejection import NOTHING
from tvwrl.planning.flow.aladdin import ALADDIN, BASELINES, FlowPlanner, flow_planner
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.planners import Planner, Progress, Watch
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.rules import RULES, rule
from tvwrl.types import InputError

PLANNERS = (*RULES, *ALADDIN, *BASELINES, SEARCH)
IMPROVED = f"+{SEARCH}"  # at the end of a name: the search goes on from that planner's plan
TRIED = "and this planner moves nothing that it has placed"


@dataclass(frozen=True)
class Abilities:
    """What a planner can do. All plan demand over time, machines of several kinds, and any affinity limits."""

    open_fleet: bool  # whether it can open as many machines as it takes
    keeps_constraints: bool  # whether affinity limits, groups and blacklists hold in its plans
    moves_running: bool  # whether it starts from what runs; others place all replicas anew
    unlimited: bool  # whether it goes on until its time is over


RULE = Abilities(True, True, False, False)
FLOW = Abilities(False, True, False, False)
BASELINE = Abilities(False, False, False, False)


def abilities(name: str) -> Abilities:
    """What the planner `name` can do. Raises InputError if there is none of that name."""
    if name == SEARCH:
        return Abilities(True, True, True, True)
    if name.endswith(IMPROVED):
        start = abilities(name.removesuffix(IMPROVED))
        if not start.keeps_constraints or start.unlimited:
            raise InputError(f"planner '{name}': {SEARCH} can only go on from a plan that breaks no constraint")
        return Abilities(start.open_fleet, True, False, True)
    return BASELINE if _found(name) is BASELINE else FLOW if callable(_found(name)) else RULE


def _found(name: str) -> Planner | FlowPlanner | Abilities:
    if (flow := flow_planner(name)) is not None:
        return flow if name.startswith("Aladdin") else BASELINE
    try:
        return rule(name)
    except InputError:
        meant = hint(name, PLANNERS, listed_by="tvwrl place --list-planners lists all")
        raise InputError(
            f"there is no planner '{name}': {meant}; other numbers are possible, as are other resources after TRIVIAL- "
            f"and OCTOPUS-, -none, -blocked, -cheapest and -still at the end of an Aladdin+H name, and {IMPROVED} at "
            "the end of any"
        ) from None


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
    """Place the replicas of a problem by the planner `name`.

    On an open fleet it places all, on as few machines as it can; on a fixed one as many as it can, and the plan says
    why the others have no machine. Rules try the machines of a fixed fleet in the order of `portfolio.cheapest_first`.

    Args:
        problem: applications and machines.
        name: one of `PLANNERS`, or a variant that `rules.rule` and `flow.registry.flow_planner` describe.
        seed: >= 0, of planners that draw.
        seconds: >= 0, of the search.
        moves_cost, most_moves, searches: for the search, see `best.search`.
        medea_seconds: > 0, of each of Medea's integer programmes.
        progress: called now and then with the share of the work that is done, 0 to 1.
        deadline: reading of time.monotonic() at which to stop: searches then return their best plan so far.

    Raises InputError if there is no such planner or it cannot plan for the problem, or, on an open fleet, if not all
    replicas can be placed. Raises TimeoutError if the deadline passes before there is any plan.

    >>> problem = PlanningProblem(open_instance("small_500_threshold_d10_s103.csv.gz"), Fleet.of([64, 128]))
    ... # doctest: +SKIP
    >>> make_plan(problem, "FFD-Avg").machines  # doctest: +SKIP
    """
    check_planner(name, problem)
    searched = partial(
        search,
        problem,
        seconds,
        seed=seed,
        progress=progress,
        moves_cost=moves_cost,
        most_moves=most_moves,
        searches=searches,
    )
    if name == SEARCH:
        return searched().plan
    if name.endswith(IMPROVED):
        start = make_plan(problem, name.removesuffix(IMPROVED), seed=seed, medea_seconds=medea_seconds)
        found = searched(start=start).plan
        return Plan.of(name, found.application, found.machine, found.replicas, start.seconds + found.seconds)
    if (flow := flow_planner(name, seed, medea_seconds)) is not None:
        return replace(flow(problem), algorithm=name)
    return _by_rule(problem, rule(name), name, Watch(progress, deadline), in_order=False)


def by_rule(problem: PlanningProblem, planner: Planner, name: str, watch: Watch | None = None) -> Plan:
    """The plan of a rule, named or not; see `make_plan`. Machines are tried in the order in which they are listed."""
    return _by_rule(problem, planner, name, watch or Watch(), in_order=True)


def _by_rule(problem: PlanningProblem, planner: Planner, name: str, watch: Watch, in_order: bool) -> Plan:
    begun = time.process_time()
    if not problem.fleet.fixed:
        problem.merged.check_all_fit()
    if not len(problem.merged.kept):
        return problem.merged.plan(name, NOTHING, 0.0, TRIED)
    work = problem.merged.packing_problem
    shown = (None if in_order else cheapest_first(work)) or as_listed(work)
    packing = planner.pack(shown.problem, watch)
    watch.report(1.0)
    work.check_all_placed(packing)
    return problem.merged.plan(name, shown.rows(packing), time.process_time() - begun, TRIED)


def plan(
    instance: Instance, fleet: Fleet, name: str, progress: Progress | None = None, deadline: float | None = None
) -> Plan:
    """`make_plan` of an instance and a fleet alone."""
    return make_plan(PlanningProblem(instance, fleet), name, progress=progress, deadline=deadline)
