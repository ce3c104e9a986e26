"""Google cluster trace of May 2019 (Borg, clusterdata-2019): usage, instance, collection and machine events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tvwrl.deferring import deferred
from tvwrl.input_tables import decoded, no_column
from tvwrl.traces.loaders.google import Google
from tvwrl.traces.preparation.files import files_of, header_of, parts_of, text_of
from tvwrl.traces.preparation.layout import (
    Column,
    Table,
    alike,
    dtype_of,
    faults,
    note,
    usage_column,
    without_blanks,
)
from tvwrl.traces.preparation.loader import HOW_TO_GET, Part, Rows, not_found
from tvwrl.traces.preparation.reading import Fields, parquet_columns, read_by_blocks, read_parquet, read_table

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")


def read_json_lines(part: Part, table: Table) -> Rows:
    """The columns of a part of a file of JSON lines; a bad line is counted, named and left out.

    Read all at once, or where that shows a fault by blocks, and the faulty ones of these line by line. Raises
    InputError if the file is truncated, empty, or more than half of it is bad.
    """
    rows = _clean(text_of(part), table)
    if rows is not None and rows.read:
        return rows
    return read_by_blocks(part, table, lambda block, _: _clean(block, table), _split_lines)


def _clean(source: str | bytes, table: Table) -> Rows | None:
    """The columns of JSON lines, or None if a row breaks a rule; integers are text there, other fields are not read."""
    import polars as pl

    schema: dict[str, Any] = {}
    flat = []
    for column in table.columns:
        outer, _, inner = column.name.partition(".")
        schema[outer] = {**schema.get(outer, {}), inner: pl.Float64} if inner else pl.String
        value = pl.col(outer).struct.field(inner) if inner else pl.col(outer)
        flat.append(value.cast(dtype_of(column), strict=False).alias(column.name))
    schema = {name: pl.Struct(kind) if isinstance(kind, dict) else kind for name, kind in schema.items()}
    texts = without_blanks([column.name for column in table.columns if column.kind is str])
    try:
        frame = pl.scan_ndjson(source, schema=schema).select(flat).with_columns(texts).collect(engine="streaming")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    bad = frame.select(pl.any_horizontal(where.any() for _, where in faults(table))).item()
    return None if bad else Rows(frame, len(frame))


def _split_lines(rows: Rows, source: str, table: Table, before: int, block: bytes) -> Fields:
    """Lines that are no JSON objects are noted in `rows`."""
    lines, batch = [], []
    for number, line in enumerate(decoded(source, before, block).split("\n"), before + 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            note(rows, source, "not a JSON object", number, f"not a JSON object: {line[:60]!r}")
            continue
        values = []
        for name in table.fields:
            outer, _, inner = name.partition(".")
            value = row.get(outer)
            if inner:
                value = value.get(inner) if isinstance(value, dict) else None
            values.append("" if value is None else str(value))
        lines.append(number)
        batch.append(values)
    return lines, batch


WINDOW = 300_000_000  # microseconds; records end at its multiples, or earlier
ALLOC_SET, ADD = 1, 1  # collection type, type of machine event

COLLECTION, INSTANCE = Column("collection_id", int), Column("instance_index", int)
USAGE = (
    *alike("start_time", "end_time", kind=int, lowest=0),
    *(COLLECTION, INSTANCE, Column("collection_type", int, optional=True)),
    *map(usage_column, ("average_usage.cpus", "average_usage.memory")),
)
EVENT = (
    *(Column("time", int, lowest=0), COLLECTION, Column("missing_type", int, optional=True)),
    *alike("priority", "scheduling_class", optional=True),
)
TYPE = Column("type", int, lowest=0)
REQUEST = tuple(usage_column(f"resource_request.{name}", optional=True) for name in ("cpus", "memory"))
MACHINE_EVENTS = (
    *alike("time", "type", kind=int, lowest=0),
    *(usage_column(f"capacity.{name}", optional=True) for name in ("cpus", "memory")),
)
TABLES = {
    "collection_events": (*EVENT, TYPE, Column("collection_logical_name", str, optional=True)),
    "instance_events": (*EVENT, TYPE, INSTANCE, *REQUEST),
    "limits": (*EVENT, replace(TYPE, optional=True), INSTANCE, *REQUEST),
}
# Names in tables that were flattened, beside those with "_" for the dot of a nested field.
OTHER_NAMES = {
    "time": "start_time",
    "start_time": "time",
    "average_usage.cpus": "avg_cpu_usage",
    "average_usage.memory": "avg_memory_usage",
    "resource_request.cpus": "cpu_limit",
    "resource_request.memory": "memory_limit",
}
FACTS = {
    "priority": "priority",
    "scheduling_class": "class",
    "collection_logical_name": "logical_name",
    "resource_request.cpus": "request_cpu",
    "resource_request.memory": "request_mem",
}


@dataclass(frozen=True)
class Google2019(Google):
    """Google cluster trace 2019: instance_usage, instance_events, collection_events, machine_events of one cell.

    JSON lines (.json.gz), Parquet, or CSV with a header, nested fields as average_usage.cpus. Without instance_events,
    request, priority and class are those in instance_usage, if it has them (cpu_limit, memory_limit). A record without
    an end lasts to the next multiple of five minutes. The usage of alloc instances is left out: it is that of the
    instances that run in them.
    """

    per: Literal["instance", "collection"] = "instance"
    """A workload is an instance, or a collection: the sum of its instances."""

    name: ClassVar[str] = "google2019"
    reference_machine: ClassVar[str] = "normalised units of the trace: 1 NCU, 1 of memory"
    ids: ClassVar[tuple[str, str]] = ("collection_id", "instance_index")
    events: ClassVar[tuple[str, str]] = ("collection_events", "instance_events")
    ended: ClassVar[Mapping[int, str]] = {
        4: "that were evicted",
        5: "that failed",
        7: "that were killed",
        8: "that were lost",
    }

    def files(self, source: str, table: str) -> list[Path]:
        """Files in a folder of the table's name, or with the name in front."""
        ends = [f".{kind}{packed}" for kind in ("json", "csv", "parquet") for packed in ("", ".gz")]
        return files_of(source, [f"{table}{between}*{end}" for between in ("/", "") for end in ends])

    def parts(self, source: str) -> list[Part]:
        """Usage and events. Without instance_events, those of collections decide, and usage may hold limits."""
        usage = self.files(source, "instance_usage")
        if not usage:
            raise not_found(source, "instance_usage-*.json.gz", HOW_TO_GET)
        instances = parts_of("instance_events", self.files(source, "instance_events"), usage=False)
        collections = parts_of("collection_events", self.files(source, "collection_events"), usage=False)
        if not instances:
            collections = [replace(part, detail=("decides",)) for part in collections]
            flat = [path for path in usage if {"priority", "cpu_limit"} & set(_names(str(path)))]
            collections += parts_of("limits", flat, usage=False)
        return parts_of("instance_usage", usage) + instances + collections

    def read(self, part: Part) -> Rows:
        """Usage as recorded; events reduced to one row per workload."""
        if part.usage:
            rows = _read(part, USAGE)
            rows.drop("alloc instances", pl.col("collection_type").fill_null(0) != ALLOC_SET)
            usage = {"begin": "start_time", "end": "end_time"}
            usage |= {"cpu": "average_usage.cpus", "mem": "average_usage.memory"}
            rows.frame = rows.frame.select(*self.ids, **usage)
            return rows
        rows = _read(part, TABLES[part.table])
        events = rows.frame.rename(FACTS, strict=False)
        partly = pl.col("missing_type").fill_null(0) != 0
        rows.frame = self.last_facts(events.with_columns(self.outcomes("type"), partly=partly))
        if part.table == "collection_events" and not self.grouped and not part.detail:  # for every share: small
            rows.frame = rows.frame.select("collection_id", "time", "logical_name").drop_nulls()
        return rows

    def first_machines(self, part: Part) -> Rows:
        """`cpu` and `mem` of the machines that a part of machine_events adds at the trace's beginning."""
        rows = _read(part, MACHINE_EVENTS)
        rows.frame = rows.frame.filter(time=0, type=ADD).select(cpu="capacity.cpus", mem="capacity.memory")
        return rows


