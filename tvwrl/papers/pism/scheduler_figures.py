"""Schedulers of the time-varying simulator with and without PISM: no figure of the paper, but its claim for any
scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvwrl.checks import at_least
from tvwrl.command_line import Names
from tvwrl.experiments.engine import Rows, read_rows
from tvwrl.experiments.reproduce import Report
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.interference.testbed.laws import LAWS
from tvwrl.interference.training import EPISODES, check_training, describe_trace
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism.options import check_laws
from tvwrl.papers.pism.rows import column, select
from tvwrl.papers.pism.scheduler_cells import (
    ALONE,
    PISM,
    POLICY,
    UTILISATION,
    SchedulerCell,
    SchedulerTrial,
    problem_of,
    scheduler_of,
)
from tvwrl.types import InputError

FIGURES = {"schedulers": "additional: schedulers of the time-varying simulator with and without PISM"}
COLUMNS = {  # of a row: title, digits, unit
    "slowdown": ("mean slowdown", 3, 1),
    "slowdown_p99": ("P99 slowdown", 2, 1),
    "predicted": ("predicted level", 2, 1),
    "reward": ("reward, thousands", 0, 1000),
    "overshoot_pct": ("overshoot %", 2, 1),
    "wait_mean": ("wait, slots", 2, 1),
}


@dataclass(frozen=True)
class SchedulerStudy:
    """Schedulers with and without PISM on the same test sequences of a trace; response times are simulated."""

    trace: str = "google"
    """google, alibaba, the name of a prepared trace, a trace folder or a CSV."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    schedulers: Names = ("spread", "stack", "stack-80", "random", "load-aware", "target-load-packing", "risk-balancing")
    """Names of schedulers."""
    checkpoint: Path | None = None
    """Also compare the policy of this training run; environment and trace are then the run's."""
    laws: Names = tuple(LAWS)
    """Laws by which batch work slows services: memory, queue, control (its total CPU alone)."""
    load: float = 0.5
    """Offered load."""
    sequences: int = 30
    """Test sequences."""
    episodes: int = EPISODES
    """Training sequences to learn scores from."""
    weighting: str = "corr"
    """Weights of the services: fair, cpu-quota, corr, cv."""
    seed: int = 0
    """Seed of sequences, services, noise and trees."""

    partial = False

    def cells(self, figure: str) -> list[SchedulerCell]:
        """Every scheduler under every law. Opens the trace, so that a bad one is refused before anything runs."""
        at_least(2, sequences=self.sequences)
        at_least(0, seed=self.seed)
        check_laws(self.laws)
        names = [POLICY] * (self.checkpoint is not None) + list(self.schedulers)
        if not names:
            raise InputError("the list of schedulers is empty")
        for law in self.laws:
            check_training(law, self.weighting, self.episodes)
        trial = self._trial()
        for name in names:
            scheduler_of(trial, name)
        problem_of(trial)
        return [SchedulerCell(trial, law, name) for law in self.laws for name in names]

    def report(self, figure: str, out: Path, cells: Sequence[SchedulerCell]) -> Report:
        """Each scheduler alone, and the changes that utilisation or PISM make to it."""
        rows = read_rows(out, cells)
        body = []
        for law in self.laws:
            for name in dict.fromkeys(row["scheduler"] for row in rows):
                own = {way: select(rows, law=law, scheduler=name, way=way) for way in (ALONE, UTILISATION, PISM)}
                body.append([f"{law}: {name}", "", *_means(own[ALONE])])
                for way in (UTILISATION, PISM):
                    elsewhere = f"{np.mean(column(own[way], 'elsewhere')):.0f}"
                    body.append([f"{law}: {name} + {way}", elsewhere, *_changes(own[way], own[ALONE])])
        head = ("law: scheduler (simulated)", "elsewhere, %", *(title for title, *_ in COLUMNS.values()))
        text = (
            "# Schedulers with and without PISM (simulated)\n\n"
            f"Trace {describe_trace(problem_of(self._trial()))}, load {self.load:g}, {self.sequences} test sequences: "
            "each scheduler alone, and the change if the machine with the least CPU in use (utilisation) or the lowest "
            "score (PISM) is taken among those it prefers [95 % interval, paired by sequence]. Response times are "
            "simulated under a law that no score sees; slowdown: over the undisturbed response time. Scores are learnt "
            f"from {self.episodes} training sequences. Elsewhere: workloads on another machine than alone.\n\n"
            + markdown_table(head, body)
        )
        return Report(text, rows)

    def _trial(self) -> SchedulerTrial:
        return SchedulerTrial(
            self.trace, self.slot_seconds, self.checkpoint, self.load, self.sequences, self.episodes, self.weighting,
            self.seed,
        )  # fmt: skip


def _means(rows: Rows) -> list[str]:
    return [f"{np.mean(column(rows, field) / unit):.{digits}f}" for field, (_, digits, unit) in COLUMNS.items()]


def _changes(rows: Rows, alone: Rows) -> list[str]:
    """Differences to the scheduler alone, with intervals."""
    found = []
    for field, (_, digits, unit) in COLUMNS.items():
        difference, low, high = paired_bootstrap(column(rows, field) / unit, column(alone, field) / unit)
        found.append(f"{difference:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]")
    return found
