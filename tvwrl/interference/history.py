"""How tasks like one that arrives were classed before: by its job's graph, its place there, sizes and plans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvwrl.interference.batch_tasks import BatchTasks
from tvwrl.interference.categories import CLASSES
from tvwrl.types import Float, Int, Strings

LEVELS = ("tag", "role", "task", "task and instances", "task and plans", "task and all instances")
SHARES = sum(CLASSES.values())  # columns of a level: one per class of each dimension
OWN_VOTES = 1.0  # tasks that the level before counts for


def likenesses(tasks: BatchTasks) -> list[list[str]]:
    """Per level, from the widest to the narrowest, what N tasks have in common with others: equal words, alike tasks.

    The job's tag; the place in its graph; the names of the job's tasks and its own; those and its own instances, to
    the nearest power of 2; the names with the plans of all the job's tasks; the names with the instances of all.
    Tasks of one job have to come together, as they do when it is submitted.
    """
    jobs: dict[str, list[int]] = {}
    for i, job in enumerate(tasks.job):
        jobs.setdefault(job, []).append(i)
    name, tag, role = tasks.task.tolist(), tasks.tag.tolist(), tasks.role.tolist()
    size = np.rint(np.log2(tasks.instances)).astype(np.int64).tolist()
    plans = list(zip(tasks.plan_cpu.tolist(), tasks.plan_memory.tolist(), strict=True))
    out: list[list[str]] = [tag, role, *([""] * len(name) for _ in LEVELS[2:])]
    for own in jobs.values():
        own = sorted(own, key=name.__getitem__)
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
    """Shares of classes among earlier tasks of the same likeness, level by level.

    A level's shares are those of its tasks and of `OWN_VOTES` more that are spread as the level before says, so few
    tasks say little and unknown likenesses nothing; before the first level stand the shares of all tasks.
    """

    def __init__(self, words: Sequence[Strings], counts: Sequence[Float], overall: Float) -> None:
        """Per level the known likenesses (K,) and how many tasks of theirs were of each class (K, SHARES); shares of
        all tasks (SHARES,)."""
        self.counts = list(counts)
        self.overall = overall
        self._index = [{word: i for i, word in enumerate(level.tolist())} for level in words]

    @property
    def words(self) -> list[Strings]:
        """Per level (K,) the known likenesses, in order of `counts`."""
        return [np.array(list(index)) for index in self._index]

    @classmethod
    def of(cls, tasks: BatchTasks, classes: Int) -> tuple[History, Float]:
        """The history of N tasks of `classes` (N, 3), and their own inputs (N, inputs) as if of each its job had not
        been there."""
        columns = indicators(classes)
        job = np.unique(tasks.job.astype(str), return_inverse=True)[1]
        words, counts, others = [], [], []
        for level in likenesses(tasks):
            known, code = np.unique(np.array(level), return_inverse=True)
            total = _sums(code, columns)
            together = np.unique(code * (int(job.max()) + 1) + job, return_inverse=True)[1]
            words.append(known)
            counts.append(total)
            others.append(total[code] - _sums(together, columns)[together])
        history = cls(words, counts, columns.mean(axis=0))
        return history, history._shares(others)

    def add(self, tasks: BatchTasks, classes: Int) -> None:
        """N tasks have ended, of `classes` (N, 3). Shares of all tasks stay as they were."""
        columns = indicators(classes)
        for i, (level, index) in enumerate(zip(likenesses(tasks), self._index, strict=True)):
            code = np.array([index.setdefault(word, len(index)) for word in level])
            grown = np.zeros((len(index), SHARES))
            grown[: len(self.counts[i])] = self.counts[i]
            np.add.at(grown, code, columns)
            self.counts[i] = grown

    def inputs(self, tasks: BatchTasks) -> Float:
        """(N, levels * SHARES) shares in 0..1 for tasks that arrive."""
        found = []
        for level, index, counts in zip(likenesses(tasks), self._index, self.counts, strict=True):
            code = np.array([index.get(word, -1) for word in level])
            found.append(np.where(code[:, None] >= 0, counts[code], 0.0))
        return self._shares(found)

    def _shares(self, counts: Sequence[Float]) -> Float:
        """Shares from the counts (N, SHARES) of each level, side by side."""
        share: Float = np.broadcast_to(self.overall, counts[0].shape)
        every = []
        for level in counts:
            tasks = level[:, : CLASSES["cpu"]].sum(axis=1, keepdims=True)  # each is of one class of CPU
            share = (level + OWN_VOTES * share) / (tasks + OWN_VOTES)
            every.append(share)
        return np.concatenate(every, axis=1)


def indicators(classes: Int) -> Float:
    """(N, SHARES) 1 where a task of `classes` (N, 3) is of that class of that dimension, else 0."""
    return np.concatenate([np.eye(count)[classes[:, d]] for d, count in enumerate(CLASSES.values())], axis=1)


def _sums(code: Int, columns: Float) -> Float:
    """(codes, SHARES) sums of `columns` (N, SHARES) over the rows of each code."""
    return np.stack([np.bincount(code, column) for column in columns.T], axis=1)
