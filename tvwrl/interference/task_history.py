"""Classes of earlier tasks similar to one that arrives: same graph, same place in it, same sizes or plans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvwrl.interference.batch_tasks import BatchTasks, rows_by_job
from tvwrl.interference.categories import CLASSES
from tvwrl.types import Float, Int, Strings

GROUPINGS = ("tag", "role", "task", "task and instances", "task and plans", "task and all instances")
SHARES = sum(CLASSES.values())  # columns of a grouping: one per class of each dimension
PRIOR_TASKS = 1.0  # number of tasks that the wider grouping counts as


def similarity_keys(tasks: BatchTasks) -> list[list[str]]:
    """For each of `GROUPINGS`, from the widest to the narrowest, the N tasks' keys: tasks with equal keys are similar.

    The job's tag; the place in its graph; the names of the job's tasks and its own; those and its own instances, to
    the nearest power of 2; the names with the plans of all the job's tasks; the names with the instances of all. All
    tasks of a job must be given together.
    """
    name, tag, role = tasks.task.tolist(), tasks.tag.tolist(), tasks.role.tolist()
    size = np.rint(np.log2(tasks.instances)).astype(np.int64).tolist()
    plans = list(zip(tasks.plan_cpu.tolist(), tasks.plan_memory.tolist(), strict=True))
    out: list[list[str]] = [tag, role, *([""] * len(name) for _ in GROUPINGS[2:])]
    for rows in rows_by_job(tasks.job).values():
        own = sorted(rows, key=name.__getitem__)
        names = "/".join([name[i] for i in own])
        planned = f"{names} {[plans[i] for i in own]}"
        sized = f"{names} {[size[i] for i in own]}"
        for i in own:
            mine = name[i]
            out[2][i] = f"{mine} {names}"
            out[3][i] = f"{size[i]} {mine} {names}"
            out[4][i] = f"{mine} {planned}"
            out[5][i] = f"{mine} {sized}"
    return out


class History:
    """Shares of classes among earlier similar tasks, grouping by grouping.

    The shares in a group are smoothed with `PRIOR_TASKS` tasks that are distributed as in the next wider grouping, so
    small groups say little and unknown ones nothing; the widest grouping is smoothed with the shares of all tasks.
    """

    def __init__(self, keys: Sequence[Strings], counts: Sequence[Float], overall: Float) -> None:
        """By grouping: known keys (K,) and their numbers of tasks in each class (K, SHARES); shares of all tasks
        (SHARES,)."""
        self.counts = list(counts)
        self.overall = overall
        self._index = [{key: i for i, key in enumerate(level.tolist())} for level in keys]

    @classmethod
    def of(cls, tasks: BatchTasks, classes: Int) -> tuple[History, Float]:
        """The history of N tasks of `classes` (N, 3), and their own inputs (N, inputs), each without its own job."""
        columns = indicators(classes)
        job = tasks.jobs()[1]
        keys, counts, others = [], [], []
        for level in similarity_keys(tasks):
            known, code = np.unique(np.array(level), return_inverse=True)
            total = _sums(code, columns)
            together = np.unique(code * (int(job.max()) + 1) + job, return_inverse=True)[1]
            keys.append(known)
            counts.append(total)
            others.append(total[code] - _sums(together, columns)[together])
        history = cls(keys, counts, columns.mean(axis=0))
        return history, history._shares(others)

    def add(self, tasks: BatchTasks, classes: Int) -> None:
        """Add N ended tasks of `classes` (N, 3). The shares of all tasks stay the same."""
        columns = indicators(classes)
        for i, (level, index) in enumerate(zip(similarity_keys(tasks), self._index, strict=True)):
            code = np.array([index.setdefault(word, len(index)) for word in level])
            grown = np.zeros((len(index), SHARES))
            grown[: len(self.counts[i])] = self.counts[i]
            np.add.at(grown, code, columns)
            self.counts[i] = grown

    def inputs(self, tasks: BatchTasks) -> Float:
        """(N, groupings * SHARES) shares in 0..1 for arriving tasks."""
        found = []
        for level, index, counts in zip(similarity_keys(tasks), self._index, self.counts, strict=True):
            code = np.array([index.get(word, -1) for word in level])
            found.append(np.where(code[:, None] >= 0, counts[code], 0.0))
        return self._shares(found)

    def _shares(self, counts: Sequence[Float]) -> Float:
        """Smoothed shares from the counts (N, SHARES) of each grouping, side by side."""
        share: Float = np.broadcast_to(self.overall, counts[0].shape)
        every = []
        for level in counts:
            tasks = level[:, : CLASSES["cpu"]].sum(axis=1, keepdims=True)  # each is of one class of CPU
            share = (level + PRIOR_TASKS * share) / (tasks + PRIOR_TASKS)
            every.append(share)
        return np.concatenate(every, axis=1)


def indicators(classes: Int) -> Float:
    """(N, SHARES) one-hot classes of each dimension, of `classes` (N, 3)."""
    return np.concatenate([np.eye(count)[classes[:, d]] for d, count in enumerate(CLASSES.values())], axis=1)


def _sums(code: Int, columns: Float) -> Float:
    """(codes, SHARES) sums of `columns` (N, SHARES) over the rows of each code."""
    return np.stack([np.bincount(code, column) for column in columns.T], axis=1)
