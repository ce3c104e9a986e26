"""Placing drawn batches of applications on unequal machines, by heuristics and the programme (Figures 8 to 12)."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tvwrl.experiments import Rows
from tvwrl.planning import (
    Drawn,
    Fleet,
    Instance,
    Plan,
    PlanningProblem,
    TwoPhase,
    admit,
    by_rule,
    check_fits,
    solve,
    utilisation,
    validate,
    volume_bound,
    warm_up,
)

HEURISTICS = {
    "LRASched": TwoPhase(),
    "LRASched-Search": TwoPhase(search=True),
    "FFD-AntiAffinity": TwoPhase(first_fit=True),
}
MILP = "MILP"
BOUND_SECONDS = 3.0  # time limit of the bound on what any plan places; on the paper's batches 10 prove no more
REPEATS = 5  # of Figures 11 and 12, of which the fastest counts: other processes only slow the others down


class Batch(NamedTuple):
    """A drawn batch."""

    instance: Instance
    fleet: Fleet  # the machines of phase 1, then those that phase 2 may add
    existing: Fleet  # the machines of phase 1
    bound: float  # no plan places more applications on the existing machines


class Placement(NamedTuple):
    """A batch placed in both phases."""

    plan: Plan  # phase 1
    machines: int  # after phase 2
    bound: float  # no plan places more applications in phase 1
    status: str = ""  # of the programme


@lru_cache(maxsize=2)
def draw_batch(drawn: Drawn, seed: int) -> Batch:
    """The batch of a seed."""
    instance, fleet = drawn.draw(seed)
    check_fits(instance, fleet)
    existing = fleet.first(drawn.machines)
    return Batch(instance, fleet, existing, volume_bound(instance, existing, BOUND_SECONDS))


@lru_cache(maxsize=len(HEURISTICS))
def place_by_heuristic(drawn: Drawn, seed: int, scheme: str) -> Placement:
    """Place a batch by one of `HEURISTICS`."""
    batch = draw_batch(drawn, seed)
    warm_up(PlanningProblem(batch.instance, batch.existing), scheme)
    planner = replace(HEURISTICS[scheme], existing=drawn.machines)
    whole = plan_by(planner, batch.instance, batch.fleet, scheme)
    first = whole.machine < drawn.machines
    rows = {name: getattr(whole, name)[first] for name in ("application", "machine", "replicas")}
    return Placement(replace(whole, **rows, machines=drawn.machines), whole.machines, batch.bound)


def place_by_programme(drawn: Drawn, seed: int, seconds: float) -> Placement:
    """Place a batch by the programme (Eq. 11 to 19), `seconds` > 0 for each phase, from LRASched-Search's plan on."""
    instance, fleet, existing, bound = draw_batch(drawn, seed)
    found = admit(instance, existing, place_by_heuristic(drawn, seed, "LRASched-Search").plan, seconds)
    placed = np.bincount(found.plan.application, minlength=len(instance)) > 0
    added = 0
    if not placed.all():
        rest, more = instance.only(np.flatnonzero(~placed)), Fleet(fleet.capacity[drawn.machines :])
        start = plan_by(TwoPhase(existing=0), rest, more, "LRASched")
        added = solve(rest, more, start, seconds).plan.machines
    return Placement(found.plan, drawn.machines + added, min(bound, found.bound), found.status)


def plan_by(planner: TwoPhase, instance: Instance, fleet: Fleet, name: str) -> Plan:
    """The plan of a planner that has no name in the registry, with its seconds of processor time."""
    return by_rule(PlanningProblem(instance, fleet), planner, name)


def measure_placement(drawn: Drawn, seed: int, scheme: str, milp_seconds: float) -> Rows:
    """What of a batch a scheme places, how full the machines are then, and how many it needs for the rest."""
    by_programme = scheme == MILP
    found = place_by_programme(drawn, seed, milp_seconds) if by_programme else place_by_heuristic(drawn, seed, scheme)
    batch = draw_batch(drawn, seed)
    verdict = validate(PlanningProblem(batch.instance, batch.existing), found.plan)
    if not verdict.feasible:
        raise RuntimeError(f"a plan of {scheme} breaks a rule: {verdict.examples[0]}")
    return [
        {
            "placed_pct": 100.0 * verdict.whole / len(batch.instance),
            "bound_pct": 100.0 * found.bound / len(batch.instance),
            "utilisation_pct": 100.0 * utilisation(batch.instance, batch.existing, found.plan),
            "machines_used": max(found.machines, drawn.machines),
            "seconds": found.plan.seconds,
            "status": found.status,
        }
    ]


def measure_planning_time(drawn: Drawn, seed: int, scheme: str, milp_seconds: float) -> Rows:
    """Milliseconds to place a batch, divided by its applications.

    Processor time of a heuristic without compiling; wall-clock time of the programme, which stops after `milp_seconds`.
    """
    instance, fleet = drawn.draw(seed)
    existing = fleet.first(drawn.machines)
    if scheme == MILP:
        start = plan_by(HEURISTICS["LRASched"], instance.only(np.arange(1)), existing, "LRASched")
        begun = time.monotonic()
        admit(instance, existing, start, milp_seconds)
        took = time.monotonic() - begun
    else:
        warm_up(PlanningProblem(instance, existing), scheme)
        took = min(plan_by(HEURISTICS[scheme], instance, existing, scheme).seconds for _ in range(REPEATS))
    return [{"ms": 1000.0 * took / drawn.applications}]
