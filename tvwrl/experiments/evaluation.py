"""Evaluation: schedulers on the same test sequences, recorded so that every number can be recomputed."""

from __future__ import annotations

import contextlib
import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from tvwrl.checks import different
from tvwrl.envs.problem import Problem
from tvwrl.experiments.engine import CELLS, ROWS, Cell, Rows, RowsCell, complete, folder_of, read_rows
from tvwrl.experiments.episode_tables import background_table, demand_table, episode_table
from tvwrl.experiments.plots import plot_comparison
from tvwrl.experiments.tables import comparison_table, with_gaps
from tvwrl.packing.bounds import lower_bounds
from tvwrl.runs import check_new_folder, provenance, whole_folder, write_json
from tvwrl.schedulers import KNOWLEDGE, Knowledge, Scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.traces import trace_hash
from tvwrl.types import Episode, InputError, SequenceSet

if TYPE_CHECKING:
    import polars as pl

DEFAULT_SCHEDULERS = (
    "tetris", "best-fit", "best-fit-peak", "forecast-fit", "expected-cost", "spread", "random", "clairvoyant",
)  # fmt: skip
EPISODES = "episodes.parquet"
OWN = "evaluation"  # folder of an evaluation's cells; nothing else lies beside it


def evaluate(
    problem: Problem,
    schedulers: Sequence[Callable[[], Scheduler]],
    loads: Sequence[float],
    sequences: int,
    seed: int,
    out: Path,
    facts: Mapping[str, Any] | None = None,
    knowledge: Mapping[str, Knowledge] | None = None,
    reference: str | None = None,
    plots: bool = True,
    bound_seconds: float | None = 0.0,
    origins: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """Play every scheduler on the same `sequences` test sequences at every load, to the end, and write the folder.

    Files: `rows.csv`, `bounds.csv`, `episodes.parquet`, `demand.parquet`, `background.parquet` if the scenario has
    any, `run.json`, `table.md`, `plots/` (runs/README.md). They appear together when all is done. Returns the rows,
    with their gaps to the bounds.

    `facts` are added to run.json; `knowledge` says, for the tables, what schedulers outside the registry know;
    `reference` is the scheduler to compare with; `bound_seconds` are for each integer programme of the lower bounds
    (0: none is solved; None: no bounds).

    With `origins` (scheduler -> what its results depend on beside its name, such as a checkpoint) each scheduler's
    episodes at a load are kept in `out/cells` until everything is finished. After an interruption the same call
    continues there; if a scheduler fails, the files hold the others, and InputError names it at the end.
    """
    if not schedulers:
        raise InputError("the list of schedulers is empty")
    different(loads=loads)
    begun = (out / CELLS).is_dir() and {path.name for path in (out / CELLS).iterdir() if path.is_dir()} == {OWN}
    if origins is None or not begun:
        check_new_folder(out)
    if any(make().needs_forecasts for make in schedulers):
        problem = problem.with_forecasts()
    stages = [_Stage(problem.at_load(load), sequences, seed) for load in loads]
    limits = [] if bound_seconds is None else [_BoundsCell(stage, bound_seconds) for stage in stages]
    cells = [_EpisodesCell(stage, make, origins or {}) for stage in stages for make in schedulers]
    with whole_folder(out) if origins is None else contextlib.nullcontext(out) as folder:
        played, bounds, failed = _play(cells, limits) if origins is None else _complete(out, cells, limits)
        if played:
            table = _write(folder, stages, played, bounds)
            about = _run_facts(problem, stages, sequences, seed, bound_seconds)
            write_json(folder / "run.json", about | dict(facts or {}))
            (folder / "table.md").write_text(comparison_table(table, reference, {**KNOWLEDGE, **(knowledge or {})}))
            if plots:
                plot_comparison(table, folder / "plots")
    if failed:
        raise InputError("; ".join(f"{name}: {error}" for name, error in failed.items()))
    if origins is not None:
        shutil.rmtree(out / CELLS)
    return table


@dataclass(frozen=True, eq=False)
class _Stage:
    """What the schedulers play at one load."""

    problem: Problem
    sequences: int
    seed: int

    @property
    def load(self) -> float:
        return self.problem.scenario.load

    @cached_property
    def drawn(self) -> SequenceSet:
        """The test sequences."""
        return self.problem.sequences("test", self.sequences, self.seed)

    @cached_property
    def runner(self) -> Runner:
        """Plays schedulers on them."""
        return Runner(self.drawn, self.problem.machines, self.problem.scenario, self.seed)

    def request(self) -> dict[str, Any]:
        """What the results of all schedulers depend on."""
        problem = self.problem
        return {
            "trace_hash": trace_hash(problem.trace),
            "scenario": asdict(problem.scenario),
            "machines": problem.machines.as_dicts(),
            "unit": problem.sampler.unit.tolist(),
            "classes": problem.classes.to_dict(),
            "sequences": self.sequences,
            "seed": self.seed,
        }


@dataclass(frozen=True, eq=False)
class _EpisodesCell(Cell):
    """A scheduler on all sequences of a load: rows and episodes."""

    stage: _Stage
    make: Callable[[], Scheduler]
    origins: Mapping[str, Any]

    @cached_property
    def scheduler(self) -> Scheduler:
        return self.make()

    @property
    def name(self) -> str:
        return f"{OWN}/{self.scheduler.name}/load-{self.stage.load}"

    def request(self) -> dict[str, Any]:
        return self.stage.request() | {
            "scheduler": self.scheduler.name,
            "origin": self.origins.get(self.scheduler.name),
        }

    def run(self, folder: Path) -> None:
        rows, episodes = self.play()
        write_json(folder / ROWS, rows)
        episodes.write_parquet(folder / EPISODES)

    def read(self, folder: Path) -> tuple[Rows, pl.DataFrame]:
        """What `run` left."""
        import polars as pl

        return json.loads((folder / ROWS).read_text(encoding="utf-8")), pl.read_parquet(folder / EPISODES)

    def play(self, bar: Any = None) -> tuple[Rows, pl.DataFrame]:
        """Rows of rows.csv and of episodes.parquet."""
        import polars as pl

        rows, episodes = [], []
        self.stage.runner.play(
            self.scheduler, 0
        )  # compiles and loads what it needs, so that the times are of decisions
        for i in range(len(self.stage.drawn)):
            episode = self.stage.runner.play(self.scheduler, i)
            rows.append(_score(episode, self.stage.problem))
            episodes.append(episode_table(episode))
            if bar is not None:
                bar.set_postfix_str(f"{self.scheduler.name}, load {self.stage.load:g}", refresh=False)
                bar.update()
        return rows, pl.concat(episodes)


@dataclass(frozen=True, eq=False)
class _BoundsCell(RowsCell):
    """Lower bounds on what any scheduler needs for the sequences of a load: rows of bounds.csv."""

    stage: _Stage
    seconds: float

    @property
    def name(self) -> str:
        return f"{OWN}/bounds/load-{self.stage.load}"

    def request(self) -> dict[str, Any]:
        return self.stage.request() | {"seconds": self.seconds}

    def measure(self) -> Rows:
        return _bounds(self.stage.drawn, self.stage.problem, self.seconds)


_Results = tuple[list[tuple[Rows, "pl.DataFrame"]], Rows, dict[str, str]]  # by cell; of bounds.csv; errors by cell


def _play(cells: Sequence[_EpisodesCell], limits: Sequence[_BoundsCell]) -> _Results:
    """Everything, made in memory."""
    bounds = [row for cell in limits for row in cell.measure()]
    total = sum(len(cell.stage.drawn) for cell in cells)
    with tqdm(total=total, desc="evaluating", unit="ep", disable=None) as bar:
        return [cell.play(bar) for cell in cells], bounds, {}


def _complete(out: Path, cells: Sequence[_EpisodesCell], limits: Sequence[_BoundsCell]) -> _Results:
    """Everything but what failed, made or found in `out/cells`."""
    failed = complete(out, [*limits, *cells])
    bounds = read_rows(out, [cell for cell in limits if cell.name not in failed])
    return [cell.read(folder_of(out, cell)) for cell in cells if cell.name not in failed], bounds, failed


def _write(
    folder: Path, stages: Sequence[_Stage], played: Sequence[tuple[Rows, pl.DataFrame]], bounds: Rows
) -> pl.DataFrame:
    """Write the tables; returns the rows, with their gaps to the bounds."""
    import polars as pl

    table = pl.DataFrame([row for rows, _ in played for row in rows])
    table.write_csv(folder / "rows.csv")
    if bounds:
        limits = pl.DataFrame(bounds)
        limits.write_csv(folder / "bounds.csv")
        table = with_gaps(table, limits)
    pl.concat([episodes for _, episodes in played]).write_parquet(folder / EPISODES)
    drawn = [stage.drawn for stage in stages]
    pl.concat([demand_table(one) for one in drawn]).write_parquet(folder / "demand.parquet")
    noise = [background_table(one, one.background) for one in drawn if one.background is not None]
    if noise:
        pl.concat(noise).write_parquet(folder / "background.parquet")
    return table


def _score(episode: Episode, problem: Problem) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # means over nothing, of a scheduler that placed nothing
        return problem.score(episode)


def _bounds(drawn: SequenceSet, problem: Problem, seconds: float) -> list[dict[str, Any]]:
    """Rows of bounds.csv, one per sequence."""
    rows = []
    for i in range(len(drawn)):
        bound = lower_bounds(drawn, i, problem.machines, problem.scenario.placements_per_slot, seconds)
        limits = {
            "lower_bound_peak_machines": bound.peak_machines,
            "lower_bound_machine_slots": bound.machine_slots,
            "lower_bound_machine_slots_waiting": bound.machine_slots_waiting,
        }
        rows.append(
            {"load": float(drawn.load), "sequence": i} | limits | {"how": bound.how, "open_slots": bound.open_slots}
        )
    return rows


def _run_facts(
    problem: Problem, stages: Sequence[_Stage], sequences: int, seed: int, bound_seconds: float | None
) -> dict[str, Any]:
    """What run.json says of an evaluation."""
    trace, scenario = problem.trace, problem.scenario
    return provenance() | {
        "trace": {"name": trace.name, "source": trace.source, "workloads": len(trace), "hash": trace_hash(trace)},
        "seed": seed,
        "sequences": sequences,
        "bound_seconds": bound_seconds,
        "loads": [stage.load for stage in stages],
        "arrivals_per_slot": {str(stage.load): stage.problem.sampler.rate["test"] for stage in stages},
        "resources": list(trace.resources),
        "capacities": problem.machines.as_dicts(),
        "unit": dict(zip(trace.resources, problem.sampler.unit.tolist(), strict=True)),
        "peak_units": scenario.peak_units,
        "quantise": scenario.quantise,
        "sample": scenario.sample,
        "step_seconds": scenario.step_seconds,
        "slot_seconds": trace.slot_seconds,
        "penalty_weights": {name: getattr(scenario, name) for name in ("K_c", "K_u", "K_o", "K_w")},
        "overshoot_per": scenario.overshoot_per,
        "background": scenario.background,
        "classes": problem.classes.to_dict(),
        "scenario": asdict(scenario),
        "notes": sorted({note for stage in stages for note in stage.problem.sampler.notes}),
    }
