"""Google cluster trace of May 2011 (clusterdata-2011-2): task_usage, task_events, job_events, machine_events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from tvwrl.traces.loaders.google_events import kinds_of_machines, sum_members, workload_facts
from tvwrl.traces.preparation.files import files_of, parts_of, tables_of
from tvwrl.traces.preparation.layout import Column, Table, usage_column
from tvwrl.traces.preparation.loader import Extras, Part, PublishedTrace, Rows, not_found, together
from tvwrl.traces.preparation.parquet import read_parquet
from tvwrl.traces.preparation.reading import read_table

if TYPE_CHECKING:
    import polars as pl

ENDED = {2: "that were evicted", 3: "that failed", 5: "that were killed", 6: "that were lost"}  # event types

TASK_USAGE = Table(
    fields=(
        *("begin", "end", "job", "task", "machine", "cpu", "mem", "assigned_memory", "unmapped_cache", "cache"),
        *("mem_max", "disk_io", "disk_space", "cpu_max", "disk_io_max", "cpi", "mai", "sample_portion", "aggregation"),
        "sampled_cpu",
    ),
    columns=(
        Column("begin", int, lowest=0),
        Column("end", int, lowest=0),
        Column("job", int),
        Column("task", int),
        usage_column("cpu"),
        usage_column("mem"),
    ),
    begin_end=("begin", "end"),
)
EVENT = (Column("time", int, lowest=0), Column("missing", int, optional=True), Column("job", int))
TASK_EVENTS = Table(
    fields=(
        *("time", "missing", "job", "task", "machine", "event", "user", "class", "priority"),
        *("request_cpu", "request_mem", "request_disk", "other_machine"),
    ),
    columns=(
        *EVENT,
        Column("task", int),
        Column("event", int, lowest=0),
        Column("class", optional=True),
        Column("priority", optional=True),
        usage_column("request_cpu", optional=True),
        usage_column("request_mem", optional=True),
    ),
    loose=True,
)
JOB_EVENTS = Table(
    fields=("time", "missing", "job", "event", "user", "class", "job_name", "logical_name"),
    columns=(
        *EVENT,
        Column("event", int, lowest=0),
        Column("class", optional=True),
        Column("logical_name", str, optional=True),
    ),
    loose=True,
)
MACHINE_EVENTS = Table(
    fields=("time", "machine", "event", "platform", "cpu", "mem"),
    columns=(
        Column("time", int, lowest=0),
        Column("machine", int),
        Column("event", int, lowest=0),
        usage_column("cpu", optional=True),
        usage_column("mem", optional=True),
    ),
    loose=True,
)
JOB_USAGE = Table(
    fields=("job", "day", "slot", "cpu_pct", "mem_pct"),
    columns=(
        *(Column("job", int), Column("day", int), Column("slot", int, lowest=0)),
        *(usage_column("cpu_pct", 100), usage_column("mem_pct", 100)),
    ),
)
JOB_META = Table(
    fields=("job", "class", "priority", "cls", "tasks", "request_cpu", "request_mem"),
    columns=(
        Column("job", int),
        Column("class", optional=True),
        Column("priority", optional=True),
        Column("tasks", optional=True, lowest=0),
        usage_column("request_cpu", optional=True),
        usage_column("request_mem", optional=True),
    ),
    header=True,
    loose=True,
)
TABLES = {"task_usage": TASK_USAGE, "task_events": TASK_EVENTS, "job_events": JOB_EVENTS}


@dataclass(frozen=True)
class Google2011(PublishedTrace):
    """Google cluster trace 2011: a folder of task_usage, task_events, job_events and machine_events parts (csv.gz)."""

    per: Literal["task", "job"] = "task"
    """A workload is a task, or a job: the sum of its tasks."""
    keep_ended: bool = False
    """Keep workloads that were evicted, killed, failed or lost, or recorded only in part."""

    name: ClassVar[str] = "google2011"
    paper_records: ClassVar[int | None] = 6000
    reference_machine: ClassVar[str] = "the largest machine of the cluster"

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that name a workload."""
        return ("job", "task") if self.per == "task" else ("job",)

    @property
    def members(self) -> tuple[str, ...]:
        """Columns of what is summed."""
        return () if self.per == "task" else ("task",)

    def at(self, source: str) -> Google2011:
        """Per job where the usage is already summed per job."""
        return replace(self, per="job") if files_of(source, ["job_usage.parquet"]) else self

    def parts(self, source: str) -> list[Part]:
        """Files of the published names, in folders or with the table's name in front; or job_usage.parquet."""
        found = parts_of("job_usage", files_of(source, ["job_usage.parquet"]))
        if found:
            return found + parts_of("job_meta", files_of(source, ["job_meta.csv"]), usage=False)
        found = parts_of("task_usage", tables_of(source, "task_usage"))
        if not found:
            raise not_found(source, "task_usage/part-*.csv.gz", "python scripts/fetch_trace.py google2011")
        for table in ("task_events", "job_events") if self.per == "task" else ("job_events", "task_events"):
            found += parts_of(table, tables_of(source, table), usage=False)
        return found

    def read(self, part: Part) -> Rows:
        """Usage as recorded; events reduced to one row per workload."""
        if part.table == "job_usage":
            return _read_job_usage(part)
        if part.table == "job_meta":
            return read_table(part, JOB_META)
        rows = read_table(part, TABLES[part.table])
        if not part.usage:
            rows.frame = _last_events(rows.frame)
        return rows

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Request, priority and class from task_events, application and outcome of jobs from job_events."""
        if "job_meta" in facts:
            return _meta(facts["job_meta"])
        tasks, jobs = facts.get("task_events"), facts.get("job_events")
        own = _last_events(tasks) if tasks is not None else None
        if self.per == "job":
            own = sum_members(own, "job") if own is not None else None
        if own is None:
            return None if jobs is None or self.per == "task" else self._facts(_last_events(jobs))
        if jobs is not None:
            jobs = _last_events(jobs)
            own = own.join(jobs.select("job", "logical_name"), on="job", how="left")
            if self.per == "job":  # the outcome is that of the job's own events, not of one of its tasks
                own = own.drop("outcome", "partly").join(jobs.select("job", "outcome", "partly"), on="job", how="left")
        return self._facts(own)

    def _facts(self, known: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        job = pl.col("job").cast(pl.String)
        named = self.per == "job" and "logical_name" in known.columns
        return workload_facts(
            known, self.keys, pl.col("logical_name").fill_null(job) if named else job, ENDED, self.keep_ended
        )

    def extras(self, source: str) -> Extras:
        """The kinds of machines at the trace's beginning, and how many there are of each."""
        import polars as pl

        files = tables_of(source, "machine_events")
        if not files:
            return Extras()
        parts = parts_of("machine_events", files, usage=False)
        events = together(read_table(part, MACHINE_EVENTS) for part in parts)
        first = events.frame.filter((pl.col("time") == 0) & (pl.col("event") == 0))
        return Extras({"machines": kinds_of_machines(first)}, {"machine_events": events})


