"""The command of the results page: agents trained with several seeds on every trace, and all other schedulers.

Agents and DeepRM are trained at all loads in turn and play at each; heuristics are played once per trace and load, on
the same sequences.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tvwrl.agents import PRESETS
from tvwrl.checks import different, one_of
from tvwrl.experiments.engine import Cell, folder_of, is_finished
from tvwrl.experiments.reproducing import Report, commands
from tvwrl.experiments.results import TITLE
from tvwrl.experiments.results.page import AGENT, AGENTS, LEARNT, plot_trace, write_pages
from tvwrl.experiments.training_cells import (
    HEURISTICS,
    SCALES,
    TVW_RL,
    Column,
    Scale,
    Scales,
    Setup,
    cells_of,
    describe_training,
    iterations_done,
    opened,
    read_columns,
    sessions,
)
from tvwrl.experiments.training_runs import DEEPRM
from tvwrl.schedulers import KNOWLEDGE, LEARNT_PEAKS_AND_LENGTHS, knowledge_of
from tvwrl.traces import describe_source
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

LOADS = (0.3, 0.5, 0.8)
FIVE = (0, 1, 2, 3, 4)  # training seeds
LEARNING = replace(PRESETS["counterfactual"], comparison_sequences=60)


@dataclass(frozen=True)
class ResultsStudy(Scale):
    """Train agents and DeepRM per trace and seed, evaluate them and every heuristic at every load, and write a page;
    resumable."""

    scales: ClassVar[Scales] = {**SCALES, "medium": (LEARNING, FIVE)}
    preset: Literal["smoke", "medium", "paper"] = "medium"
    """smoke: a trial, seconds per training; medium: counterfactual learning, minutes per training, 5 seeds, 60 test
    sequences; paper: the paper's hyper-parameters, 5 seeds, half an hour and more per training."""
    traces: tuple[str, ...] = ("google2011", "google2019", "tianchi", "bitbrains")
    """Names or folders of traces."""
    loads: tuple[float, ...] = LOADS
    """Offered loads."""
    agents: tuple[str, ...] = tuple(AGENTS)
    """Agents to train: agent observes requests and forecasts of demand; agent-history only load and history; agent-peak
    requests and true lifetime peaks; agent-forecast-peak all of these."""
    train_loads: tuple[float, ...] = LOADS
    """Offered loads of training and validation sequences, in turn."""

    partial = True

    def cells(self, figure: str) -> list[Cell]:
        """Seed by seed, so that a page of one seed is complete early."""
        return cells_of(sorted(self.columns(), key=lambda column: column.seed))

    def columns(self) -> list[Column]:
        """By trace and load: the heuristics, then by seed DeepRM and the agents, trained once for all loads."""
        self._check()
        setup, agents = self._setup(), {agent: self._setup(agent) for agent in self.agents}
        columns = []
        for trace in setup.traces:
            for load in self.loads:
                group, at = f"{trace}, load {load:g}", {"load": load}
                columns.append(setup.column(group, HEURISTICS, trace, HEURISTICS, at))
                for seed in self.training_seeds:
                    columns.append(setup.column(group, DEEPRM, trace, DEEPRM, at, {}, seed=seed))
                    for agent, own in agents.items():
                        shown = AGENTS[agent]
                        columns.append(own.column(group, agent, trace, TVW_RL, shown | at, shown, seed=seed))
        return columns

    def report(self, figure: str, out: Path, cells: Sequence[Cell]) -> Report:
        """The page, with what is missing of it, and a page and a picture per trace."""
        columns, setup = self.columns(), self._setup()
        done = {cell.name for cell in cells}
        rows = finished_rows(setup, out, [column for column in columns if column.cell.name in done])
        trained = trainings(out, columns)
        groups = list(dict.fromkeys(column.group for column in columns))
        text, parts = write_pages(rows, trained, groups, self._how(setup))
        traces = rows["trace"].unique(maintain_order=True)
        plots = {trace: partial(plot_trace, rows.filter(rows["trace"] == trace)) for trace in traces}
        facts = {"config": setup.base.to_dict(), "sources": self._sources()}
        return Report(text, rows.to_dicts(), plots, facts, {"trainings": trained.to_dicts()}, parts=parts)

    def _check(self) -> None:
        different(traces=[_name(argument) for argument in self.traces], loads=self.loads, agents=self.agents)
        one_of(AGENTS, agents=self.agents)
        for load in (*self.loads, *self.train_loads):
            replace(self.base.scenario, load=load)

    def _named(self) -> dict[str, str]:
        """Name in the tables -> what to open."""
        return {_name(argument): argument for argument in self.traces}

    def _setup(self, agent: str = AGENT) -> Setup:
        """What the trainings of an agent have in common.

        An agent that sees neither forecasts nor peaks learns by PPO: rules that know as little never hold a workload,
        so rollouts with them cannot teach it when to wait.
        """
        base = self.base
        if base.algo == "counterfactual" and not replace(base.scenario, **AGENTS[agent]).looks_ahead:
            done: dict[str, Any] = {"comparison_sequences": base.comparison_sequences}
            done |= {"iterations": self.iterations} if self.iterations is not None else {}
            base = replace(PRESETS["medium"], scenario=base.scenario, **done)
        return self.setup(replace(base, train_loads=self.train_loads), self._named())

    def _sources(self) -> list[str]:
        return [describe_source(opened(argument)[0]) for argument in self.traces]

    def _how(self, setup: Setup) -> str:
        """What was trained on what, and the commands that write the pages."""
        base, seeds = setup.base, ", ".join(map(str, self.training_seeds))
        lists = {"traces": self._named(), "loads": self.loads, "agents": self.agents, "seeds": self.training_seeds}
        lists["train-loads"] = self.train_loads
        words = ["tvwrl", "reproduce", "results", "--preset", self.preset]
        words += [word for name, values in lists.items() for word in (f"--{name}", ",".join(map(str, values)))]
        numbers = {"iterations": self.iterations, "deeprm-iterations": self.deeprm_iterations}
        numbers["sequences"] = self.sequences
        words += [word for name, value in numbers.items() if value is not None for word in (f"--{name}", str(value))]
        again = [*words, "--out", "runs/results", "--page", "docs/results/schedulers.md"]
        lines = [describe_training(self._setup(agent).config(TVW_RL, AGENTS[agent]), agent) for agent in self.agents]
        lines.append(describe_training(setup.config(DEEPRM, {}), DEEPRM, LEARNT_PEAKS_AND_LENGTHS) + "; a baseline")
        return "\n\n".join(
            [
                f"Preset `{self.preset}`: training seeds {seeds}, {base.comparison_sequences} test sequences per trace "
                "and load, of workloads that nothing was trained on. Each learnt scheduler is trained on one trace "
                f"with one seed, at the loads {', '.join(map(str, self.train_loads))} in turn:",
                "\n".join(lines),
                "\n".join(f"- {source}" for source in self._sources()),
                "This command trains and evaluates; with `--report-only` it only writes the pages:",
                f"```\n{shlex.join(again)}\n```",
            ]
        )


