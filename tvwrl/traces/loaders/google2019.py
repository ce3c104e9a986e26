"""Google cluster trace of May 2019 (Borg, clusterdata-2019): usage, instance, collection and machine events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from tvwrl.traces.loaders.google_events import kinds_of_machines, sum_members, workload_facts
from tvwrl.traces.preparation.files import files_of, header_of, parts_of
from tvwrl.traces.preparation.json_lines import read_json_lines
from tvwrl.traces.preparation.layout import Column, Table, dtype_of, usage_column
from tvwrl.traces.preparation.loader import Extras, Part, PublishedTrace, Rows, not_found, together
from tvwrl.traces.preparation.parquet import parquet_columns, read_parquet
from tvwrl.traces.preparation.reading import read_table
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

WINDOW = 300_000_000  # microseconds; records end at its multiples, or earlier
ALLOC_SET, ADD = 1, 1  # collection type, type of machine event
ENDED = {4: "that were evicted", 5: "that failed", 7: "that were killed", 8: "that were lost"}  # event types

COLLECTION, INSTANCE = Column("collection_id", int), Column("instance_index", int)
REQUEST = tuple(usage_column(f"resource_request.{name}", optional=True) for name in ("cpus", "memory"))
USAGE = (
    Column("start_time", int, lowest=0),
    Column("end_time", int, lowest=0),
    *(COLLECTION, INSTANCE),
    Column("collection_type", int, optional=True),
    usage_column("average_usage.cpus"),
    usage_column("average_usage.memory"),
)
COLLECTION_EVENTS = (
    Column("time", int, lowest=0),
    COLLECTION,
    Column("type", int, lowest=0),
    Column("missing_type", int, optional=True),
    Column("priority", optional=True),
    Column("scheduling_class", optional=True),
    Column("collection_logical_name", str, optional=True),
)
INSTANCE_EVENTS = (*COLLECTION_EVENTS[:-1], INSTANCE, *REQUEST)
LIMITS = tuple(replace(column, optional=True) if column.name == "type" else column for column in INSTANCE_EVENTS)
MACHINE_EVENTS = (
    Column("time", int, lowest=0),
    Column("type", int, lowest=0),
    usage_column("capacity.cpus", optional=True),
    usage_column("capacity.memory", optional=True),
)
TABLES = {"collection_events": COLLECTION_EVENTS, "instance_events": INSTANCE_EVENTS, "limits": LIMITS}
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
class Google2019(PublishedTrace):
    """Google cluster trace 2019: instance_usage, instance_events, collection_events, machine_events of one cell.

    JSON lines (.json.gz), Parquet, or CSV with a header, nested fields as average_usage.cpus. Without instance_events,
    request, priority and class are those in instance_usage, if it has them (cpu_limit, memory_limit). A record without
    an end lasts to the next multiple of five minutes. The usage of alloc instances is left out: it is that of the
    instances that run in them.
    """

    per: Literal["instance", "collection"] = "instance"
    """A workload is an instance, or a collection: the sum of its instances."""
    keep_ended: bool = False
    """Keep workloads that were evicted, killed, failed or lost, or recorded only in part."""

    name: ClassVar[str] = "google2019"
    paper_records: ClassVar[int | None] = 6000
    reference_machine: ClassVar[str] = "normalised units of the trace: 1 NCU, 1 of memory"

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that name a workload."""
        return ("collection_id", "instance_index") if self.per == "instance" else ("collection_id",)

    @property
    def members(self) -> tuple[str, ...]:
        """Columns of what is summed."""
        return () if self.per == "instance" else ("instance_index",)

    def parts(self, source: str) -> list[Part]:
        """Files in folders of the tables' names, or with the name in front."""
        usage = _files(source, "instance_usage")
        if not usage:
            raise not_found(source, "instance_usage-*.json.gz", "python scripts/fetch_trace.py google2019")
        found = parts_of("instance_usage", usage)
        for table in ("instance_events", "collection_events"):
            found += parts_of(table, _files(source, table), usage=False)
        if not any(part.table == "instance_events" for part in found):
            found = [
                replace(part, detail=("decides",)) if part.table == "collection_events" else part for part in found
            ]
            flat = [path for path in usage if {"priority", "cpu_limit"} & set(_names(str(path)))]
            found += parts_of("limits", flat, usage=False)
        return found

    def read(self, part: Part) -> Rows:
        """Usage as recorded; events reduced to one row per workload."""
        import polars as pl

        if part.usage:
            rows = _read(part, USAGE)
            rows.drop("alloc instances", pl.col("collection_type").fill_null(0) != ALLOC_SET)
            usage = {"begin": "start_time", "end": "end_time"}
            usage |= {"cpu": "average_usage.cpus", "mem": "average_usage.memory"}
            rows.frame = rows.frame.select("collection_id", "instance_index", **usage)
            return rows
        rows = _read(part, TABLES[part.table])
        rows.frame = _last_events(_events(rows.frame))
        if part.table == "collection_events" and self.per == "instance" and not part.detail:  # for every share: small
            rows.frame = rows.frame.select("collection_id", "time", "logical_name").drop_nulls()
        return rows

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Request, priority and class from instance_events, application and outcome also from collection_events."""
        known = {table: _last_events(frame) for table, frame in facts.items()}
        own, collections = known.get("instance_events", known.get("limits")), known.get("collection_events")
        if self.per == "collection" and own is not None:
            own = sum_members(own, "collection_id")
        if own is None:
            return self._facts(collections) if collections is not None else None
        if collections is not None:
            # The outcome of a collection, and of instances without events, is that of the collection's own events.
            decides = self.per == "collection" or "instance_events" not in known
            columns = ["logical_name", "outcome", "partly"] if decides else ["logical_name"]
            own = own.drop(columns, strict=False).join(
                collections.select("collection_id", *columns), on="collection_id", how="left"
            )
        return self._facts(own)

    def _facts(self, known: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        collection = pl.col("collection_id").cast(pl.String)
        application = pl.col("logical_name").fill_null(collection) if "logical_name" in known.columns else collection
        return workload_facts(known, self.keys, application, ENDED, self.keep_ended)

    def extras(self, source: str) -> Extras:
        """The kinds of machines at the trace's beginning, and how many there are of each."""
        import polars as pl

        parts = parts_of("machine_events", _files(source, "machine_events"), usage=False)
        if not parts:
            return Extras()
        events = together(_read(part, MACHINE_EVENTS) for part in parts)
        first = events.frame.filter((pl.col("time") == 0) & (pl.col("type") == ADD))
        kinds = kinds_of_machines(first.select(cpu="capacity.cpus", mem="capacity.memory"))
        return Extras({"machines": kinds}, {"machine_events": events})


