"""Files of plans, `plan.csv` and `plan.parquet`, and tables of what runs: which replicas are on which machine, by name.

In a file a machine has its name, or, where a fleet has no names, its number, from 1, as text. So a plan for other
machines is refused rather than read for the wrong ones, as is a file of an earlier version, which had numbers from 0.

Running replicas that an application no longer has stop: first those that are where its blacklist, or that of a member
of its group, does not allow them; then those on the machines with the fewest running replicas of all applications,
since these are the nearest to being empty, the last listed first. Members of a group stop on the same machines, so that
copies stay whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tvwrl.input_tables import InputTable, quoted
from tvwrl.planning.instance import MOST_REPLICAS, Fleet, Instance, counted
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.runs import whole_file
from tvwrl.types import InputError, Int, Strings

Bool = npt.NDArray[np.bool_]
Applications = Callable[[InputTable, Instance], Int]  # positions by row

PLANNER, APPLICATION, MACHINE, REPLICAS, PINNED = "planner", "application", "machine", "replicas", "pinned"
COLUMNS = (PLANNER, APPLICATION, MACHINE, REPLICAS)
FILES = ("plan.csv", "plan.parquet")  # of a results folder: the same rows, for spreadsheets and for programs


def write_plans(plans: Sequence[Plan], problem: PlanningProblem, path: Path) -> None:
    """Write plans to a file, whole or not at all: applications and machines by name.

    Parameters
    ----------
    plans : sequence of Plan
        Plans of the problem.
    problem : PlanningProblem
        Gives the names.
    path : Path
        A .csv or .parquet file.

    Examples
    --------
    >>> write_plans([plan], problem, Path("plan.csv"))  # doctest: +SKIP
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
    """Read the plans of a problem. Whether they fit is for `validate` to say.

    Parameters
    ----------
    path : Path
        A .csv or .parquet file, as `write_plans` writes it.
    problem : PlanningProblem
        What they are plans of.
    whole : bool
        Refuse a plan that leaves replicas out, as only one on a fixed fleet may.

    Returns
    -------
    list of Plan
        In order of their first row; machines are open up to the last that a row names.

    Raises
    ------
    InputError
        An unknown application or machine, a number out of range, a repeated row, or more replicas of an application
        than there are; with file and row.

    Examples
    --------
    >>> read_plans(Path("plan.csv"), problem)  # doctest: +SKIP
    """
    table = _read(path)
    found = []
    instance = problem.instance
    for plan, rows in _plans_in(table, problem, _applications):
        placed = np.bincount(plan.application, weights=plan.replicas, minlength=len(instance)).astype(np.int64)
        wrong = placed != instance.replicas if whole else placed > instance.replicas
        if wrong.any():
            i = int(np.argmax(wrong))
            there = rows[plan.application == i]
            place = f"row {there[-1] + 1}" if len(there) else "no row"
            raise InputError(
                f"{table.source}: {place}: {plan.algorithm} places {placed[i]} replicas of application "
                f"'{instance.application[i]}': it has {instance.replicas[i]}"
            )
        found.append(plan)
    return found


def _plans_in(table: InputTable, problem: PlanningProblem, applications: Applications) -> list[tuple[Plan, Int]]:
    """The plans of a table, and the rows of each; see `_running_applications` for those left out."""
    table.need(*COLUMNS)
    table.only(COLUMNS, "no column of a plan")
    if not len(table):
        raise InputError(f"{table.source}: it has no rows")
    planner = table.names(PLANNER)
    application = applications(table, problem.instance)
    machine = machines_in(table, problem.fleet, problem.most_machines)
    replicas = table.whole_numbers(REPLICAS, 1, MOST_REPLICAS)
    _check_repeats(table, planner, machine)
    plans = []
    for name in dict.fromkeys(planner.tolist()):
        rows = np.flatnonzero((planner == name) & (application >= 0))
        plans.append((Plan.of(name, application[rows], machine[rows], replicas[rows]), rows))
    return plans


