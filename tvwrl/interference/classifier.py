"""Which category a batch task will be of, told when it arrives: three support vector machines (Section 5.3.2)."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.ec.parameters import Parameters
from tvwrl.interference.batch_tasks import BatchTasks
from tvwrl.interference.categories import CLASSES, Thresholds, category_of
from tvwrl.interference.history import LEVELS, SHARES, History
from tvwrl.runs import whole_file
from tvwrl.types import Float, InputError, Int

DAY = 86_400.0  # seconds
DECLARED = 6
SPREAD = 4.0  # standard deviations that a declared input is cut to
NEVER = -1e9  # score of a class that no training task was of


class TaskClassifier(Parameters):
    """CPU, memory and makespan each by a linear support vector machine, one class against the rest.

    Paper: a task's inputs are its job's tag, submission time and number of instances, the kernel is not told. Here the
    tag says how earlier jobs of its graph were classed (`History`), and so do narrower likenesses; the plan is there
    too. On such inputs a radial kernel gains 0.4 to 1.2 points, slowly (docs/benchmarks.md). Follows scikit-learn:
    `fit`, `predict`, `get_params`, `random_state`. `thresholds` None: the natural breaks of the tasks that it is fitted
    to; `penalty` > 0: C of the machines.
    """

    def __init__(self, thresholds: Thresholds | None = None, penalty: float = 0.3, random_state: int = 0) -> None:
        self.thresholds = thresholds
        self.penalty = penalty
        self.random_state = random_state

    def fit(self, tasks: BatchTasks) -> TaskClassifier:
        """Learn from tasks whose usage is known. Raises InputError for none, or usage that is not a number >= 0."""
        if not len(tasks):
            raise InputError("no tasks to learn from")
        if not self.penalty > 0:
            raise InputError(f"penalty is {self.penalty}: must be > 0")
        usage = (tasks.cpu, tasks.memory, tasks.makespan)
        self.thresholds_ = self.thresholds or Thresholds.from_usage(*usage)
        classes = self.thresholds_.classes(*usage)
        self.history_, shares = History.of(tasks, classes)
        known = declared(tasks)
        spread = known.std(axis=0)
        self.shift_, self.width_ = known.mean(axis=0), np.where(spread > 1e-9, spread, 1.0)
        inputs = self._joined(shares, known)
        machines = [self._machine(inputs, classes[:, d], count) for d, count in enumerate(CLASSES.values())]
        self.weights_ = np.concatenate([weights for weights, _ in machines], axis=1)
        self.bias_ = np.concatenate([bias for _, bias in machines])
        return self

    def learn(self, tasks: BatchTasks) -> TaskClassifier:
        """Take whole jobs that have ended into the history; thresholds and weights stay. Errors: as of `fit`, and
        NotFittedError."""
        self._check_fitted()
        self.history_.add(tasks, self.thresholds_.classes(tasks.cpu, tasks.memory, tasks.makespan))
        return self

    def predict(self, tasks: BatchTasks) -> Int:
        """(N,) category 0..59 of tasks that arrive, whole jobs together; their usage is not looked at."""
        return category_of(self.predict_classes(tasks))

    def predict_classes(self, tasks: BatchTasks) -> Int:
        """(N, 3) class of each by CPU, memory and makespan. Raises NotFittedError before `fit` or `load`."""
        self._check_fitted()
        if not len(tasks):
            return np.zeros((0, len(CLASSES)), np.int64)
        scores = self._joined(self.history_.inputs(tasks), declared(tasks)) @ self.weights_ + self.bias_
        parts = np.split(scores, np.cumsum(list(CLASSES.values()))[:-1], axis=1)
        return np.stack([part.argmax(axis=1) for part in parts], axis=1)

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this TaskClassifier has learnt nothing: call fit, or take one from load")

    def save(self, path: Path) -> None:
        """Write a .npz file, whole; it holds numbers and text, no code. Raises NotFittedError as `predict_classes`."""
        self._check_fitted()
        about = {"thresholds": asdict(self.thresholds_), "penalty": self.penalty, "random_state": self.random_state}
        levels: dict[str, Any] = {f"words{i}": words for i, words in enumerate(self.history_.words)}
        levels |= {f"counts{i}": counts for i, counts in enumerate(self.history_.counts)}
        numbers = {name: getattr(self, f"{name}_") for name in ("shift", "width", "weights", "bias")}
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(
                file, about=np.array(json.dumps(about)), overall=self.history_.overall, **levels, **numbers
            )

    @classmethod
    def load(cls, path: Path) -> TaskClassifier:
        """The classifier that `save` wrote. Raises InputError for a file that is none."""
        try:
            with np.load(path, allow_pickle=False) as file:
                content = {name: file[name] for name in file.files}
            about = json.loads(str(content["about"]))
            classifier = cls(Thresholds.from_dict(about["thresholds"]), about["penalty"], about["random_state"])
            classifier._restore(content)
        except FileNotFoundError:
            raise InputError(f"{path}: no such file") from None
        except Exception as error:  # numpy, zipfile and json each have their own
            raise InputError(f"{path}: is no file of a task classifier: {error}") from None
        return classifier

    def _restore(self, content: dict[str, Any]) -> None:
        assert self.thresholds is not None
        self.thresholds_ = self.thresholds
        self.shift_, self.width_, self.weights_, self.bias_ = (
            content[name].astype(np.float64) for name in ("shift", "width", "weights", "bias")
        )
        words = [content[f"words{i}"] for i in range(len(LEVELS))]
        counts = [content[f"counts{i}"].astype(np.float64) for i in range(len(LEVELS))]
        self.history_ = History(words, counts, content["overall"].astype(np.float64))
        expected: dict[str, tuple[int, ...]]
        expected = {"shift": (DECLARED,), "width": (DECLARED,), "bias": (SHARES,), "overall": (SHARES,)}
        expected["weights"] = (len(LEVELS) * SHARES + DECLARED, SHARES)
        expected |= {f"counts{i}": (len(level), SHARES) for i, level in enumerate(words)}
        for name, shape in expected.items():
            if content[name].shape != shape or not np.isfinite(content[name]).all():
                raise ValueError(f"{name} must hold finite numbers of shape {shape}")

    def _joined(self, shares: Float, known: Float) -> Float:
        """(N, inputs) what the machines see."""
        return np.concatenate([shares, np.clip((known - self.shift_) / self.width_, -SPREAD, SPREAD)], axis=1)

    def _machine(self, inputs: Float, classes: Int, count: int) -> tuple[Float, Float]:
        """(inputs, count) weights and (count,) bias of one machine."""
        from sklearn.svm import LinearSVC
        from threadpoolctl import threadpool_limits

        weights, bias = np.zeros((inputs.shape[1], count)), np.full(count, NEVER)
        seen = np.unique(classes)
        if len(seen) == 1:
            bias[seen] = 0.0
            return weights, bias
        machine = LinearSVC(C=self.penalty, dual=False, tol=1e-2, random_state=self.random_state)
        with threadpool_limits(1):
            machine.fit(inputs, classes)
        if len(seen) == 2:  # one score there, above 0 for the second
            weights[:, seen[1]], bias[seen] = machine.coef_[0], (0.0, machine.intercept_[0])
        else:
            weights[:, seen], bias[seen] = machine.coef_.T, machine.intercept_
        return weights, bias


def declared(tasks: BatchTasks) -> Float:
    """(N, DECLARED) what else is known of N tasks that arrive: sine and cosine of the time of day, and logarithms of
    instances, planned CPU and memory, and tasks of the job."""
    clock = 2 * np.pi * (tasks.seconds % DAY) / DAY
    numbers: dict[str, int] = {}
    for job in tasks.job:
        numbers[job] = numbers.get(job, 0) + 1
    together = np.array([numbers[job] for job in tasks.job], np.float64)
    logs = [np.log(values) for values in (tasks.instances, tasks.plan_cpu, tasks.plan_memory, together)]
    return np.stack([np.sin(clock), np.cos(clock), *logs], axis=1)
