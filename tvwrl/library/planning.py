"""`tvwrl.plan` and `tvwrl.place`: all replicas of many applications at once, on as few machines as possible or on given
ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.planning.flow.comparison import GENERATED, KINDS, check_planners, compare, open_problem
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.best import NAME as BEST
from tvwrl.planning.instance import Fleet, Instance, check_fits
from tvwrl.planning.plan import Plan
from tvwrl.planning.results import Results
from tvwrl.planning.sources.open_instance import open_instance, windowed
from tvwrl.planning.suite import provision
from tvwrl.runs import InFolder, folder_for
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class Plans(InFolder):
    """Plans of one instance that the referee has checked, one per planner; printing it prints their table.

    Its files are rows.csv, plan.parquet, trade-off.png and run.json; `write(folder)` copies them to a folder.
    """

    results: Results

    @property
    def best(self) -> Plan:
        """The one that leaves the fewest replicas over, on the fewest machines."""
        return self.results.best().plan

    @property
    def machines(self) -> int:
        """Machines that the best plan uses."""
        return self.best.machines

    @property
    def lower_bound(self) -> int:
        """No plan uses fewer machines."""
        return self.results.lower_bound

    @property
    def rows(self) -> pl.DataFrame:
        """A row per planner: machines, how far above the lower bound (%), processor seconds, memory (MiB)."""
        import polars as pl

        return pl.read_csv(self.folder / "rows.csv")

    @property
    def placements(self) -> pl.DataFrame:
        """A row per planner, application and machine, with how many replicas are there."""
        import polars as pl

        return pl.read_parquet(self.folder / "plan.parquet")

    def table(self) -> str:
        """Markdown of the rows, and which applications lack a machine."""
        return self.results.summary()

    def __str__(self) -> str:
        return self.table()


@dataclass(frozen=True, eq=False, repr=False)
class Placements(InFolder):
    """Assignments of one problem by one or more planners, checked by the referee; printing it prints their table.

    Its files are rows.csv, placement.parquet, unplaced.csv and run.json; `write(folder)` copies them to a folder.
    """

    problem: PlanningProblem
    _table: str

    @property
    def rows(self) -> pl.DataFrame:
        """A row per planner: replicas placed, violations, machines used, efficiencies (%), seconds, migrations."""
        import polars as pl

        return pl.read_csv(self.folder / "rows.csv")

    @property
    def placements(self) -> pl.DataFrame:
        """A row per planner and placed replica: `application`, `replica` and `machine`, both from 0."""
        import polars as pl

        return pl.read_parquet(self.folder / "placement.parquet")

    @property
    def unplaced(self) -> pl.DataFrame:
        """A row per planner and application with replicas on no machine: how many, and why."""
        import polars as pl

        return pl.read_csv(self.folder / "unplaced.csv")

    def table(self) -> str:
        """Markdown of the rows, and why replicas have no machine."""
        return self._table

    def __str__(self) -> str:
        return self.table()


def plan(
    instance: Instance | str | Path,
    machine: Fleet | Sequence[float],
    planner: str | Sequence[str] = BEST,
    *,
    seconds: float = 30.0,
    milp_seconds: float | None = None,
    bound_seconds: float = 0.0,
    times: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> Plans:
    """Place all replicas of many applications on as few machines as possible.

    `instance`: an `Instance`, or a file, folder or trace that holds one (`tvwrl.planning.open_instance`)
    `machine`: capacity of a machine, a number > 0 per resource in the instance's units (cores, GiB), of which there are
        as many as it takes; or a `Fleet` of machines of several kinds, or of a fixed number
    `planner`: best, which searches for `seconds` > 0; the name of another planner (`tvwrl.planning.ALGORITHMS`); or
        several names
    `milp_seconds`: solve the integer programme too, for so many seconds; for up to 2,000 applications
    `bound_seconds`: time limit of a programme that tightens the lower bound; 0: none
    `times`: cut series of demand into so many windows, and plan for the largest demand of each; default: all times
    `seed`: of the search, >= 0
    `out`: a new folder for the files; default: a temporary one, removed with the result

    Raises InputError for an instance that cannot be opened, an unknown planner (with those that are near), values out
    of range, a replica that is larger than every machine, and a folder that is not empty.

    >>> found = plan("applications.csv", machine=[64, 128])  # doctest: +SKIP
    >>> found.machines, found.lower_bound  # doctest: +SKIP
    """
    names = [planner] if isinstance(planner, str) else list(planner)
    at_least(1, times=times)
    given = windowed(instance, times) if isinstance(instance, Instance) else open_instance(_path(instance), times)
    fleet = machine if isinstance(machine, Fleet) else Fleet.of(_numbers(machine))
    check_fits(given, fleet)
    folder, kept = folder_for(out, "plan")
    results = provision(
        given,
        fleet,
        folder,
        [name for name in names if name != BEST],
        seconds if BEST in names else None,
        milp_seconds,
        bound_seconds,
        seed,
    )
    return Plans(folder, kept, results)


def place(
    problem: PlanningProblem | str | Path = GENERATED,
    planner: str | Sequence[str] = "Aladdin+H.4",
    *,
    machines: int | None = None,
    replicas: int | None = None,
    demand: float | None = None,
    times: int | None = None,
    bounds: bool = True,
    seed: int = 0,
    out: str | Path | None = None,
) -> Placements:
    """Place the replicas of applications on given machines of many kinds; what finds no machine is listed with why.

    `problem`: a `PlanningProblem`; a folder with applications.csv, machines.csv and optionally affinity.csv and
        anti-affinity.csv; the Tianchi contest's zip or folder; or "generated"
    `planner`: a name, or several (`tvwrl.planning.flow.ALADDIN`, `tvwrl.planning.flow.BASELINES`, also with other numbers)
    `machines`: machines of a generated problem (default 12,000) or of the contest (default 6,000), >= 1
    `replicas`, `demand`: of a generated problem: how many, and their demand as a share of the scarcer resource, 0 to 1
    `times`: windows of the contest's series, >= 1; default: 1
    `bounds`: whether to compute a lower bound on the machines in use
    `seed`: of generated problems and of planners, >= 0
    `out`: a new folder for the files; default: a temporary one, removed with the result

    Raises InputError for a problem that cannot be read, an unknown planner (with those that are near), arguments that
    do not go with the problem, and a folder that is not empty.

    >>> found = place("generated", ["Aladdin+H.4", "Tetris.1"], machines=120)  # doctest: +SKIP
    >>> print(found)  # doctest: +SKIP
    """
    names = [planner] if isinstance(planner, str) else list(planner)
    check_planners(names)
    at_least(0, seed=seed)
    if isinstance(problem, PlanningProblem):
        if (machines, replicas, demand, times) != (None, None, None, None):
            raise InputError("machines, replicas, demand and times cannot be combined with a PlanningProblem")
        found = problem
    else:
        if not isinstance(problem, str | Path):
            raise InputError(f"problem is {problem!r}: must be a PlanningProblem, {KINDS}")
        found = open_problem(str(problem), machines, replicas, demand, times, seed)
    folder, kept = folder_for(out, "placement")
    facts = {"instance": found.instance.name, "demand": demand, "times": times}
    return Placements(folder, kept, found, compare(found, names, folder, seed, bounds, facts))


def _path(instance: Any) -> str:
    if not isinstance(instance, str | Path):
        raise InputError(
            f"instance is {instance!r}: must be an Instance, or a file, a folder or a trace, as in 'a.csv'"
        )
    return str(instance)


def _numbers(machine: Any) -> list[float]:
    try:
        return [float(number) for number in np.asarray(machine, dtype=np.float64).reshape(-1)]
    except (TypeError, ValueError):
        raise InputError(f"machine is {machine!r}: must be a number per resource, as in machine=[64, 128]") from None
