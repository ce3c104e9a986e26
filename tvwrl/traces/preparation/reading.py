"""Reads delimited text fast, and where something is wrong with it, slowly enough to say what and in which line."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tvwrl.traces.preparation.loader import EXAMPLES, Part, Rows
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

BATCH = 200_000  # rows that are checked at a time on the slow path
BEYOND = "beyond the last field"
WRONG_FILE = 0.5  # share of bad rows above which a file is taken for something else


@dataclass(frozen=True)
class Column:
    """A field that is read: `optional` ones may be empty, `lowest` is the smallest value of a number."""

    name: str
    kind: type = float  # float, int or str
    optional: bool = False
    lowest: float | None = None


@dataclass(frozen=True)
class Table:
    """Layout of a delimited table: the names of all its fields in order, and of them the columns that are read."""

    fields: tuple[str, ...]
    columns: tuple[Column, ...]
    separator: str = ","
    header: bool = False
    quoted: bool = False
    loose: bool = False  # rows may end early: the missing fields are empty
    begin_end: tuple[str, str] | None = None  # two columns of which the first must not be above the second


def read_table(part: Part, table: Table) -> Rows:
    """The columns of one delimited file (.gz, zip member or plain); a bad row is counted, named and left out.

    Raises InputError if the file is truncated, empty, or more than half of it is bad.
    """
    import polars as pl

    try:
        frame = _read_fast(part.source, table)
        if _is_clean(part.source, frame, table):
            return Rows(frame.select(c.name for c in table.columns), len(frame))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError):
        pass  # the slow way tells what it was
    rows = _read_slow(part.source, table)
    if not rows.read:
        raise InputError(f"{part.source}: empty: it holds no rows of {part.table}")
    if sum(rows.bad.values()) > WRONG_FILE * rows.read:
        first = rows.examples[0].removeprefix(f"{part.source}: ")
        raise InputError(f"{part.source}: not a {part.table} file: more than half of its rows are bad; first: {first}")
    return rows


def dtype_of(column: Column) -> Any:
    import polars as pl

    return {float: pl.Float64, int: pl.Int64, str: pl.String}[column.kind]


def _read_fast(source: str, table: Table) -> pl.DataFrame:
    import polars as pl

    wanted = {column.name: dtype_of(column) for column in table.columns}
    schema = {name: wanted.get(name, pl.String) for name in table.fields} | {BEYOND: pl.String}
    if "::" in source:
        with open_bytes(source) as file:
            lazy = pl.read_csv(file.read(), **_csv_options(table, schema)).lazy()
    else:
        lazy = pl.scan_csv(source, glob=False, **_csv_options(table, schema))
    last = () if table.loose else (table.fields[-1],)  # whether a row ends early shows by its last field
    return lazy.select(*wanted, *{*last, BEYOND} - set(wanted)).collect(engine="streaming")


def _csv_options(table: Table, schema: dict[str, Any]) -> dict[str, Any]:
    quote = '"' if table.quoted else None
    options = {"separator": table.separator, "has_header": False, "quote_char": quote, "missing_columns": "insert"}
    return options | {"schema": schema, "skip_rows": int(table.header), "truncate_ragged_lines": True}


def _is_clean(source: str, frame: pl.DataFrame, table: Table) -> bool:
    """Whether no row of what the fast way read can be bad; a row too short shows by its last field."""
    import polars as pl

    checks = [~bad.any() for _, bad in faults(table)]
    checks.append(pl.col(BEYOND).is_null().all())
    if not len(frame) or not frame.select(pl.all_horizontal(checks)).item():
        return False
    return table.loose or not frame[table.fields[-1]].has_nulls() or _is_whole(source, table)


def _is_whole(source: str, table: Table) -> bool:
    """Whether every line has all its separators; asked where the last field is empty somewhere, which may be right."""
    import polars as pl

    if table.quoted or "::" in source:
        return False
    options: dict[str, Any] = {
        "separator": "\x1f",
        "quote_char": None,
        "has_header": False,
        "schema": {"line": pl.String},
    }
    lines = pl.scan_csv(source, glob=False, skip_rows=int(table.header), **options)
    separators = pl.col("line").str.count_matches(table.separator, literal=True)
    whole = lines.select((separators == len(table.fields) - 1).all()).collect(engine="streaming")
    return bool(whole.item())


def faults(table: Table) -> Iterator[tuple[str, pl.Expr]]:
    """Rules of the table, and for each an expression that is true where a row breaks it."""
    import polars as pl

    for column in table.columns:
        value = pl.col(column.name)
        if not column.optional:
            yield f"{column.name} is missing", value.is_null()
        if column.lowest is not None:
            limit = "is negative" if column.lowest == 0 else f"is below {column.lowest:g}"
            yield f"{column.name} {limit}", (value < column.lowest).fill_null(False)
        if column.kind is float:
            yield f"{column.name} is not finite", (~value.is_finite()).fill_null(False)
    if table.begin_end is not None:
        begin, end = table.begin_end
        yield f"{end} is before {begin}", (pl.col(end) < pl.col(begin)).fill_null(False)


def _read_slow(source: str, table: Table) -> Rows:
    """Row by row through the csv module: every bad row is found, with its line."""
    import polars as pl

    schema = {column.name: dtype_of(column) for column in table.columns}
    rows, good = Rows(pl.DataFrame(schema=schema), 0), []
    for lines, batch in _batches(source, table):
        count = len(table.fields)
        fits = [len(row) == count or (table.loose and len(row) < count) for row in batch]
        for line, row, right in zip(lines, batch, fits, strict=True):
            if not right:
                note(rows, source, "wrong number of fields", line, f"{len(row)} fields, {count} are needed")
        rows.read += len(batch)
        lines = [line for line, right in zip(lines, fits, strict=True) if right]
        batch = [row + [""] * (count - len(row)) for row, right in zip(batch, fits, strict=True) if right]
        good.append(check_batch(rows, source, table, lines, batch))
    rows.frame = pl.concat(good) if good else rows.frame
    return rows


def check_batch(rows: Rows, source: str, table: Table, lines: list[int], batch: list[list[str]]) -> pl.DataFrame:
    """The good rows of a batch of rows of the right length; the others are noted in `rows`."""
    import polars as pl

    place = {name: i for i, name in enumerate(table.fields)}
    text = pl.DataFrame({c.name: [row[place[c.name]].strip() or None for row in batch] for c in table.columns})
    text = text.cast(pl.String)
    frame = text.select(pl.col(c.name).cast(dtype_of(c), strict=False) for c in table.columns)
    bad = pl.repeat(False, len(frame), eager=True)
    given = [text[c.name].is_not_null() for c in table.columns]
    unread = [
        (f"{c.name} is not a number", there & frame[c.name].is_null())
        for c, there in zip(table.columns, given, strict=True)
    ]
    for rule, where in [*unread, *((rule, frame.select(where).to_series()) for rule, where in faults(table))]:
        where = where & ~bad
        for i in where.arg_true().to_list():
            shown = "" if rule.endswith("missing") else f": {_shown(text, rule, i)}"
            note(rows, source, rule, lines[i], rule + shown)
        bad = bad | where
    return frame.filter(~bad)


def _shown(text: pl.DataFrame, rule: str, row: int) -> str:
    name = next((name for name in text.columns if rule.startswith(f"{name} ")), None)
    return repr(text[name][row]) if name is not None else "?"


def note(rows: Rows, source: str, rule: str, line: int, what: str) -> None:
    rows.bad[rule] += 1
    if len(rows.examples) < EXAMPLES:
        rows.examples.append(f"{source}: line {line}: {what}")


def _batches(source: str, table: Table) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Line numbers and fields of the rows of a file, BATCH at a time. Raises InputError for a damaged file."""
    line = 0
    try:
        with open_bytes(source) as binary:
            text = io.TextIOWrapper(binary, encoding="utf-8", newline="")
            quoting: Any = csv.QUOTE_MINIMAL if table.quoted else csv.QUOTE_NONE
            reader = csv.reader(text, delimiter=table.separator, quoting=quoting)
            if table.header:
                next(reader, None)
            lines: list[int] = []
            batch: list[list[str]] = []
            for row in reader:
                line = reader.line_num
                if row:
                    lines.append(line)
                    batch.append(row)
                if len(batch) == BATCH:
                    yield lines, batch
                    lines, batch = [], []
            if batch:
                yield lines, batch
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error, zipfile.BadZipFile) as error:
        raise InputError(f"{source}: cannot be read past line {line}, truncated or damaged: {error}") from None


