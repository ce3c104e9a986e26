"""The user's own long table, one row per workload and moment, as CSV or Parquet; its columns are mapped by options."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from tvwrl.checks import at_least, positive
from tvwrl.deferring import deferred
from tvwrl.input_tables import no_column
from tvwrl.traces.canonical import OTHER_SEPARATORS
from tvwrl.traces.preparation.files import files_of, header_of, parts_of
from tvwrl.traces.preparation.layout import YEAR_10000, Column, Rule, Table, usage_column
from tvwrl.traces.preparation.loader import Loader, Part, Rows, newest_facts, not_found
from tvwrl.traces.preparation.reading import parquet_columns, read_parquet, read_table
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

ISO_8601 = (
    r"^(?<date>\d{4}-\d\d-\d\d)"
    r"(?:[Tt ](?<minute>\d\d:\d\d)(?<second>:\d\d(?:\.\d{1,9})?)?(?<offset>[Zz]|[+-]\d\d(?::?\d\d)?)?)?$"
)
WIDE = 30  # more columns than one row per workload and moment has
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True)
class _OwnTable(Loader):
    columns: dict[str, str] = field(default_factory=dict)
    """Resources and the columns that hold them: --columns cpu cpu_percent mem rss; default: columns cpu and mem."""
    scale: dict[str, float] = field(default_factory=dict)
    """Value of one unit of a column, as a fraction of the reference machine: --scale cpu 0.01 for percent."""
    workload_column: str = "workload_id"
    """Column with the name of the workload."""
    time_column: str = "time"
    """Column with the time of the record, which decides the slot it belongs to."""
    time_unit: Literal["s", "ms", "us", "ns", "slot", "iso"] = "s"
    """Unit of the time column: s, ms, us or ns since any origin; slot (multiples of --interval); or iso, such as
    2026-01-31T12:00:00Z, in UTC unless it ends with an offset."""
    application_column: str | None = None
    """Column with the application that the workload is a replica of."""
    request_columns: dict[str, str] = field(default_factory=dict)
    """Columns with the reservation, scaled like the usage: --request-columns cpu cpu_request."""
    reference: str | None = None
    """Description of the reference machine (what 1.0 means), for the record."""
    interval: int = 300
    """Interval of the records, seconds; also the default slot. With shorter slots, a record applies to its whole
    interval."""

    version: ClassVar[int] = 2
    keys: ClassVar[tuple[str, ...]] = ("workload",)
    patterns: ClassVar[tuple[str, ...]]  # of the names of files in a folder

    def __post_init__(self) -> None:
        if not self.columns:
            object.__setattr__(self, "columns", {"cpu": "cpu", "mem": "mem"})
        for option, names in (("scale", self.scale), ("request-columns", self.request_columns)):
            for name in names:
                if name not in self.columns:
                    raise InputError(f"--{option}: no resource '{name}'; --columns has: {', '.join(self.columns)}")
        positive(**{f"scale of {name}": value for name, value in self.scale.items()})
        at_least(1, interval=self.interval)

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources."""
        return tuple(self.columns)

    @property
    def slot_seconds(self) -> int:
        """Default length of a slot."""
        return self.interval

    @property
    def sample_seconds(self) -> int:
        """The interval, which begins with the record."""
        return self.interval

    @property
    def reference_machine(self) -> str | None:
        """What 1.0 means."""
        return self.reference

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Application and requests, if columns were named for them."""
        if not facts:
            return None
        frame = facts["facts"]
        known = [name for name in frame.columns if name != "workload"]
        return frame.group_by("workload", maintain_order=True).agg(newest_facts(frame, ("workload",), known))

    def parts(self, source: str) -> list[Part]:
        """One file, or all of a folder."""
        files = [Path(source)] if Path(source).is_file() else files_of(source, self.patterns)
        if not files:
            raise not_found(source, " or ".join(self.patterns))
        facts = self.request_columns or self.application_column
        return parts_of("usage", files) + (parts_of("facts", files, usage=False) if facts else [])

    def _note_unused(self, names: Iterable[str]) -> None:
        """Say that a column says which workloads are replicas, but nobody asked to read it."""
        if "application" in names and self.application_column is None:
            warnings.warn(
                "column 'application' is not read: --application-column application makes workloads of one application "
                "replicas of one another",
                stacklevel=2,
            )

    def _columns(self) -> tuple[Column, ...]:
        """What is read, and checked row by row."""
        kind: type = str if self.time_unit == "iso" else float
        time_rules: tuple[Rule, ...]
        if self.time_unit == "iso":
            time_rules = (("is no time such as 2026-01-31T12:00:00Z", lambda value: _iso(value).is_null()),)
        else:
            last = YEAR_10000 // self.interval if self.time_unit == "slot" else YEAR_10000 * PER_SECOND[self.time_unit]
            time_rules = ((f"is beyond all dates: --time-unit {self.time_unit}?", lambda value: value.abs() > last),)
        if self.time_unit == "slot":
            fault = "is not a whole number, as --time-unit slot needs"
            time_rules = (*time_rules, (fault, lambda value: value != value.round()))
        unread = "is not a number (for times such as 2026-01-31T12:00:00Z: --time-unit iso)"
        time = Column(self.time_column, kind, rules=time_rules, unread=unread)
        usage = (self._amount(name, column) for name, column in self.columns.items())
        application = [Column(self.application_column, str, True)] if self.application_column else []
        requests = (self._amount(name, column, optional=True) for name, column in self.request_columns.items())
        asked = (Column(self.workload_column, str), time, *usage, *application, *requests)
        return tuple({column.name: column for column in reversed(asked)}.values())[::-1]

    def _names(self) -> tuple[str, ...]:
        """The columns of names."""
        return tuple(dict.fromkeys(name for name in (self.workload_column, self.application_column) if name))

    def _amount(self, name: str, column: str, optional: bool = False) -> Column:
        return usage_column(column, 1 / self.scale.get(name, 1.0), optional, f": is --scale {name} right?")

    def _rows(self, part: Part, rows: Rows) -> Rows:
        """The rows under the names and in the units of `Rows`."""

        def scaled(name: str, column: str) -> pl.Expr:
            return (pl.col(column).cast(pl.Float64) * self.scale.get(name, 1.0)).alias(name)

        workload = pl.col(self.workload_column).alias("workload")
        if not part.usage:  # these rows were counted with the usage
            facts = [pl.col(c).alias("application") for c in [self.application_column] if c]
            requests = [scaled(n, c).alias(f"request_{n}") for n, c in self.request_columns.items()]
            return Rows(rows.frame.select(workload, *facts, *requests))
        time = pl.col(self.time_column)
        if self.time_unit == "iso":
            moment = _iso(time)
        elif self.time_unit == "slot":
            moment = time.cast(pl.Int64) * (self.interval * 1_000_000)
        else:
            moment = (time * (1_000_000 / PER_SECOND[self.time_unit])).round().cast(pl.Int64)
        usage = [scaled(name, column) for name, column in self.columns.items()]
        rows.frame = rows.frame.select(workload, moment.alias("begin"), moment.alias("end"), *usage)
        return rows


def _iso(time: pl.Expr) -> pl.Expr:
    """Microseconds since 1970 of ISO 8601 text, null if it is something else, such as 01/05/2026 00:05."""
    parts = time.str.extract_groups(ISO_8601).struct
    clock = pl.concat_str(parts.field("minute").fill_null("00:00"), parts.field("second").fill_null(":00"))
    offset = pl.when(parts.field("offset").str.to_uppercase() != "Z").then(parts.field("offset")).fill_null("+00")
    full = pl.concat_str(parts.field("date"), pl.lit("T"), clock, offset)
    return full.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%#z", time_unit="us", strict=False).cast(pl.Int64)


@dataclass(frozen=True)
class Csv(_OwnTable):
    """Your own table as CSV (.csv, .csv.gz), with a header: one row per workload and moment."""

    separator: str = ","
    """Character between the fields."""

    name: ClassVar[str] = "csv"
    patterns: ClassVar[tuple[str, ...]] = ("*.csv", "*.csv.gz")

    def read(self, part: Part) -> Rows:
        """One file."""
        asked = self._columns()
        names = header_of(part.source, self.separator) or [column.name for column in asked]  # none: an empty file
        for column in asked:
            if column.name not in names:
                raise no_column(part.source, column.name, names, f"; {self._hint(names)}")
        self._note_unused(names)
        table = Table(tuple(names), asked, self.separator, header=True, quoted=True, names=self._names())
        return self._rows(part, read_table(replace(part, table="usage"), table))

    def _hint(self, names: Sequence[str]) -> str:
        """What to do about a missing column."""
        if len(names) == 1 and (found := [shown for mark, shown in OTHER_SEPARATORS.items() if mark in names[0]]):
            return f"is the separator another one? --separator {found[0]}"
        if len(names) > WIDE:
            return "needed: one row per workload and moment, not one column per workload (pandas: melt)"
        return "name yours: --workload-column, --time-column, --columns"


@dataclass(frozen=True)
class Parquet(_OwnTable):
    """Your own table as Parquet: one row per workload and moment."""

    name: ClassVar[str] = "parquet"
    patterns: ClassVar[tuple[str, ...]] = ("*.parquet",)

    def read(self, part: Part) -> Rows:
        """One file. A column of dates, or of durations since any origin, needs no unit."""
        found = parquet_columns(part.source)
        self._note_unused(found)
        _, dtype = found.get(self.time_column, (None, None))
        reader, columns = self, self._columns()
        if dtype in (pl.Date, pl.Datetime, pl.Duration):
            reader = replace(self, time_unit="us")
            columns = tuple(replace(c, kind=datetime) if c.name == self.time_column else c for c in reader._columns())
        table = Table(tuple(column.name for column in columns), columns, names=reader._names())
        return reader._rows(part, read_parquet(replace(part, table="usage"), table))
