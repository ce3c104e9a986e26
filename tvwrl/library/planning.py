"""`tvwrl.plan` and `tvwrl.place`: all replicas of many applications at once, on as few machines as possible or on given
ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.planning import (
    GENERATED,
    KINDS,
    SEARCH,
    Budget,
    Fleet,
    Instance,
    Plan,
    PlanningProblem,
    Reading,
    Results,
    check_fits,
    open_problem,
    run_planners,
    windowed,
)
from tvwrl.runs import InFolder, folder_for
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class Plans(InFolder):
    """Plans of one problem that the referee has checked, one per planner; printing it prints their table.

    Its files are rows.csv, plan.csv, plan.parquet, unplaced.csv (of a fixed fleet), trade-off.png and run.json;
    `write(folder)` copies them to a folder, and `explore()` adds a page for the browser.

    Parameters
    ----------
    results : Results
        What was planned.
    """

    results: Results

    @property
    def problem(self) -> PlanningProblem:
        """Applications and machines."""
        return self.results.problem

    @property
    def best(self) -> Plan:
        """The one that leaves the fewest replicas over, on the cheapest machines."""
        return self.results.best().plan

    @property
    def machines(self) -> int:
        """Machines that the best plan uses."""
        return self.results.best().verdict.machines

    @property
    def lower_bound(self) -> int:
        """No plan uses fewer machines; 0 if no bound was asked for, or no plan places all replicas."""
        return self.results.least_machines

    @property
    def rows(self) -> pl.DataFrame:
        """A row per planner: machines, how far above the lower bound (%), replicas left over, processor seconds, ..."""
        import polars as pl

        return pl.read_csv(self.folder / "rows.csv")

    @property
    def placements(self) -> pl.DataFrame:
        """A row per planner, application and machine, with how many replicas are there.

        Machines have their names, or numbers from 1, as text (`Fleet.names_of`). The arrays of a `Plan`, as in `best`,
        count machines from 0.
        """
        import polars as pl

        return pl.read_parquet(self.folder / "plan.parquet")

    @property
    def unplaced(self) -> pl.DataFrame:
        """A row per planner and application with replicas on no machine: how many, and why."""
        import polars as pl

        schema = {"planner": pl.String, "application": pl.String, "replicas": pl.Int64, "reason": pl.String}
        return pl.DataFrame(list(self.results.unplaced()), schema=schema)

    def explore(self, file: str | Path | None = None) -> Path:
        """Write a page for the browser that shows what is on every machine and why; returns its path.

        Parameters
        ----------
        file : str | Path, optional
            An .html file; default: explorer.html in the folder. Raises InputError if the plans are too large.
        """
        from tvwrl.planning import FILE, explore

        path = self.folder / FILE if file is None else Path(file).expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        explore(self.results, path)
        return path

    def table(self) -> str:
        """Markdown of the rows, and why replicas have no machine."""
        return self.results.summary()

    def __str__(self) -> str:
        return self.table()


def plan(
    instance: PlanningProblem | Instance | str | Path,
    machine: Fleet | Sequence[float] | None = None,
    planner: str | Sequence[str] = SEARCH,
    *,
    seconds: float = 30.0,
    milp_seconds: float | None = None,
    bound_seconds: float = 0.0,
    times: int | None = None,
    moves_cost: float = 0.0,
    most_moves: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> Plans:
    """Place all replicas of many applications on as few machines as possible, or as cheaply.

    Parameters
    ----------
    instance : PlanningProblem | Instance | str | Path
        An `Instance`, or a file, folder or trace that holds one (`tvwrl.planning.open_instance`); or a
        `PlanningProblem`, or a folder of tables with machines, and then no `machine`.
    machine : Fleet | Sequence[float], optional
        Capacity of a machine, a number > 0 per resource in the instance's units (cores, GiB), of which there are as
        many as it takes; or a `Fleet` of machines of several kinds, costs, or a fixed number.
    planner : str | Sequence[str], default SEARCH
        `best`, which searches for `seconds`; the name of another planner (`tvwrl.planning.PLANNERS`); or several
        names.
    seconds : float, default 30.0
        Of the search (best), >= 0.
    milp_seconds : float, optional
        Solve the integer programme too, for so many seconds; for up to 2,000 applications.
    bound_seconds : float, default 0.0
        Time limit of a programme that tightens the lower bound; 0: none.
    times : int, optional
        Cut series of demand into so many windows, and plan for the largest demand of each; default: all times.
    moves_cost : float, default 0.0
        Of a problem with running replicas: what moving one costs, in machines, >= 0.
    most_moves : int, optional
        Of such a problem: how many replicas may move, >= 0; default: all.
    seed : int, default 0
        Seed of the search, >= 0.
    out : str | Path, optional
        A new folder for the files; default: a temporary one, removed with the result.

    Returns
    -------
    Plans
        The plans, one for each planner; they print as a table.

    Raises
    ------
    InputError
        For an instance that cannot be opened, an unknown planner (with those that are near), values out of range, a
        replica that is larger than every machine, and a folder that is not empty.

    Examples
    --------
    >>> found = plan("applications.csv", machine=[64, 128])  # doctest: +SKIP
    >>> found.machines, found.lower_bound  # doctest: +SKIP
    """
    at_least(1, times=times)
    problem = _opened(instance, machine, times)
    if not problem.fleet.fixed:
        check_fits(problem.instance, problem.fleet)
    budget = Budget(seconds, milp_seconds, bound_seconds, moves_cost, most_moves)
    return _run(problem, planner, budget, seed, out, "plan", {})


def place(
    problem: PlanningProblem | str | Path = GENERATED,
    planner: str | Sequence[str] = SEARCH,
    *,
    machines: int | None = None,
    replicas: int | None = None,
    demand: float | None = None,
    times: int | None = None,
    seconds: float = 30.0,
    bounds: bool = True,
    moves_cost: float = 0.0,
    most_moves: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> Plans:
    """Place the replicas of applications on given machines of any kinds; what finds no machine is listed with why.

    Parameters
    ----------
    problem : PlanningProblem | str | Path, default GENERATED
        A `PlanningProblem`; a folder with applications.csv, machines.csv and optionally affinity.csv,
        anti-affinity.csv, blacklist.csv and running.csv; the Tianchi contest's zip or folder; or "generated".
    planner : str | Sequence[str], default SEARCH
        A name, or several (`tvwrl.planning.PLANNERS`, also with other numbers).
    machines : int, optional
        Machines of a generated problem (default 12,000) or of the contest (default 6,000), >= 1.
    replicas : int, optional
        Replicas of a generated problem, >= 1.
    demand : float, optional
        Their demand, as a share of the scarcer resource of all machines, 0 to 1.
    times : int, optional
        Windows of the contest's series, >= 1; default: 1.
    seconds : float, default 30.0
        Of the search (best), >= 0.
    bounds : bool, default True
        Whether to compute a lower bound on the machines in use.
    moves_cost : float, default 0.0
        As of `plan`.
    most_moves : int, optional
        As of `plan`.
    seed : int, default 0
        Seed of generated problems and of planners, >= 0.
    out : str | Path, optional
        A new folder for the files; default: a temporary one, removed with the result.

    Returns
    -------
    Plans
        The plans, one for each planner; they print as a table.

    Raises
    ------
    InputError
        For a problem that cannot be read, an unknown planner (with those that are near), arguments that do not go with
        the problem, and a folder that is not empty.

    Examples
    --------
    >>> found = place("generated", ["best", "Aladdin+H.4"], machines=120)  # doctest: +SKIP
    >>> print(found)  # doctest: +SKIP
    """
    at_least(0, seed=seed)
    if isinstance(problem, PlanningProblem):
        if (machines, replicas, demand, times) != (None, None, None, None):
            raise InputError("machines, replicas, demand and times cannot be combined with a PlanningProblem")
        found = problem
    else:
        if not isinstance(problem, str | Path):
            raise InputError(f"problem is {problem!r}: must be a PlanningProblem, {KINDS}")
        reading = Reading(times=times, machines=machines, replicas=replicas, demand=demand, seed=seed)
        found = open_problem(str(problem), reading=reading)
    budget = Budget(seconds, None, 0.0 if bounds else None, moves_cost, most_moves)
    return _run(found, planner, budget, seed, out, "placement", {"demand": demand, "times": times})


def _run(
    problem: PlanningProblem,
    planner: str | Sequence[str],
    budget: Budget,
    seed: int,
    out: str | Path | None,
    name: str,
    facts: dict[str, Any],
) -> Plans:
    names = [planner] if isinstance(planner, str) else list(planner)
    folder, kept = folder_for(out, name)
    return Plans(folder, kept, run_planners(problem, names, folder, budget, seed, facts=facts))


def _opened(instance: Any, machine: Any, times: int | None) -> PlanningProblem:
    if isinstance(instance, PlanningProblem):
        if machine is not None or times is not None:
            raise InputError("machine and times cannot be combined with a PlanningProblem, which has both")
        return instance
    if isinstance(instance, Instance):
        return PlanningProblem(windowed(instance, times), _fleet(machine))
    if not isinstance(instance, str | Path):
        raise InputError(
            f"instance is {instance!r}: must be an Instance, or a file, a folder or a trace, as in 'a.csv'"
        )
    return open_problem(str(instance), None if machine is None else _fleet(machine), Reading(times=times))


def _fleet(machine: Any) -> Fleet:
    """The fleet that `machine` is, or that of any number of machines of this capacity."""
    if machine is None:
        raise InputError("machine is missing: give the capacity of one, as in machine=[64, 128], or a Fleet")
    if isinstance(machine, Fleet):
        return machine
    try:
        capacity = np.asarray(machine, dtype=np.float64).reshape(-1).tolist()
    except (TypeError, ValueError):
        raise InputError(f"machine is {machine!r}: must be a number per resource, as in machine=[64, 128]") from None
    return Fleet.of(capacity)