@contextmanager
def open_bytes(source: str) -> Iterator[IO[bytes]]:
    """The content of a file, unpacked: plain, .gz, or a member of a zip ("archive.zip::member")."""
    path, _, member = source.partition("::")
    if member:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            yield file
    elif path.endswith(".gz"):
        with gzip.open(path) as unpacked:
            yield unpacked  # type: ignore[misc]
    else:
        with Path(path).open("rb") as file:
            yield file


def header_of(source: str, separator: str = ",") -> list[str]:
    """The names in the first line of a file. Raises InputError if it is empty or damaged."""
    try:
        with open_bytes(source) as binary:
            first = io.TextIOWrapper(binary, encoding="utf-8-sig").readline()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{source}: cannot be read, truncated or damaged: {error}") from None
    if not first.strip():
        raise InputError(f"{source}: empty")
    return [name.strip() for name in next(csv.reader([first], delimiter=separator))]


def files_of(source: str | Path, patterns: Sequence[str]) -> list[Path]:
    """Files below `source` (or itself) that match one of the patterns, sorted by name."""
    root = Path(source)
    if root.is_file():
        return [root] if any(root.match(pattern) for pattern in patterns) else []
    found = {path for pattern in patterns for path in root.rglob(pattern) if path.is_file()}
    return sorted(found)


