"""Figure 10 of paper 003 on real tasks: how often the category of a batch task is told right when it arrives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from tvwrl.bench.figures import write_figure
from tvwrl.bench.pism_traces import folder_of
from tvwrl.command_line import Numbers
from tvwrl.experiments.plots import plot_lines
from tvwrl.experiments.statistics import interval_name
from tvwrl.experiments.statistics import mean_with_range as told
from tvwrl.interference.batch_tasks import USAGE_FILE, BatchTasks, read_usage
from tvwrl.interference.categories import CLASSES, Thresholds
from tvwrl.interference.classifier import TaskClassifier, declared_features
from tvwrl.markdown import markdown_table
from tvwrl.types import InputError, Int

NAMES = {"fig10": "Figure 10, accuracy of the task classifier by task and by instance"}
LATER = 1 / 7  # of the time, or of the jobs: one day of seven is predicted (5.3.2)
PUBLISHED = {  # percent by CPU, memory, makespan and overall (5.3.2); tasks are in a figure without numbers
    ("instances", "exact"): ("90", "90", "90", "76"),
    ("instances", "neighbour"): ("99.8", "99.8", "99.4", ""),
}
HOUR, ENDED = 3600.0, 7200.0  # seconds
LANDMARKS = 256  # of the approximated radial kernel
GRID = (0.03, 0.1, 0.3, 1.0), (0.1, 1.0, 10.0)  # widths (gamma) and penalties (C) of it
TUNED_ON = 3000  # tasks
COLUMNS = (*CLASSES, "overall")
Rows = list[dict[str, Any]]


class Classifier(Protocol):
    """What is compared."""

    def fit(self, tasks: BatchTasks) -> Any:
        """Learn from tasks whose usage is known."""

    def predict_classes(self, tasks: BatchTasks) -> Int:
        """(N, 3)."""


class Lookup:
    """The most frequent classes of earlier tasks of the same job's tag and name; else, or without names, of all."""

    def __init__(self, thresholds: Thresholds, names: bool = True) -> None:
        self.thresholds, self.names = thresholds, names

    def fit(self, tasks: BatchTasks) -> Lookup:
        """Count."""
        classes = self.thresholds.classes(tasks.cpu, tasks.memory, tasks.makespan)
        counts: dict[tuple[Any, ...], list[Counter[int]]] = defaultdict(lambda: [Counter() for _ in CLASSES])
        for tag, name, row in zip(tasks.tag, tasks.task, classes.tolist(), strict=True):
            for key in ((), (tag, name)):
                for counter, value in zip(counts[key], row, strict=True):
                    counter[value] += 1
        self.most = {key: [counter.most_common(1)[0][0] for counter in three] for key, three in counts.items()}
        return self

    def predict_classes(self, tasks: BatchTasks) -> Int:
        """(N, 3)."""
        keys = zip(tasks.tag, tasks.task, strict=True)
        return np.array([self.most.get(key if self.names else (), self.most[()]) for key in keys])


