"""Reads delimited text fast, and where it has faults slowly enough to name each with its line."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tvwrl.traces.preparation.files import blocks_of, decoded, text_of
from tvwrl.traces.preparation.layout import Table, check_file, dtype_of, faults, good_rows, note, without_blanks
from tvwrl.traces.preparation.loader import Part, Rows
from tvwrl.traces.spelling import refuse_spelt_twice, spelt_twice
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

    def clean(block: bytes, header: bool) -> Rows | None:
        return _clean_text(block, table, header)

    rows = _clean(part, table) or read_by_blocks(part, table, clean, _split_rows, table.quoted)
    if spelt_twice(rows.names):
        _refuse_names(part, table)
    return rows


def _refuse_names(part: Part, table: Table) -> None:
    """Raise InputError for the first two names that differ only in blanks, with their lines."""
    import polars as pl

    found = []
    for before, block in blocks_of(part, table.quoted):
        lines, fields = _split_rows(Rows(), part.source, table, before, block)
        names = _as_text(table, fields).select(table.names).with_columns(line=pl.Series(lines, dtype=pl.Int64))
        found.append(names.unique(table.names, keep="first", maintain_order=True))
    names = pl.concat(found)
    refuse_spelt_twice(part.source, names.select(table.names), lambda row: f"line {names['line'][row]}")


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
    check_file(part, rows)
    rows.frame, rows.names = pl.concat(good), pl.concat(names).unique(maintain_order=True)
    return rows


def _clean(part: Part, table: Table) -> Rows | None:
    try:
        text = text_of(part)
    except Exception:  # the slow path reports the cause
        return None
    return _clean_text(text, table, table.header and (part.span is None or not part.span[0]))


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