def read_running(path: Path, problem: PlanningProblem) -> tuple[Plan, Bool | None]:
    """Where replicas run, and which applications are pinned there: a table of it, or the best plan of a file of plans.

    The table has the columns application, machine, replicas (by default 1 in each row) and, optionally, pinned (true or
    false). Replicas that applications no longer have are left out: they stop. Raises InputError with file and row
    for what does not go with the problem.
    """
    table = _read(path)
    mine: Bool = np.ones(len(table), dtype=bool)  # rows of what runs
    if PLANNER in table.columns:
        plans = [plan for plan, _ in _plans_in(table, problem, _running_applications)]
        found, pinned = min(plans, key=lambda one: (-int(one.replicas.sum()), len(np.unique(one.machine)))), None
        mine = table.names(PLANNER) == found.algorithm
    else:
        found, pinned = _running_table(table, problem)
    gone: dict[str, int] = {}
    unknown = mine & (_running_applications(table, problem.instance) < 0)
    for row in np.flatnonzero(unknown).tolist():
        name = str(table.names(APPLICATION)[row])
        gone[name] = gone.get(name, 0) + int(_replicas(table)[row])
    return without_stopping(problem, found, gone), pinned


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
    application = _running_applications(table, problem.instance)
    machine = machines_in(table, problem.fleet, problem.most_machines)
    replicas, known = _replicas(table), application >= 0
    if REPLICAS in table.columns:
        _check_repeats(table, np.full(len(table), ""), machine)
    pinned = None
    if PINNED in table.columns:
        pinned = np.zeros(len(problem.instance), dtype=bool)
        for row, said in enumerate(table.frame[PINNED].to_list()):
            if str(said).casefold() not in ("true", "false"):
                table.refuse(row, f"{PINNED} is {quoted(said)}: must be true or false")
            if known[row]:
                pinned[application[row]] |= str(said).casefold() == "true"
        barred, last = set(map(tuple, problem.barred.tolist())), len(problem.fleet.capacity) - 1
        for row, (i, m) in enumerate(zip(application.tolist(), machine.tolist(), strict=True)):
            if i >= 0 and pinned[i] and (i, min(m, last)) in barred:
                name, where = problem.instance.application[i], problem.fleet.names_of(machine[[row]])[0]
                table.refuse(
                    row,
                    f"'{name}' is pinned on machine {where}, which its blacklist (blacklist.csv) names: unpin it here, "
                    "or remove that pair there",
                )
    pairs, of = np.unique(np.column_stack([application, machine])[known], axis=0, return_inverse=True)
    count = np.bincount(of.ravel(), weights=replicas[known], minlength=len(pairs)).astype(np.int64)
    return Plan.of("running", pairs[:, 0], pairs[:, 1], count), pinned


def _replicas(table: InputTable) -> Int:
    """(rows,) the column, or 1 each."""
    if REPLICAS not in table.columns:
        return np.ones(len(table), np.int64)
    return table.whole_numbers(REPLICAS, 1, MOST_REPLICAS)


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


def _running_applications(table: InputTable, instance: Instance) -> Int:
    """(rows,) positions of the applications; -1 for those that are not there any more.

    Refuses names that differ from another only by case or by letters that cannot be seen, and a table without any name
    that is known: it is of something else.
    """
    known = {str(name): i for i, name in enumerate(instance.application)}
    names = table.names(APPLICATION)
    found = np.array([known.get(name, -1) for name in names], np.int64)
    if len(found) and (found < 0).all():
        return _applications(table, instance)
    alike = {_letters(name): name for name in known}
    for row in np.flatnonzero(found < 0).tolist():
        if meant := alike.get(_letters(names[row])):
            fault = f"{APPLICATION} is {quoted(names[row])}, which is no application here"
            table.refuse(row, f"{fault}; did you mean {quoted(meant)}?")
    _check_blanks(table, instance)
    return found