def _last_events(events: pl.DataFrame) -> pl.DataFrame:
    """One row per workload of its events, or of such rows: last known facts and how it ended."""
    import polars as pl

    keys = [key for key in ("job", "task") if key in events.columns]
    if "outcome" not in events.columns:
        ended = pl.col("event").filter(pl.col("event").is_in(list(ENDED)))
        outcome, partly = ended.last(), pl.col("missing").is_not_null().any()
    else:
        outcome, partly = pl.col("outcome").drop_nulls().last(), pl.col("partly").any()
    facts = [n for n in ("class", "priority", "request_cpu", "request_mem", "logical_name") if n in events.columns]
    return (
        events.sort("time", maintain_order=True)
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("time").last(),
            *(pl.col(name).drop_nulls().last() for name in facts),
            outcome.alias("outcome"),
            partly.alias("partly"),
        )
    )


def _read_job_usage(part: Part) -> Rows:
    """Usage summed per job already, in percent of the largest machine: columns job, day, slot, cpu_pct, mem_pct."""
    import polars as pl

    rows = read_parquet(part, JOB_USAGE)
    begin = ((pl.col("day") - 1) * 288 + pl.col("slot")) * 300_000_000
    usage = [(pl.col(f"{name}_pct") / 100).alias(name) for name in ("cpu", "mem")]
    rows.frame = rows.frame.select(
        "job", pl.lit(0, pl.Int64).alias("task"), *usage, begin=begin, end=begin + 300_000_000
    )
    return rows


def _meta(meta: pl.DataFrame) -> pl.DataFrame:
    """Facts of job_usage.parquet: requests there are those of one task."""
    import polars as pl

    requests = [(pl.col(n) * pl.col("tasks")).alias(n) for n in ("request_cpu", "request_mem")]
    return meta.select("job", "class", "priority", *requests)