class PaperInputs:
    """Three support vector machines on the tag itself (one input per tag), submission time, instances and plan.

    A radial kernel, approximated with `LANDMARKS` tasks (Nystroem): an exact one takes minutes to fit and
    milliseconds to predict a task. Each machine has the width and penalty, of `GRID`, that tell most of the latest
    seventh of the tasks learnt from when fitted to those before; both on `TUNED_ON` tasks at most. Fitted: `chosen`.
    """

    def __init__(self, thresholds: Thresholds, seed: int) -> None:
        self.thresholds, self.seed = thresholds, seed

    def fit(self, tasks: BatchTasks) -> PaperInputs:
        """Tune and learn."""
        classes = self.thresholds.classes(tasks.cpu, tasks.memory, tasks.makespan)
        self.chosen = self._tuned(tasks, classes)
        maps = {gamma: self._map(gamma, tasks) for gamma, _ in self.chosen}
        self.machines = [
            (maps[gamma], self._machine(maps[gamma], penalty, tasks, classes[:, d]))
            for d, (gamma, penalty) in enumerate(self.chosen)
        ]
        return self

    def predict_classes(self, tasks: BatchTasks) -> Int:
        """(N, 3)."""
        columns = _columns(tasks)
        return np.stack([machine.predict(inputs.transform(columns)) for inputs, machine in self.machines], axis=1)

    def _tuned(self, tasks: BatchTasks, classes: Int) -> list[tuple[float, float]]:
        """Width and penalty for CPU, memory and makespan."""
        rng = np.random.default_rng(self.seed)
        late = tasks.seconds >= tasks.seconds.min() + (1 - LATER) * np.ptp(tasks.seconds)
        earlier, later = (rng.permutation(np.flatnonzero(part))[:TUNED_ON] for part in (~late, late))
        right = np.zeros((len(CLASSES), *map(len, GRID)))
        for i, gamma in enumerate(GRID[0]):
            inputs = self._map(gamma, tasks.only(earlier))
            arriving = inputs.transform(_columns(tasks.only(later)))
            for j, penalty in enumerate(GRID[1]):
                for d in range(len(CLASSES)):
                    machine = self._machine(inputs, penalty, tasks.only(earlier), classes[earlier, d])
                    right[d, i, j] = (machine.predict(arriving) == classes[later, d]).mean()
        best = (np.unravel_index(int(part.argmax()), part.shape) for part in right)
        return [(GRID[0][i], GRID[1][j]) for i, j in best]

    def _map(self, gamma: float, tasks: BatchTasks) -> Any:
        from sklearn.compose import ColumnTransformer
        from sklearn.kernel_approximation import Nystroem
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        tags = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        columns = ColumnTransformer([("tag", tags, [0]), ("numbers", StandardScaler(), slice(1, None))])
        landmarks = min(LANDMARKS, len(tasks))
        radial = Nystroem(gamma=gamma, n_components=landmarks, random_state=self.seed)
        return make_pipeline(columns, radial).fit(_columns(tasks))

    def _machine(self, inputs: Any, penalty: float, tasks: BatchTasks, classes: Int) -> Any:
        from sklearn.svm import LinearSVC

        machine = LinearSVC(C=penalty, dual=False, tol=3e-2, random_state=self.seed)
        return machine.fit(inputs.transform(_columns(tasks)), classes)


def _columns(tasks: BatchTasks) -> Any:
    """(N, 6) tag, submission by the clock, instances, plan."""
    return np.concatenate([tasks.tag[:, None], declared_features(tasks)[:, :5].astype(object)], axis=1)