def read_parquet(part: Part, columns: Sequence[str]) -> pl.DataFrame:
    """The columns of a Parquet file. Raises InputError if it is damaged, empty or lacks one of them."""
    import polars as pl

    try:
        scan = pl.scan_parquet(part.source, glob=False)
        there = scan.collect_schema().names()
        for name in columns:
            if name not in there:
                raise InputError(f"{part.source}: no column '{name}'; the columns are: {', '.join(there)}")
        frame = scan.select(columns).collect()
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(
            f"{part.source}: not a parquet file, or truncated: {str(error).partition(chr(10))[0]}"
        ) from None
    if not len(frame):
        raise InputError(f"{part.source}: empty: it holds no rows of {part.table}")
    return frame


def checked(part: Part, frame: pl.DataFrame, resources: Sequence[str] = ("cpu", "mem")) -> Rows:
    """Usage of a typed source (not text) with the bad rows counted, named by their row (from 1) and left out."""
    columns = (Column("begin", int), Column("end", int), *(Column(name, lowest=0) for name in resources))
    table = Table(tuple(frame.columns), columns, begin_end=("begin", "end"))
    return drop_bad(Rows(frame, len(frame)), part.source, table)


def drop_bad(rows: Rows, source: str, table: Table) -> Rows:
    """Leave out the rows of the frame that break a rule of the table, count and name them."""
    import polars as pl

    frame, bad = rows.frame, pl.repeat(False, len(rows.frame), eager=True)
    for rule, expression in faults(table):
        where = frame.select(expression.fill_null(False)).to_series() & ~bad
        rows.bad.update({rule: int(where.sum())} if where.any() else {})
        for i in where.arg_true()[:EXAMPLES].to_list():
            rows.examples.append(f"{source}: row {i + 1}: {rule}")
        bad = bad | where
    if bad.any():
        rows.frame = frame.filter(~bad)
    if int(bad.sum()) > WRONG_FILE * len(frame):
        raise InputError(f"{source}: more than half of its rows are bad; first: {rows.examples[0]}")
    rows.examples = rows.examples[:EXAMPLES]
    return rows
