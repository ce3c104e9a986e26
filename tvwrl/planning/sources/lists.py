"""Plain CSV lists: applications of a batch with what a replica requests, and machines with what is free."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from tvwrl.input_tables import InputTable
from tvwrl.planning.instance import LARGEST, MOST_MACHINES, MOST_REPLICAS, NO_LIMIT, Affinity, Fleet, Instance
from tvwrl.types import Float, InputError, Int, Strings


def affinity_of(applications: Strings, table: InputTable) -> Affinity:
    """Limits of columns `app_a`, `app_b` and either `limit` or `k`, for the applications of these names.

    `limit` is a_ij itself. `k` is the Tianchi contest's: the same, but for app_a = app_b it counts those beside an
    instance, so the self limit is k + 1. No rows are no limits. Raises InputError with source and row.
    """
    value = next((name for name in ("limit", "k") if name in table.columns), "limit")
    table.need("app_a", "app_b", value)
    position = {name: i for i, name in enumerate(applications.tolist())}
    i, j = (table.positions(name, position, "application") for name in ("app_a", "app_b"))
    limit = table.whole_numbers(value, 0, NO_LIMIT - 1)
    if value == "k":
        limit = np.where(i == j, limit + 1, limit)
    return Affinity.of(len(applications), i, j, limit, lambda row: f"{table.source}: row {row + 1}")


NAME, REPLICAS, LIMIT, COUNT, COST, MACHINE = "application", "replicas", "limit", "count", "cost", "machine"
LIKE = 0.8  # how close the name of a resource must be to that of another column to have been meant as it; 1: equal
OTHER_WORDS = {"price": COST, "prices": COST, "number": COUNT, "machines": COUNT, "name": MACHINE, "node": MACHINE}
LEAST = 1e-12  # of requests, free capacities and costs above 0; half of it is still a capacity


def is_list(path: Path) -> bool:
    """Whether a file is a list of applications, by its header."""
    if not path.is_file() or path.suffix != ".csv":
        return False
    names = set(columns_of(path))
    return bool({NAME, REPLICAS} & names) and not {"workload_id", "slot"} & names  # which a trace has


def columns_of(path: Path) -> list[str]:
    """The names in the header of a CSV file."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        columns = next(csv.reader(file), [])
    if len(columns) == 1 and ";" in columns[0]:  # refused by `InputTable`, with what is wrong
        columns = columns[0].split(";")
    return [name.strip() for name in columns]


def read_applications(path: Path) -> Instance:
    """Columns `application`, `replicas`, perhaps `limit` (most replicas on one machine, empty for any number), and one
    per resource. A replica may request 0 of everything.

    Raises InputError with file and row for names given twice, and numbers that are missing, not finite, or below 1
    (replicas, limit) or 0 (requests), or too large.
    """
    table = InputTable.read(path)
    resources = tuple(name for name in table.columns if name not in (NAME, REPLICAS, LIMIT))
    for name in resources:
        meant = name.casefold()
        if near := get_close_matches(meant, (NAME, REPLICAS, LIMIT), n=1, cutoff=LIKE):
            raise InputError(f"{path}: column '{name}' would be a resource: did you mean '{near[0]}'?")
        if meant in (COUNT, COST, MACHINE):
            raise InputError(f"{path}: column '{name}': a resource cannot be called so, as tables of machines can")
    _need_columns(table, (NAME, REPLICAS), resources)
    names = table.names(NAME)
    if (twice := table.text(NAME).is_first_distinct().not_()).any():
        row = int(twice.arg_max() or 0)
        table.refuse(row, f"application '{names[row]}' is given a second time")
    demand = np.stack([_amounts(table, name) for name in resources], axis=1)
    limit = np.full(len(names), NO_LIMIT)
    if LIMIT in table.columns:
        limit = table.whole_numbers(LIMIT, 1, NO_LIMIT - 1, empty=NO_LIMIT)
    replicas = _counts(table, REPLICAS, MOST_REPLICAS)
    limited = np.flatnonzero(limit < NO_LIMIT)
    affinity = Affinity.of(len(names), limited, limited, limit[limited])
    return Instance(path.stem, names, replicas, demand[:, None], resources, affinity)


