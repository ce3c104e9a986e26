"""Predictors of levels that figures compare: PISM's trees, others from the CPU use of batch work, a constant level."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tvwrl.interference import (
    CLASSES,
    DEPTH,
    LEAF,
    BatchTasks,
    LevelPredictor,
    Levels,
    Observations,
    TaskClassifier,
    Thresholds,
    declared_features,
    services_with_levels,
)
from tvwrl.types import Float, Int

# Of records to learn from, their levels, and records to predict: (N,) levels in [1, k] of the latter, NaN for services
# that were not learnt; their response times are not read
Predictor = Callable[[Observations, Levels, Observations], Float]


def by_composition(
    known: Observations,
    levels: Levels,
    asked: Observations,
    leaf: int = LEAF,
    counts: bool = False,
    classes: bool = False,
) -> Float:
    """PISM's trees (`LevelPredictor`) of the composition."""
    return LevelPredictor(leaf, counts_alone=counts, classify=classes).fit(known, levels).predict(asked)


def by_line(known: Observations, levels: Levels, asked: Observations) -> Float:
    """The paper's baseline (6.3.1): the level of a response time that is linear in the CPU that batch work uses.

    Least squares by service.
    """
    line = np.full((len(known.services), 2), np.nan)  # ms, and ms per core
    for s, rows, _ in services_with_levels(known, levels):
        design = np.stack([np.ones(len(rows.seconds)), rows.batch_cpu], axis=1)
        line[s] = np.linalg.lstsq(design, rows.response_ms, rcond=None)[0]
    constant, slope = line[asked.service].T
    level = levels.level(asked.service, constant + slope * asked.batch_cpu)
    return np.where(level > 0, level, np.nan)


def by_utilisation(known: Observations, levels: Levels, asked: Observations, leaf: int = LEAF) -> Float:
    """A stronger baseline than the paper's: a tree by service as PISM's, of the CPU use of batch work alone."""
    from sklearn.tree import DecisionTreeRegressor

    found = np.full(len(asked.service), np.nan)
    for s, rows, level in services_with_levels(known, levels):
        own = np.flatnonzero(asked.service == s)
        if len(own):
            tree = DecisionTreeRegressor(max_depth=DEPTH, min_samples_leaf=leaf, random_state=0)
            found[own] = tree.fit(rows.batch_cpu[:, None], level).predict(asked.batch_cpu[own, None])
    return found


