"""Reads tables of numbers that are typed already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvwrl.traces.preparation.layout import Column, Table, drop_bad
from tvwrl.traces.preparation.loader import Part, Rows
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl


def read_parquet(part: Part, columns: Sequence[str]) -> pl.DataFrame:
    """The columns of a Parquet file or of some of its rows.

    Raises InputError if the file is damaged, empty or lacks one of the columns.
    """
    import polars as pl

    try:
        scan = pl.scan_parquet(part.source, glob=False)
        there = scan.collect_schema().names()
        for name in columns:
            if name not in there:
                raise InputError(f"{part.source}: no column '{name}'; the columns are: {', '.join(there)}")
        if part.span is not None:
            scan = scan.slice(part.span[0], part.span[1] - part.span[0])
        frame = scan.select(columns).collect()
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{part.source}: not a parquet file, or truncated: {reason}") from None
    if not len(frame):
        raise InputError(f"{part.source}: empty: it holds no rows of {part.table}")
    return frame


def checked(part: Part, frame: pl.DataFrame, table: Table | None = None, given: pl.DataFrame | None = None) -> Rows:
    """The rows of a part with the bad ones counted, named by their row (from 1) and left out.

    Without a table they are usage with the columns begin, end, cpu and mem; `given` has the columns as they came.
    """
    if table is None:
        columns = (Column("begin", int), Column("end", int), *(Column(name, lowest=0) for name in ("cpu", "mem")))
        table = Table(tuple(frame.columns), columns, begin_end=("begin", "end"))
    return drop_bad(Rows(frame, len(frame)), part.source, table, part.span[0] if part.span else 0, given)