@dataclass(frozen=True, eq=False)
class MachineRows:
    """A table of machines: R rows, each of one kind."""

    source: str  # named in errors
    free: Float  # (R, D) of each resource
    count: Int  # (R,) >= 1 machines
    cost: Float | None  # (R,) > 0 of one of them
    name: list[str] | None  # (R,) as the table has them

    def fleet(self, fixed: bool, slack: float = 0.0) -> Fleet:
        """Its machines; see `Fleet.of_kinds`. Raises InputError with file and row for names that are not unique."""
        cost = None if self.cost is None else self.cost.tolist()
        place = f"{self.source}: row {{}}".format
        counts = self.count.tolist()
        return Fleet.of_kinds(self.free.tolist(), counts, fixed, slack, cost, self.name, lambda row: place(row + 1))


def read_machines(path: Path, resources: tuple[str, ...], some_lack: bool = False) -> MachineRows:
    """What is free of each of `resources` by kind of machine, how many there are of it (column `count`, else 1), what
    one costs (column `cost`, else nothing is said) and what they are called (column `machine`).

    Raises InputError with file and row for other columns, and numbers that are missing, too large or not above 0: what
    is full is no machine to plan with. With `some_lack` a machine may have 0 of a resource, but not of all of them, and
    not all machines of the same one.
    """
    table = InputTable.read(path)
    table.only((*resources, COUNT, COST, MACHINE), "no resource of the applications", OTHER_WORDS)
    if missing := [name for name in resources if name not in table.columns]:
        raise InputError(
            f"{path}: no column '{missing[0]}', which the applications need; the columns are: "
            f"{', '.join(table.columns)}. Add it here, or rename or remove it where the applications are"
        )
    _need_columns(table, (), resources)
    free = np.stack([_amounts(table, name) for name in resources], axis=1)
    if some_lack and not (has := free.any(axis=0)).all():
        raise InputError(
            f"{path}: no machine has any {resources[np.argmin(has)]}: must be above 0 for at least one machine"
        )
    full = ~free.any(axis=1, keepdims=True) if some_lack else free == 0
    if full.any():
        row, column = np.argwhere(full)[0]
        table.refuse(int(row), f"{resources[column]} is 0: leave out machines without free capacity")
    counts = _counts(table, COUNT, MOST_MACHINES) if COUNT in table.columns else np.ones(len(table), np.int64)
    if len(table) > MOST_MACHINES:
        table.refuse(MOST_MACHINES, f"must be at most {MOST_MACHINES:,} machines together")
    cost = _amounts(table, COST) if COST in table.columns else None
    if cost is not None and (nothing := np.flatnonzero(cost == 0)).size:
        table.refuse(int(nothing[0]), "cost is 0: must be above 0")
    names = table.names(MACHINE).tolist() if MACHINE in table.columns else None
    return MachineRows(str(path), free, counts, cost, names)


def _amounts(table: InputTable, column: str) -> Float:
    """(rows,) numbers that are 0, or from `LEAST` to `LARGEST`."""
    amounts = table.numbers(column, 0, LARGEST)
    if (tiny := (amounts > 0) & (amounts < LEAST)).any():
        row = int(np.argmax(tiny))
        table.refuse(row, f"{column} is {amounts[row]:g}: must be 0 or at least {LEAST:g}")
    return amounts


def _counts(table: InputTable, column: str, most: int) -> Int:
    """(rows,) whole numbers >= 1 that are at most `most` together."""
    counts = table.whole_numbers(column, 1, most)
    if (over := np.cumsum(counts) > most).any():
        row = int(np.argmax(over))
        total = int(counts[: row + 1].sum())
        table.refuse(row, f"{column} is {counts[row]}, {total:,} with those above: must be at most {most:,} together")
    return counts


def _need_columns(table: InputTable, needed: tuple[str, ...], resources: tuple[str, ...]) -> None:
    table.need(*needed)
    if not resources:
        raise InputError(f"{table.source}: no column of a resource, only {', '.join(table.columns)}: add cpu, mem, ...")
    table.need_rows()
