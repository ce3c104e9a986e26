"""Plain CSV lists: applications of a batch with what a replica requests, and machines with what is free."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.provisioning.instance import NO_LIMIT, Affinity, Instance
from tvwrl.provisioning.sources.tables import check_columns, numbers_of, quoted, read_text_table
from tvwrl.types import Float, InputError, Int

if TYPE_CHECKING:
    import polars as pl

NAME, REPLICAS, LIMIT, COUNT = "application", "replicas", "limit", "count"


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
    table = read_text_table(path)
    resources = tuple(name for name in table.columns if name not in (NAME, REPLICAS, LIMIT))
    for name in resources:
        if (meant := name.casefold()) in (NAME, REPLICAS, LIMIT):  # else it would be taken for a resource
            raise InputError(f"{path}: column '{name}': did you mean '{meant}'?")
    _need_columns(path, table, (NAME, REPLICAS), resources)
    names = np.array(table[NAME].fill_null("").to_list(), dtype=object)
    if (blank := np.flatnonzero(names == "")).size:
        raise InputError(f"{path}: row {blank[0] + 1}: the application has no name")
    if (twice := table[NAME].is_first_distinct().not_()).any():
        row = int(twice.arg_max() or 0)
        raise InputError(f"{path}: row {row + 1}: application '{names[row]}' is given a second time")
    demand = np.stack([_numbers(path, table, name, 0.0) for name in resources], axis=1)
    if (nothing := np.flatnonzero(~demand.any(axis=1))).size:
        row = int(nothing[0])
        raise InputError(
            f"{path}: row {row + 1}: application '{names[row]}' requests 0 of everything: must be more of one"
        )
    limit = _whole(path, table, LIMIT, empty=NO_LIMIT) if LIMIT in table.columns else np.full(len(names), NO_LIMIT)
    limited = np.flatnonzero(limit < NO_LIMIT)
    affinity = Affinity.of(len(names), limited, limited, limit[limited])
    return Instance(path.stem, names, _whole(path, table, REPLICAS), demand[:, None], resources, affinity)


def read_machines(
    path: Path, resources: tuple[str, ...], some_lack: bool = False
) -> tuple[list[list[float]], list[int]]:
    """What is free of each of `resources` by kind of machine, and how many there are of it (column `count`, else 1).

    Raises InputError with file and row for other columns, and numbers that are missing or not above 0: what is full is
    no machine to plan with. With `some_lack` a machine may have 0 of a resource, but not of all of them, and not all
    machines of the same one.
    """
    table = read_text_table(path)
    check_columns(str(path), table.columns, (*resources, COUNT), "no resource of the applications")
    _need_columns(path, table, resources, resources)
    free = np.stack([_numbers(path, table, name, 0.0) for name in resources], axis=1)
    if some_lack and not (has := free.any(axis=0)).all():
        raise InputError(f"{path}: no machine has any {resources[np.argmin(has)]}: must be above 0 for one at least")
    full = ~free.any(axis=1, keepdims=True) if some_lack else free == 0
    if full.any():
        row, column = np.argwhere(full)[0]
        raise InputError(f"{path}: row {row + 1}: {resources[column]} is 0: leave out machines without free capacity")
    return free.tolist(), (_whole(path, table, COUNT).tolist() if COUNT in table.columns else [1] * len(free))


def _need_columns(path: Path, table: pl.DataFrame, needed: tuple[str, ...], resources: tuple[str, ...]) -> None:
    for name in needed:
        if name not in table.columns:
            raise InputError(f"{path}: no column '{name}'; the columns are: {', '.join(table.columns)}")
    if not resources:
        raise InputError(f"{path}: no column of a resource beside {', '.join(table.columns)}: add cpu, mem, ...")
    if not len(table):
        raise InputError(f"{path}: no rows under the header")


def _numbers(path: Path, table: pl.DataFrame, name: str, least: float) -> Float:
    """(rows,) numbers of a column, finite and at least `least`."""
    values = numbers_of(table[name])
    if (good := np.isfinite(values) & (values >= least)).all():
        return values
    row, limit = int(np.argmin(good)), f"must be a number of at least {least:g}"
    raise InputError(f"{path}: row {row + 1}: {name} is {quoted(table[name][row])}: {limit}")


def _whole(path: Path, table: pl.DataFrame, name: str, empty: int | None = None) -> Int:
    """(rows,) whole numbers of a column, at least 1, and `empty` where it is empty, if given."""
    blank = table[name].is_null().to_numpy() & (empty is not None)
    values = _numbers(path, table.with_columns(table[name].fill_null("1")) if blank.any() else table, name, 1.0)
    if (good := (values == np.rint(values)) & (values < NO_LIMIT)).all():
        return np.where(blank, empty or 0, values.astype(np.int64))
    row = int(np.argmin(good))
    raise InputError(
        f"{path}: row {row + 1}: {name} is {table[name][row]}: must be a whole number from 1 to {NO_LIMIT - 1}"
    )
