"""Evaluation: schedulers on the same test sequences, recorded so that every number can be recomputed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.checks import different, one_of
from tvwrl.envs import Problem
from tvwrl.experiments.engine import (
    CELLS,
    ROWS,
    Cell,
    Rows,
    RowsCell,
    as_folder,
    complete,
    folder_of,
    read_cell_rows,
    refuse_failed,
)
from tvwrl.experiments.episode_rows import (
    background_table,
    complete_only,
    demand_table,
    episode_table,
    moves_table,
    read_rows,
    table_of,
    with_gaps,
    write_rows,
)
from tvwrl.experiments.exploring.observed import OBSERVED, Observed, write_observed
from tvwrl.experiments.plots import plot_comparison
from tvwrl.experiments.tables import comparison_table, terminal_table
from tvwrl.metrics import MOVES
from tvwrl.packing import lower_bounds
from tvwrl.penalties import MOST
from tvwrl.progress import Report, nothing, say, ticking
from tvwrl.runs import InFolder, check_new_folder, provenance, write_json
from tvwrl.schedulers import KNOWLEDGE, Knowledge, Runner, Scheduler, cost_bound, known_by
from tvwrl.traces import trace_hash
from tvwrl.types import Episode, InputError, SequenceSet

if TYPE_CHECKING:
    import polars as pl

DEFAULT_SCHEDULERS = (
    "tetris", "best-fit", "best-fit-peak", "forecast-fit", "expected-cost", "spread", "random", "clairvoyant",
)  # fmt: skip
EPISODES, RUN, PAGE = "episodes.parquet", "run.json", "explorer.html"
HOPELESS = 3  # sequences from the first on; an agent that leaves workloads unplaced on each is not asked on the others
OWN = "evaluation"  # the only folder in `cells/` of an unfinished evaluation, and in that of no other experiment


@dataclass(frozen=True, eq=False)
class EvaluationSetup:
    """What schedulers are compared on: the same test sequences of a problem at every load, and bounds for them."""

    problem: Problem
    loads: Sequence[float]
    sequences: int  # per load
    seed: int = 0
    bound_seconds: float | None = 0.0  # for each integer programme of the bounds; 0: none is solved, None: no bounds
    reward_bound: bool = False  # whether to bound the reward too


@dataclass(frozen=True, eq=False)
class Player:
    """A scheduler that takes part in an evaluation."""

    scheduler: Scheduler
    origin: Any = None  # what its results depend on beside its name, such as a checkpoint
    problem: Problem | None = None  # what it plays on, if it observes other things than the setup's problem shows
    agent: bool = False  # whether it may have learnt never to place: then it is not asked on all sequences (`HOPELESS`)
    most_slots: int | None = None  # after which its episodes are cut, as in training; None: never


def evaluate(
    setup: EvaluationSetup,
    players: Sequence[Scheduler | Player],
    out: Path,
    facts: Mapping[str, Any] | None = None,
    *,
    reference: str | None = None,
    plots: bool = True,
    replayable: bool = True,
    completed: Callable[[Path, Sequence[Cell]], dict[str, str] | None] = complete,
    report: Report = nothing,
) -> pl.DataFrame | None:
    """Play every scheduler on the same test sequences at every load, to the end, and write the folder `out`.

    Files: `rows.csv`, `bounds.csv`, `episodes.parquet`, `demand.parquet`, `background.parquet` if the scenario has
    any, `moves.parquet` if workloads may move, `observed.npz` if `replayable`, `run.json`, `table.md`, `plots/`
    (docs/reference/run-files.md). Returns the rows, with their gaps to the bounds.

    `facts` are added to run.json; `reference` is the scheduler to compare with; `completed` completes the cells and
    says which failed, or returns None, and then nothing is written; `report` gets a line as each step of the
    preparation begins.

    Until everything is finished, each scheduler's episodes at a load are a cell in `out/cells`: after an interruption
    the same call continues there. If a scheduler fails, the files hold the others, and InputError names it at the end.
    """
    if not players:
        raise InputError("the list of schedulers is empty")
    different(loads=setup.loads)
    if not is_unfinished(out):
        check_new_folder(out)
    everybody = [one if isinstance(one, Player) else Player(one) for one in players]
    different(schedulers=[one.scheduler.name for one in everybody])
    setup = replace(setup, problem=with_wanted_forecasts(setup.problem, everybody, report))
    stages = [_Stage(setup.problem.at_load(load), setup.sequences, setup.seed) for load in setup.loads]
    limits = [
        _BoundsCell(stage, setup.bound_seconds, setup.reward_bound)
        for stage in stages
        if setup.bound_seconds is not None
    ]
    cells = [
        EpisodesCell(
            stage if one.problem is None else stage.observed_as(one.problem),
            one.scheduler,
            one.origin,
            one.agent,
            one.most_slots,
            report,
        )
        for stage in stages
        for one in everybody
    ]
    failed = completed(out, [*limits, *cells])
    if failed is None:
        return None
    if played := [cell for cell in cells if cell.name not in failed]:
        table = _write(out, stages, played, read_cell_rows(out, [cell for cell in limits if cell.name not in failed]))
        if replayable:
            write_observed(out / OBSERVED, list(_observed(played)))
        write_json(out / RUN, _run_facts(setup, stages) | dict(facts or {}))
        known = {name: known_by(setup.problem.forecaster, one) for name, one in KNOWLEDGE.items()}
        known |= {
            one.scheduler.name: known_by((one.problem or setup.problem).forecaster, one.scheduler.knowledge)
            for one in everybody
        }
        (out / "table.md").write_text(comparison_table(table, reference, known))
        if plots:
            plot_comparison(table, out / "plots", knowledge=known)
    refuse_failed(failed)
    shutil.rmtree(out / CELLS)
    return table


def with_wanted_forecasts(problem: Problem, players: Sequence[Player], report: Report = nothing) -> Problem:
    """The problem, with a forecaster if a player that has no problem of its own wants forecasts."""
    wanted = any(one.scheduler.wants_forecasts(problem.scenario) for one in players if one.problem is None)
    return problem.with_forecasts(report) if wanted else problem


def _observed(played: Sequence[EpisodesCell]) -> Iterator[Observed]:
    """What the schedulers of finished cells saw, once for all that saw the same."""
    seen: dict[int, tuple[_Stage, list[str]]] = {}
    for cell in played:
        seen.setdefault(id(cell.stage), (cell.stage, []))[1].append(cell.scheduler.name)
    for stage, names in seen.values():
        yield Observed(tuple(names), stage.drawn, stage.problem.scenario, stage.seed)


def is_unfinished(out: Path) -> bool:
    """Whether a folder holds an evaluation that was interrupted, and nothing of another experiment."""
    return (out / CELLS).is_dir() and {path.name for path in (out / CELLS).iterdir() if path.is_dir()} == {OWN}


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

    def observed_as(self, problem: Problem) -> _Stage:
        """The same sequences, observed as `problem` shows them. Raises InputError if it draws others."""
        other = _Stage(problem.at_load(self.load), self.sequences, self.seed)
        pairs = ((getattr(other.drawn, name), getattr(self.drawn, name)) for name in ("arrival", "length", "demand"))
        if not all(np.array_equal(*pair) for pair in pairs):
            raise InputError("a scheduler's own problem has other arrivals or demand: only what is observed may differ")
        return other

    @cached_property
    def runner(self) -> Runner:
        """Plays schedulers on them."""
        return Runner(self.drawn, self.problem.machines, self.problem.scenario, self.seed)

    @cached_property
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
class EpisodesCell(Cell):
    """A scheduler on all sequences of a load: rows and episodes."""

    stage: _Stage
    scheduler: Scheduler
    origin: Any  # what its results depend on beside its name
    agent: bool = False
    most_slots: int | None = None
    report: Report = nothing

    @property
    def name(self) -> str:
        return f"{self.group}/load-{self.stage.load}"

    @property
    def group(self) -> str:
        return f"{OWN}/{as_folder(self.scheduler.name)}"

    def request(self) -> dict[str, Any]:
        return self.stage.request | {"scheduler": self.scheduler.name, "origin": self.origin}

    def run(self, folder: Path) -> None:
        """Leave rows of rows.csv, and of episodes.parquet."""
        import polars as pl

        stage = self.stage
        episodes = self._played()
        write_json(folder / ROWS, [stage.problem.score(episode) for episode in episodes])
        pl.concat([episode_table(episode) for episode in episodes]).write_parquet(folder / EPISODES)
        if stage.problem.scenario.moves_per_slot:
            pl.concat([moves_table(episode) for episode in episodes]).write_parquet(folder / MOVES)

    def _played(self) -> list[Episode]:
        """An episode of each sequence; of those on which a hopeless agent is not asked, with nothing placed."""
        runner, count, scheduler = self.stage.runner, len(self.stage.drawn), self.scheduler
        episodes: list[Episode] = []

        def doing() -> str:
            return f"in sequence {bar.n}: {runner.doing(scheduler)}"

        with ticking(scheduler.name, self.report, doing, total=count, unit="sequence") as bar:
            # The first compiles and loads what it needs, so that the times are of decisions
            runner.play(scheduler, 0, most_slots=self.most_slots)
            for i in range(count):
                episodes.append(runner.play(scheduler, i, most_slots=self.most_slots))
                bar.update()
                if self.agent and len(episodes) == HOPELESS and all((one.start < 0).any() for one in episodes):
                    break
        left = [runner.unplayed(scheduler, i) for i in range(len(episodes), count)]
        if left:
            self.report(
                f"{scheduler.name} left workloads unplaced on each of the first {HOPELESS} sequences: it has no means, "
                f"so it is not asked on the other {len(left)}"
            )
        return episodes + left


@dataclass(frozen=True, eq=False)
class _BoundsCell(RowsCell):
    """Lower bounds on what any scheduler needs for the sequences of a load: rows of bounds.csv."""

    stage: _Stage
    seconds: float
    reward: bool

    @property
    def name(self) -> str:
        return f"{OWN}/.bounds/load-{self.stage.load}"  # no scheduler can have this name

    def request(self) -> dict[str, Any]:
        return self.stage.request | {"seconds": self.seconds, "reward": self.reward}

    def measure(self) -> Rows:
        drawn, problem = self.stage.drawn, self.stage.problem
        rows = []
        for i in range(len(drawn)):
            scenario = problem.scenario
            bound = lower_bounds(
                drawn, i, problem.machines, scenario.placements_per_slot, self.seconds, scenario.moves_per_slot > 0
            )
            limits: dict[str, float] = {
                "lower_bound_peak_machines": bound.peak_machines,
                "lower_bound_machine_slots": bound.machine_slots,
                "lower_bound_machine_slots_waiting": bound.machine_slots_waiting,
            }
            if self.reward:
                limits["reward_bound"] = -cost_bound(drawn, i, problem.machines, problem.scenario)
            named = {"load": float(drawn.load), "sequence": i}
            rows.append(named | limits | {"how": bound.how, "open_slots": bound.open_slots})
        return rows


def _write(folder: Path, stages: Sequence[_Stage], played: Sequence[EpisodesCell], bounds: Rows) -> pl.DataFrame:
    """Write the tables of finished cells; returns the rows, with their gaps to the bounds."""
    import polars as pl

    table = complete_only(table_of(read_cell_rows(folder, played)))
    write_rows(table, folder / "rows.csv")
    if bounds:
        limits = pl.DataFrame(bounds)
        limits.write_csv(folder / "bounds.csv")
        table = with_gaps(table, limits)
    moving = played[0].stage.problem.scenario.moves_per_slot
    for name in (EPISODES, *([MOVES] if moving else [])):
        pl.concat([pl.read_parquet(folder_of(folder, cell) / name) for cell in played]).write_parquet(folder / name)
    drawn = [stage.drawn for stage in stages]
    pl.concat([demand_table(one) for one in drawn]).write_parquet(folder / "demand.parquet")
    noise = [background_table(one, one.background) for one in drawn if one.background is not None]
    if noise:
        pl.concat(noise).write_parquet(folder / "background.parquet")
    return table


def _run_facts(setup: EvaluationSetup, stages: Sequence[_Stage]) -> dict[str, Any]:
    """What run.json says of an evaluation."""
    problem = setup.problem
    trace, scenario = problem.trace, problem.scenario
    return provenance() | {
        "trace": {"name": trace.name, "source": trace.source, "workloads": len(trace), "hash": trace_hash(trace)},
        "seed": setup.seed,
        "sequences": setup.sequences,
        "bound_seconds": setup.bound_seconds,
        "loads": [stage.load for stage in stages],
        "arrivals_per_slot": {str(stage.load): stage.problem.sampler.rate["test"] for stage in stages},
        "resources": list(trace.resources),
        "capacities": problem.machines.as_dicts(),
        "unit": dict(zip(trace.resources, problem.sampler.unit.tolist(), strict=True)),
        "request_factor": dict(zip(trace.resources, problem.sampler.request_factor.tolist(), strict=True)),
        "peak_units": scenario.peak_units,
        "quantise": scenario.quantise,
        "sample": scenario.sample,
        "step_seconds": scenario.step_seconds,
        "slot_seconds": trace.slot_seconds,
        "penalty_weights": {name: getattr(scenario, name) for name in MOST},
        "overshoot_per": scenario.overshoot_per,
        "background": scenario.background,
        "classes": problem.classes.to_dict(),
        "scenario": asdict(scenario),
        "notes": sorted({note for stage in stages for note in stage.problem.sampler.notes}),
    }


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(InFolder):
    """Schedulers on the same test sequences; printing it prints the table. Its files are those of
    docs/reference/run-files.md, and `write(folder)` copies them to a folder.

    Parameters
    ----------
    knowledge : Mapping[str, Knowledge]
        Entry -> what it knows.
    origins : Mapping[str, str]
        Entry -> what it was made of.
    schedulers : Mapping[str, Scheduler]
        Entry -> what played.
    """

    knowledge: Mapping[str, Knowledge]
    origins: Mapping[str, str]
    schedulers: Mapping[str, Scheduler] = field(default_factory=dict, kw_only=True)

    @property
    def rows(self) -> pl.DataFrame:
        """A row per scheduler, load and sequence: the columns of `tvwrl.metrics.score_episode`, and gaps to the bounds.

        An episode that left workloads unplaced has no reward and no other measure: they are NaN, so that a mean over
        them is NaN too."""
        return read_rows(self.folder)

    @property
    def episodes(self) -> pl.DataFrame:
        """A row per scheduler, load, sequence and workload: what was placed where and when, in slots."""
        import polars as pl

        return pl.read_parquet(self.folder / EPISODES)

    @property
    def plots(self) -> tuple[Path, ...]:
        """Files of the pictures, PNG, which are drawn now if they are not there."""
        folder = self.folder / "plots"
        if not folder.is_dir():
            plot_comparison(self.rows, folder, knowledge=self._known)
        return tuple(sorted(folder.glob("*.png")))

    def explore(
        self,
        file: str | Path = PAGE,
        sequences: int | None = None,
        schedulers: Sequence[str] = (),
        what_if: bool = True,
        report: Report | None = say,
    ) -> Path:
        """Write an HTML file that shows every decision, and what each alternative would have cost; returns it.

        Parameters
        ----------
        file : str | Path, default PAGE
            An .html file; default: explorer.html in the current folder.
        sequences : int, optional
            Per load, the first ones; default: all that were kept (30; fewer on large clusters).
        schedulers : Sequence[str], default ()
            Those to show; default: all.
        what_if : bool, default True
            False leaves out the costs of alternatives, which take a tenth of a second to ten seconds per episode.
        report : Report | None, default say
            Called with a line of progress now and then; default: to stderr; None: silence.

        Raises
        ------
        InputError
            For more sequences than were kept, unknown schedulers, and a file of another kind.

        Examples
        --------
        >>> tvwrl.evaluate(["spread", "best-fit"], "google").explore("explorer.html")  # doctest: +SKIP
        """
        from tvwrl.experiments.exploring.explored import open_explored, sequences_of, write_at_once

        path = Path(file).expanduser()
        if path.suffix not in (".html", ".htm"):
            raise InputError(f"file is {file}: its name must end in .html; tvwrl explore writes other formats")
        explored = open_explored(self.folder, self.schedulers)
        chosen, left_out = sequences_of(explored, explored.loads, sequences)
        for name in schedulers:
            one_of(explored.schedulers, schedulers=name)
        write_at_once(
            explored, path, chosen, what_if, report=report or nothing, left_out=left_out, schedulers=schedulers
        )
        return path

    def write(self, folder: str | Path) -> Path:
        """Copy all files to a new `folder`; returns it. Raises InputError if it is a file or not empty.

        Parameters
        ----------
        folder : str | Path
            A new folder.
        """
        _ = self.plots
        return super().write(folder)

    def table(self) -> str:
        """Markdown, grouped by knowledge: means with 95 % intervals, the gap closed to `clairvoyant`, the excess over
        lower bounds, overshoot, machines, waits, time per decision, and differences paired by sequence.
        """
        return (self.folder / "table.md").read_text()

    def __str__(self) -> str:
        return terminal_table(self.rows, self._known, shown=("decision_ms", "wait_mean", "unplaced")).rstrip("\n")

    @property
    def _known(self) -> dict[str, Knowledge]:
        """Scheduler -> what it knows, of all that have a name or played."""
        return {**KNOWLEDGE, **{name: one.knowledge for name, one in self.schedulers.items()}, **self.knowledge}

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"  # in notebooks
