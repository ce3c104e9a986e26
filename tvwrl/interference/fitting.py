"""The command that fits an interference score to a trace or to batch tasks, or explains one: options and checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.command_line import TRACE, described
from tvwrl.envs import Problem
from tvwrl.interference.categories import CATEGORY_NAMES
from tvwrl.interference.observations import CATEGORIES, uniform_machines
from tvwrl.interference.score import InterferenceScore
from tvwrl.interference.testbed.episodes import TwoDays
from tvwrl.interference.training import check_training, train_on_batch_tasks, train_on_trace
from tvwrl.markdown import markdown_table
from tvwrl.simulation import Scenario
from tvwrl.traces import open_and_describe
from tvwrl.types import InputError, Int

MOST = 100_000  # most instances of a category on a machine
TRIED = (1, 3, 5)  # numbers of instances of one category on an otherwise empty machine


def explain_score(score: InterferenceScore, tasks: Sequence[str] = ()) -> str:
    """Markdown: how much each category contributes to the score of a machine with one instance of every service.

    `tasks`: batch instances as CATEGORY=INSTANCES; none: the effect of `TRIED` instances of each category alone.
    Raises InputError as `parse_tasks`.
    """
    counts, services = parse_tasks(tasks), len(score.services)
    tried = [count * np.eye(CATEGORIES, dtype=np.int64) for count in TRIED]
    machines = uniform_machines(np.concatenate([counts[None], np.zeros_like(counts)[None], *tried]), services)
    total, empty, *others = score.of(machines, 0.0)
    head = ["category", "CPU, memory, makespan"]
    if tasks:
        head += ["instances", "points"]
        rows = [
            [str(one.category), CATEGORY_NAMES[one.category], str(one.instances), f"{one.points:+.1f}"]
            for one in score.explain(machines, 0)
        ]
        scores = f"The machine scores {total:.1f} of 100, an empty one {empty:.1f}."
    else:
        head += [f"points of {count}" for count in TRIED]
        points = (np.array(others) - empty).reshape(len(TRIED), CATEGORIES).T
        rows = [
            [str(c), CATEGORY_NAMES[c], *(f"{value:+.1f}" for value in points[c])]
            for c in np.argsort(-points.sum(axis=1), kind="stable")
            if points[c].any()
        ]
        scores = f"The empty machine scores {empty:.1f} of 100."
    classes = "" if score.thresholds is None else f"Classes begin at {score.thresholds.describe()}.\n\n"
    return f"Learnt from {score.about or 'observations'}.\n\n{classes}{markdown_table(head, rows)}\n\n{scores}"


def parse_tasks(tasks: Sequence[str]) -> Int:
    """(60,) instances by category of entries CATEGORY=INSTANCES.

    Raises InputError for a malformed entry, an unknown category, or more than `MOST` instances of one category.
    """
    counts = np.zeros(CATEGORIES, np.int64)
    for entry in tasks:
        category, _, instances = entry.partition("=")
        if not (category.isdecimal() and instances.isdecimal() and int(category) < CATEGORIES):
            raise InputError(f"tasks is '{entry}': must be CATEGORY=INSTANCES with a category 0 to {CATEGORIES - 1}")
        counts[int(category)] += min(int(instances), MOST + 1)
        if counts[int(category)] > MOST:
            raise InputError(f"tasks is '{entry}': no machine runs more than {MOST:,} instances of a category")
    return counts


OPTIONS = {"trace": ("slot_seconds", "load", "episodes"), "data": ("services", "hours")}  # for one source only
SMALL = {"machines": 20, "services": 150, "hours": 12}  # two days, unless others are given


@dataclass(frozen=True)
class InterferenceFitOptions:
    """Learn an interference score and write it to a file (.npz), or explain one.

    With --trace, the trace's workloads are the batch work and their usage sets the category thresholds; use it for
    `tvwrl evaluate --schedulers spread,spread+pism=FILE` on that trace. With --data, batch tasks run on two simulated
    days. Response times are simulated by --law; the score learns only from what monitoring would record, not from the
    law.
    """

    file: Path | None = None
    """File to write."""
    trace: Annotated[str | None, described(TRACE)] = None
    data: Path | None = None
    """Folder with the published data sets that docs/how-to/batch-beside-services.md lists; the usage of its batch tasks
    sets the thresholds between categories."""
    explain: Path | None = None
    """Only explain the score in this file: which task categories raise a machine's score, and by how much."""
    tasks: tuple[str, ...] = ()
    """With --explain: tasks that run on the machine, as CATEGORY=INSTANCES,..., with categories 0 to 59; default: 1, 3
    or 5 instances of each category that changes the score."""
    law: str = "memory"
    """Law by which batch work slows services: memory, queue or control."""
    weighting: str = "corr"
    """Weights of the services: fair, cpu-quota, corr, cv."""
    slot_seconds: int | None = None
    """With --trace: length of a slot of the trace, seconds; default: the trace's own (a CSV has none)."""
    load: float | None = None
    """With --trace: offered load on the busier resource, as a share of the cluster's capacity; default: 0.5."""
    episodes: int | None = None
    """With --trace: training sequences to learn scores from; default: 24."""
    machines: int | None = None
    """Machines in the cluster; default: 10 with --trace, otherwise 20."""
    services: int | None = None
    """With --data: simulated services; default: 150."""
    hours: int | None = None
    """With --data: length of a day, hours; default: 12."""
    seed: int = 0
    """Seed of the simulation and of the trees."""

    def check(self) -> None:
        """Raise InputError for options that are wrong by themselves or together."""
        sources = [name for name in ("trace", "data", "explain") if getattr(self, name) is not None]
        if self.tasks and self.explain is None:
            raise InputError("--tasks needs --explain")
        if not sources:
            raise InputError("give --trace, --data or --explain")
        if len(sources) > 1:
            raise InputError(f"{' and '.join(f'--{name}' for name in sources)} cannot be combined: give one of them")
        if self.explain is not None and (self.file is not None or self.machines is not None):
            raise InputError("--file and --machines cannot be combined with --explain, which only reads a file")
        if self.file is not None and self.file.is_dir():
            raise InputError(f"{self.file}: is a folder: must be the file to write, .npz")
        if self.file is None and sources != ["explain"]:
            raise InputError("--file is missing: give the file to write")
        for source, names in OPTIONS.items():
            for name in self._given(*names):
                if source not in sources:
                    raise InputError(f"--{name.replace('_', '-')} needs --{source}")
        check_training(self.law, self.weighting, self.episodes)
        at_least(0, seed=self.seed)

    def train(self, report: Callable[[str], None]) -> InterferenceScore:
        """The score of the trace or batch tasks; `report` receives a description of the trace."""
        if self.data is not None:
            days = TwoDays(self.seed, self.data, **(SMALL | self._given(*SMALL)))
            return train_on_batch_tasks(days, self.law, self.weighting)
        assert self.trace is not None
        trace = open_and_describe(self.trace, self.slot_seconds, report)
        problem = Problem.build(trace, Scenario(**self._given("machines", "load")), "none")
        return train_on_trace(problem, self.law, self.weighting, seed=self.seed, **self._given("episodes")).score

    def _given(self, *names: str) -> dict[str, Any]:
        """Those of the options that are given."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def fit_or_explain(options: InterferenceFitOptions, report: Callable[[str], None] = print) -> None:
    """Write a score to `options.file`, or explain `options.explain`; `report` receives lines for the user.

    Raises InputError for bad options, and for files that are missing or damaged.
    """
    options.check()
    if options.explain is not None:
        report(explain_score(InterferenceScore.load(options.explain), options.tasks))
        return
    assert options.file is not None
    score = options.train(report)
    score.save(options.file)
    known = int((score.trees.root >= 0).sum())
    span = np.interp([5, 95], score.percent, score.knots)
    report(
        f"learnt {known} of {len(score.services)} services; a machine on which their mean level, of 1 to 10, is "
        f"{span[0]:.1f} scores 5 of 100, and one at {span[1]:.1f} scores 95"
    )
    report(f"written to {options.file}")
