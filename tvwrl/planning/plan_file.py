"""Files of plans, `plan.csv` and `plan.parquet`, and tables of what runs: which replicas are on which machine, by name.

In a file a machine has its name, or, where a fleet has no names, its number, from 1, as text. So a plan for other
machines is refused rather than read for the wrong ones, as is a file of an earlier version, which had numbers from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tvwrl.input_tables import InputTable, quoted
from tvwrl.planning.instance import MOST_REPLICAS, Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.runs import whole_file
from tvwrl.types import InputError, Int

if TYPE_CHECKING:
    pass

Bool = npt.NDArray[np.bool_]

PLANNER, APPLICATION, MACHINE, REPLICAS, PINNED = "planner", "application", "machine", "replicas", "pinned"
COLUMNS = (PLANNER, APPLICATION, MACHINE, REPLICAS)
FILES = ("plan.csv", "plan.parquet")  # of a results folder: the same rows, for spreadsheets and for programs


def write_plans(plans: Sequence[Plan], problem: PlanningProblem, path: Path) -> None:
    """Write the plans of a problem to the .csv or .parquet file `path`, whole or not at all: applications and machines
    by name.
    """
    import polars as pl

    def column(name: str) -> Int:
        return np.concatenate([np.empty(0, np.int64), *(getattr(plan, name) for plan in plans)]).astype(np.int64)

    planner = np.repeat([plan.algorithm for plan in plans], [len(plan.machine) for plan in plans])
    application = problem.instance.application[column(APPLICATION)]
    machine, of = np.unique(column(MACHINE), return_inverse=True)
    names = np.array(problem.fleet.names_of(machine), dtype=object)[of.ravel()]
    frame = pl.DataFrame(
        {PLANNER: planner.tolist(), APPLICATION: application.tolist(), MACHINE: names.tolist()},
        schema=dict.fromkeys(COLUMNS[:3], pl.String),
    ).with_columns(pl.Series(REPLICAS, column(REPLICAS)))
    with whole_file(path) as partial:
        if path.suffix == ".csv":
            frame.write_csv(partial)
        else:
            frame.write_parquet(partial)


def read_plans(path: Path, problem: PlanningProblem, whole: bool = True) -> list[Plan]:
    """The plans of a `problem` in the .csv or .parquet file `path`, in order of their first row; machines are open up
    to the last that a row names.

    Raises InputError with file and row for unknown applications and machines, numbers out of range and repeated rows,
    and for plans with more replicas of an application than there are, or (unless not `whole`: fixed fleets may leave
    some out) fewer. Whether they fit is for the referee to say.
    """
    return _plans_in(_read(path), problem, whole)


def _plans_in(table: InputTable, problem: PlanningProblem, whole: bool) -> list[Plan]:
    table.need(*COLUMNS)
    table.only(COLUMNS, "no column of a plan")
    if not len(table):
        raise InputError(f"{table.source}: it has no rows")
    planner = table.names(PLANNER)
    application = _applications(table, problem.instance)
    machine = machines_in(table, problem.fleet, problem.most_machines)
    replicas = table.whole_numbers(REPLICAS, 1, MOST_REPLICAS)
    _check_repeats(table, planner, application, machine)
    plans = []
    for name in dict.fromkeys(planner.tolist()):
        rows = np.flatnonzero(planner == name)
        plan = Plan.of(name, application[rows], machine[rows], replicas[rows])
        _check_replicas(table.source, plan, problem.instance, rows, whole)
        plans.append(plan)
    return plans


def read_running(path: Path, problem: PlanningProblem) -> tuple[Plan, Bool | None]:
    """Where replicas run, and which applications are pinned there: a table of it, or the best plan of a file of plans.

    The table has the columns application, machine, replicas (by default 1 in each row) and, optionally, pinned (true or
    false). Raises InputError with file and row for what does not go with the problem.
    """
    instance, table = problem.instance, _read(path)
    if PLANNER in table.columns:
        plans = _plans_in(table, problem, whole=False)
        found, pinned = min(plans, key=lambda one: (-int(one.replicas.sum()), len(np.unique(one.machine)))), None
    else:
        found, pinned = _running_table(table, problem)
    placed = np.bincount(found.application, weights=found.replicas, minlength=len(instance)).astype(np.int64)
    if (more := placed > instance.replicas).any():
        i = int(np.argmax(more))
        name = instance.application[i]
        raise InputError(f"{path}: {placed[i]} replicas of '{name}' run: it has {instance.replicas[i]}")
    return found, pinned


def machines_in(table: InputTable, fleet: Fleet, most: int) -> Int:
    """(rows,) positions in a fleet, below `most`, of the machines that the column `machine` names.

    Raises InputError with row and value for one that is not there.
    """
    if fleet.name is None:
        return table.whole_numbers(MACHINE, 1, most) - 1
    position = {str(name): m for m, name in enumerate(fleet.name)}
    added = f"{fleet.name[-1]}+"
    for name in [] if fleet.fixed else table.names(MACHINE):
        number = name.removeprefix(added)
        if name.startswith(added) and number.isdecimal() and 0 < int(number) <= most - len(fleet.name):
            position[name] = len(fleet.name) + int(number) - 1
    return table.positions(MACHINE, position, "machine")


def _running_table(table: InputTable, problem: PlanningProblem) -> tuple[Plan, Bool | None]:
    table.only((*COLUMNS[1:], PINNED), "not known here")
    table.need(APPLICATION, MACHINE)
    application = _applications(table, problem.instance)
    machine = machines_in(table, problem.fleet, problem.most_machines)
    replicas = np.ones(len(table), np.int64)
    if REPLICAS in table.columns:
        replicas = table.whole_numbers(REPLICAS, 1, MOST_REPLICAS)
        _check_repeats(table, np.full(len(table), ""), application, machine)
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


def _read(path: Path) -> InputTable:
    """A table of text, or a Parquet file with text and numbers where they belong."""
    import polars as pl

    if path.suffix != ".parquet":
        return InputTable.read(path)
    try:
        frame = pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"{path}: not a readable Parquet file: {error}") from None
    if PLANNER in frame.columns and MACHINE in frame.columns and frame[MACHINE].dtype.is_integer():
        raise InputError(
            f"{path}: column {MACHINE} holds {frame[MACHINE].dtype}: must be text, the names of machines, or their "
            f"numbers from 1. Earlier versions wrote numbers from 0: plan again, or, if it is such a file, add 1 to "
            f"the column and make it text"
        )
    for name in (one for one in COLUMNS if one in frame.columns):
        good = frame[name].dtype.is_integer() if name == REPLICAS else frame[name].dtype == pl.String
        if not good and (PLANNER in frame.columns or name in (APPLICATION, REPLICAS)):
            needed = "whole numbers" if name == REPLICAS else "text"
            raise InputError(f"{path}: column {name} holds {frame[name].dtype}: must be {needed}")
    return InputTable(str(path), frame)


def _applications(table: InputTable, instance: Instance) -> Int:
    """(rows,) positions of the applications."""
    names = instance.application.tolist()
    if table.source.endswith((".csv", ".csv.gz")) and (lost := [name for name in names if name != str(name).strip()]):
        raise InputError(f"{table.source}: application '{lost[0]}' has blanks at its ends, which a CSV file loses")
    return table.positions(APPLICATION, {str(name): i for i, name in enumerate(names)}, "application")


def _check_repeats(table: InputTable, planner: npt.NDArray[np.object_], application: Int, machine: Int) -> None:
    """A pair of application and machine is there once per planner."""
    import polars as pl

    pairs = pl.DataFrame({"p": planner.tolist(), "i": application, "m": machine})
    first = pairs.select(pl.struct("p", "i", "m").is_first_distinct()).to_series()
    if not first.all():
        row = (~first).arg_max() or 0
        names = table.names(APPLICATION)[row], table.names(MACHINE)[row]
        of = f"{planner[row]}: " if planner[row] else ""
        table.refuse(row, f"{of}application '{names[0]}' on machine {names[1]} is given twice")


def _check_replicas(source: str, plan: Plan, instance: Instance, rows: Int, whole: bool) -> None:
    """Every application has all its replicas, and none has more."""
    placed = np.bincount(plan.application, weights=plan.replicas, minlength=len(instance)).astype(np.int64)
    wrong = placed != instance.replicas if whole else placed > instance.replicas
    if wrong.any():
        i = int(np.argmax(wrong))
        there = rows[plan.application == i]
        place = f"row {there[-1] + 1}" if len(there) else "no row"
        raise InputError(
            f"{source}: {place}: {plan.algorithm} places {placed[i]} replicas of application "
            f"'{instance.application[i]}': it has {instance.replicas[i]}"
        )