def finished_rows(setup: Setup, out: Path, columns: Sequence[Column]) -> pl.DataFrame:
    """Rows of finished evaluations; `column`: the scheduler, `knowledge`: what it may know.

    Raises InputError if two of one trace and load were not played on the same sequences.
    """
    import polars as pl

    name = pl.when(pl.col("column").is_in(list(LEARNT))).then(pl.col("column")).otherwise(pl.col("scheduler"))
    knowledge = {name: known.group for name, known in KNOWLEDGE.items()} | {DEEPRM: LEARNT_PEAKS_AND_LENGTHS.group}
    knowledge |= {agent: knowledge_of(replace(setup.base.scenario, **seen)).group for agent, seen in AGENTS.items()}
    rows = read_columns(out, columns).with_columns(column=name)
    played = rows.group_by("group", "run").agg(
        pl.struct("sequence", pl.col("offered_load").round(9)).unique().sort().implode()
    )
    for (group,), part in played.group_by("group", maintain_order=True):
        if part["sequence"].n_unique() > 1:
            raise InputError(f"{group}: cells were evaluated on different sequences: give another --out")
    return rows.with_columns(knowledge=pl.col("column").replace_strict(knowledge))


def trainings(out: Path, columns: Sequence[Column]) -> pl.DataFrame:
    """A row per learnt scheduler and evaluation: `group, trace, agent, seed`, `iterations` done `of` how many, whether
    `evaluated`; `seconds` that `timed` of the iterations took, on a machine of how many `cores`, at which `commit`."""
    import polars as pl

    rows: list[dict[str, Any]] = []
    for group, column, trace, seed, cell in columns:
        if cell.training is None:
            continue
        folder = folder_of(out, cell.training)
        stretches = sessions(folder)
        rows.append(
            {
                "group": group,
                "trace": trace,
                "agent": column,
                "seed": seed,
                "iterations": iterations_done(folder),
                "of": cell.training.config.iterations,
                "evaluated": is_finished(out, cell),
                "seconds": float(sum(one["seconds"] for one in stretches)),
                "timed": sum(one["after"] - one["before"] for one in stretches),
                "cores": ", ".join(dict.fromkeys(str(one["cores"]) for one in stretches)),
                "commit": ", ".join(dict.fromkeys(str(one["commit"])[:9] for one in stretches)),
            }
        )
    return pl.DataFrame(rows)


def _name(argument: str) -> str:
    """A trace's name in the tables."""
    return re.sub(r"[^\w.-]+", "-", Path(argument).name)


COMMANDS = commands("", "Results", {"results": TITLE}, ResultsStudy)
