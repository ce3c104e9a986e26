"""One cell of an experiment: train a scheduler where it has to be trained, and evaluate it; what is done is kept.

Everything of a scheduler lies in one run folder (`Cell.run`), which several experiments can share: the training, as
`scripts/train.py` writes it, and an evaluation folder for each scenario.
"""

from __future__ import annotations

import csv
import json
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.config import PRESETS, TrainConfig
from tvwrl.agents.policy_scheduler import load_policy
from tvwrl.agents.training import Trainer
from tvwrl.bench.requests import check_request
from tvwrl.ec import Classes, EquivalenceClasses, OwnLabels, population_of
from tvwrl.envs.problem import Problem
from tvwrl.experiments.evaluation import evaluate
from tvwrl.experiments.tables import read_rows as read_evaluation
from tvwrl.runs import locked, provenance, write_json
from tvwrl.schedulers import SCHEDULERS, Knowledge, make_scheduler
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_trace, trace_hash
from tvwrl.traces.catalogue import trace_identity
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.types import InputError, Trace

if TYPE_CHECKING:
    import polars as pl

TRAINED = ("tvw-rl", "deeprm")
HEURISTICS = "heuristics"  # every scheduler of the registry, in one evaluation
# fmt: off
AS_OTHERS = (  # what DeepRM is trained with as all others are; all else is of its own preset
    "iterations", "train_sequences", "train_loads", "eval_every", "eval_sequences", "comparison_sequences",
    "save_every", "device", "threads",
)
SEEN = (  # what an agent is shown, may do, and how long its episodes are: DeepRM has its own world
    "observe_request", "observe_demand", "observe_forecast", "observe_peak", "hold_action", "max_slots",
)
# fmt: on
OWN_LABELS = 40  # where there are no classes: workloads of a sequence with a label of their own
CELL, SESSIONS = "cell.json", "sessions.json"
TEST_SEED = 0  # of the test sequences: all cells of a scenario play the same

Changes = Mapping[str, Any]  # fields of Scenario


@dataclass(frozen=True)
class Cell:
    """A scheduler in a scenario; where in the tables its rows belong."""

    group: str
    column: str
    trace: str  # google or alibaba: which of the published traces it stands for
    scheduler: str  # one that is trained (`TRAINED`), of the registry, or all of the registry (`HEURISTICS`)
    scenario: Changes = field(default_factory=dict)  # what it is evaluated in differs so from the preset's
    trained_in: Changes | None = None  # what it is trained in differs so; None: as `scenario`
    classes: str = "temporal"  # temporal, aggregate, dtw, or none
    seed: int = 0  # of the training

    @property
    def run(self) -> str:
        """Name of its run folder: the same for cells that share a training."""
        if self.scheduler not in TRAINED:
            return f"{self.trace}-{self.scheduler}"
        trained_in = self.scenario if self.trained_in is None else self.trained_in
        parts = [self.trace, self.scheduler, *([self.classes] if self.classes != "temporal" else [])]
        return "-".join([*parts, *_named(trained_in), f"seed{self.seed}"])

    @property
    def evaluation(self) -> str:
        """Name of its evaluation folder in the run folder."""
        return "-".join(["evaluation", *_named(self.scenario)])


@dataclass(frozen=True)
class Bench:
    """What all cells have in common, and where they are kept."""

    out: Path
    base: TrainConfig  # the preset
    traces: Mapping[str, str]  # google, alibaba -> what to open
    deeprm_iterations: int | None = None  # None: as many as of all others

    def config(self, cell: Cell) -> TrainConfig:
        """What the cell is trained with. Raises InputError, naming the field, where a change is not possible."""
        scenario = self._scenario(cell, cell.scenario if cell.trained_in is None else cell.trained_in)
        if cell.scheduler != "deeprm":
            return replace(self.base, seed=cell.seed, scenario=scenario)
        shared = {name: getattr(self.base, name) for name in AS_OTHERS}
        if self.deeprm_iterations is not None:
            shared["iterations"] = self.deeprm_iterations
        return replace(PRESETS["deeprm"], seed=cell.seed, scenario=scenario, **shared)

    def scenario(self, cell: Cell) -> Scenario:
        """What the cell is evaluated in."""
        return self._scenario(cell, cell.scenario)

    def _scenario(self, cell: Cell, changes: Changes) -> Scenario:
        if cell.scheduler == "deeprm":
            changes = {name: getattr(PRESETS["deeprm"].scenario, name) for name in SEEN} | dict(changes)
        return replace(self.base.scenario, **changes)

    def run_folder(self, cell: Cell) -> Path:
        """Where training and evaluations are."""
        return self.out / "cells" / cell.run

    def rows_file(self, cell: Cell) -> Path:
        """The rows of its evaluation."""
        return self.run_folder(cell) / cell.evaluation / "rows.csv"

    def iterations_done(self, cell: Cell) -> int:
        """Updates of the policy that are saved; 0 if nothing is to be trained."""
        path = self.run_folder(cell) / "progress.csv"
        if not path.is_file():
            return 0
        with path.open(newline="") as file:
            return max((int(row["iteration"]) for row in csv.DictReader(file)), default=0)

    def sessions(self, cell: Cell) -> list[dict[str, Any]]:
        """The stretches of its training: iterations `before` and `after`, `seconds`, `cores`, `commit`."""
        path = self.run_folder(cell) / SESSIONS
        return list(json.loads(path.read_text())["sessions"]) if path.is_file() else []


