"""Batch tasks of published traces: what each declares on arrival, and what its instances used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tvwrl.input_tables import read_table
from tvwrl.types import Float, InputError, Int, Strings

if TYPE_CHECKING:
    import polars as pl

GRAMMAR = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)")
NO_NUMBER = re.compile(r"task_.+|[A-Za-z]+")
BYTES = 8  # length of a tag: two of a million different graphs collide once in 40 million times


class TaskName(NamedTuple):
    """Number and dependencies in a task's name."""

    number: int  # of the task in its job, -1: none
    after: tuple[int, ...]  # distinct numbers of the tasks it depends on, rising


INDEPENDENT = TaskName(-1, ())


@lru_cache(maxsize=1 << 16)
def parse(name: str) -> TaskName:
    """Number and dependencies in a task's name. Raises InputError for a malformed name."""
    if found := GRAMMAR.fullmatch(name):
        return TaskName(int(found[1]), tuple(sorted({int(number) for number in found[2].split("_")[1:]})))
    if NO_NUMBER.fullmatch(name):
        return INDEPENDENT
    raise InputError(f"task {name!r}: must be like J5_2_4 (task 5, after 2 and 4), M1, task_x or MergeTask")


def dependencies(job: str, names: Sequence[str], bad: Counter[str] | None = None) -> list[tuple[int, ...]]:
    """Positions in `names` of the tasks that each task of the job depends on.

    Raises InputError with job and task for a malformed name, a duplicate number, and a task that depends on itself, on
    a missing one, or on a cycle. With `bad` such a task has no dependencies instead, and is counted there by its fault.
    """
    tasks, position = [], dict[int, int]()  # of a number: its task
    for i, name in enumerate(names):
        try:
            task = parse(name)
        except InputError as error:
            _complain(bad, "malformed", f"job {job}, {error}")
            task = INDEPENDENT
        if task.number in position:
            other = names[position[task.number]]
            _complain(bad, "same number", f"job {job}, task {name!r}: has the number of {other!r}")
            task = INDEPENDENT
        elif task.number >= 0:
            position[task.number] = i
        tasks.append(task)
    after: list[tuple[int, ...]] = []
    for name, task in zip(names, tasks, strict=True):
        unknown = [number for number in task.after if number not in position]
        if task.number in task.after:
            _complain(bad, "waits for itself", f"job {job}, task {name!r}: waits for itself")
        elif unknown:
            fault = f"waits for task {unknown[0]}, which the job does not have"
            _complain(bad, "unknown", f"job {job}, task {name!r}: {fault}")
        good = task.number not in task.after and not unknown
        after.append(tuple(position[number] for number in task.after) if good else ())
    # numbers that rise, as nearly always, make no circle
    while not all(waited < i for i, row in enumerate(after) for waited in row):
        try:
            TopologicalSorter(dict(enumerate(after))).prepare()
            break
        except CycleError as error:
            circle: list[int] = list(error.args[1][:-1])
        through = ", ".join(repr(names[i]) for i in circle[1:])
        fault = f"job {job}, task {names[circle[0]]!r}: waits for itself through {through}"
        _complain(bad, "circle", fault, len(circle))
        for i in circle:
            after[i] = ()
    return after


def _complain(bad: Counter[str] | None, kind: str, message: str, tasks: int = 1) -> None:
    if bad is None:
        raise InputError(message)
    bad[kind] += tasks


class Graph(NamedTuple):
    """A job's tag and the roles of its tasks."""

    tag: str  # hexadecimal; equal for isomorphic graphs
    roles: tuple[str, ...]  # of its tasks; equal for corresponding tasks of isomorphic graphs


