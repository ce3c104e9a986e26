"""Trainings and evaluations as cells: an agent or DeepRM is trained once and evaluated in every scenario asked for.

`cells/<run>/training/` is a run folder as `tvwrl train` writes it; `cells/<run>/evaluation.../` hold evaluations.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from tvwrl.agents import PRESETS, TrainConfig
from tvwrl.ec import OWN_LABELS, Classes, EquivalenceClasses, GivenLabels, OwnLabels, population_of
from tvwrl.envs import Problem
from tvwrl.experiments.engine import Cell, complete, folder_of
from tvwrl.experiments.episode_rows import read_rows as read_evaluation
from tvwrl.experiments.evaluation import EvaluationSetup, evaluate
from tvwrl.experiments.reproducing import check_seeds
from tvwrl.experiments.training_runs import DEEPRM, deeprm_scenario
from tvwrl.progress import nothing
from tvwrl.runs import provenance, read_csv, write_json
from tvwrl.schedulers import BASELINES, Knowledge, Scheduler, knowledge_of, make_scheduler
from tvwrl.simulation import Scenario
from tvwrl.traces import SequenceSampler, gapless_runs, open_trace, trace_hash, trace_identity
from tvwrl.types import InputError, Trace

if TYPE_CHECKING:
    import polars as pl

    from tvwrl.agents import Trainer

TVW_RL = "tvw-rl"  # what can be trained, beside DeepRM
HEURISTICS = "heuristics"  # in one evaluation, every registered scheduler except searches and production rules
# fmt: off
SHARED_SETTINGS = (  # DeepRM takes these from the common preset, all others from its own
    "iterations", "train_sequences", "train_loads", "eval_every", "eval_sequences", "comparison_sequences",
    "save_every", "device", "threads",
)
# fmt: on
PUBLISHED_CLASSES = "temporal"  # the paper's choice, with which the figures of the documentation were measured
SESSIONS = "sessions.json"  # of a training
PLAYED = "evaluation"  # folder of an evaluation's cell, as tvwrl evaluate writes it
TEST_SEED = 0  # of the test sequences: all cells of a scenario play the same

Changes = Mapping[str, Any]  # fields of Scenario -> values that differ from the base


@dataclass(frozen=True)
class Training(Cell):
    """The training of an agent or of DeepRM on a trace."""

    run_name: str
    trace: str  # what to open
    config: TrainConfig
    classes: str  # what `fitted` knows
    classes_scenario: Scenario  # whose training series the classes are fitted on

    @property
    def name(self) -> str:
        """`<run>/training`."""
        return f"{self.run_name}/training"

    @property
    def group(self) -> str:
        """Its evaluations follow it in the same process."""
        return self.run_name

    def request(self) -> dict[str, Any]:
        """The trace by its content."""
        return asdict(self) | {"trace": opened(self.trace)[1], "config": self.config.to_dict()}

    def run(self, folder: Path) -> None:
        """Train from the last checkpoint, or from the start, to the end.

        Raises KeyboardInterrupt or SystemExit where a signal stopped it, with everything saved.
        """
        from tvwrl.experiments.training_runs import pass_on_signal

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a trace cannot give is noted in run.json
            trainer = self._trainer(folder)
            begun, before = time.perf_counter(), trainer.iteration
            if before == trainer.config.iterations:
                return
            try:
                ended = trainer.run()
            finally:
                where, seconds = provenance(), time.perf_counter() - begun
                session = {"before": before, "after": trainer.iteration, "seconds": seconds}
                session |= {"cores": where["cores"], "commit": where["commit"]}
                write_json(folder / SESSIONS, {"sessions": [*sessions(folder), session]})
        pass_on_signal(ended)

    def progress(self, folder: Path) -> str:
        """Iterations that are saved."""
        return f"{iterations_done(folder)} of {self.config.iterations} iterations"

    def _trainer(self, folder: Path) -> Trainer:
        from tvwrl.agents import Checkpoint
        from tvwrl.experiments.training_runs import new_trainer, restored_trainer

        trace, last = opened(self.trace)[0], folder / "checkpoints" / "last.pt"
        if last.exists():
            try:
                saved = Checkpoint.load(last)
            except InputError as error:
                raise InputError(f"{error}; remove {folder} to train it again") from error
            return restored_trainer(saved, trace, folder, nothing)
        problem = Problem.build(trace, self.config.scenario, fitted(self.trace, self.classes, self.classes_scenario))
        identity = trace_identity(trace, self.trace)
        return new_trainer(problem, self.config, folder, identity, self.classes, nothing)


@dataclass(frozen=True)
class Evaluation(Cell):
    """Schedulers on the test sequences of a scenario: those of the registry, or one that was trained."""

    run_name: str
    trace: str  # what to open
    scenario: Scenario
    sequences: int
    suffix: str  # what tells the evaluations of a run apart
    schedulers: tuple[str, ...] = ()  # of the registry
    training: Training | None = None  # instead of them
    classes: str = "none"  # of the registry's schedulers
    classes_scenario: Scenario = field(default_factory=Scenario)
    device: str = "cpu"

    @property
    def name(self) -> str:
        """`<run>/evaluation...`."""
        return f"{self.run_name}/evaluation{self.suffix}"

    @property
    def group(self) -> str:
        """With its training, which it follows."""
        return self.run_name

    def request(self) -> dict[str, Any]:
        """The trace by its content; the training by its own request."""
        asked = asdict(self) | {"trace": opened(self.trace)[1], "schedulers": sorted(self.schedulers)}
        return asked | {"training": self.training.request() if self.training else None}

    def run(self, folder: Path) -> None:
        """Play the test sequences, in the units and with the classes of the training. Raises InputError without it."""
        shutil.rmtree(folder / PLAYED, ignore_errors=True)
        trace = opened(self.trace)[0]
        schedulers: list[Scheduler]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.training:
                from tvwrl.agents import Checkpoint, find_checkpoint, load_policy

                saved = Checkpoint.load(find_checkpoint(folder.with_name("training")))
                policy = load_policy(folder.with_name("training"), saved, self.device)
                problem = Problem.build(trace, self.scenario, saved.classes, np.array(saved.unit), saved.forecaster)
                policy.name = self.run_name
                schedulers = [policy]
            else:
                problem = Problem.build(trace, self.scenario, fitted(self.trace, self.classes, self.classes_scenario))
                schedulers = [make_scheduler(name) for name in sorted(self.schedulers)]
            evaluate(
                EvaluationSetup(problem, [self.scenario.load], self.sequences, TEST_SEED),
                schedulers,
                folder / PLAYED,
                {"schedulers": [scheduler.name for scheduler in schedulers]},
                plots=False,
                replayable=False,
                completed=partial(complete, report=nothing),
            )


class Column(NamedTuple):
    """Where the rows of an evaluation stand in the tables of a figure."""

    group: str
    column: str
    trace: str  # its name in the tables
    seed: int  # of the training
    cell: Evaluation


@dataclass(frozen=True)
class Setup:
    """What trainings and evaluations of a study have in common."""

    base: TrainConfig  # the preset
    traces: Mapping[str, str]  # name in the tables -> what to open
    deeprm_iterations: int | None = None  # None: as many as of all others

    def column(
        self,
        group: str,
        column: str,
        trace: str,
        scheduler: str,
        scenario: Changes | None = None,
        trained_in: Changes | None = None,
        classes: str = PUBLISHED_CLASSES,
        seed: int = 0,
    ) -> Column:
        """A scheduler in a scenario that differs from the preset's by `scenario`: one that is trained (in `trained_in`,
        by default the same), of the registry, or all `HEURISTICS`."""
        scenario = scenario or {}
        name, source = f"{trace}-{scheduler}", self.traces[trace]
        common: dict[str, Any] = {
            "trace": source,
            "sequences": self.base.comparison_sequences,
            "device": self.base.device,
        }
        common |= {"suffix": "".join(f"-{part}" for part in _named(scenario)), "classes_scenario": self.base.scenario}
        common["scenario"] = self._scenario(scheduler, scenario)
        if scheduler in (TVW_RL, DEEPRM):
            learnt_in = scenario if trained_in is None else trained_in
            parts = [name, *([classes] if classes != PUBLISHED_CLASSES else []), *_named(learnt_in), f"seed{seed}"]
            config = self.config(scheduler, learnt_in, seed)
            training = Training("-".join(parts), source, config, classes, self.base.scenario)
            return Column(group, column, trace, seed, Evaluation(training.run_name, training=training, **common))
        every = scheduler == HEURISTICS
        names, classes = (BASELINES, classes) if every else ((scheduler,), "none")
        return Column(group, column, trace, seed, Evaluation(name, schedulers=names, classes=classes, **common))

    def config(self, scheduler: str, changes: Changes, seed: int = 0) -> TrainConfig:
        """What a scheduler is trained with. Raises InputError, naming the field, where a change is not possible."""
        scenario = self._scenario(scheduler, changes)
        if scheduler != DEEPRM:
            return replace(self.base, seed=seed, scenario=scenario)
        shared = {name: getattr(self.base, name) for name in SHARED_SETTINGS}
        if self.deeprm_iterations is not None:
            shared["iterations"] = self.deeprm_iterations
        return replace(PRESETS["deeprm"], seed=seed, scenario=scenario, **shared)

    def _scenario(self, scheduler: str, changes: Changes) -> Scenario:
        if scheduler == DEEPRM:
            return deeprm_scenario(self.base.scenario, changes)
        return replace(self.base.scenario, **changes)


def trained_column(
    name: str, group: str, column: str, trace: str, config: TrainConfig, classes: str, sequences: int
) -> Column:
    """An agent that is trained in the scenario in which it is evaluated, with labels that `fitted` knows."""
    training = Training(name, trace, config, classes, config.scenario)
    cell = Evaluation(name, trace, config.scenario, sequences, "", training=training, device=config.device)
    return Column(group, column, trace, config.seed, cell)


def cells_of(columns: Sequence[Column]) -> list[Cell]:
    """Every evaluation after the training that it needs."""
    cells: list[Cell] = []
    for column in columns:
        cells += [column.cell.training, column.cell] if column.cell.training else [column.cell]
    return cells


def read_columns(out: Path, columns: Sequence[Column]) -> pl.DataFrame:
    """Rows of finished evaluations: `group, column, trace, run, seed`, then their own, with gaps to the bounds."""
    import polars as pl

    parts = []
    for group, column, trace, seed, cell in columns:
        rows = read_evaluation(folder_of(out, cell) / PLAYED)
        named = {"group": group, "column": column, "trace": trace, "run": cell.run_name, "seed": seed}
        parts.append(rows.select(*(pl.lit(value).alias(name) for name, value in named.items()), pl.all()))
    return pl.concat(parts, how="diagonal_relaxed")


def iterations_done(training: Path) -> int:
    """Updates of the policy that a training folder holds."""
    return max((int(row["iteration"]) for row in read_csv(training / "progress.csv")), default=0)


def sessions(training: Path) -> list[dict[str, Any]]:
    """The stretches of a training: iterations `before` and `after`, `seconds`, `cores`, `commit`."""
    path = training / SESSIONS
    return list(json.loads(path.read_text())["sessions"]) if path.is_file() else []


def _named(changes: Changes) -> list[str]:
    """What differs from the paper's configuration, and what is observed or not, for a folder's name."""
    plain = Scenario()
    switches = [name if value else f"no_{name}" for name, value in changes.items() if isinstance(value, bool)]
    limits = [f"any_{name}" for name, value in changes.items() if value is None]
    numbers = {name: value for name, value in changes.items() if not (value is None or isinstance(value, bool))}
    return switches + limits + [f"{name}{value:g}" for name, value in numbers.items() if value != getattr(plain, name)]


@lru_cache(maxsize=4)
def opened(trace: str) -> tuple[Trace, str]:
    """A trace and its hash."""
    found = open_trace(trace)
    return found, trace_hash(found)


@lru_cache(maxsize=4)
def fitted(trace: str, representation: str, scenario: Scenario) -> Classes:
    """Classes with k by silhouette as in Table 1, of the training series; own labels for "none", one for "one label".

    To measure what classes are worth: "true aggregate" labels every workload of the trace, those of the test sequences
    too, with the class of its whole series; "random7 aggregate" deals these labels out at random, with seed 7.
    """
    if representation in ("none", "one label"):
        return OwnLabels(OWN_LABELS if representation == "none" else 1)
    told, _, name = representation.rpartition(" ")
    found, identity = opened(trace)
    sampler = SequenceSampler(found, scenario)
    if told:
        everything = population_of(sampler, gapless_runs(found, range(len(found))))
        labels = np.ones(len(found), np.int64)  # of workloads too short for a slot, which are in no sequence
        place = {workload: i for i, workload in enumerate(found.workload_id)}
        classes = fitted(trace, name, scenario)
        assert isinstance(classes, EquivalenceClasses)
        labels[[place[w] for w in everything.workload_id]] = classes.predict(everything.series)
        if told.startswith("random"):
            labels = np.random.default_rng(int(told.removeprefix("random"))).permutation(labels)
        return GivenLabels(labels)
    return EquivalenceClasses(name).fit(population_of(sampler), {"trace": found.name, "hash": identity})


Scales = Mapping[str, tuple[TrainConfig, tuple[int, ...]]]  # --preset: hyper-parameters, training seeds

SCALES: Scales = {
    "smoke": (replace(PRESETS["smoke"], comparison_sequences=4), (0,)),
    "medium": (PRESETS["medium"], (0, 1, 2)),
    "paper": (PRESETS["paper"], (0, 1, 2, 3, 4)),
}


@dataclass(frozen=True)
class Scale:
    """How much is trained and evaluated."""

    scales: ClassVar[Scales] = SCALES
    preset: Literal["smoke", "medium", "paper"] = "medium"
    """smoke: a trial, seconds per training; medium: PPO, minutes per training, 3 seeds; paper: the paper's
    hyper-parameters, 5 seeds, half an hour and more per training."""
    seeds: tuple[int, ...] | None = None
    """Training seeds; default: the preset's."""
    iterations: int | None = None
    """Updates of the policy; default: the preset's."""
    deeprm_iterations: int | None = None
    """Updates of DeepRM's policy; default: its preset's, or with smoke or --iterations the same as for other
    policies."""
    sequences: int | None = None
    """Test sequences per load; default: the preset's (medium, paper: 30)."""

    @property
    def base(self) -> TrainConfig:
        """The preset's hyper-parameters with the changes asked for."""
        changes: dict[str, Any] = {"iterations": self.iterations, "comparison_sequences": self.sequences}
        return replace(
            self.scales[self.preset][0], **{name: value for name, value in changes.items() if value is not None}
        )

    @property
    def training_seeds(self) -> tuple[int, ...]:
        """The seeds. Raises InputError unless they are different numbers >= 0."""
        seeds = self.scales[self.preset][1] if self.seeds is None else self.seeds
        check_seeds(seeds)
        return seeds

    def setup(self, base: TrainConfig, traces: Mapping[str, str]) -> Setup:
        """What all trainings have in common. Raises InputError for a bad number before anything is trained."""
        own = self.deeprm_iterations
        if own is None and self.iterations is None and self.preset != "smoke":
            own = PRESETS["deeprm"].iterations
        setup = Setup(base, traces, own)
        setup.config(DEEPRM, {})
        return setup


def describe_training(config: TrainConfig, name: str, knowledge: Knowledge | None = None) -> str:
    """A line of Markdown: how a learnt scheduler is trained, and what it knows (default: what its scenario shows)."""
    known = knowledge or knowledge_of(config.scenario)
    rules = ", ".join(f"`{rule}`" for rule in config.starting_rules)
    several = f", starting from the best of {rules}" if len(config.starting_rules) > 1 else ""
    start = several or (f", starting from `{config.built_in}`" if config.built_in else "")
    start += f", after imitating `{config.imitates}`" if config.imitates else ""
    return (
        f"- `{name}`: `{config.algo}`, policy `{config.policy}`, {config.iterations} iterations{start}; knows "
        f"*{known.group}*: {known.note}"
    )
