"""Microseconds per batch task: looking up its job's tag, computing it anew, and predicting its category in batches.

On real tasks with `--data FOLDER` (ali18_usage_tasks.csv.gz); times are processor time of one core, the least of
--repeats. With --kernels also what other support vector machines on the classifier's inputs take and reach.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from timing import least_seconds, measure

from tvwrl.interference.batch_tasks import BatchTasks, Tags, dependencies, read_usage, weisfeiler_lehman
from tvwrl.interference.classifier import History, TaskClassifier, declared_features
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism.predictors import split_jobs


def whole_jobs(tasks: BatchTasks, count: int) -> BatchTasks:
    """About `count` tasks of the last jobs, each job whole."""
    order = {job: i for i, job in enumerate(dict.fromkeys(tasks.job[::-1]))}
    rank = np.array([order[job] for job in tasks.job])
    last = int(np.searchsorted(np.cumsum(np.bincount(rank)), count))
    return tasks.only(np.flatnonzero(rank < last)[np.argsort(rank[rank < last], kind="stable")])


def compare_kernels(known: BatchTasks, arriving: BatchTasks, ours: TaskClassifier) -> list[list[str]]:
    """Fit time, time per task and accuracy of radial kernels, exact and approximated, on the inputs of `ours`."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC, LinearSVC

    def truth(tasks: BatchTasks) -> Any:
        return ours.thresholds_.classes(tasks.cpu, tasks.memory, tasks.makespan)

    inputs = ours._features(History.of(known, truth(known))[1], declared_features(known))
    later = ours._features(ours.history_.inputs(arriving), declared_features(arriving))
    rows = []
    for name, make in {  # the exact one takes minutes
        "linear": lambda: LinearSVC(C=0.3, dual=False, tol=1e-2),
        "radial, 256 landmarks": lambda: make_pipeline(
            Nystroem(gamma=0.02, n_components=256, random_state=0), LinearSVC(C=1.0, dual=False, tol=3e-2)
        ),
        "radial, exact": lambda: SVC(C=3.0, gamma=0.02, cache_size=1000),
    }.items():
        machines, _, fitted, _ = measure(lambda make=make: [make().fit(inputs, truth(known)[:, d]) for d in range(3)])
        found, _, spent, _ = measure(lambda machines=machines: [machine.predict(later) for machine in machines])
        right = 100 * (np.stack(found, axis=1) == truth(arriving)).all(axis=1).mean()
        rows.append([name, f"{fitted:.0f}", f"{spent / len(later) * 1e6:.1f}", f"{right:.1f}"])
        print(rows[-1], file=sys.stderr)
    return rows


def main(data: Path, batch: int = 1_000, repeats: int = 20, kernels: bool = False) -> None:
    """Measure, print tables."""
    tasks = read_usage(data / "ali18_usage_tasks.csv.gz")
    names: dict[str, list[str]] = {}
    for job, task in zip(tasks.job, tasks.task, strict=True):
        names.setdefault(job, []).append(task)
    tags = Tags()
    anew = least_seconds(lambda: [weisfeiler_lehman(dependencies(job, own)) for job, own in names.items()], 1)
    looked_up = least_seconds(lambda: [tags.of(job, own) for job, own in names.items()], max(2, repeats // 4))
    asked = whole_jobs(tasks, batch)
    known = tasks.only(~np.isin(tasks.job, list(set(asked.job))))
    classifier, _, fitted, _ = measure(TaskClassifier().fit, known)
    each = least_seconds(lambda: classifier.predict(asked), repeats) / len(asked)
    rows = [
        ["tag of a job's graph, computed, per task", f"{1e6 * anew / len(tasks):.1f}"],
        ["the same, looked up, per task", f"{1e6 * looked_up / len(tasks):.1f}"],
        [f"category, batches of {len(asked):,} with tags known, per task", f"{1e6 * each:.1f}"],
        [f"fitting to {len(known):,} tasks, per task", f"{1e6 * fitted / len(known):.0f}"],
    ]
    print(markdown_table(("", "us"), rows))
    if kernels:
        arriving = split_jobs(tasks, "time", 0)
        known = tasks.only(~arriving)
        body = compare_kernels(known, tasks.only(arriving), TaskClassifier().fit(known))
        head = ("SVMs on the same inputs", "fit, CPU s", "us per task", "overall, % of tasks")
        print("\n" + markdown_table(head, body))


if __name__ == "__main__":
    tyro.cli(main)
