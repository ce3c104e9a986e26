"""Reads Parquet files, whose columns have types already: refuses types that do not fit, names bad rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvwrl.traces.preparation.layout import Column, Table, drop_bad, dtype_of, no_column, without_blanks
from tvwrl.traces.preparation.loader import Part, Rows
from tvwrl.traces.spelling import refuse_spelt_twice
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

NEEDED = {float: "numbers", int: "whole numbers", str: "text or whole numbers", datetime: "dates with times"}


def parquet_columns(source: str) -> dict[str, tuple[pl.Expr, Any]]:
    """Expression and type of every column of a Parquet file by name, of nested fields by outer.inner.

    A file of zero bytes has none. Raises InputError if the file is damaged.
    """
    import polars as pl

    if Path(source).stat().st_size == 0:
        return {}
    try:
        schema = pl.scan_parquet(source, glob=False).collect_schema()
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _damaged(source, error) from None
    nested = {
        f"{name}.{field.name}": (pl.col(name).struct.field(field.name), field.dtype)
        for name, dtype in schema.items()
        for field in getattr(dtype, "fields", ())
    }
    return nested | {name: (pl.col(name), dtype) for name, dtype in schema.items()}


def read_parquet(part: Part, table: Table, names: Mapping[str, str] | None = None) -> Rows:
    """The table's columns of a part; bad rows are counted, named by their number (from 1) and left out.

    `names` says what columns are called in the file, where that differs.
    Raises InputError if the file is damaged, lacks a column, has one of another type, or is mostly bad.
    """
    import polars as pl

    there, given = parquet_columns(part.source), []
    if not there:
        nothing = pl.DataFrame(schema={column.name: dtype_of(column) for column in table.columns})
        return Rows(nothing, 0, empty=[part.source])
    for column in table.columns:
        name = (names or {}).get(column.name, column.name)
        if name not in there:
            raise no_column(part.source, name, there)
        value, dtype = there[name]
        if not _fits(column, dtype):
            needed = f"{NEEDED[column.kind]} are needed"
            raise InputError(f"{part.source}: column '{name}' is of type {dtype}; {needed}")
        given.append(value.alias(column.name))
    first = part.span[0] if part.span else 0
    try:
        scan = pl.scan_parquet(part.source, glob=False).slice(first, part.span[1] - first if part.span else None)
        frame = scan.select(given).collect()
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _damaged(part.source, error) from None
    typed = frame.select(_as_kind(column, frame.schema[column.name]) for column in table.columns)
    names = typed.select(table.names)
    refuse_spelt_twice(part.source, names, lambda row: f"row {first + row + 1}")
    typed = typed.with_columns(without_blanks([column.name for column in table.columns if column.kind is str]))
    rows = Rows(typed, len(frame), names.unique(), empty=[] if len(frame) else [part.source])
    return drop_bad(rows, part.source, table, first, frame)


def _fits(column: Column, dtype: Any) -> bool:
    """Whether values of a Parquet type can be what a column holds; numbers may also be written as text."""
    import polars as pl

    if column.kind is datetime:
        return dtype in (pl.Date, pl.Datetime)
    if column.kind is str:
        return bool(dtype.is_integer()) or dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    return bool(dtype.is_numeric()) or dtype in (pl.String, pl.Null)


def _as_kind(column: Column, dtype: Any) -> pl.Expr:
    """The column as `dtype_of`; null where a value cannot be read as that, such as 1.5 as a whole number."""
    import polars as pl

    value = pl.col(column.name)
    if column.kind is datetime:
        return value.cast(pl.Datetime("us")).cast(pl.Int64)
    if column.kind is int and dtype.is_float():
        value = pl.when((value == value.round()) & (value.abs() <= 2**53)).then(value)
    return value.cast(dtype_of(column), strict=False)


def _damaged(source: str, error: BaseException) -> InputError:
    reason = str(error).partition("\n")[0]
    return InputError(f"{source}: not a parquet file, or truncated: {reason}")
