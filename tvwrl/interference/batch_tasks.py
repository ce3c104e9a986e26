"""Batch tasks of published traces: what each declares on arrival, and what its instances used."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.input_tables import read_table
from tvwrl.interference.task_graphs import Tags
from tvwrl.types import Float, InputError, Int, Strings

if TYPE_CHECKING:
    import polars as pl

USAGE_FILE, ARRIVALS_FILE = "ali18_usage_tasks.csv.gz", "spar_sample_tasks.csv.gz"  # names within a folder of data
PERCENT_OF_A_CORE = 100.0  # Alibaba's unit of CPU
FIELDS = {"job": "job", "task": "task", "instances": "instances", "plan_cpu": "plan_cpu", "plan_memory": "plan_mem"}
USAGE = {
    "seconds": "start_time",
    "cpu": "cpu_per_inst_cores",
    "memory": "mem_per_inst",
    "makespan": "mean_inst_duration",
}
ARRIVALS = {"seconds": "arrive_s", "makespan": "duration_s"}
LEAST = {"instances": 1.0, "plan_cpu": 1e-9, "plan_memory": 1e-9}
LEAST |= dict.fromkeys(("seconds", "cpu", "memory", "makespan"), 0.0)


@dataclass(frozen=True, eq=False)
class BatchTasks:
    """N tasks in order of submission. Fields up to `role` are known when a task arrives, the others afterwards."""

    job: Strings  # (N,) tasks of one job have the same name
    task: Strings  # (N,) name, unique within a job unless bad names are counted; gives the graph (`task_graphs`)
    seconds: Float  # (N,) >= 0, submission, from the trace's beginning
    instances: Int  # (N,) >= 1
    plan_cpu: Float  # (N,) > 0, cores of an instance
    plan_memory: Float  # (N,) > 0, of an instance, in the trace's unit (Alibaba: percent of a machine, as it seems)
    tag: Strings  # (N,) of its job's graph (`task_graphs`)
    role: Strings  # (N,) its place in the graph
    cpu: Float  # (N,) cores that an instance used, NaN = unknown
    memory: Float  # (N,) that an instance used, in the unit of plan_memory, NaN = unknown
    makespan: Float  # (N,) >= 0, seconds that an instance ran

    def __len__(self) -> int:
        return len(self.job)

    def jobs(self) -> tuple[Int, Int]:
        """(jobs,) first row of each job, in the order of their names; (N,) number of each task's job among them."""
        first, number = np.unique(self.job.astype(str), return_index=True, return_inverse=True)[1:]
        return first.astype(np.int64), number.astype(np.int64)

    def only(self, rows: Int) -> BatchTasks:
        """The tasks `rows`: (n,) indices or (N,) bool."""
        return BatchTasks(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def rows_by_job(job: Strings) -> dict[str, list[int]]:
    """The rows of each job's tasks, in order, of the job (N,) of each task."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(job):
        rows.setdefault(name, []).append(row)
    return rows


def read_usage(path: Path, bad: Counter[str] | None = None) -> BatchTasks:
    """Tasks of measured usage (`USAGE_FILE`); makespan: mean over the task's instances.

    `bad`: counts bad names instead of refusing them (`Tags`). Raises InputError with file, row and field.
    """
    return _read(path, USAGE, bad)


def read_arrivals(path: Path, bad: Counter[str] | None = None) -> BatchTasks:
    """Tasks of an hour in order of arrival (`ARRIVALS_FILE`), usage unknown; makespan: of the whole task.

    `bad` and errors: as of `read_usage`.
    """
    return _read(path, ARRIVALS, bad)


def _read(path: Path, own: dict[str, str], bad: Counter[str] | None) -> BatchTasks:
    columns = FIELDS | own
    table = read_table(path, tuple(columns.values()))
    if not len(table):
        raise InputError(f"{path}: no rows")
    names = {name: _text(path, table[columns[name]]) for name in ("job", "task")}
    usage = {name: numbers(path, table[columns[name]], LEAST[name]) for name in columns if name in LEAST}
    usage = dict.fromkeys(("cpu", "memory"), np.full(len(table), np.nan)) | usage
    tag, role = _graphs(path, names["job"], names["task"], bad)
    whole: dict[str, Any] = {"instances": usage["instances"].astype(np.int64)}
    whole |= {"plan_cpu": usage["plan_cpu"] / PERCENT_OF_A_CORE, "tag": tag, "role": role}
    return BatchTasks(**(names | usage | whole)).only(np.argsort(usage["seconds"], kind="stable"))


def _text(path: Path, column: pl.Series) -> Strings:
    import polars as pl

    if column.has_nulls():
        raise InputError(f"{path}: row {(column.is_null().arg_max() or 0) + 1}: {column.name} is empty")
    return column.cast(pl.String).to_numpy().astype(object)


def numbers(path: Path, column: pl.Series, least: float) -> Float:
    """(N,) finite numbers >= `least`. Raises InputError with file, row (from 1) and column."""
    import polars as pl

    values: Float = column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    wrong = ~(np.isfinite(values) & (values >= least))
    if wrong.any():
        row = int(np.argmax(wrong))
        limit = "> 0" if 0 < least < 1 else f">= {least:g}"
        raise InputError(f"{path}: row {row + 1}: {column.name} is {column[row]}: must be a number {limit}")
    return values


def _graphs(path: Path, job: Strings, task: Strings, bad: Counter[str] | None) -> tuple[Strings, Strings]:
    """(N,) tag and role of each task. `bad` counts a repeated `J1` as a duplicate number, a repeated `task_x` not."""
    tags = Tags(bad)
    tag, role = np.empty(len(job), object), np.empty(len(job), object)
    for name, own in rows_by_job(job).items():
        names = task[own].tolist()
        if bad is None and len(set(names)) < len(names):
            twice = next(one for one, number in Counter(names).items() if number > 1)
            raise InputError(f"{path}: job {name}: task {twice!r} appears twice")
        try:
            graph = tags.of(name, names)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        tag[own], role[own] = graph.tag, graph.roles
    return tag, role
