"""What is measured for the provisioning paper: one algorithm on one instance."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tvwrl.experiments import Rows, RowsCell
from tvwrl.papers.provisioning.published import DENSITY, MACHINE, STUDIES
from tvwrl.planning import (
    Fleet,
    Instance,
    PlanningProblem,
    by_volume,
    generate_instance,
    measured,
    open_instance,
    validated,
    windowed,
)
from tvwrl.types import InputError

KNOWN = "known"  # instead of a study: an instance on which the released code was measured


@dataclass(frozen=True)
class PlanCell(RowsCell):
    """One algorithm on one instance, generated for a study or read from a file."""

    study: str  # of STUDIES, or KNOWN
    graph: str  # of the affinity; of a known instance, its name
    value: int  # of what the study varies
    number: int  # 0, 1, 2, ... of the instances with the same graph and value
    algorithm: str
    source: str  # instance or trace that applications, replicas and limits are drawn from; of a known one, its file
    shrink: int = 1  # divides the number of applications
    seed: int = 0  # of instance 0

    @property
    def name(self) -> str:
        """The algorithm's folder in that of the instance."""
        return f"{self.group}/{self.algorithm}"

    @property
    def group(self) -> str:
        """The instance."""
        return self.graph if self.study == KNOWN else f"{self.study}-{self.graph}-{self.value}-{self.number}"

    def request(self) -> dict[str, Any]:
        """The fields and the machine; the source by its content."""
        return asdict(self) | {"machine": list(MACHINE), "source": Path(self.source)}

    def measure(self) -> Rows:
        """One row: the referee's counts, with the instance's study, graph, value, number and sizes."""
        (instance, bound), fleet = _instance(replace(self, algorithm="")), Fleet.of(MACHINE)
        problem = PlanningProblem(instance, fleet)
        result = validated(problem, *measured(problem, self.algorithm))
        machines = result.verdict.machines
        return [
            {
                "study": self.study,
                "graph": self.graph,
                "value": self.value,
                "number": self.number,
                "applications": len(instance),
                "limits": len(instance.affinity),
                "instance": instance.name,
                "algorithm": self.algorithm,
                "machines": machines,
                "lower_bound": bound,
                "deviation_pct": round(100.0 * (machines - bound) / bound, 4),
                "seconds": round(result.plan.seconds, 4),
                "peak_mb": round(result.peak_mb, 1),
            }
        ]


@lru_cache(maxsize=1)
def _instance(cell: PlanCell) -> tuple[Instance, int]:
    """The instance of a cell, and the lower bound of Eq. 4, to which the published deviations refer."""
    if cell.study == KNOWN:
        instance = open_instance(cell.source)
    else:
        study = STUDIES[cell.study]
        base = base_instance(cell.source, study.series)
        if study.varied == "density":
            density, applications = cell.value / 100, None if cell.shrink == 1 else len(base) // cell.shrink
        else:
            density, applications = DENSITY / 100, cell.value // cell.shrink
        applications = applications if applications is None else max(2, applications)
        instance = generate_instance(base, cell.graph, density, applications, cell.seed + cell.number)
    return instance, by_volume(instance, Fleet.of(MACHINE))


@lru_cache(maxsize=2)
def base_instance(source: str, series: bool) -> Instance:
    """The instance that others are drawn from: with demand over time, or its maxima.

    Raises InputError if `series` is asked for and the source has demand at one time only.
    """
    base = windowed(open_instance(source), None if series else 1)
    if series and base.demand.shape[1] == 1:
        raise InputError(f"base {source} has demand at one time: Figures 6 and 7 need several")
    return base
