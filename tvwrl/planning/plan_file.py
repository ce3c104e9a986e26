"""`plan.parquet`: one row per planner, application and machine with how many replicas go there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from tvwrl.input_tables import InputTable, quoted
from tvwrl.planning.instance import NO_LIMIT, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.runs import whole_file
from tvwrl.types import InputError, Int

if TYPE_CHECKING:
    import polars as pl

Bool = npt.NDArray[np.bool_]

PINNED = "pinned"
NUMBERS = ("machine", "replicas")
COLUMNS = ("planner", "application", *NUMBERS)


def write_plans(plans: Sequence[Plan], instance: Instance, path: Path) -> None:
    """Write the plans of an instance to the file `path`, whole or not at all: application by name, machine from 0."""
    import polars as pl

    def column(name: str) -> Int:
        return np.concatenate([np.empty(0, np.int64), *(getattr(plan, name) for plan in plans)]).astype(np.int64)

    planner = np.repeat([plan.algorithm for plan in plans], [len(plan.machine) for plan in plans])
    application = instance.application[column("application")]
    frame = pl.DataFrame(
        {"planner": planner.tolist(), "application": application.tolist()},
        schema={"planner": pl.String, "application": pl.String},
    ).with_columns(pl.Series(name, column(name)) for name in NUMBERS)
    with whole_file(path) as partial:
        frame.write_parquet(partial)


def read_plans(path: Path, instance: Instance, whole: bool = True) -> list[Plan]:
    """The plans of an `instance` in the file `path`, in order of their first row; machines are as many as the largest
    number says.

    Raises InputError with file and row for unknown applications, numbers out of range and repeated rows, and for plans
    with more replicas of an application than there are, or (unless not `whole`: fixed fleets may leave some out) fewer.
    Whether they fit is for the referee to say.
    """
    frame = _read(path)
    if not len(frame):
        raise InputError(f"{path}: it has no rows")
    names = frame["planner"].to_list()
    application = _indices(path, frame["application"], instance)
    _check_repeats(path, frame)
    plans = []
    for planner in dict.fromkeys(names):
        rows = (frame["planner"] == planner).arg_true().to_numpy()
        machine, replicas = (frame[name].to_numpy().astype(np.int64)[rows] for name in NUMBERS)
        plan = Plan.of(planner, application[rows], machine, replicas)
        _check_replicas(path, plan, instance, rows, whole)
        plans.append(plan)
    return plans


def read_running(path: Path, problem: PlanningProblem) -> tuple[Plan, Bool | None]:
    """Where replicas run, and which applications are pinned there: a CSV, or the best plan of a file of plans.

    The CSV has the columns application, machine (from 0), replicas (by default 1 in each row) and, optionally, pinned
    (true or false). Raises InputError with file and row for what does not go with the problem.
    """
    instance, last = problem.instance, len(problem.fleet.capacity) - 1
    if path.suffix == ".parquet":
        plans = read_plans(path, instance, whole=False)
        found, pinned = min(plans, key=lambda one: (-int(one.replicas.sum()), len(np.unique(one.machine)))), None
        if problem.fleet.fixed and found.machine.max(initial=0) > last:
            raise InputError(f"{path}: machine is {found.machine.max()}: must be 0 to {last}")
    else:
        found, pinned = _running_table(path, problem, last)
    placed = np.bincount(found.application, weights=found.replicas, minlength=len(instance)).astype(np.int64)
    if (more := placed > instance.replicas).any():
        i = int(np.argmax(more))
        name = instance.application[i]
        raise InputError(f"{path}: {placed[i]} replicas of '{name}' run: it has {instance.replicas[i]}")
    return found, pinned


def _running_table(path: Path, problem: PlanningProblem, last: int) -> tuple[Plan, Bool | None]:
    table = InputTable.read(path)
    table.only((*COLUMNS[1:], PINNED), "not known here")
    table.need("application", "machine")
    number = {str(name): i for i, name in enumerate(problem.instance.application)}
    names = table.names("application")
    for row, name in enumerate(names):
        if name not in number:
            table.refuse(row, f"application is {quoted(name)}, which is no application here")
    machine = table.whole_numbers("machine", 0, last if problem.fleet.fixed else NO_LIMIT)
    replicas = table.whole_numbers("replicas", 1) if "replicas" in table.columns else np.ones(len(names), np.int64)
    application = np.array([number[name] for name in names], dtype=np.int64)
    pinned = None
    if PINNED in table.columns:
        pinned = np.zeros(len(problem.instance), dtype=bool)
        for row, said in enumerate(table.frame[PINNED].to_list()):
            if str(said).casefold() not in ("true", "false"):
                table.refuse(row, f"{PINNED} is {quoted(said)}: must be true or false")
            pinned[application[row]] |= str(said).casefold() == "true"
    pairs, of = np.unique(np.column_stack([application, machine]), axis=0, return_inverse=True)
    count = np.bincount(of.ravel(), weights=replicas, minlength=len(pairs)).astype(np.int64)
    return Plan.of("running", pairs[:, 0], pairs[:, 1], count), pinned


def _read(path: Path) -> pl.DataFrame:
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"{path}: not a readable Parquet file: {error}") from None
    for name in COLUMNS:
        if name not in frame.columns:
            raise InputError(f"{path}: no column {name!r}; the columns are: {', '.join(frame.columns)}")
        good = frame[name].dtype.is_integer() if name in NUMBERS else frame[name].dtype == pl.String
        if not good:
            raise InputError(f"{path}: column {name} holds {frame[name].dtype}: must be {_kind(name)}")
    for name, least in (("planner", None), ("application", None), ("machine", 0), ("replicas", 1)):
        bad = frame[name].is_null() if least is None else ~(frame[name] >= least).fill_null(False)
        if bad.any():
            row = bad.arg_max() or 0
            limit = "there" if least is None else f"at least {least}"
            _refuse(path, row, f"{name} is {frame[name][row]}: must be {limit}")
    return frame.select(COLUMNS)


def _kind(name: str) -> str:
    return "whole numbers" if name in NUMBERS else "text"


def _indices(path: Path, names: pl.Series, instance: Instance) -> Int:
    """(rows,) positions of the applications."""
    index = {name: i for i, name in enumerate(instance.application.tolist())}
    found = np.array([index.get(name, -1) for name in names.to_list()], np.int64)
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        _refuse(path, row, f"application is {names[row]!r}, which instance '{instance.name}' does not have")
    return found


def _check_repeats(path: Path, frame: pl.DataFrame) -> None:
    """A pair of application and machine is there once per planner."""
    import polars as pl

    first = frame.select(pl.struct(COLUMNS[:3]).is_first_distinct()).to_series()
    if not first.all():
        row = (~first).arg_max() or 0
        planner, application, machine = frame.row(row)[:3]
        _refuse(path, row, f"{planner}: application '{application}' on machine {machine} is given twice")


def _check_replicas(path: Path, plan: Plan, instance: Instance, rows: Int, whole: bool) -> None:
    """Every application has all its replicas, and none has more."""
    placed = np.bincount(plan.application, weights=plan.replicas, minlength=len(instance)).astype(np.int64)
    wrong = placed != instance.replicas if whole else placed > instance.replicas
    if wrong.any():
        i = int(np.argmax(wrong))
        there = rows[plan.application == i]
        place = f"row {there[-1] + 1}" if len(there) else "no row"
        raise InputError(
            f"{path}: {place}: {plan.algorithm} places {placed[i]} replicas of application "
            f"'{instance.application[i]}': it has {instance.replicas[i]}"
        )


def _refuse(path: Path, row: int, problem: str) -> NoReturn:
    raise InputError(f"{path}: row {row + 1}: {problem}")
