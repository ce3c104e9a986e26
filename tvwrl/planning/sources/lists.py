"""Plain CSV lists: applications of a batch with what a replica requests, and machines with what is free."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from tvwrl.input_tables import InputTable
from tvwrl.planning.instance import NO_LIMIT, Affinity, Instance
from tvwrl.types import InputError

NAME, REPLICAS, LIMIT, COUNT, COST = "application", "replicas", "limit", "count", "cost"


def is_list(path: Path) -> bool:
    """Whether a file is a list of applications, by its header."""
    if not path.is_file() or path.suffix != ".csv":
        return False
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        columns = next(csv.reader(file), [])
    names = {name.strip() for name in columns}
    return bool({NAME, REPLICAS} & names) and not {"workload_id", "slot"} & names  # which a trace has


def read_applications(path: Path) -> Instance:
    """Columns `application`, `replicas`, perhaps `limit` (most replicas on one machine, empty for any number), and one
    per resource.

    Raises InputError with file and row for names given twice, and numbers that are missing, not finite, or below 1
    (replicas, limit) or 0 (requests).
    """
    table = InputTable.read(path)
    resources = tuple(name for name in table.columns if name not in (NAME, REPLICAS, LIMIT))
    for name in resources:
        if (meant := name.casefold()) in (NAME, REPLICAS, LIMIT):  # else it would be taken for a resource
            raise InputError(f"{path}: column '{name}': did you mean '{meant}'?")
    _need_columns(table, (NAME, REPLICAS), resources)
    names = table.names(NAME)
    if (twice := table.frame[NAME].is_first_distinct().not_()).any():
        row = int(twice.arg_max() or 0)
        table.refuse(row, f"application '{names[row]}' is given a second time")
    demand = np.stack([table.numbers(name, 0) for name in resources], axis=1)
    if (nothing := np.flatnonzero(~demand.any(axis=1))).size:
        row = int(nothing[0])
        table.refuse(row, f"application '{names[row]}' requests 0 of everything: must be more of one")
    limit = np.full(len(names), NO_LIMIT)
    if LIMIT in table.columns:
        limit = table.whole_numbers(LIMIT, 1, NO_LIMIT - 1, empty=NO_LIMIT)
    replicas = table.whole_numbers(REPLICAS, 1, NO_LIMIT - 1)
    limited = np.flatnonzero(limit < NO_LIMIT)
    affinity = Affinity.of(len(names), limited, limited, limit[limited])
    return Instance(path.stem, names, replicas, demand[:, None], resources, affinity)


def read_machines(
    path: Path, resources: tuple[str, ...], some_lack: bool = False
) -> tuple[list[list[float]], list[int], list[float] | None]:
    """What is free of each of `resources` by kind of machine, how many there are of it (column `count`, else 1), and
    what one costs (column `cost`, else None).

    Raises InputError with file and row for other columns, and numbers that are missing or not above 0: what is full is
    no machine to plan with. With `some_lack` a machine may have 0 of a resource, but not of all of them, and not all
    machines of the same one.
    """
    table = InputTable.read(path)
    table.only((*resources, COUNT, COST), "no resource of the applications")
    _need_columns(table, resources, resources)
    free = np.stack([table.numbers(name, 0) for name in resources], axis=1)
    if some_lack and not (has := free.any(axis=0)).all():
        raise InputError(
            f"{path}: no machine has any {resources[np.argmin(has)]}: must be above 0 for at least one machine"
        )
    full = ~free.any(axis=1, keepdims=True) if some_lack else free == 0
    if full.any():
        row, column = np.argwhere(full)[0]
        table.refuse(int(row), f"{resources[column]} is 0: leave out machines without free capacity")
    counts = table.whole_numbers(COUNT, 1, NO_LIMIT - 1).tolist() if COUNT in table.columns else [1] * len(free)
    cost = table.numbers(COST, 0) if COST in table.columns else None
    if cost is not None and (nothing := np.flatnonzero(cost == 0)).size:
        table.refuse(int(nothing[0]), "cost is 0: must be above 0")
    return free.tolist(), counts, None if cost is None else cost.tolist()


def _need_columns(table: InputTable, needed: tuple[str, ...], resources: tuple[str, ...]) -> None:
    table.need(*needed)
    if not resources:
        raise InputError(f"{table.source}: no column of a resource, only {', '.join(table.columns)}: add cpu, mem, ...")
    table.need_rows()