def always_the_middle(known: Observations, levels: Levels, asked: Observations) -> Float:
    """The lower of the two middle levels, or the middle one: the least that a predictor has to beat."""
    return np.where(np.isnan(levels.bounds[asked.service, 0]), np.nan, float((levels.k + 1) // 2))


COMPOSITION, LINEAR, TREE = "composition", "utilisation, linear", "utilisation, tree"
PREDICTORS: dict[str, Predictor] = {
    COMPOSITION: by_composition,
    "composition, counts alone": partial(by_composition, counts=True),
    "composition, classes": partial(by_composition, classes=True),
    LINEAR: by_line,
    TREE: by_utilisation,
    "always the middle": always_the_middle,
}
NGINX_LEAF = 3  # records in a leaf: a service has dozens of runs, not thousands
NGINX_PREDICTORS: dict[str, Predictor] = {
    "pods by kind (tree)": partial(by_composition, leaf=NGINX_LEAF),
    "pods by kind, counts alone (tree)": partial(by_composition, leaf=NGINX_LEAF, counts=True),
    "number of pods (linear)": by_line,
    "number of pods (tree)": partial(by_utilisation, leaf=NGINX_LEAF),
    "always the middle level": always_the_middle,
}


LATER = 1 / 7  # of the time, or of the jobs: the paper predicts one day of seven (5.3.2)
HOUR, ENDED = 3600.0, 7200.0  # seconds
LANDMARKS = 256  # of the approximated radial kernel
GRID = (0.03, 0.1, 0.3, 1.0), (0.1, 1.0, 10.0)  # widths (gamma) and penalties (C) of it
TUNED_ON = 3000  # tasks


# thresholds, seed, tasks whose usage is known, arriving tasks -> classes of the arriving tasks (N, 3)
Classifier = Callable[[Thresholds, int, BatchTasks, BatchTasks], Int]


def most_frequent(
    thresholds: Thresholds, seed: int, known: BatchTasks, arriving: BatchTasks, names: bool = True
) -> Int:
    """The most frequent classes of known tasks with the same tag and name, else (or without `names`) of all tasks."""
    counts: dict[tuple[Any, ...], list[Counter[int]]] = defaultdict(lambda: [Counter() for _ in CLASSES])
    classes = thresholds.classes(known.cpu, known.memory, known.makespan)
    for tag, name, row in zip(known.tag, known.task, classes.tolist(), strict=True):
        for key in ((), (tag, name)):
            for counter, value in zip(counts[key], row, strict=True):
                counter[value] += 1
    most = {key: [counter.most_common(1)[0][0] for counter in three] for key, three in counts.items()}
    keys = zip(arriving.tag, arriving.task, strict=True)
    return np.array([most.get(key if names else (), most[()]) for key in keys])


def by_history(thresholds: Thresholds, seed: int, known: BatchTasks, arriving: BatchTasks) -> Int:
    """The classes that `TaskClassifier` predicts."""
    return TaskClassifier(thresholds, random_state=seed).fit(known).predict_classes(arriving)


def by_hourly_history(thresholds: Thresholds, seed: int, known: BatchTasks, arriving: BatchTasks) -> Int:
    """The classes that `TaskClassifier` predicts if its history gains, at every full hour, the jobs that have ended.

    A job has ended `ENDED` seconds after its last task was submitted: no task runs that long.
    """
    classifier = TaskClassifier(thresholds, random_state=seed).fit(known)
    begun, job = arriving.jobs()
    first, last = np.full(len(begun), np.inf), np.zeros(len(begun))
    np.minimum.at(first, job, arriving.seconds)
    np.maximum.at(last, job, arriving.seconds)
    hour = (first[job] // HOUR).astype(np.int64)
    predicted, running = np.empty((len(arriving), len(CLASSES)), np.int64), np.ones(len(arriving), bool)
    for now in np.unique(hour):
        ended = running & (last[job] + ENDED <= now * HOUR)
        if ended.any():
            classifier.extend_history(arriving.only(ended))
            running &= ~ended
        predicted[hour == now] = classifier.predict_classes(arriving.only(hour == now))
    return predicted


def by_paper_inputs(thresholds: Thresholds, seed: int, known: BatchTasks, arriving: BatchTasks) -> Int:
    """Three support vector machines on the tag itself (one-hot), submission time, instances and plan.

    The radial kernel is approximated with `LANDMARKS` tasks (Nystroem): an exact one takes minutes to fit and
    milliseconds per prediction. Width and penalty of each machine, from `GRID`, are those that classify most of the
    last seventh of the training time when fitted to the time before, on `TUNED_ON` tasks each at most.
    """
    classes = thresholds.classes(known.cpu, known.memory, known.makespan)
    chosen = _tuned(known, classes, seed)
    maps = {gamma: _map(gamma, known, seed) for gamma, _ in chosen}
    columns = _columns(arriving)
    return np.stack(
        [
            _machine(maps[gamma], penalty, known, classes[:, d], seed).predict(maps[gamma].transform(columns))
            for d, (gamma, penalty) in enumerate(chosen)
        ],
        axis=1,
    )


def _tuned(tasks: BatchTasks, classes: Int, seed: int) -> list[tuple[float, float]]:
    """Width and penalty for CPU, memory and makespan."""
    rng = np.random.default_rng(seed)
    late = tasks.seconds >= tasks.seconds.min() + (1 - LATER) * np.ptp(tasks.seconds)
    earlier, later = (rng.permutation(np.flatnonzero(part))[:TUNED_ON] for part in (~late, late))
    right = np.zeros((len(CLASSES), *map(len, GRID)))
    for i, gamma in enumerate(GRID[0]):
        inputs = _map(gamma, tasks.only(earlier), seed)
        arriving = inputs.transform(_columns(tasks.only(later)))
        for j, penalty in enumerate(GRID[1]):
            for d in range(len(CLASSES)):
                machine = _machine(inputs, penalty, tasks.only(earlier), classes[earlier, d], seed)
                right[d, i, j] = (machine.predict(arriving) == classes[later, d]).mean()
    best = (np.unravel_index(int(part.argmax()), part.shape) for part in right)
    return [(GRID[0][i], GRID[1][j]) for i, j in best]


def _map(gamma: float, tasks: BatchTasks, seed: int) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    tags = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = ColumnTransformer([("tag", tags, [0]), ("numbers", StandardScaler(), slice(1, None))])
    landmarks = min(LANDMARKS, len(tasks))
    radial = Nystroem(gamma=gamma, n_components=landmarks, random_state=seed)
    return make_pipeline(columns, radial).fit(_columns(tasks))


def _machine(inputs: Any, penalty: float, tasks: BatchTasks, classes: Int, seed: int) -> Any:
    from sklearn.svm import LinearSVC

    machine = LinearSVC(C=penalty, dual=False, tol=3e-2, random_state=seed)
    return machine.fit(inputs.transform(_columns(tasks)), classes)


def _columns(tasks: BatchTasks) -> Any:
    """(N, 6) tag, submission by the clock, instances, plan."""
    return np.concatenate([tasks.tag[:, None], declared_features(tasks)[:, :5].astype(object)], axis=1)


OURS = "SVMs on histories of similar tasks (ours)"
HOURLY = "the same, learning on by the hour"
CLASSIFIERS: dict[str, Classifier] = {
    "most frequent classes": partial(most_frequent, names=False),
    "same tag and task name": most_frequent,
    "SVMs on the paper's inputs, tuned": by_paper_inputs,
    OURS: by_history,
    HOURLY: by_hourly_history,  # by time only: jobs drawn from the whole span are among those learnt from
}


def classifiers_of(split: str) -> list[str]:
    """Names of the classifiers that are tried on a split."""
    return [name for name in CLASSIFIERS if split == "time" or name != HOURLY]


def split_jobs(tasks: BatchTasks, split: str, seed: int) -> Any:
    """(N,) whether a task is among those that arrive; all tasks of a job are.

    "time": jobs of the last seventh of the time; else a seventh of the jobs, drawn with `seed`.
    """
    first, job = tasks.jobs()
    if split == "time":
        submitted = tasks.seconds[first]
        return (submitted >= submitted.min() + (1 - LATER) * np.ptp(submitted))[job]
    return (np.random.default_rng(seed).permutation(len(first)) < round(LATER * len(first)))[job]
