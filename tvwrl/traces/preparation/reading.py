"""Reads files into rows, bad ones named and left out: delimited text, and Parquet, whose columns have types already.

Text is read fast, and where it has faults slowly enough to name each with its line.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvwrl.input_tables import decoded, no_column, refuse_spelt_twice, spelt_twice
from tvwrl.traces.preparation.files import blocks_of, text_of
from tvwrl.traces.preparation.layout import (
    WRONG_FILE,
    Column,
    Table,
    drop_bad,
    dtype_of,
    faults,
    good_rows,
    note,
    without_blanks,
)
from tvwrl.traces.preparation.loader import Part, Rows
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

BEYOND = "beyond the last field"

Fields = tuple[list[int], list[list[str]]]  # line numbers of rows, and their fields as text


def read_table(part: Part, table: Table) -> Rows:
    """The columns of a part of a delimited file; a bad row is counted, named and left out.

    Read all at once, or where that shows a fault by blocks, and the faulty ones of these row by row. Raises
    InputError if the file is truncated, empty, more than half of it is bad, or two names differ only in blanks.
    """

    import polars as pl

    def clean(block: str | bytes, header: bool) -> Rows | None:
        return _clean_text(block, table, header)

    try:
        text = text_of(part)
    except Exception:  # the slow path reports the cause
        whole = None
    else:
        whole = clean(text, table.header and (part.span is None or not part.span[0]))
    rows = whole or read_by_blocks(part, table, clean, _split_rows, table.quoted)
    if spelt_twice(rows.names):  # read once more, for the lines of the names
        found = []
        for before, block in blocks_of(part, table.quoted):
            lines, fields = _split_rows(Rows(), part.source, table, before, block)
            names = _as_text(table, fields).select(table.names).with_columns(line=pl.Series(lines, dtype=pl.Int64))
            found.append(names.unique(table.names, keep="first", maintain_order=True))
        names = pl.concat(found)
        refuse_spelt_twice(names.select(table.names), lambda row: f"line {names['line'][row]}", f"{part.source}: ")
        refuse_spelt_twice(rows.names, lambda row: part.source)
    return rows


def read_by_blocks(
    part: Part,
    table: Table,
    clean: Callable[[bytes, bool], Rows | None],
    split: Callable[[Rows, str, Table, int, bytes], Fields],
    quoted: bool = False,
) -> Rows:
    """The rows of a part that has a fault somewhere: each block by `clean`, and where that returns None by `split`.

    `clean` receives a block and whether it begins with the header. `split(rows, source, table, before, block)` gives
    the line numbers and fields of a block that comes after `before` lines; what it leaves out it counts in `rows`.
    Notes a file without rows. Raises InputError for one that is mostly bad: it must be something else.
    """
    import polars as pl

    rows, good = Rows(), [pl.DataFrame(schema={column.name: dtype_of(column) for column in table.columns})]
    names = [pl.DataFrame(schema=dict.fromkeys(table.names, pl.String))]
    for before, block in blocks_of(part, quoted):
        found = clean(block, table.header and not before)
        if found is None:
            lines, fields = split(rows, part.source, table, before, block)
            found = check_batch(rows, part.source, table, lines, fields)
        rows.read += found.read
        good.append(found.frame)
        names.append(found.names)
    if not rows.read:
        rows.empty.append(part.source)
    if sum(rows.bad.values()) > WRONG_FILE * rows.read:
        first = rows.examples[0].removeprefix(f"{part.source}: ")
        raise InputError(f"{part.source}: not a {part.table} file: more than half of its rows are bad; first: {first}")
    rows.frame, rows.names = pl.concat(good), pl.concat(names).unique(maintain_order=True)
    return rows


def _clean_text(text: str | bytes, table: Table, header: bool) -> Rows | None:
    """The columns of a file or of some text, or None if a row may break a rule; `header`: it begins with the names."""
    import polars as pl

    wanted = {column.name: dtype_of(column) for column in table.columns}
    schema = {name: wanted.get(name, pl.String) for name in table.fields} | {BEYOND: pl.String}
    quote = '"' if table.quoted else None
    options: dict[str, Any] = {"separator": table.separator, "has_header": False, "quote_char": quote, "schema": schema}
    options |= {"missing_columns": "insert", "skip_rows": int(header), "glob": False}
    texts = without_blanks([name for name, dtype in wanted.items() if dtype == pl.String])
    last = () if table.loose else (table.fields[-1],)  # whether a row ends early shows by its last field
    try:
        lazy = pl.scan_csv(text, **options).select(*wanted, *{*last, BEYOND} - set(wanted)).with_columns(texts)
        frame = lazy.collect(engine="streaming")
        checks = [~bad.any() for _, bad in faults(table)]
        checks.append(pl.col(BEYOND).is_null().all())
        if not len(frame) or not frame.select(pl.all_horizontal(checks)).item():
            return None
        if not table.loose and frame[table.fields[-1]].has_nulls() and not _is_whole(text, table, header):
            return None
        names = pl.scan_csv(text, **options).select(table.names).unique().collect() if table.names else pl.DataFrame()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError):
        return None
    return Rows(frame.select(*wanted), len(frame), names)


def _is_whole(text: str | bytes, table: Table, header: bool) -> bool:
    """Whether every line has all its separators, and at most one after its last field.

    Asked where the last field is empty somewhere: the line may end early, or the field may be empty by right.
    """
    import polars as pl

    if table.quoted:
        return False
    options: dict[str, Any] = {"separator": "\x1f", "quote_char": None, "has_header": False, "glob": False}
    lines = pl.scan_csv(text, skip_rows=int(header), schema={"line": pl.String}, **options)
    beyond = pl.col("line").str.count_matches(table.separator, literal=True) - (len(table.fields) - 1)
    whole = (beyond == 0) | ((beyond == 1) & pl.col("line").str.ends_with(table.separator))
    return bool(lines.select(whole.all()).collect(engine="streaming").item())


def _split_rows(rows: Rows, source: str, table: Table, before: int, block: bytes) -> Fields:
    """Through the csv module: rows of the wrong length are noted in `rows`."""
    lines, batch, count = [], [], len(table.fields)
    for line, row in _split(source, table, before, block):
        if len(row) == count + 1 and not row[-1]:  # a separator after the last field
            row = row[:-1]
        if len(row) == count or (table.loose and len(row) < count):
            lines.append(line)
            batch.append(row + [""] * (count - len(row)))
        else:
            note(rows, source, "wrong number of fields", line, f"{len(row)} fields, {count} are needed")
    return lines, batch


def _split(source: str, table: Table, before: int, block: bytes) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of the rows of a block. Raises InputError where it is damaged or a quote stays open."""
    text, skipped = decoded(source, before, block), int(table.header and not before)
    if not table.quoted:
        for line, fields in enumerate(text.split("\n")[skipped:], before + skipped + 1):
            if fields.rstrip("\r"):
                yield line, fields.split(table.separator)
        return
    reader, open_quote = csv.reader(io.StringIO(text, newline=""), delimiter=table.separator), text.count('"') % 2
    begin = 1  # line of the block in which a row begins
    try:
        for row in itertools.islice(reader, skipped, None):
            if row:
                yield before + reader.line_num, row
            if reader.line_num > begin and open_quote and reader.line_num >= text.count("\n"):
                raise InputError(f"{source}: line {before + begin}: a quote opens here and is never closed")
            begin = reader.line_num + 1
    except csv.Error as error:
        line = before + reader.line_num
        raise InputError(f"{source}: cannot be read past line {line}, truncated or damaged: {error}") from None


