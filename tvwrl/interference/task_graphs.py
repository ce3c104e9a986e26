"""Graphs of jobs from the names of their tasks, and tags that are equal for isomorphic graphs (5.3.1).

Names follow Alibaba's cluster-trace-v2018: `J5_2_4` is task 5 of its job and depends on tasks 2 and 4, `M1` depends on
none; `task_Nzg3` and a name of letters alone (`MergeTask`) have no dependencies either way.

Tags come from the Weisfeiler-Lehman kernel (Shervashidze et al. 2011): all tasks start with the same label; in each
round a task's new label hashes its own label, those of its predecessors and those of its successors, until a round
distinguishes no more tasks. A job's tag hashes the final labels of its tasks; a task's final label is its role.
Isomorphic graphs always have equal tags. Some other graphs do too, in which every task looks like its counterpart at
any distance, such as one ring of 8 and two of 4 (docs/explanation/interference.md counts them).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from hashlib import blake2b
from typing import NamedTuple

from tvwrl.types import InputError

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
    while circle := _circle(after):
        through = ", ".join(repr(names[i]) for i in circle[1:])
        fault = f"job {job}, task {names[circle[0]]!r}: waits for itself through {through}"
        _complain(bad, "circle", fault, len(circle))
        for i in circle:
            after[i] = ()
    return after


def _circle(after: Sequence[Sequence[int]]) -> list[int]:
    """Tasks of one dependency cycle, each once; none if there is no cycle."""
    if all(waited < i for i, row in enumerate(after) for waited in row):
        return []
    try:
        TopologicalSorter(dict(enumerate(after))).prepare()
    except CycleError as error:
        return list(error.args[1][:-1])
    return []


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
