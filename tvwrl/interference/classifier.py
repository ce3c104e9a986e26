"""Predicts the category of a batch task when it arrives: three support vector machines (Section 5.3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tvwrl.checks import positive
from tvwrl.forecasting import Parameters
from tvwrl.interference.batch_tasks import BatchTasks, rows_by_job
from tvwrl.interference.categories import CLASSES, Thresholds, category_of
from tvwrl.types import Float, InputError, Int, Strings

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


DAY = 86_400.0  # seconds
DECLARED = 6  # number of features of a task besides its history
SPREAD = 4.0  # standard deviations to which declared features are clipped
UNSEEN = -1e9  # score of a class without training tasks


class TaskClassifier(Parameters):
    """Classes of CPU, memory and makespan by one linear support vector machine each, one class against the rest.

    Paper: the inputs are the job's tag, submission time and number of instances; the kernel is not named. Here the
    inputs are the classes of earlier similar tasks (`History`: same graph, same place in it, ...) and what the task
    declares (`declared_features`). A radial kernel gains 0.4 to 1.2 points at a much higher cost
    (docs/results/speed.md). Follows scikit-learn: `fit`, `predict`, `get_params`, `random_state`. `thresholds` None:
    natural breaks of the training tasks; `penalty` > 0: C of the machines.
    """

    def __init__(self, thresholds: Thresholds | None = None, penalty: float = 0.3, random_state: int = 0) -> None:
        self.thresholds = thresholds
        self.penalty = penalty
        self.random_state = random_state

    def fit(self, tasks: BatchTasks) -> TaskClassifier:
        """Learn from tasks of known usage. Raises InputError for no tasks, or usage that is not a number >= 0."""
        if not len(tasks):
            raise InputError("the classifier needs at least one task to learn from")
        positive(penalty=self.penalty)
        usage = (tasks.cpu, tasks.memory, tasks.makespan)
        self.thresholds_ = self.thresholds or Thresholds.from_usage(*usage)
        classes = self.thresholds_.classes(*usage)
        self.history_, shares = History.of(tasks, classes)
        known = declared_features(tasks)
        spread = known.std(axis=0)
        self.shift_, self.width_ = known.mean(axis=0), np.where(spread > 1e-9, spread, 1.0)
        inputs = self._features(shares, known)
        machines = [self._machine(inputs, classes[:, d], count) for d, count in enumerate(CLASSES.values())]
        self.weights_ = np.concatenate([weights for weights, _ in machines], axis=1)
        self.bias_ = np.concatenate([bias for _, bias in machines])
        return self

    def extend_history(self, tasks: BatchTasks) -> TaskClassifier:
        """Add ended jobs, all tasks of each, to the history; thresholds and weights stay.

        Errors: as of `fit`, and NotFittedError.
        """
        self._check_fitted()
        self.history_.add(tasks, self.thresholds_.classes(tasks.cpu, tasks.memory, tasks.makespan))
        return self

    def predict(self, tasks: BatchTasks) -> Int:
        """(N,) category 0..59 of arriving tasks, all tasks of a job together; their usage is not read."""
        return category_of(self.predict_classes(tasks))

    def predict_classes(self, tasks: BatchTasks) -> Int:
        """(N, 3) classes of CPU, memory and makespan. Raises NotFittedError before `fit`."""
        self._check_fitted()
        if not len(tasks):
            return np.zeros((0, len(CLASSES)), np.int64)
        scores = self._features(self.history_.inputs(tasks), declared_features(tasks)) @ self.weights_ + self.bias_
        parts = np.split(scores, np.cumsum(list(CLASSES.values()))[:-1], axis=1)
        return np.stack([part.argmax(axis=1) for part in parts], axis=1)

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this TaskClassifier is not fitted: call fit")

    def _features(self, shares: Float, known: Float) -> Float:
        """(N, inputs) features of the machines."""
        return np.concatenate([shares, np.clip((known - self.shift_) / self.width_, -SPREAD, SPREAD)], axis=1)

    def _machine(self, inputs: Float, classes: Int, count: int) -> tuple[Float, Float]:
        """(inputs, count) weights and (count,) bias of one machine."""
        from sklearn.svm import LinearSVC
        from threadpoolctl import threadpool_limits

        weights, bias = np.zeros((inputs.shape[1], count)), np.full(count, UNSEEN)
        seen = np.unique(classes)
        if len(seen) == 1:
            bias[seen] = 0.0
            return weights, bias
        machine = LinearSVC(C=self.penalty, dual=False, tol=1e-2, random_state=self.random_state)
        with threadpool_limits(1):
            machine.fit(inputs, classes)
        if len(seen) == 2:  # scikit-learn gives one score, > 0 for the second class
            weights[:, seen[1]], bias[seen] = machine.coef_[0], (0.0, machine.intercept_[0])
        else:
            weights[:, seen], bias[seen] = machine.coef_.T, machine.intercept_
        return weights, bias


def declared_features(tasks: BatchTasks) -> Float:
    """(N, DECLARED) what N arriving tasks declare: sine and cosine of the time of day, and logarithms of instances,
    planned CPU, planned memory, and number of tasks of the job."""
    clock = 2 * np.pi * (tasks.seconds % DAY) / DAY
    numbers = Counter(tasks.job.tolist())
    together = np.array([numbers[job] for job in tasks.job], np.float64)
    logs = [np.log(values) for values in (tasks.instances, tasks.plan_cpu, tasks.plan_memory, together)]
    return np.stack([np.sin(clock), np.cos(clock), *logs], axis=1)