def _read(part: Part, columns: Sequence[Column]) -> Rows:
    """The columns of a file of any of the formats, by their published names; optional ones it lacks are empty."""
    periods = ("start_time", "end_time") if columns is USAGE else None
    table = Table(tuple(column.name for column in columns), tuple(columns), begin_end=periods)
    if ".json" in Path(part.source).name:
        return read_json_lines(part, table)
    names = _names(part.source) or [column.name for column in columns]  # none: an empty file
    found = {}  # what the columns that the file has are called there
    for column in columns:
        others = (column.name, column.name.replace(".", "_"), OTHER_NAMES.get(column.name, ""))
        name = next((other for other in others if other in names), None)
        if name is not None:
            found[column.name] = name
        elif not column.optional and column.name != "end_time":
            raise no_column(part.source, column.name, names)
    has_end = "end_time" in found
    there = replace(table, columns=tuple(c for c in columns if c.name in found), begin_end=periods if has_end else None)
    if ".parquet" in Path(part.source).name:
        rows = read_parquet(part, there, found)
    else:
        published = {name: column for column, name in found.items()}
        fields = tuple(published.get(name, name) for name in names)
        rows = read_table(part, replace(there, fields=fields, header=True, quoted=True, loose=True))
    if periods and not has_end:
        rows.frame = rows.frame.with_columns(end_time=(pl.col("start_time") // WINDOW + 1) * WINDOW)
    lacking = [column for column in columns if column.name not in rows.frame]
    rows.frame = rows.frame.with_columns(pl.lit(None, dtype_of(column)).alias(column.name) for column in lacking)
    return rows


def _names(source: str) -> list[str]:
    """The fields of a file that names them in one place, nested ones as outer.inner. Raises InputError if damaged."""
    if ".json" in Path(source).name:
        return []
    return list(parquet_columns(source)) if ".parquet" in Path(source).name else header_of(source)