def _letters(name: str) -> str:
    """What can be seen of a name, whatever its case."""
    return "".join(letter for letter in name.casefold() if letter.isprintable() and not letter.isspace())


def _applications(table: InputTable, instance: Instance) -> Int:
    """(rows,) positions of the applications."""
    _check_blanks(table, instance)
    known = {str(name): i for i, name in enumerate(instance.application)}
    return table.positions(APPLICATION, known, "application")


def _check_blanks(table: InputTable, instance: Instance) -> None:
    """A table cannot name an application with blanks at its ends."""
    if lost := [name for name in instance.application.tolist() if name != str(name).strip()]:
        raise InputError(f"{table.source}: application '{lost[0]}' has blanks at its ends, which a table loses")


def _check_repeats(table: InputTable, planner: Strings, machine: Int) -> None:
    """A pair of application and machine is there once per planner."""
    import polars as pl

    pairs = pl.DataFrame({"p": planner.tolist(), "i": table.names(APPLICATION).tolist(), "m": machine})
    first = pairs.select(pl.struct("p", "i", "m").is_first_distinct()).to_series()
    if not first.all():
        row = (~first).arg_max() or 0
        names = table.names(APPLICATION)[row], table.names(MACHINE)[row]
        of = f"{planner[row]}: " if planner[row] else ""
        table.refuse(row, f"{of}application '{names[0]}' on machine {names[1]} is given twice")


STOPPING = "stopping"  # name in `Plan.details`: replicas that stop by application, those included that are not known
NAMED = 5  # applications that a line names


def without_stopping(problem: PlanningProblem, running: Plan, gone: Mapping[str, int]) -> Plan:
    """What runs, less the replicas that are more than an application has; `details` counts these, and those `gone`."""
    instance, last = problem.instance, len(problem.fleet.capacity) - 1
    placed = np.bincount(running.application, weights=running.replicas, minlength=len(instance)).astype(np.int64)
    held = np.bincount(running.machine, weights=running.replicas)
    group = np.arange(len(instance))
    group[problem.bundles.member] = len(instance) + problem.bundles.owner
    barred = {(int(group[i]), m) for i, m in problem.barred.tolist()}
    kept, stopping = running.replicas.copy(), dict[str, int]()
    for i in np.flatnonzero(placed > instance.replicas).tolist():
        surplus = int(placed[i] - instance.replicas[i])
        stopping[str(instance.application[i])] = surplus

        def rank(row: int, i: int = i) -> tuple[bool, float, int]:
            machine = int(running.machine[row])
            return (int(group[i]), min(machine, last)) not in barred, held[machine], -machine

        for row in sorted(np.flatnonzero(running.application == i).tolist(), key=rank):
            stops = min(surplus, int(kept[row]))
            kept[row] -= stops
            surplus -= stops
    stopping |= gone
    if not stopping:
        return running
    there = kept > 0
    plan = Plan.of(running.algorithm, running.application[there], running.machine[there], kept[there])
    return replace(plan, details={STOPPING: stopping})


def stopping_in(running: Plan | None) -> dict[str, int]:
    """Replicas that stop, by application, of what `read_running` has read."""
    return {} if running is None else running.details.get(STOPPING, {})


def about_stopping(problem: PlanningProblem, running: Plan | None) -> list[str]:
    """A line on the replicas that stop, if there are any."""
    if not (stopping := stopping_in(running)):
        return []
    has = set(map(str, problem.instance.application))
    parts = [
        f"{count:,} of '{name}'{'' if name in has else ', which is not among the applications'}"
        for name, count in list(stopping.items())[:NAMED]
    ]
    if (others := len(stopping) - NAMED) > 0:
        parts.append(f"and of {counted(others, 'other application')}")
    total = sum(stopping.values())
    return [
        f"{counted(total, 'running replica')} stop{'s' * (total == 1)}, as there are to be fewer: {'; '.join(parts)}"
    ]
