"""Tables of batch tasks: the DAG of a job, decoded from the names of tasks, and the duration of their instances."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tvwrl.traces.preparation.files import parts_of
from tvwrl.traces.preparation.layout import Table, alike
from tvwrl.traces.preparation.loader import Extras, Part, Rows, together
from tvwrl.traces.preparation.reading import read_table

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
    ended = pl.when(pl.col("end") >= pl.col("start")).then(pl.col("end")).alias("end")
    table = rows.frame.with_columns(ended, pl.col("instances").round().cast(pl.Int64), *decoded(pl.col("task")))
    if instances:
        read["batch_instance"] = _durations(instances)
        table = table.join(read["batch_instance"].frame, on=["job", "task"], how="left", maintain_order="left")
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


def _durations(files: Sequence[Path]) -> Rows:
    """`duration` by `job` and `task`: the mean over the instances that ended, in seconds."""

    def summed(part: Part) -> Rows:
        rows = read_table(part, BATCH_INSTANCE)
        ended = rows.frame.filter((pl.col("start") > 0) & (pl.col("end") >= pl.col("start")))
        lasted = pl.col("end") - pl.col("start")
        rows.frame = ended.group_by("job", "task").agg(lasted.sum().alias("lasted"), pl.len().alias("instances"))
        return rows

    rows = together(summed(part) for part in parts_of("batch_instance", files, usage=False))
    duration = pl.col("lasted").sum() / pl.col("instances").sum()
    rows.frame = rows.frame.group_by("job", "task").agg(duration.alias("duration"))
    return rows
