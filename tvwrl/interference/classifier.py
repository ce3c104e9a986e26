"""Predicts the category of a batch task when it arrives: three support vector machines (Section 5.3.2)."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tvwrl.checks import positive
from tvwrl.forecasting import Parameters
from tvwrl.interference.batch_tasks import BatchTasks
from tvwrl.interference.categories import CLASSES, Thresholds, category_of
from tvwrl.interference.task_history import History
from tvwrl.types import Float, InputError, Int

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
