"""`plan.parquet`: one row per algorithm, application and machine with how many replicas go there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tvwrl.planning.instance import Instance
from tvwrl.planning.plan import Plan
from tvwrl.runs import whole_file
from tvwrl.types import InputError, Int

if TYPE_CHECKING:
    import polars as pl

NUMBERS = ("machine", "replicas")
COLUMNS = ("algorithm", "application", *NUMBERS)


def write_plans(plans: Sequence[Plan], instance: Instance, path: Path) -> None:
    """Write the plans of an instance to the file `path`, whole or not at all: application by name, machine from 0."""
    import polars as pl

    def column(name: str) -> Int:
        return np.concatenate([np.empty(0, np.int64), *(getattr(plan, name) for plan in plans)]).astype(np.int64)

    algorithm = np.repeat([plan.algorithm for plan in plans], [len(plan.machine) for plan in plans])
    application = instance.application[column("application")]
    frame = pl.DataFrame(
        {"algorithm": algorithm.tolist(), "application": application.tolist()},
        schema={"algorithm": pl.String, "application": pl.String},
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
    names = frame["algorithm"].to_list()
    application = _indices(path, frame["application"], instance)
    _check_repeats(path, frame)
    plans = []
    for algorithm in dict.fromkeys(names):
        rows = (frame["algorithm"] == algorithm).arg_true().to_numpy()
        machine, replicas = (frame[name].to_numpy().astype(np.int64)[rows] for name in NUMBERS)
        plan = Plan.of(algorithm, application[rows], machine, replicas)
        _check_replicas(path, plan, instance, rows, whole)
        plans.append(plan)
    return plans


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
    for name, least in (("algorithm", None), ("application", None), ("machine", 0), ("replicas", 1)):
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
    """A pair of application and machine is there once per algorithm."""
    import polars as pl

    first = frame.select(pl.struct(COLUMNS[:3]).is_first_distinct()).to_series()
    if not first.all():
        row = (~first).arg_max() or 0
        algorithm, application, machine = frame.row(row)[:3]
        _refuse(path, row, f"{algorithm}: application '{application}' on machine {machine} is given twice")


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
