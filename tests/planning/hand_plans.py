"""Three applications on two machines of 6 cores and 4 GiB, and plans for them by hand; and many at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.planning.bounds_on_machines import PlanBound
from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.planning.registry import make_plan
from tvwrl.planning.results import Result, Results

WEB, DB, BATCH = range(3)
DEMAND = np.array([[[2.0, 1.0]], [[3.0, 1.0]], [[1.0, 1.0]]])  # of a replica: cores, GiB
APART = "anti-affinity with itself: 3 replicas, 1 at most on a machine, and 2 machines are large enough"
FULL = "no machine with room allows it, and this planner moves nothing that it has placed"


def problem(names: tuple[str, str, str] = ("web", "db", "batch"), times: int = 1) -> PlanningProblem:
    """web: 3 replicas, one on a machine; db: 1, no batch beside it; batch: 2, one of them beside web.

    With more times web needs nothing at all but the first.
    """
    i, j, limit = np.array([(WEB, WEB, 1), (WEB, BATCH, 1), (DB, BATCH, 0)]).T
    demand = np.repeat(DEMAND, times, axis=1)
    demand[WEB, 1:] = 0.0
    affinity = Affinity.of(3, i, j, limit)
    made = Instance("hand", np.array(names, object), np.array([3, 1, 2]), demand, ("cpu", "mem"), affinity)
    return PlanningProblem(made, Fleet.of_kinds([[6.0, 4.0]], [2], fixed=True))


def plan(instance: Instance, fleet: Fleet, name: str, **options: Any) -> Plan:
    """`make_plan` of an instance and a fleet alone."""
    return make_plan(PlanningProblem(instance, fleet), name, **options)


def first_fit() -> Plan:
    """Machine 0: web, batch. Machine 1: web, db. A web and a batch have none."""
    plan = Plan.of("FF", np.array([WEB, WEB, DB, BATCH]), np.array([0, 1, 1, 0]), np.array([1, 1, 1, 1]), 0.25)
    plan.reasons.update({WEB: APART, BATCH: FULL})
    return plan


def careless() -> Plan:
    """Tetris: machine 0 has two web and two batch; machine 1 has web and db."""
    return Plan.of("Tetris.1", np.array([WEB, WEB, DB, BATCH]), np.array([0, 1, 1, 0]), np.array([2, 1, 1, 2]))


def running() -> Plan:
    """web and db on machine 0, batch on machine 1."""
    return Plan.of("running", np.array([WEB, DB, BATCH]), np.array([0, 0, 1]), np.array([1, 1, 1]))


def results_of(of: PlanningProblem, folder: Path, *plans: Plan) -> Results:
    """Of plans that nobody has checked."""
    results = Results(of, PlanBound(2, 2.0, {}), "no plan uses fewer than 2 machines", folder)
    for plan in plans:
        results.made[plan.algorithm] = Result(plan, validate(of, plan), 1.0)
    return results


def many(machines: int, applications: int = 500, times: int = 1) -> tuple[PlanningProblem, Plan]:
    """Four replicas on most machines, drawn at random."""
    rng = np.random.default_rng(0)
    count = 4 * machines
    of = rng.integers(0, applications, count)
    replicas = np.maximum(np.bincount(of, minlength=applications), 1)
    i, j = np.divmod(rng.permutation(applications**2)[:3000], applications)
    made = Instance(
        "many",
        np.array([f"app_{k}" for k in range(applications)], object),
        replicas,
        rng.uniform(0, 2, (applications, times, 2)),
        ("cpu", "mem"),
        Affinity.of(applications, i, j, rng.integers(0, 3, 3000) + (i == j)),
    )
    fleet = Fleet.of_kinds([[16.0, 32.0], [32.0, 32.0]], [machines // 2, machines - machines // 2], fixed=True)
    return PlanningProblem(made, fleet), Plan.of_replicas("FF", of, rng.integers(0, machines, count))
