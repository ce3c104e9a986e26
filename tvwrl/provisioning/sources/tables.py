"""Tables that a user brings: how they are read, and what those of affinity limits mean."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.provisioning.instance import Affinity
from tvwrl.types import Float, InputError, Int, Strings

if TYPE_CHECKING:
    import polars as pl


def read_table(path: Path, columns: Sequence[str] = ()) -> pl.DataFrame:
    """A .parquet or .csv file (also .csv.gz), as it is. Raises InputError if it cannot be read or lacks a column."""
    import polars as pl

    try:
        table = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema_length=None)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    if missing := [name for name in columns if name not in table.columns]:
        raise InputError(f"{path}: no column {missing[0]!r}; the columns are: {', '.join(table.columns)}")
    return table


def read_text_table(path: Path) -> pl.DataFrame:
    """A .csv file (also .csv.gz) with every value as text, null if empty; a .parquet file as it is.

    Blanks around names and values, and blank rows, are left out; rows that end early are filled up with nulls. Raises
    InputError if it cannot be read, and for columns without a name or given twice, and rows with too many values.
    """
    import polars as pl

    if path.suffix == ".parquet":
        return read_table(path)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            text = file.read().decode("utf-8-sig")
        lines = [[value.strip() for value in line] for line in csv.reader(io.StringIO(text, newline=""))]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    names, *rows = [line for line in lines if any(line)] or [[]]
    if not names:
        raise InputError(f"{path}: the file is empty")
    if "" in names:
        raise InputError(f"{path}: column {names.index('') + 1} has no name; the columns are: {', '.join(names)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: column '{twice}' is given {names.count(twice)} times; must be once")
    for number, row in enumerate(rows, 1):
        if len(row) > len(names):
            raise InputError(
                f"{path}: row {number} has {len(row)} values: must be at most {len(names)}: {', '.join(names)}"
            )
    filled = [[value or None for value in row] + [None] * (len(names) - len(row)) for row in rows]
    return pl.DataFrame(filled, schema=dict.fromkeys(names, pl.String), orient="row")


def check_columns(source: str, columns: Iterable[str], known: Sequence[str], what: str) -> None:
    """Raise InputError for the first of `columns` that is none of `known`, so that none is ignored unnoticed.

    `what` says what such a column is not, as in "no resource of applications.csv".
    """
    small = {name.casefold(): name for name in known}
    for name in columns:
        if name not in known:
            close = get_close_matches(name.casefold(), small, n=1)
            hint = f"did you mean '{small[close[0]]}'?" if close else "leave it out"
            raise InputError(f"{source}: column '{name}' is {what}: must be one of {', '.join(known)}; {hint}")


def numbers_of(column: pl.Series) -> Float:
    """(rows,) numbers of a column of numbers or text, NaN where there is none."""
    import polars as pl

    return column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().astype(np.float64)


def quoted(value: object) -> str:
    """A value in a message: numbers as they are, other text in quotes."""
    if value is None:
        return "empty"
    try:
        return str(value) if np.isfinite(float(str(value))) else f"'{value}'"
    except ValueError:
        return f"'{value}'"


def affinity_of(applications: Strings, table: pl.DataFrame, source: str) -> Affinity:
    """Limits of columns `app_a`, `app_b` and either `limit` or `k`, for the applications of these names.

    `limit` is a_ij itself. `k` is the Tianchi contest's: the same, but for app_a = app_b it counts those beside an
    instance, so the self limit is k + 1. No rows are no limits. Raises InputError with source and row.
    """
    value = next((name for name in ("limit", "k") if name in table.columns), "limit")
    for name in ("app_a", "app_b", value):
        if name not in table.columns:
            raise InputError(f"{source}: no column {name!r}; the columns are: {', '.join(table.columns)}")
    i, j = (_indices(applications, table, name, source) for name in ("app_a", "app_b"))
    numbers = numbers_of(table[value])
    if not (good := np.isfinite(numbers) & (numbers == np.rint(numbers))).all():
        row = int(np.argmin(good))
        raise InputError(f"{source}: row {row + 1}: {value} is {quoted(table[value][row])}: must be a whole number")
    limit = numbers.astype(np.int64)
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
        name = names[column][row]
        given = "empty: must be an application" if name is None else f"'{name}', which is no application here"
        raise InputError(f"{source}: row {row + 1}: {column} is {given}")
    return found.to_numpy().astype(np.int64)
