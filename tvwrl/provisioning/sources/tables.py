"""Affinity tables that lie beside a trace: rows of two applications and a limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.provisioning.instance import Affinity
from tvwrl.types import InputError, Int, Strings

if TYPE_CHECKING:
    import polars as pl


def read_table(path: Path) -> pl.DataFrame:
    """A .parquet or .csv file (also .csv.gz), as it is. Raises InputError if it cannot be read."""
    import polars as pl

    try:
        return pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema_length=None)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def affinity_of(applications: Strings, table: pl.DataFrame, source: str) -> Affinity:
    """Limits of columns `app_a`, `app_b` and either `limit` or `k`, for the applications of these names.

    `limit` is a_ij itself. `k` is the Tianchi contest's: the same, but for app_a = app_b it counts those beside an
    instance, so the self limit is k + 1. Raises InputError with source and row.
    """
    value = next((name for name in ("limit", "k") if name in table.columns), "limit")
    for name in ("app_a", "app_b", value):
        if name not in table.columns:
            raise InputError(f"{source}: no column {name!r}; the columns are: {', '.join(table.columns)}")
    i, j = (_indices(applications, table, name, source) for name in ("app_a", "app_b"))
    if table[value].has_nulls() or not table[value].dtype.is_integer():
        row = (table[value].is_null().arg_max() or 0) + 1
        raise InputError(f"{source}: row {row}: {value} is {table[value][row - 1]}: must be a whole number")
    limit = table[value].to_numpy().astype(np.int64)
    if value == "k":
        limit = np.where((i == j) & (limit >= 0), limit + 1, limit)
    return Affinity.of(len(applications), i, j, limit, lambda row: f"{source}: row {row + 1}")


def _indices(applications: Strings, table: pl.DataFrame, column: str, source: str) -> Int:
    """(rows,) positions of the applications that a column names."""
    import polars as pl

    known = pl.DataFrame({column: applications.tolist(), "index": np.arange(len(applications))})
    names = table.select(pl.col(column).cast(pl.String))
    found = names.join(known, on=column, how="left", maintain_order="left")["index"]
    if found.has_nulls():
        row = found.is_null().arg_max() or 0
        raise InputError(f"{source}: row {row + 1}: {column} is {names[column][row]!r}, which is no application here")
    return found.to_numpy().astype(np.int64)
