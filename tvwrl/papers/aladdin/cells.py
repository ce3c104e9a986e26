"""What is measured for the Aladdin+H paper: one planner on one placement problem."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tvwrl.experiments.engine import Rows, RowsCell
from tvwrl.planning.bounds.mixed import bound_or_nan
from tvwrl.planning.flow.comparison import GENERATED, row_of
from tvwrl.planning.sources.generated_cluster import generate, usual_replicas
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.flow.registry import planner
from tvwrl.planning.sources.tianchi import read_tianchi, scaled

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
        irrelevant += [] if self.planner.startswith("Medea") else ["medea_seconds"]
        asked = asdict(self) | {"tianchi": Path(self.tianchi)}
        return {name: value for name, value in asked.items() if name not in irrelevant}

    def measure(self) -> Rows:
        """One row: `planning.flow.comparison.row_of`, with the instance, seed, demand and planner."""
        problem, bound = _problem(self.instance, self.machines, self.seed, self.demand, self.tianchi)
        assignment = planner(self.planner, self.seed, self.medea_seconds)(problem)
        facts = {"instance": self.instance, "seed": self.seed, "demand": self.demand, "planner": self.planner}
        return [facts | row_of(problem, assignment, bound)]


@lru_cache(maxsize=1)
def _problem(instance: str, machines: int, seed: int, demand: float, tianchi: str) -> tuple[PlanningProblem, float]:
    """A problem with as many replicas per machine as the paper's, or the contest's scaled, and its lower bound."""
    if instance == TIANCHI:
        problem = scaled(read_contest(tianchi), machines, seed)
    else:
        problem = generate(machines, usual_replicas(machines), seed, demand)
    return problem, bound_or_nan(problem)[0]