def _named(changes: Changes) -> list[str]:
    """What differs from the paper's configuration, and what is shown or not, for a folder's name."""
    plain = Scenario()
    switches = [name if value else f"no_{name}" for name, value in changes.items() if isinstance(value, bool)]
    limits = [f"any_{name}" for name, value in changes.items() if value is None]
    numbers = {name: value for name, value in changes.items() if not (value is None or isinstance(value, bool))}
    return switches + limits + [f"{name}{value:g}" for name, value in numbers.items() if value != getattr(plain, name)]


def by_run(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Run folder -> its cells, one per evaluation."""
    runs: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        runs.setdefault(cell.run, {}).setdefault(cell.evaluation, cell)
    return {name: list(evaluations.values()) for name, evaluations in runs.items()}


def complete(bench: Bench, cells: Sequence[Cell]) -> dict[str, Any]:
    """Train and evaluate what is missing of the cells of one run folder; says what was done, or went wrong.

    Returns `run`, `iterations` trained and evaluations `played` now, and `error`: None, or why it failed, with the
    whole traceback in error.txt of the run folder. What is there must be of the same request. Raises KeyboardInterrupt
    or SystemExit where a signal stopped it, with everything saved.
    """
    folder, done = bench.run_folder(cells[0]), {"run": cells[0].run, "iterations": 0, "played": 0, "error": None}
    try:
        with locked(folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a trace could not give is in each run.json
            check_cells(bench, cells)
            missing = [cell for cell in cells if not bench.rows_file(cell).exists()]
            trace, _ = _opened(bench.traces[cells[0].trace])
            if missing and cells[0].scheduler in TRAINED:
                done["iterations"] = _train(bench, cells[0], trace)
            for cell in missing:
                _evaluate(bench, cell, trace)
            if not (folder / CELL).exists():
                write_json(folder / CELL, _asked(bench, cells[0]))
        done["played"] = len(missing)
        (folder / "error.txt").unlink(missing_ok=True)
    except Exception as error:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "error.txt").write_text(traceback.format_exc())
        done["error"] = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    return done


def check_cells(bench: Bench, cells: Sequence[Cell]) -> None:
    """Raises InputError, naming fields, where what lies in the cells' folders is of another trace or other settings."""
    for cell in cells:
        asked, remedy = _asked(bench, cell), "give another --out"
        played = {"trace": {"hash": asked["hash"]}, "seed": TEST_SEED, "sequences": bench.base.comparison_sequences}
        played["scenario"] = asdict(bench.scenario(cell))
        if cell.scheduler == HEURISTICS:  # of the registry as it is now
            played["schedulers"] = sorted(SCHEDULERS)
        if cell.scheduler not in TRAINED:
            remedy += f", or remove {bench.run_folder(cell)} to have it played again"
        check_request(bench.run_folder(cell) / CELL, asked, remedy)
        check_request(bench.rows_file(cell).with_name("run.json"), played, remedy)


def _asked(bench: Bench, cell: Cell) -> dict[str, Any]:
    """What cell.json holds: all that cells of one run folder have in common."""
    asked = {"hash": _opened(bench.traces[cell.trace])[1], "classes": cell.classes}
    if cell.scheduler in TRAINED:
        return asked | {"config": bench.config(cell).to_dict()}
    return asked | {"sequences": bench.base.comparison_sequences, "scenario": asdict(bench.base.scenario)}


@lru_cache(maxsize=1)  # as many cells of one trace follow one another
def _opened(argument: str) -> tuple[Trace, str]:
    """A trace and its hash."""
    trace = open_trace(argument)
    return trace, trace_hash(trace)


def read_rows(bench: Bench, cells: Sequence[Cell]) -> pl.DataFrame:
    """Rows of all cells: `group, column, trace, run, seed`, then their evaluations', with gaps to the bounds."""
    import polars as pl

    parts = []
    for cell in cells:
        rows = read_evaluation(bench.rows_file(cell).parent)
        named = {"group": cell.group, "column": cell.column, "trace": cell.trace, "run": cell.run, "seed": cell.seed}
        parts.append(rows.select(*(pl.lit(value).alias(name) for name, value in named.items()), pl.all()))
    return pl.concat(parts, how="diagonal_relaxed")


def _train(bench: Bench, cell: Cell, trace: Trace) -> int:
    """Train to the end; returns the iterations that were done now."""
    begun = time.perf_counter()
    trainer = _trainer(bench, cell, trace)
    before = trainer.iteration
    if before < trainer.config.iterations:
        try:
            ended = trainer.run()
        finally:
            _note_session(bench, cell, before, trainer.iteration, time.perf_counter() - begun)
        if ended == "SIGTERM":
            raise SystemExit(143)
        if ended != "finished":
            raise KeyboardInterrupt
    return trainer.iteration - before


def _note_session(bench: Bench, cell: Cell, before: int, after: int, seconds: float) -> None:
    """How long these iterations took, with what comes before the first and the evaluations between them."""
    where = provenance()
    now = {"before": before, "after": after, "seconds": seconds, "cores": where["cores"], "commit": where["commit"]}
    write_json(bench.run_folder(cell) / SESSIONS, {"sessions": [*bench.sessions(cell), now]})


def _trainer(bench: Bench, cell: Cell, trace: Trace) -> Trainer:
    """The training of a cell: new, or as its last checkpoint left it."""
    folder, config = bench.run_folder(cell), bench.config(cell)
    last = folder / "checkpoints" / "last.pt"
    if last.exists():
        saved = Checkpoint.load(last)
        trainer = Trainer(saved.problem(trace), saved.config, folder, saved.trace, _silent)
        trainer.restore(saved)
        return trainer
    identity = trace_identity(trace, bench.traces[cell.trace])
    problem = Problem.build(trace, config.scenario, _classes(bench, cell, trace))
    trainer = Trainer(problem, config, folder, identity, _silent)
    write_json(folder / CELL, _asked(bench, cell))
    facts = {"trace": identity | {"workloads": len(trace)}, "ec": cell.classes, "notes": problem.sampler.notes}
    write_json(folder / "run.json", provenance() | facts | {"config": config.to_dict()})
    trainer.save()
    return trainer


def _evaluate(bench: Bench, cell: Cell, trace: Trace) -> None:
    """Play the test sequences of the cell's scenario, in the units and with the classes of the training."""
    folder, scenario = bench.run_folder(cell), bench.scenario(cell)
    knowledge: dict[str, Knowledge] = {}
    makes: list[Callable[[], Any]]
    if cell.scheduler in TRAINED:
        saved = Checkpoint.load(find_checkpoint(folder))
        policy = load_policy(folder, saved, bench.base.device)
        problem = Problem.build(trace, scenario, saved.classes, np.array(saved.unit), saved.forecaster)
        makes, names, knowledge = [lambda: policy], [policy.name], {policy.name: policy.knowledge}
    else:
        every = cell.scheduler == HEURISTICS
        names, classes = (sorted(SCHEDULERS), _classes(bench, cell, trace)) if every else ([cell.scheduler], "none")
        problem, makes = Problem.build(trace, scenario, classes), [partial(make_scheduler, name) for name in names]
    out, count = folder / cell.evaluation, bench.base.comparison_sequences
    evaluate(problem, makes, [scenario.load], count, TEST_SEED, out, {"schedulers": names}, knowledge, plots=False)


def _classes(bench: Bench, cell: Cell, trace: Trace) -> Classes:
    """Own labels, or classes with k by silhouette as in Table 1; made once for all cells."""
    if cell.classes == "none":
        return OwnLabels(OWN_LABELS)
    file, identity = bench.out / "classes" / f"{cell.trace}-{cell.classes}.json", trace_hash(trace)
    if file.exists() and (made := EquivalenceClasses.load(file)).fitted_on_.get("hash") == identity:
        return made
    population = population_of(SequenceSampler(trace, bench.base.scenario))
    made = EquivalenceClasses(cell.classes).fit(population, {"trace": trace.name, "hash": identity})
    made.save(file)
    return made


def _silent(text: str) -> None:
    """The trainer's reports are in its progress.csv."""
