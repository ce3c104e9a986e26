"""The commands of the TVW-RL paper: figures and tables next to the published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tvwrl.agents import PRESETS, TrainConfig
from tvwrl.experiments import (
    DEEPRM,
    Cell,
    Column,
    Report,
    Scale,
    Setup,
    cells_of,
    commands,
    describe_training,
    incomplete_by,
    opened,
    read_columns,
)
from tvwrl.papers.tvw_rl.cells import EXPERIMENTS
from tvwrl.papers.tvw_rl.table1 import PaperTraces, Table1Study
from tvwrl.papers.tvw_rl.tables import plot, summarise, write_tables
from tvwrl.papers.tvw_rl.titles import ALL, FIGURES, PAPER, PREFIX
from tvwrl.schedulers import LEARNT_PEAKS_AND_LENGTHS
from tvwrl.traces import describe_source
from tvwrl.types import InputError

TABLE1 = "table1"


@dataclass(frozen=True)
class TvwRlStudy(PaperTraces, Scale):
    """Train what is missing, evaluate it, and print the table next to the published values; resumable. Agents know what
    the paper's agent knows, with every preset."""

    partial = False

    def cells(self, figure: str) -> list[Cell]:
        """Trainings and evaluations; Table 1 has cells of its own, and none in preset smoke."""
        if figure == TABLE1:
            return [] if self.preset == "smoke" else self._table1().cells(figure)
        columns = self._columns(figure)
        for name in dict.fromkeys(column.trace for column in columns):
            _check_resources(self._setup().traces[name])
        return cells_of(columns)

    def report(self, figure: str, out: Path, cells: Sequence[Cell]) -> Report:
        """Tables with a verdict on each published order and claim, and a plot."""
        if figure == TABLE1:
            return self._table1().report(figure, out, cells)
        setup, experiment, columns = self._setup(), EXPERIMENTS[figure], self._columns(figure)
        names = sorted({column.trace for column in columns})
        sources = [describe_source(opened(setup.traces[name])[0], setup.traces[name]) for name in names]
        seeds = ", ".join(map(str, self.training_seeds))
        scale = f"Preset `{self.preset}`: seeds {seeds}, {setup.base.comparison_sequences} test sequences."
        trained = {c.column if c.column == DEEPRM else "tvw-rl": c.cell.training for c in columns if c.cell.training}
        how = [
            describe_training(training.config, name, LEARNT_PEAKS_AND_LENGTHS if name == DEEPRM else None)
            for name, training in trained.items()
        ]
        rows = read_columns(out, columns)
        groups = summarise(rows)
        head = "\n\n".join([*sources, scale, "\n".join(how)])
        tables = write_tables(experiment, groups, incomplete_by(rows, ("group", "column")))
        text = f"# {experiment.title}\n\n{head}\n\n{tables}"
        facts = {"config": setup.base.to_dict(), "sources": sources}
        return Report(text, rows.to_dicts(), {"plot": partial(plot, experiment, groups)}, facts)

    def _table1(self) -> Table1Study:
        return Table1Study(self.google, self.alibaba)

    def _setup(self) -> Setup:
        return self.setup(with_the_papers_knowledge(self.base), {"google": self.google, "alibaba": self.alibaba})

    def _columns(self, figure: str) -> list[Column]:
        return EXPERIMENTS[figure].columns(self._setup(), self.training_seeds)


def with_the_papers_knowledge(base: TrainConfig) -> TrainConfig:
    """Hyper-parameters with an agent that observes and may do what the paper's can; episodes keep their length."""
    return replace(base, scenario=replace(PRESETS["paper"].scenario, max_slots=base.scenario.max_slots))


def _check_resources(name: str) -> None:
    if missing := {"cpu", "mem"} - set(opened(name)[0].resources):
        raise InputError(f"trace '{name}' lacks {', '.join(sorted(missing))}: the paper's tables are of cpu and mem")


_MEASURED = {name: title for name, title in FIGURES.items() if name != TABLE1}
COMMANDS = (
    commands(PREFIX, PAPER, {TABLE1: FIGURES[TABLE1]}, Table1Study)
    | commands(PREFIX, PAPER, _MEASURED, TvwRlStudy)
    | {"all": commands(PREFIX, PAPER, FIGURES, TvwRlStudy, ALL)["all"]}
)
