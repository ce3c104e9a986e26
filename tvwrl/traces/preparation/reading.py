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
    InputError if the file is truncated, empty, or more than half of it is bad.
    """
    frame = _clean(part, table)
    if frame is not None:
        return Rows(frame, len(frame))

    def clean(block: bytes, header: bool) -> pl.DataFrame | None:
        return _clean_text(block, table, header)

    return read_by_blocks(part, table, clean, _split_rows, table.quoted)


def read_by_blocks(
    part: Part,
    table: Table,
    clean: Callable[[bytes, bool], pl.DataFrame | None],
    split: Callable[[Rows, str, Table, int, bytes], Fields],
    quoted: bool = False,
) -> Rows:
    """The rows of a part that has a fault somewhere: each block by `clean`, and where that returns None by `split`.

    `clean` receives a block and whether it begins with the header. `split(rows, source, table, before, block)` gives
    the line numbers and fields of a block that comes after `before` lines; what it leaves out it counts in `rows`.
    """
    import polars as pl

    rows, good = Rows(), [pl.DataFrame(schema={column.name: dtype_of(column) for column in table.columns})]
    for before, block in blocks_of(part, quoted):
        frame = clean(block, table.header and not before)
        if frame is None:
            lines, fields = split(rows, part.source, table, before, block)
            rows.read += len(lines)
            frame = check_batch(rows, part.source, table, lines, fields)
        else:
            rows.read += len(frame)
        good.append(frame)
    check_file(part, rows)
    rows.frame = pl.concat(good)
    return rows


def _clean(part: Part, table: Table) -> pl.DataFrame | None:
    try:
        text = text_of(part)
    except Exception:  # the slow path reports the cause
        return None
    return _clean_text(text, table, table.header and (part.span is None or not part.span[0]))


def _clean_text(text: str | bytes, table: Table, header: bool) -> pl.DataFrame | None:
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
        if table.names and spelt_twice(pl.scan_csv(text, **options).select(table.names).unique().collect()):
            return None
        checks = [~bad.any() for _, bad in faults(table)]
        checks.append(pl.col(BEYOND).is_null().all())
        if not len(frame) or not frame.select(pl.all_horizontal(checks)).item():
            return None
        if not table.loose and frame[table.fields[-1]].has_nulls() and not _is_whole(text, table, header):
            return None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError):
        return None
    return frame.select(*wanted)


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


def check_batch(rows: Rows, source: str, table: Table, lines: list[int], batch: list[list[str]]) -> pl.DataFrame:
    """The good rows of a batch of rows of the right length; the others are noted in `rows`."""
    import polars as pl

    place = {name: i for i, name in enumerate(table.fields)}
    text = pl.DataFrame({c.name: [row[place[c.name]] for row in batch] for c in table.columns})
    refuse_spelt_twice(source, text.select(table.names).cast(pl.String), lambda row: f"line {lines[row]}")
    text = text.cast(pl.String).with_columns(without_blanks(text.columns))
    frame = text.select(pl.col(c.name).cast(dtype_of(c), strict=False) for c in table.columns)
    return good_rows(rows, source, table, frame, text, lambda i: f"line {lines[i]}")
