"""The command that fits an interference score to a trace or to batch tasks, or explains one: options and checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.command_line import TRACE, described
from tvwrl.envs import Problem
from tvwrl.interference.explanation import explain_score
from tvwrl.interference.score import InterferenceScore
from tvwrl.interference.testbed.two_days import TwoDays
from tvwrl.interference.training import check_training, train_on_batch_tasks, train_on_trace
from tvwrl.simulation import Scenario
from tvwrl.traces import open_and_describe
from tvwrl.types import InputError

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
        if len(sources) != 1:
            raise InputError(f"{' and '.join(sources) or 'none'} given: must be one of --trace, --data and --explain")
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
    report(f"{known} of {len(score.services)} services learnt; mean level {span[0]:.1f} scores 5, {span[1]:.1f} 95")
    report(f"written to {options.file}")