def weisfeiler_lehman(after: Sequence[Sequence[int]]) -> Graph:
    """Tag and roles of a graph of n tasks; `after[i]`: positions of the tasks that task i depends on."""
    before: list[list[int]] = [[] for _ in after]
    for i, row in enumerate(after):
        for j in row:
            before[j].append(i)
    labels, kinds = [_hash(())] * len(after), 1
    while True:
        labels = [
            _hash((own, "after", *sorted(labels[j] for j in late), "before", *sorted(labels[j] for j in early)))
            for own, late, early in zip(labels, after, before, strict=True)
        ]
        if len(set(labels)) <= kinds:
            return Graph(_hash(tuple(sorted(labels))), tuple(labels))
        kinds = len(set(labels))


def _hash(words: tuple[str, ...]) -> str:
    return blake2b(" ".join(words).encode(), digest_size=BYTES).hexdigest()


class Tags:
    """Cache of jobs' graphs, by the parsed names of their tasks in any order.

    Isomorphic jobs with other numbers are separate entries with the same tag. `bad`: counts bad names instead of
    refusing them.
    """

    def __init__(self, bad: Counter[str] | None = None) -> None:
        self._bad = bad
        self._known: dict[tuple[TaskName, ...], Graph] = {}

    def of(self, job: str, names: Sequence[str]) -> Graph:
        """Tag of a job with tasks of these names, and their roles in that order. Errors: as of `dependencies`."""
        try:
            parsed = [parse(name) for name in names]
        except InputError:
            return weisfeiler_lehman(dependencies(job, names, self._bad))
        order = sorted(range(len(names)), key=parsed.__getitem__)
        key = tuple([parsed[i] for i in order])
        if (graph := self._known.get(key)) is None:
            before = Counter(self._bad)
            graph = weisfeiler_lehman(dependencies(job, [names[i] for i in order], self._bad))
            if before == Counter(self._bad):  # bad names must be counted each time
                self._known[key] = graph
        roles = [""] * len(names)
        for i, role in zip(order, graph.roles, strict=True):
            roles[i] = role
        return Graph(graph.tag, tuple(roles))


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
    task: Strings  # (N,) name, unique within a job unless bad names are counted; gives the graph
    seconds: Float  # (N,) >= 0, submission, from the trace's beginning
    instances: Int  # (N,) >= 1
    plan_cpu: Float  # (N,) > 0, cores of an instance
    plan_memory: Float  # (N,) > 0, of an instance, in the trace's unit (Alibaba: percent of a machine, as it seems)
    tag: Strings  # (N,) of its job's graph
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
    import polars as pl

    columns = FIELDS | own
    table = read_table(path, tuple(columns.values()))
    if not len(table):
        raise InputError(f"{path}: no rows")
    for name in ("job", "task"):
        if (column := table[columns[name]]).has_nulls():
            raise InputError(f"{path}: row {(column.is_null().arg_max() or 0) + 1}: {column.name} is empty")
    job, task = (table[columns[name]].cast(pl.String).to_numpy().astype(object) for name in ("job", "task"))
    usage = {name: numbers(path, table[columns[name]], LEAST[name]) for name in columns if name in LEAST}
    usage = dict.fromkeys(("cpu", "memory"), np.full(len(table), np.nan)) | usage
    tags, tag, role = Tags(bad), np.empty(len(job), object), np.empty(len(job), object)
    for name, rows in rows_by_job(job).items():
        tasks = task[rows].tolist()
        if bad is None and len(set(tasks)) < len(tasks):  # counted, a repeated `J1` is a duplicate number
            twice = next(one for one, number in Counter(tasks).items() if number > 1)
            raise InputError(f"{path}: job {name}: task {twice!r} appears twice")
        try:
            tag[rows], role[rows] = tags.of(name, tasks)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    whole: dict[str, Any] = {"instances": usage["instances"].astype(np.int64)}
    whole |= {"plan_cpu": usage["plan_cpu"] / PERCENT_OF_A_CORE, "tag": tag, "role": role}
    return BatchTasks(job=job, task=task, **(usage | whole)).only(np.argsort(usage["seconds"], kind="stable"))


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
