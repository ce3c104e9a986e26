"""Plain CSV lists: applications of a batch with what a replica requests, and machines with what is free."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.provisioning.instance import NO_LIMIT, Affinity, Instance
from tvwrl.provisioning.sources.tables import read_table
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
    """Columns `application`, `replicas`, perhaps `limit` (most replicas on one machine), and one per resource.

    Raises InputError with file and row for names given twice, and numbers that are missing, not finite, or below 1
    (replicas, limit) or 0 (requests).
    """
    table = _read(path)
    resources = tuple(name for name in table.columns if name not in (NAME, REPLICAS, LIMIT))
    _need_columns(path, table, (NAME, REPLICAS), resources)
    names = np.array(table[NAME].cast(str).fill_null("").to_list(), dtype=object)
    if (blank := np.flatnonzero([not name.strip() for name in names])).size:
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
    limited = np.arange(len(names)) if LIMIT in table.columns else np.empty(0, np.int64)
    limit = _whole(path, table, LIMIT) if LIMIT in table.columns else limited
    affinity = Affinity.of(len(names), limited, limited, limit)
    return Instance(path.stem, names, _whole(path, table, REPLICAS), demand[:, None], resources, affinity)


def read_machines(path: Path, resources: tuple[str, ...]) -> tuple[list[list[float]], list[int]]:
    """What is free of each of `resources` by kind of machine, and how many there are of it (column `count`, else 1).

    Raises InputError with file and row for numbers that are missing or not above 0: what is full is no machine to plan
    with.
    """
    table = _read(path)
    _need_columns(path, table, resources, resources)
    free = np.stack([_numbers(path, table, name, 0.0) for name in resources], axis=1)
    if (free == 0).any():
        row, column = np.argwhere(free == 0)[0]
        raise InputError(f"{path}: row {row + 1}: {resources[column]} is 0: leave machines out that have nothing free")
    return free.tolist(), (_whole(path, table, COUNT).tolist() if COUNT in table.columns else [1] * len(free))


def _read(path: Path) -> pl.DataFrame:
    """The table, blanks around the names of columns left out."""
    table = read_table(path)
    return table.rename({name: name.strip() for name in table.columns})


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
    column = table[name]
    numeric = column.dtype.is_numeric()
    values = column.cast(float).fill_null(np.nan).to_numpy() if numeric else np.full(len(column), np.nan)
    if (good := np.isfinite(values) & (values >= least)).all():
        return values.astype(np.float64)
    row = int(np.argmin(good))
    raise InputError(f"{path}: row {row + 1}: {name} is {column[row]}: must be a number of at least {least:g}")


def _whole(path: Path, table: pl.DataFrame, name: str) -> Int:
    """(rows,) whole numbers of a column, at least 1."""
    values = _numbers(path, table, name, 1.0)
    if (good := (values == np.rint(values)) & (values < NO_LIMIT)).all():
        return values.astype(np.int64)
    row = int(np.argmin(good))
    raise InputError(
        f"{path}: row {row + 1}: {name} is {table[name][row]}: must be a whole number from 1 to {NO_LIMIT - 1}"
    )
