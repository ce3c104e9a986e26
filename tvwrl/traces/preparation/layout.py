"""The layout of a table, and the rules that its rows must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tvwrl.traces.canonical import LARGEST_USAGE
from tvwrl.traces.preparation.loader import EXAMPLES, Rows
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

YEAR_10000 = 253_402_300_800  # seconds since 1970; no date is as late
LONGEST_RECORD = 3  # days; a record with an absurd end must not become a million slots
SHOWN = 60  # characters of a bad value that a message shows
WRONG_FILE = 0.5  # share of bad rows above which a file is taken for something else

Rule = tuple[str, "Callable[[pl.Expr], pl.Expr]"]  # "is odd", and a test for values that break the rule


@dataclass(frozen=True)
class Column:
    """A field that is read: `optional` ones may be empty, `lowest` is the smallest value of a number."""

    name: str
    kind: type = float  # float, int, str, or datetime: a Parquet column of dates, read as microseconds since 1970
    optional: bool = False
    lowest: float | None = None
    rules: tuple[Rule, ...] = ()  # further ones
    unread: str = "is not a number"  # the fault of a value that cannot be read as `kind`


@dataclass(frozen=True)
class Table:
    """Layout of a delimited table: the names of all its fields in order, and of them the columns that are read."""

    fields: tuple[str, ...]
    columns: tuple[Column, ...]
    separator: str = ","
    header: bool = False
    quoted: bool = False
    loose: bool = False  # rows may end early: the missing fields are empty
    begin_end: tuple[str, str] | None = None  # two columns of moments, microseconds
    names: tuple[str, ...] = ()  # columns whose names have to be written alike, which costs time


def dtype_of(column: Column) -> Any:
    """The type of polars for a column."""
    import polars as pl

    return {float: pl.Float64, int: pl.Int64, str: pl.String, datetime: pl.Int64}[column.kind]


def alike(*names: str, kind: type = float, optional: bool = False, lowest: float | None = None) -> tuple[Column, ...]:
    """Columns that differ in their names only."""
    return tuple(Column(name, kind, optional, lowest) for name in names)


def usage_column(name: str, unit: float = 1.0, optional: bool = False, hint: str = "") -> Column:
    """A column of usage or reservations, of which `unit` make one reference machine; `hint` ends what is above it."""
    highest = LARGEST_USAGE * unit
    return Column(name, float, optional, 0, ((f"is above {highest:g}{hint}", lambda value: value > highest),))


def without_blanks(names: Sequence[str]) -> list[pl.Expr]:
    """Columns of text without the blanks around it; what is empty then is null.

    Every reader of text uses this, so that an id is the same workload whichever way its row was read.
    """
    import polars as pl

    texts = [pl.col(name).str.strip_chars() for name in names]
    return [pl.when(text != "").then(text) for text in texts]


def faults(table: Table) -> Iterator[tuple[str, pl.Expr]]:
    """Every rule of the table with an expression that is true where a row breaks it."""
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
        for rule, breaks in column.rules:
            yield f"{column.name} {rule}", breaks(value).fill_null(False)
    if table.begin_end is not None:
        begin, end = table.begin_end
        yield f"{end} is before {begin}", (pl.col(end) < pl.col(begin)).fill_null(False)
        late = pl.col(end) - pl.col(begin) > LONGEST_RECORD * 86_400_000_000
        yield f"{end} is more than {LONGEST_RECORD} days after {begin}", late.fill_null(False)


def good_rows(
    rows: Rows, source: str, table: Table, frame: pl.DataFrame, given: pl.DataFrame, place: Callable[[int], str]
) -> pl.DataFrame:
    """The rows of the frame that break no rule; the others are counted in `rows`, and a few named.

    They are named by `place(row)` and the value in `given`, which has the columns as they came, not yet of their types.
    """
    import polars as pl

    bad = pl.repeat(False, len(frame), eager=True)
    unread = [(f"{c.name} {c.unread}", given[c.name].is_not_null() & frame[c.name].is_null()) for c in table.columns]
    for rule, where in [*unread, *((rule, frame.select(breaks).to_series()) for rule, breaks in faults(table))]:
        new = where.fill_null(False) & ~bad
        rows.bad.update({rule: int(new.sum())} if new.any() else {})
        for i in new.arg_true()[: EXAMPLES - len(rows.examples)].to_list():
            rows.examples.append(f"{source}: {place(i)}: {rule}{_shown(given, rule, i)}")
        bad = bad | new
    return frame.filter(~bad)


def _shown(given: pl.DataFrame, rule: str, row: int) -> str:
    """The value that breaks a rule, or its beginning."""
    name = next((name for name in given.columns if rule.startswith(f"{name} ")), None)
    if name is None or rule.endswith(" is missing"):
        return ""
    value = repr(given[name][row])
    return f": {value}" if len(value) <= SHOWN else f": {value[:SHOWN]}..."


def drop_bad(rows: Rows, source: str, table: Table, first: int = 0, given: pl.DataFrame | None = None) -> Rows:
    """Leave out the rows of the frame that break a rule of the table, count and name them; `first` come before them.

    `given` has the columns as they came, if they were changed since.
    """
    frame = rows.frame
    given = frame if given is None else given
    rows.frame = good_rows(rows, source, table, frame, given, lambda i: f"row {first + i + 1}")
    if len(frame) - len(rows.frame) > WRONG_FILE * len(frame):
        example = rows.examples[0].removeprefix(f"{source}: ")
        raise InputError(f"{source}: more than half of its rows are bad; first: {example}")
    return rows


def note(rows: Rows, source: str, rule: str, line: int, what: str) -> None:
    """Count a row that is bad and in no frame, and name it if few have been named."""
    rows.read += 1
    rows.bad[rule] += 1
    if len(rows.examples) < EXAMPLES:
        rows.examples.append(f"{source}: line {line}: {what}")