class LearningOn:
    """Our classifier, its history kept up: at every full hour it takes in the arriving jobs that have ended.

    Those are jobs whose last task was submitted `ENDED` seconds before; no task runs that long.
    """

    def __init__(self, thresholds: Thresholds, seed: int) -> None:
        self.classifier = TaskClassifier(thresholds, random_state=seed)

    def fit(self, tasks: BatchTasks) -> LearningOn:
        """Learn."""
        self.classifier.fit(tasks)
        return self

    def predict_classes(self, tasks: BatchTasks) -> Int:
        """(N, 3); of usage only that of jobs that have ended is looked at."""
        job = np.unique(tasks.job.astype(str), return_inverse=True)[1]
        first, last = np.full(int(job.max()) + 1, np.inf), np.zeros(int(job.max()) + 1)
        np.minimum.at(first, job, tasks.seconds)
        np.maximum.at(last, job, tasks.seconds)
        hour = (first[job] // HOUR).astype(np.int64)
        told, running = np.empty((len(tasks), len(CLASSES)), np.int64), np.ones(len(tasks), bool)
        for now in np.unique(hour):
            ended = running & (last[job] + ENDED <= now * HOUR)
            if ended.any():
                self.classifier.extend_history(tasks.only(ended))
                running &= ~ended
            told[hour == now] = self.classifier.predict_classes(tasks.only(hour == now))
        return told


OURS = "SVMs on histories of similarity_keys (ours)"
ON = "the same, learning on by the hour"
PREDICTORS: dict[str, Callable[[Thresholds, int], Classifier]] = {
    "most frequent classes": lambda thresholds, seed: Lookup(thresholds, names=False),
    "same tag and task name": lambda thresholds, seed: Lookup(thresholds),
    "SVMs on the paper's inputs, tuned": PaperInputs,
    OURS: lambda thresholds, seed: TaskClassifier(thresholds, random_state=seed),
    ON: LearningOn,  # by time only: jobs drawn from the whole span are among those learnt from
}


@dataclass(frozen=True)
class ClassifierSettings:
    """Categories of tasks with measured usage, learnt from earlier tasks and told of later ones."""

    data: Path | None = None
    """Folder with ali18_usage_tasks.csv.gz."""
    seeds: Numbers = (0, 1, 2)
    """Of the random split by jobs, one fit each."""

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown of one of `NAMES`, which is written to a folder of that name in `out` too.

        Raises InputError if the file is missing or damaged, or for seeds that are not different numbers >= 0.
        """
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) != len(self.seeds):
            raise InputError(f"seeds is {', '.join(map(str, self.seeds))}: must be different numbers >= 0")
        tasks = read_usage(folder_of(self.data) / USAGE_FILE)
        rows = compared(tasks, self.seeds)
        text = f"# {NAMES[name]} (real)\n\n{_words(tasks, self.seeds)}\n\n{_tables(rows)}\n"

        def plot(file: Path) -> None:
            own = [row for row in rows if row["split"] == "jobs" and row["of"] == "instances" and row["hit"] == "exact"]
            lines = {p: np.array([[r[c] for r in own if r["predictor"] == p] for c in COLUMNS]) for p in _of("jobs")}
            plot_lines(file, COLUMNS, lines, "", "% of instances told right (real)", joined=False)

        write_figure(out / name, text, rows, {"plot": plot}, asdict(self))
        return text


def compared(tasks: BatchTasks, seeds: tuple[int, ...]) -> Rows:
    """Percent told right, for every predictor, split, seed, `of` tasks or instances, `hit` exact or within a class."""
    rows: Rows = []
    folds = list(_folds(tasks, seeds))
    jobs = [(fold, name) for fold in folds for name in _of(fold[0])]
    for (split, seed, later), name in tqdm(jobs, desc="classifying", disable=None, leave=False):
        known, arriving = tasks.only(~later), tasks.only(later)
        thresholds = Thresholds.from_usage(known.cpu, known.memory, known.makespan)
        told = PREDICTORS[name](thresholds, seed).fit(known).predict_classes(arriving)
        off = np.abs(told - thresholds.classes(arriving.cpu, arriving.memory, arriving.makespan))
        for of, weight in (("tasks", np.ones(len(arriving))), ("instances", arriving.instances.astype(np.float64))):
            for hit, right in (("exact", off == 0), ("neighbour", off <= 1)):
                shares = 100 * weight @ np.column_stack([right, right.all(axis=1)]) / weight.sum()
                about = {"split": split, "seed": seed, "predictor": name, "of": of, "hit": hit}
                rows.append(about | dict(zip(COLUMNS, shares.tolist(), strict=True)))
    return rows


def _of(split: str) -> list[str]:
    """Predictors that a split is made for."""
    return [name for name in PREDICTORS if split == "time" or name != ON]


def _folds(tasks: BatchTasks, seeds: tuple[int, ...]) -> Iterator[tuple[str, int, Any]]:
    """Split, seed, and (N,) whether a task is of those that arrive; a job's tasks stay together."""
    _, first, job = np.unique(tasks.job.astype(str), return_index=True, return_inverse=True)
    submitted = tasks.seconds[first]
    border = submitted.min() + (1 - LATER) * np.ptp(submitted)
    yield "time", 0, (submitted >= border)[job]
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(first))
        yield "jobs", seed, (order < round(LATER * len(first)))[job]


def _words(tasks: BatchTasks, seeds: tuple[int, ...]) -> str:
    return (
        f"{len(tasks):,} tasks of {len(set(tasks.job)):,} jobs of Alibaba's trace; percent of tasks or instances whose "
        "class is told right, overall: in all three dimensions. By time: learnt from jobs submitted in the earlier "
        f"six sevenths of the span, one split. By jobs: a seventh of them drawn, {len(seeds)} seeds "
        f"[{interval_name(len(seeds))}]. Thresholds are those of the tasks learnt from: not the paper's, which gives "
        "two of nine, nor on its tasks, so the published numbers stand beside ours for orientation only."
    )


def _tables(rows: Rows) -> str:
    parts = []
    titles = {"exact": "told right", "neighbour": "told right or as a neighbouring class"}
    for hit, title in titles.items():
        for of in ("tasks", "instances"):
            body = [["paper, instances of one day", *PUBLISHED["instances", hit]]] if of == "instances" else []
            for split in ("time", "jobs"):
                for name in _of(split):
                    asked = {"split": split, "predictor": name, "of": of, "hit": hit}
                    own = [row for row in rows if asked.items() <= row.items()]
                    cells = [told(np.array([row[column] for row in own])) for column in COLUMNS]
                    body.append([f"{name}, by {split}", *cells])
            parts.append(f"## % of {of} {title}\n\n" + markdown_table((f"of {of}", *COLUMNS), body))
    return "\n\n".join(parts)
