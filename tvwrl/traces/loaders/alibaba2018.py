"""Alibaba cluster trace of 2018 (cluster-trace-v2018): container_usage, container_meta, machine_meta, batch tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tvwrl.checks import positive
from tvwrl.deferring import deferred
from tvwrl.traces.preparation.files import parts_of, tables_of
from tvwrl.traces.preparation.layout import Column, Table, alike, usage_column
from tvwrl.traces.preparation.loader import (
    CONTRADICTS,
    HOW_TO_GET,
    Extras,
    Loader,
    Part,
    Rows,
    newest_facts,
    not_found,
    together,
)
from tvwrl.traces.preparation.reading import read_table

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

NODE = r"^([A-Za-z]+)(\d+)((?:_.*)?)$"  # a task of a DAG: kind, number, and after "_" whatever else is in the name

BATCH_TASK = Table(
    fields=("task", "instances", "job", "type", "status", "start", "end", "plan_cpu", "plan_mem"),
    columns=(
        *alike("task", "job", kind=str),
        *alike("start", "end", optional=True),
        *alike("instances", "plan_cpu", "plan_mem", optional=True, lowest=0),
    ),
    loose=True,
)
BATCH_INSTANCE = Table(
    fields=(
        *("instance", "task", "job", "type", "status", "start", "end", "machine", "seq_no", "total_seq_no"),
        *("cpu_avg", "cpu_max", "mem_avg", "mem_max"),
    ),
    columns=(*alike("task", "job", kind=str), *alike("start", "end", optional=True)),
    loose=True,
)


def alibaba_tasks(tasks: Sequence[Path], instances: Sequence[Path]) -> Extras:
    """The table `tasks`: one row per row of the files of batch_task.

    Columns: `job`, `task` (its name), `kind`, `number`, `predecessors` (numbers of tasks of the same job), `instances`,
    `start` and `end` (s, end null if it did not end), `plan_cpu` (100 = one core) and `plan_mem` (normalised) of an
    instance, and `duration` (s, mean of its instances; null where there are none, or no batch_instance).
    """
    rows = together(read_table(part, BATCH_TASK) for part in parts_of("batch_task", tasks, usage=False))
    read = {"batch_task": rows}
    end = pl.when(pl.col("end") >= pl.col("start")).then(pl.col("end")).alias("end")
    table = rows.frame.with_columns(end, pl.col("instances").round().cast(pl.Int64), *decoded(pl.col("task")))
    if instances:
        lasted = pl.col("end") - pl.col("start")
        sums = [lasted.sum().alias("lasted"), pl.len().alias("instances")]
        pieces = []
        for part in parts_of("batch_instance", instances, usage=False):  # each by itself: they are large
            piece = read_table(part, BATCH_INSTANCE)
            ended = (pl.col("start") > 0) & (pl.col("end") >= pl.col("start"))
            piece.frame = piece.frame.filter(ended).group_by("job", "task").agg(sums)
            pieces.append(piece)
        read["batch_instance"] = together(pieces)
        duration = (pl.col("lasted").sum() / pl.col("instances").sum()).alias("duration")
        durations = read["batch_instance"].frame.group_by("job", "task").agg(duration)
        table = table.join(durations, on=["job", "task"], how="left", maintain_order="left")
    else:
        table = table.with_columns(pl.lit(None, pl.Float64).alias("duration"))
    first = ("job", "task", "kind", "number", "predecessors", "instances", "start", "end")
    return Extras({"tasks": table.select(*first, "plan_cpu", "plan_mem", "duration")}, read)


def decoded(task: pl.Expr) -> list[pl.Expr]:
    """`kind`, `number` and `predecessors` (list of numbers) of a task, decoded from its name.

    J5_2_4 is task 5 of kind J, after the tasks 2 and 4 of its job; M1 follows none. A name of another form (task_xxx)
    has no kind and number, and stands alone.
    """
    numbers = pl.element().cast(pl.Int64, strict=False)  # what is no number is no task: M2_1_Stg4
    after = task.str.extract(NODE, 3).fill_null("").str.split("_").list.eval(numbers).list.drop_nulls()
    number = task.str.extract(NODE, 2).cast(pl.Int64, strict=False)
    return [task.str.extract(NODE, 1).alias("kind"), number.alias("number"), after.alias("predecessors")]


CORES = 96.0  # cores of a machine of the trace

CONTAINER_USAGE = Table(
    fields=(
        *("container", "machine", "time", "cpu", "mem", "cpi", "mem_gps", "mpki"),
        *("net_in", "net_out", "disk_io_percent"),
    ),
    columns=(
        Column("container", str, optional=True),
        Column("time", int, lowest=0),
        usage_column("cpu", 100, optional=True),
        usage_column("mem", 100, optional=True),
    ),
)
CONTAINER_META = Table(
    fields=("container", "machine", "time", "application", "status", "cpu_request", "cpu_limit", "mem_size"),
    columns=(
        Column("container", str),
        Column("time", int, lowest=0),
        Column("application", str, optional=True),
        usage_column("cpu_request", 100 * CORES, optional=True),
        usage_column("mem_size", 100, optional=True),
    ),
    loose=True,
)
MACHINE_META = Table(
    fields=("machine", "time", "failure_domain_1", "failure_domain_2", "cpu", "mem", "status"),
    columns=(Column("machine", str), usage_column("cpu", CORES, optional=True)),
    loose=True,
)


@dataclass(frozen=True)
class Alibaba2018(Loader):
    """Alibaba cluster trace of 2018 (v2018): one workload per container; batch tasks and their DAGs in a separate
    table."""

    reference_cores: float | None = None
    """Cores of the reference machine; default: the largest in machine_meta, 96 without that table."""
    own_size: bool = False
    """Give usage as a fraction of the container's own request; always the case without container_meta."""

    name: ClassVar[str] = "alibaba2018"
    paper_records: ClassVar[int | None] = 2000
    keys: ClassVar[tuple[str, ...]] = ("container",)

    def __post_init__(self) -> None:
        positive(reference_cores=self.reference_cores)

    @property
    def reference_machine(self) -> str:
        """What 1.0 means."""
        if self.own_size:
            return "the container's own request of cpu and mem, which differs between containers"
        return f"a machine with {self.reference_cores or CORES:g} cores; mem: of the normalised machine (mem_size 100)"

    def at(self, source: str) -> Alibaba2018:
        """With the largest machine of machine_meta as the reference; of own size without container_meta."""
        own = self.own_size or not tables_of(source, "container_meta")
        machines = _machines(source)
        largest: Any = None if machines is None else machines.frame["cpu"].max()
        return replace(self, reference_cores=self.reference_cores or float(largest or CORES), own_size=own)

    def parts(self, source: str) -> list[Part]:
        """The files of container_usage and container_meta, of one piece or in folders of parts."""
        usage = parts_of("container_usage", tables_of(source, "container_usage"))
        if not usage:
            raise not_found(source, "container_usage*.csv.gz", HOW_TO_GET)
        return usage + parts_of("container_meta", tables_of(source, "container_meta"), usage=False)

    def read(self, part: Part) -> Rows:
        """Usage as fractions of the container's own request; facts reduced to one row per container."""
        if not part.usage:
            rows = read_table(part, CONTAINER_META)
            rows.frame = _last(rows.frame)
            return rows
        rows = read_table(part, CONTAINER_USAGE)
        rows.drop("rows without an id", pl.col("container").is_not_null())
        rows.drop("rows without cpu or mem", pl.col("cpu").is_not_null() & pl.col("mem").is_not_null())
        moment = pl.col("time") * 1_000_000
        usage = [pl.col(name) / 100 for name in self.resources]
        rows.frame = rows.frame.select("container", moment.alias("begin"), moment.alias("end"), *usage)
        return rows

    def workloads(self, facts: dict[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Application and request; the request is also what usage is a fraction of."""
        if "container_meta" not in facts:
            return None
        known = _last(facts["container_meta"])
        if self.own_size:
            return known.select("container", "application", CONTRADICTS)
        size = {"cpu": pl.col("cpu_request") / 100 / (self.reference_cores or CORES), "mem": pl.col("mem_size") / 100}
        sizes = [pl.when(value > 0).then(value).alias(name) for name, value in size.items()]
        known = known.select("container", "application", CONTRADICTS, *sizes)
        return known.select(
            "container",
            "application",
            CONTRADICTS,
            *(pl.col(name).alias(f"{what}_{name}") for what in ("request", "scale") for name in size),
        )

    def extras(self, source: str) -> Extras:
        """The batch tasks with their DAGs, if batch_task is there."""
        tasks = tables_of(source, "batch_task")
        extras = alibaba_tasks(tasks, tables_of(source, "batch_instance")) if tasks else Extras()
        if (machines := _machines(source)) is not None:
            extras.read["machine_meta"] = machines
        return extras


def _machines(source: str) -> Rows | None:
    parts = parts_of("machine_meta", tables_of(source, "machine_meta"), usage=False)
    return together(read_table(part, MACHINE_META) for part in parts) if parts else None


def _last(meta: pl.DataFrame) -> pl.DataFrame:
    """One row per container of its rows: when it was last seen, and its newest facts."""
    newest = newest_facts(meta, ("container",), ("application", "cpu_request", "mem_size"))
    groups = meta.sort("time", maintain_order=True).group_by("container", maintain_order=True)
    return groups.agg(pl.col("time").last(), *newest)