def check_batch(rows: Rows, source: str, table: Table, lines: list[int], batch: list[list[str]]) -> Rows:
    """The good rows of a batch of rows of the right length; the others are noted in `rows`."""
    import polars as pl

    given = _as_text(table, batch)
    text = given.with_columns(without_blanks(given.columns))
    frame = text.select(pl.col(c.name).cast(dtype_of(c), strict=False) for c in table.columns)
    good = good_rows(rows, source, table, frame, text, lambda i: f"line {lines[i]}")
    return Rows(good, len(lines), given.select(table.names).unique())


def _as_text(table: Table, batch: list[list[str]]) -> pl.DataFrame:
    """The columns of a batch of rows as they were written."""
    import polars as pl

    place = {name: i for i, name in enumerate(table.fields)}
    columns = {c.name: [row[place[c.name]] for row in batch] for c in table.columns}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


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
        return Rows(nothing, 0, nothing.select(table.names), empty=[part.source])
    for column in table.columns:
        name = (names or {}).get(column.name, column.name)
        if name not in there:
            raise no_column(part.source, name, there)
        value, dtype = there[name]
        if not _fits(column, dtype):
            needed = f"{NEEDED[column.kind]} are needed"
            if dtype in (pl.List, pl.Array):
                needed += ", one in each row (polars and pandas: explode)"
            raise InputError(f"{part.source}: column '{name}' is of type {dtype}; {needed}")
        given.append(value.alias(column.name))
    first = part.span[0] if part.span else 0
    try:
        scan = pl.scan_parquet(part.source, glob=False).slice(first, part.span[1] - first if part.span else None)
        frame = scan.select(given).collect()
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _damaged(part.source, error) from None
    kinds = frame.select(_as_kind(column, frame.schema[column.name]) for column in table.columns)
    written = kinds.select(table.names)
    refuse_spelt_twice(written, lambda row: f"row {first + row + 1}", f"{part.source}: ")
    typed = kinds.with_columns(without_blanks([column.name for column in table.columns if column.kind is str]))
    rows = Rows(typed, len(frame), written.unique(), empty=[] if len(frame) else [part.source])
    return drop_bad(rows, part.source, table, first, frame)


def _fits(column: Column, dtype: Any) -> bool:
    """Whether values of a Parquet type can be what a column holds; numbers may also be written as text."""
    import polars as pl

    if column.kind is datetime:
        return dtype in (pl.Date, pl.Datetime, pl.Duration)
    if column.kind is str:
        return bool(dtype.is_integer()) or dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    return bool(dtype.is_numeric()) or dtype in (pl.String, pl.Null)


def _as_kind(column: Column, dtype: Any) -> pl.Expr:
    """The column as `dtype_of`; null where a value cannot be read as that, such as 1.5 as a whole number."""
    import polars as pl

    value = pl.col(column.name)
    if column.kind is datetime:
        return value.cast(pl.Duration("us") if dtype == pl.Duration else pl.Datetime("us")).cast(pl.Int64)
    if column.kind is int and dtype.is_float():
        value = pl.when((value == value.round()) & (value.abs() <= 2**53)).then(value)
    return value.cast(dtype_of(column), strict=False)


def _damaged(source: str, error: BaseException) -> InputError:
    reason = str(error).partition("\n")[0]
    return InputError(f"{source}: not a parquet file, or truncated: {reason}")