def _files(source: str, table: str) -> list[Path]:
    ends = [f".{kind}{packed}" for kind in ("json", "csv", "parquet") for packed in ("", ".gz")]
    return files_of(source, [f"{table}{between}*{end}" for between in ("/", "") for end in ends])


def _events(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of events as facts: facts about the workload, how it ended, whether events are missing."""
    import polars as pl

    return frame.select(
        *(name for name in ("collection_id", "instance_index", "time") if name in frame.columns),
        *(pl.col(name).alias(fact) for name, fact in FACTS.items() if name in frame.columns),
        pl.when(pl.col("type").is_in(list(ENDED))).then("type").alias("outcome"),
        (pl.col("missing_type").fill_null(0) != 0).alias("partly"),
    )


def _last_events(facts: pl.DataFrame) -> pl.DataFrame:
    """One row per workload of its facts: those last known, when it was last seen."""
    import polars as pl

    keys = [key for key in ("collection_id", "instance_index") if key in facts.columns]
    last = [name for name in (*FACTS.values(), "outcome") if name in facts.columns]
    partly = [pl.col("partly").any()] if "partly" in facts.columns else []
    groups = facts.sort("time", maintain_order=True).group_by(keys, maintain_order=True)
    return groups.agg(pl.col("time").last(), *(pl.col(name).drop_nulls().last() for name in last), *partly)


def _read(part: Part, columns: Sequence[Column]) -> Rows:
    """The columns of a file of any of the formats, by their published names; optional ones it lacks are empty."""
    import polars as pl

    periods = ("start_time", "end_time") if columns is USAGE else None
    table = Table(tuple(column.name for column in columns), tuple(columns), begin_end=periods)
    if ".json" in Path(part.source).name:
        return read_json_lines(part, table)
    names = _names(part.source) or [column.name for column in columns]  # none: an empty file
    found = _found(part, columns, names)
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


def _found(part: Part, columns: Sequence[Column], names: Collection[str]) -> dict[str, str]:
    """Of the columns those that a file has, and what they are called there. Raises InputError for a needed one."""
    found = {}
    for column in columns:
        others = (column.name, column.name.replace(".", "_"), OTHER_NAMES.get(column.name, ""))
        name = next((other for other in others if other in names), None)
        if name is not None:
            found[column.name] = name
        elif not column.optional and column.name != "end_time":
            raise InputError(f"{part.source}: no column '{column.name}'; the columns are: {', '.join(names)}")
    return found
