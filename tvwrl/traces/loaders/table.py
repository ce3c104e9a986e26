"""The user's own long table, one row per workload and moment, as CSV or Parquet; its columns are mapped by options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from tvwrl.traces.preparation.files import files_of, header_of, parts_of
from tvwrl.traces.preparation.layout import Column, Table, drop_bad
from tvwrl.traces.preparation.loader import Extras, Part, Rows, not_found
from tvwrl.traces.preparation.parquet import read_parquet
from tvwrl.traces.preparation.reading import read_table
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True)
class _OwnTable:
    columns: dict[str, str] = field(default_factory=dict)
    """Resources and the columns that hold them: --columns cpu cpu_percent mem rss; default: columns cpu and mem."""
    scale: dict[str, float] = field(default_factory=dict)
    """What one unit of a column is as a fraction of the reference machine: --scale cpu 0.01 (percent)."""
    workload_column: str = "workload_id"
    """Column with the name of the workload."""
    time_column: str = "time"
    """Column with the moment of the record: it counts in the slot that this lies in."""
    time_unit: Literal["s", "ms", "us", "ns", "slot", "iso"] = "s"
    """Unit of the time: since any origin; numbers of --interval (slot); or text such as 2026-01-31T12:00:00Z."""
    application_column: str | None = None
    """Column with the application of which the workload is a replica."""
    request_columns: dict[str, str] = field(default_factory=dict)
    """Columns with the reservation, scaled like the usage: --request-columns cpu cpu_request."""
    reference: str | None = None
    """What 1.0 means, in words, for the record."""
    interval: int = 300
    """Interval of the records, seconds; also the default slot. In shorter slots a record stands for an interval."""

    keys: ClassVar[tuple[str, ...]] = ("workload",)
    members: ClassVar[tuple[str, ...]] = ()
    min_records: ClassVar[int] = 288
    paper_records: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if not self.columns:
            object.__setattr__(self, "columns", {"cpu": "cpu", "mem": "mem"})
        for option, names in (("scale", self.scale), ("request-columns", self.request_columns)):
            for name in names:
                if name not in self.columns:
                    raise InputError(f"--{option}: no resource '{name}'; --columns has: {', '.join(self.columns)}")
        for name, value in self.scale.items():
            if not 0 < value < float("inf"):
                raise InputError(f"--scale {name} {value}: must be a finite number > 0")
        if self.interval < 1:
            raise InputError(f"--interval {self.interval}: must be at least 1 second")

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

    def at(self, source: str) -> Self:
        """Itself."""
        return self

    def extras(self, source: str) -> Extras:
        """None."""
        return Extras()

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Application and requests, if columns were named for them."""
        import polars as pl

        if not facts:
            return None
        frame = facts["facts"]
        return frame.group_by("workload", maintain_order=True).agg(pl.exclude("workload").drop_nulls().last())

    @property
    def _facts(self) -> dict[str, str]:
        named = {f"request_{name}": column for name, column in self.request_columns.items()}
        return named | ({"application": self.application_column} if self.application_column else {})

    def _parts(self, files: list[Path]) -> list[Part]:
        facts = parts_of("facts", files, usage=False) if self._facts else []
        return parts_of("usage", files) + facts

    def _rows(self, part: Part, rows: Rows) -> Rows:
        """Named and scaled as everything else expects it."""
        import polars as pl

        def scaled(name: str, column: str) -> pl.Expr:
            return (pl.col(column).cast(pl.Float64) * self.scale.get(name, 1.0)).alias(name)

        workload = pl.col(self.workload_column).cast(pl.String).alias("workload")
        if not part.usage:
            facts = [pl.col(c).cast(pl.String).alias("application") for c in [self.application_column] if c]
            requests = [scaled(n, c).alias(f"request_{n}") for n, c in self.request_columns.items()]
            rows.frame = rows.frame.select(workload, *facts, *requests)
            return rows
        begin = self._moment(rows.frame)
        usage = [scaled(name, column) for name, column in self.columns.items()]
        rows.frame = rows.frame.select(workload, begin.alias("begin"), begin.alias("end"), *usage)
        checks = (Column("workload", str), Column("begin", int), *(Column(n, lowest=0) for n in self.columns))
        return drop_bad(rows, part.source, Table(tuple(rows.frame.columns), checks), part.span[0] if part.span else 0)

    def _moment(self, frame: pl.DataFrame) -> pl.Expr:
        import polars as pl

        time = pl.col(self.time_column)
        if frame.schema[self.time_column].is_temporal():
            return time.cast(pl.Datetime("us")).cast(pl.Int64)
        if self.time_unit == "iso":
            return time.cast(pl.String).str.to_datetime(time_unit="us", time_zone="UTC", strict=False).cast(pl.Int64)
        if self.time_unit == "slot":
            return time.cast(pl.Int64, strict=False) * (self.interval * 1_000_000)
        return (time.cast(pl.Float64, strict=False) * (1_000_000 / PER_SECOND[self.time_unit])).round().cast(pl.Int64)


@dataclass(frozen=True)
class Csv(_OwnTable):
    """Your own table as CSV (.csv, .csv.gz), with a header: one row per workload and moment."""

    separator: str = ","
    """Character between the fields."""

    name: ClassVar[str] = "csv"

    def parts(self, source: str) -> list[Part]:
        """One file, or all of a folder."""
        files = [Path(source)] if Path(source).is_file() else files_of(source, ["*.csv", "*.csv.gz"])
        if not files:
            raise not_found(source, "*.csv or *.csv.gz")
        return self._parts(files)

    def read(self, part: Part) -> Rows:
        """One file."""
        names = header_of(part.source, self.separator)
        asked = [Column(self.workload_column, str), Column(self.time_column, str if self.time_unit == "iso" else float)]
        if part.usage:
            asked += [Column(column, lowest=0) for column in self.columns.values()]
        else:
            asked += [Column(c, str if c == self.application_column else float, True) for c in self._facts.values()]
        for column in asked:
            if column.name not in names:
                raise InputError(f"{part.source}: no column '{column.name}'; the columns are: {', '.join(names)}")
        if len(set(names)) < len(names):
            raise InputError(f"{part.source}: line 1: two columns have the same name: {', '.join(names)}")
        table = Table(tuple(names), tuple(asked), self.separator, header=True, quoted=True, loose=False)
        return self._rows(part, read_table(part, table))


@dataclass(frozen=True)
class Parquet(_OwnTable):
    """Your own table as Parquet: one row per workload and moment."""

    name: ClassVar[str] = "parquet"

    def parts(self, source: str) -> list[Part]:
        """One file, or all of a folder."""
        files = [Path(source)] if Path(source).is_file() else files_of(source, ["*.parquet"])
        if not files:
            raise not_found(source, "*.parquet")
        return self._parts(files)

    def read(self, part: Part) -> Rows:
        """One file."""
        columns = [*self.columns.values()] if part.usage else [*self._facts.values()]
        frame = read_parquet(part, list(dict.fromkeys([self.workload_column, self.time_column, *columns])))
        return self._rows(part, Rows(frame, len(frame)))
