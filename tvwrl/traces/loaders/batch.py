"""Tables of batch tasks: the DAG of a job, decoded from names of tasks, and how long their instances took."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvwrl.traces.preparation.files import parts_of
from tvwrl.traces.preparation.layout import Column, Table
from tvwrl.traces.preparation.loader import Part, Rows
from tvwrl.traces.preparation.reading import read_table
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

NODE = r"^([A-Za-z]+)(\d+)((?:_.*)?)$"  # a task of a DAG: kind, number, and after "_" whatever else is in the name

BATCH_TASK = Table(
    fields=("task", "instances", "job", "type", "status", "start", "end", "plan_cpu", "plan_mem"),
    columns=(
        Column("task", str),
        Column("instances", optional=True, lowest=0),
        Column("job", str),
        Column("start", optional=True),
        Column("end", optional=True),
        Column("plan_cpu", optional=True, lowest=0),
        Column("plan_mem", optional=True, lowest=0),
    ),
    loose=True,
)
BATCH_INSTANCE = (
    *("instance", "task", "job", "type", "status", "start", "end", "machine", "seq_no", "total_seq_no"),
    *("cpu_avg", "cpu_max", "mem_avg", "mem_max"),
)


def alibaba_tasks(tasks: Sequence[Path], instances: Sequence[Path]) -> pl.DataFrame:
    """One row per row of the files of batch_task.

    Columns: `job`, `task` (its name), `kind`, `number`, `predecessors` (numbers of tasks of the same job), `instances`,
    `start` and `end` (s, end null if it did not end), `plan_cpu` (100 = one core) and `plan_mem` (normalised) of an
    instance, and `duration` (s, mean of its instances; null where there are none, or no batch_instance).
    """
    import polars as pl

    table = read_whole(parts_of("batch_task", tasks, usage=False), BATCH_TASK)
    ended = pl.when(pl.col("end") >= pl.col("start")).then(pl.col("end")).alias("end")
    table = table.with_columns(ended, pl.col("instances").round().cast(pl.Int64), *decoded(pl.col("task")))
    if instances:
        table = table.join(_durations(instances), on=["job", "task"], how="left", maintain_order="left")
    else:
        table = table.with_columns(pl.lit(None, pl.Float64).alias("duration"))
    first = ("job", "task", "kind", "number", "predecessors", "instances", "start", "end")
    return table.select(*first, "plan_cpu", "plan_mem", "duration")


def decoded(task: pl.Expr) -> list[pl.Expr]:
    """`kind`, `number` and `predecessors` (list of numbers) that a task's name tells.

    J5_2_4 is task 5 of kind J, after the tasks 2 and 4 of its job; M1 follows none. A name of another form (task_xxx)
    has no kind and number, and stands alone.
    """
    import polars as pl

    numbers = pl.element().cast(pl.Int64, strict=False)  # what is no number is no task: M2_1_Stg4
    after = task.str.extract(NODE, 3).fill_null("").str.split("_").list.eval(numbers).list.drop_nulls()
    number = task.str.extract(NODE, 2).cast(pl.Int64, strict=False)
    return [task.str.extract(NODE, 1).alias("kind"), number.alias("number"), after.alias("predecessors")]


def _durations(files: Sequence[Path]) -> pl.DataFrame:
    """`duration` by `job` and `task`: the mean over the instances that ended, in seconds; read as a stream."""
    import polars as pl

    wanted = {"job": pl.String, "task": pl.String, "start": pl.Float64, "end": pl.Float64}
    schema = {name: wanted.get(name, pl.String) for name in BATCH_INSTANCE}
    scan = pl.scan_csv(
        list(files),
        glob=False,
        has_header=False,
        schema=schema,
        quote_char=None,
        ignore_errors=True,
        missing_columns="insert",
        truncate_ragged_lines=True,
    )
    ended = (pl.col("start") > 0) & (pl.col("end") >= pl.col("start"))
    mean = (pl.col("end") - pl.col("start")).mean().alias("duration")
    try:
        return scan.select(*wanted).filter(ended).group_by("job", "task").agg(mean).collect(engine="streaming")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"{files[0].parent}: batch_instance cannot be read, truncated or damaged: {first}") from None


def read_whole(parts: Sequence[Part], table: Table) -> pl.DataFrame:
    """The rows of a table that is stored beside the trace; a warning counts the bad ones, which are left out."""
    import polars as pl

    frames = []
    for part in parts:
        rows = read_table(part, table)
        warn_of_bad(rows)
        frames.append(rows.frame)
    return pl.concat(frames)


def warn_of_bad(rows: Rows) -> None:
    """Say how many rows of a table that is stored beside the trace were left out."""
    if bad := sum(rows.bad.values()):
        warnings.warn(f"{bad} of {rows.read} rows are bad and left out, first: {rows.examples[0]}", stacklevel=2)
