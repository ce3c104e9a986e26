"""Google cluster trace of May 2011 (clusterdata-2011-2): task_usage, task_events, job_events, machine_events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from tvwrl.deferring import deferred
from tvwrl.traces.loaders.google import REQUESTS, Google
from tvwrl.traces.preparation.files import files_of, parts_of, tables_of
from tvwrl.traces.preparation.layout import Column, Table, alike, usage_column
from tvwrl.traces.preparation.loader import HOW_TO_GET, Part, Rows, newest_facts, not_found
from tvwrl.traces.preparation.reading import read_parquet, read_table

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

TASK_USAGE = Table(
    fields=(
        *("begin", "end", "job", "task", "machine", "cpu", "mem", "assigned_memory", "unmapped_cache", "cache"),
        *("mem_max", "disk_io", "disk_space", "cpu_max", "disk_io_max", "cpi", "mai", "sample_portion", "aggregation"),
        "sampled_cpu",
    ),
    columns=(
        *alike("begin", "end", kind=int, lowest=0),
        *alike("job", "task", kind=int),
        *map(usage_column, ("cpu", "mem")),
    ),
    begin_end=("begin", "end"),
)
EVENT = (
    *alike("time", "event", kind=int, lowest=0),
    Column("missing", int, optional=True),
    *alike("class", optional=True),
    Column("job", int),
)
CAPACITY = tuple(usage_column(name, optional=True) for name in ("cpu", "mem"))
REQUEST = tuple(usage_column(name, optional=True) for name in REQUESTS)
TASK_EVENTS = Table(
    fields=(
        *("time", "missing", "job", "task", "machine", "event", "user", "class", "priority"),
        *("request_cpu", "request_mem", "request_disk", "other_machine"),
    ),
    columns=(*EVENT, Column("task", int), Column("priority", optional=True), *REQUEST),
    loose=True,
)
JOB_EVENTS = Table(
    fields=("time", "missing", "job", "event", "user", "class", "job_name", "logical_name"),
    columns=(*EVENT, Column("logical_name", str, optional=True)),
    loose=True,
)
MACHINE_EVENTS = Table(
    fields=("time", "machine", "event", "platform", "cpu", "mem"),
    columns=(*alike("time", "event", kind=int, lowest=0), Column("machine", int), *CAPACITY),
    loose=True,
)
JOB_USAGE = Table(
    fields=("job", "day", "slot", "cpu_pct", "mem_pct"),
    columns=(
        *(*alike("job", "day", kind=int), Column("slot", int, lowest=0)),
        *(usage_column(name, 100) for name in ("cpu_pct", "mem_pct")),
    ),
)
JOB_META = Table(
    fields=("job", "class", "priority", "cls", "tasks", "request_cpu", "request_mem"),
    columns=(
        *(Column("job", int), *alike("class", "priority", optional=True)),
        *(Column("tasks", optional=True, lowest=0), *REQUEST),
    ),
    header=True,
    loose=True,
)
TABLES = {"task_usage": TASK_USAGE, "task_events": TASK_EVENTS, "job_events": JOB_EVENTS}


@dataclass(frozen=True)
class Google2011(Google):
    """Google cluster trace 2011: a folder of task_usage, task_events, job_events and machine_events parts (csv.gz)."""

    per: Literal["task", "job"] = "task"
    """A workload is a task, or a job: the sum of its tasks."""

    name: ClassVar[str] = "google2011"
    reference_machine: ClassVar[str] = "the largest machine of the cluster"
    ids: ClassVar[tuple[str, str]] = ("job", "task")
    events: ClassVar[tuple[str, str]] = ("job_events", "task_events")
    ended: ClassVar[Mapping[int, str]] = {
        2: "that were evicted",
        3: "that failed",
        5: "that were killed",
        6: "that were lost",
    }

    def at(self, source: str) -> Google2011:
        """Per job where the usage is already summed per job."""
        return replace(self, per="job") if files_of(source, ["job_usage.parquet"]) else self

    def files(self, source: str, table: str) -> list[Path]:
        """Files of the published names, in folders or with the table's name in front."""
        return tables_of(source, table)

    def parts(self, source: str) -> list[Part]:
        """Usage and events; or job_usage.parquet and its facts."""
        found = parts_of("job_usage", files_of(source, ["job_usage.parquet"]))
        if found:
            return found + parts_of("job_meta", files_of(source, ["job_meta.csv"]), usage=False)
        found = parts_of("task_usage", tables_of(source, "task_usage"))
        if not found:
            raise not_found(source, "task_usage/part-*.csv.gz", HOW_TO_GET)
        for table in self.events if self.grouped else self.events[::-1]:
            found += parts_of(table, tables_of(source, table), usage=False)
        return found

    def read(self, part: Part) -> Rows:
        """Usage as recorded, or summed per job already; events reduced to one row per workload."""
        if part.table == "job_usage":  # in percent of the largest machine
            rows = read_parquet(part, JOB_USAGE)
            begin = ((pl.col("day") - 1) * 288 + pl.col("slot")) * 300_000_000
            times = {"begin": begin, "end": begin + 300_000_000}
            usage = [(pl.col(f"{name}_pct") / 100).alias(name) for name in ("cpu", "mem")]
            rows.frame = rows.frame.select("job", pl.lit(0, pl.Int64).alias("task"), *usage, **times)
            return rows
        if part.table == "job_meta":
            return read_table(part, JOB_META)
        rows = read_table(part, TABLES[part.table])
        if not part.usage:
            partly = pl.col("missing").is_not_null()
            rows.frame = self.last_facts(rows.frame.with_columns(self.outcomes("event"), partly=partly))
        return rows

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Request, priority and class from task_events; application and outcome of jobs from job_events."""
        if "job_meta" in facts:  # requests there are those of one task
            requests = [pl.col(name) * pl.col("tasks") for name in REQUESTS]
            known = facts["job_meta"].with_columns(requests).drop("tasks")
            groups = known.group_by("job", maintain_order=True)
            return groups.agg(newest_facts(known, ("job",), ("class", "priority", *REQUESTS)))
        of_tasks = {table: frame for table, frame in facts.items() if table == "task_events"}
        return super().workloads(facts if self.grouped else of_tasks)

    def first_machines(self, part: Part) -> Rows:
        """`cpu` and `mem` of the machines that a part of machine_events adds at the trace's beginning."""
        rows = read_table(part, MACHINE_EVENTS)
        rows.frame = rows.frame.filter(time=0, event=0).select("cpu", "mem")
        return rows
