"""What is measured for the Aladdin+H paper: one planner on one placement problem."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.experiments import Rows, RowsCell
from tvwrl.planning import (
    GENERATED,
    Budget,
    Plan,
    PlanningProblem,
    abilities,
    bound_or_reason,
    generate_cluster,
    measured,
    read_tianchi,
    scaled,
    usual_replicas,
    validate,
)

TIANCHI = "tianchi"
read_contest = lru_cache(maxsize=1)(read_tianchi)


@dataclass(frozen=True)
class PlacementCell(RowsCell):
    """One planner on one problem, either generated like the paper's or a part of the Tianchi contest's."""

    instance: str  # GENERATED or TIANCHI
    machines: int
    seed: int
    demand: float  # of a generated problem: share of the scarcer resource, 0 to 1
    planner: str
    tianchi: str = ""  # the contest's zip or folder
    medea_seconds: float = 2.0  # time limit of each of Medea's programmes
    search_seconds: float = 60.0  # time limit of the search

    @property
    def name(self) -> str:
        """The planner's folder in that of the problem."""
        return f"{self.group}/{self.planner}"

    @property
    def group(self) -> str:
        """The problem."""
        demand = f"-{self.demand}" if self.instance == GENERATED else ""
        return f"{self.instance}-{self.machines}{demand}-seed{self.seed}"

    def request(self) -> dict[str, Any]:
        """The fields that this problem and planner depend on; the contest's file by its content."""
        irrelevant = ["tianchi" if self.instance == GENERATED else "demand"]
        irrelevant += [] if self.planner.startswith("Medea(") else ["medea_seconds"]
        irrelevant += [] if abilities(self.planner).unlimited else ["search_seconds"]
        asked = asdict(self) | {"tianchi": Path(self.tianchi)}
        return {name: value for name, value in asked.items() if name not in irrelevant}

    def measure(self) -> Rows:
        """One row: `row_of`, with the instance, seed, demand and planner."""
        problem, bound = _problem(self.instance, self.machines, self.seed, self.demand, self.tianchi)
        budget = Budget(self.search_seconds)
        plan, _ = measured(problem, self.planner, budget, self.seed, medea_seconds=self.medea_seconds)
        facts = {"instance": self.instance, "seed": self.seed, "demand": self.demand, "planner": self.planner}
        return [facts | row_of(problem, plan, bound)]


@lru_cache(maxsize=1)
def _problem(instance: str, machines: int, seed: int, demand: float, tianchi: str) -> tuple[PlanningProblem, float]:
    """A problem with as many replicas per machine as the paper's, or the contest's scaled, and its lower bound."""
    if instance == TIANCHI:
        problem = scaled(read_contest(tianchi), machines, seed)
    else:
        problem = generate_cluster(machines, usual_replicas(machines), seed, demand)
    bound, _ = bound_or_reason(problem)
    return problem, float("nan") if bound is None else bound.machines


def row_of(problem: PlanningProblem, plan: Plan, bound: float) -> dict[str, Any]:
    """The referee's counts: efficiencies in %, latency in ms per replica (Eq. 12).

    `bound`: lower bound on machines, or NaN. Raises RuntimeError if the plan exceeds a capacity.
    """
    verdict = validate(problem, plan)
    if verdict.over_capacity or verdict.misplaced:
        raise RuntimeError(f"{plan.algorithm}: {verdict.examples[0]}")
    row: dict[str, Any] = {
        "machines": len(problem.fleet.capacity),
        "replicas": verdict.replicas,
        "placed": verdict.placed,
        "violations": verdict.violations,
        "above_limits": verdict.above_limits,
        "apart": verdict.apart,
        "machines_used": verdict.machines,
        "bound": bound,
        "gap_pct": float("nan") if verdict.missing else 100.0 * (verdict.machines / bound - 1.0),
    }
    for d, resource in enumerate(problem.instance.resources[:2]):
        share = 100.0 * verdict.efficiency[:, d] if verdict.machines else np.zeros(1)
        low, high = np.percentile(share, (5, 95))
        row |= {f"{resource}_pct": share.mean(), f"{resource}_low": low, f"{resource}_high": high}
    latency = 1000.0 * plan.seconds / verdict.replicas
    return row | {"latency_ms": latency, "seconds": plan.seconds, "migrations": plan.migrations}
