"""Evaluation: schedulers on the same test sequences, recorded so that anybody can recompute every number."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from tvwrl.envs.problem import Problem
from tvwrl.experiments.plots import plot_comparison
from tvwrl.experiments.tables import comparison_table, with_gaps
from tvwrl.packing.bounds import lower_bounds
from tvwrl.runs import provenance, whole_folder, write_json
from tvwrl.schedulers import KNOWLEDGE, Knowledge, Scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.traces import trace_hash
from tvwrl.types import Episode, InputError, SequenceSet

if TYPE_CHECKING:
    import polars as pl

DEFAULT_SCHEDULERS = (
    "tetris", "best-fit", "best-fit-peak", "forecast-fit", "expected-cost", "spread", "random", "clairvoyant",
)  # fmt: skip


def evaluate(
    problem: Problem,
    schedulers: Sequence[Callable[[], Scheduler]],
    loads: Sequence[float],
    sequences: int,
    seed: int,
    out: Path,
    facts: dict[str, Any] | None = None,
    knowledge: dict[str, Knowledge] | None = None,
    reference: str | None = None,
    plots: bool = True,
    bound_seconds: float | None = 0.0,
) -> pl.DataFrame:
    """Play every scheduler on the same `sequences` test sequences at every load, to the end, and write the folder.

    Files: `rows.csv`, `bounds.csv`, `episodes.parquet`, `demand.parquet`, `background.parquet` where the scenario has
    any, `run.json`, `table.md`, `plots/` (runs/README.md). They appear together when all is done. Returns the rows,
    with their gaps to the bounds. `facts` are added to run.json; `knowledge` says, for the tables, what schedulers
    outside the registry know; `reference`: the one to compare with; without `plots` there are none; `bound_seconds`:
    for each integer programme of the lower bounds (0: without), None = no bounds.
    """
    if not schedulers:
        raise InputError("the list of schedulers is empty")
    if len(set(loads)) != len(loads):
        raise InputError(f"load {list(loads)}: a load is given twice")
    if any(make().needs_forecasts for make in schedulers):
        problem = problem.with_forecasts()
    with whole_folder(out) as folder:
        problems = {load: problem.at_load(load) for load in loads}  # refuses a bad load before anything is played
        played = _Played()
        with tqdm(total=len(loads) * len(schedulers) * sequences, desc="evaluating", unit="ep", disable=None) as bar:
            for at_load in problems.values():
                drawn = at_load.sequences("test", sequences, seed)
                played.bounds += [] if bound_seconds is None else _bounds(drawn, at_load, bound_seconds)
                _play(at_load, drawn, schedulers, seed, played, bar)
        table = played.write(folder)
        write_json(folder / "run.json", _run_facts(problem, problems, sequences, seed, bound_seconds) | (facts or {}))
        (folder / "table.md").write_text(comparison_table(table, reference, KNOWLEDGE | (knowledge or {})))
        if plots:
            plot_comparison(table, folder / "plots")
    return table


@dataclass
class _Played:
    """What was played so far: rows of rows.csv and bounds.csv, and parts of the other tables."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    bounds: list[dict[str, Any]] = field(default_factory=list)
    episodes: list[pl.DataFrame] = field(default_factory=list)
    demands: list[pl.DataFrame] = field(default_factory=list)
    backgrounds: list[pl.DataFrame] = field(default_factory=list)

    def write(self, folder: Path) -> pl.DataFrame:
        """Write the files; returns the rows, with their gaps to the bounds."""
        import polars as pl

        table = pl.DataFrame(self.rows)
        table.write_csv(folder / "rows.csv")
        if self.bounds:
            limits = pl.DataFrame(self.bounds)
            limits.write_csv(folder / "bounds.csv")
            table = with_gaps(table, limits)
        pl.concat(self.episodes).write_parquet(folder / "episodes.parquet")
        pl.concat(self.demands).write_parquet(folder / "demand.parquet")
        if self.backgrounds:
            pl.concat(self.backgrounds).write_parquet(folder / "background.parquet")
        return table


def _play(
    problem: Problem,
    drawn: SequenceSet,
    schedulers: Sequence[Callable[[], Scheduler]],
    seed: int,
    played: _Played,
    bar: Any,
) -> None:
    """Play every scheduler on the sequences of one load."""
    played.demands.append(demand_table(drawn))
    if drawn.background is not None:
        played.backgrounds.append(_background_table(drawn, drawn.background))
    runner = Runner(drawn, problem.machines, problem.scenario, seed)
    for make in schedulers:
        scheduler = make()
        runner.play(scheduler, 0)  # compiles and loads what it needs, so that the times are of decisions
        for i in range(len(drawn)):
            bar.set_postfix_str(f"{scheduler.name}, load {problem.scenario.load:g}", refresh=False)
            episode = runner.play(scheduler, i)
            played.rows.append(_score(episode, problem))
            played.episodes.append(episode_table(episode))
            bar.update()


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


def episode_table(episode: Episode) -> pl.DataFrame:
    """Rows of episodes.parquet: one per workload."""
    import polars as pl

    count = len(episode.workload_id)
    return pl.DataFrame(
        {
            "scheduler": [episode.scheduler] * count,
            "load": [float(episode.load)] * count,
            "sequence": np.full(count, episode.sequence),
            "workload_id": episode.workload_id.tolist(),
            "source_workload": episode.source_workload.tolist(),
            "source_slot": episode.source_slot,
            "arrival": episode.arrival,
            "start": episode.start,
            "finish": episode.finish,
            "machine": episode.machine,
        }
    )


def demand_table(drawn: SequenceSet) -> pl.DataFrame:
    """Rows of demand.parquet: one per sequence, workload and slot of its life."""
    import polars as pl

    runs = np.arange(drawn.demand.shape[2]) < drawn.length[..., None]  # (S, N, L)
    sequence, workload, slot = np.nonzero(runs)
    columns = {name: drawn.demand[..., d][runs] for d, name in enumerate(drawn.resources)}
    return pl.DataFrame(
        {
            "load": np.full(len(slot), float(drawn.load)),
            "sequence": sequence,
            "workload_id": drawn.workload_id[sequence, workload].tolist(),
            "slot": slot,
            **columns,
        }
    )


def _background_table(drawn: SequenceSet, background: npt.NDArray[np.uint8]) -> pl.DataFrame:
    """One row per sequence, slot of the period and machine."""
    import polars as pl

    sequence, slot, machine = (index.ravel() for index in np.indices(background.shape[:3]))
    columns = {name: background[..., d].ravel() for d, name in enumerate(drawn.resources)}
    load = np.full(len(slot), float(drawn.load))
    return pl.DataFrame({"load": load, "sequence": sequence, "slot": slot, "machine": machine, **columns})


def _run_facts(
    problem: Problem, problems: dict[float, Problem], sequences: int, seed: int, bound_seconds: float | None
) -> dict[str, Any]:
    """What run.json says of an evaluation."""
    trace, scenario = problem.trace, problem.scenario
    return provenance() | {
        "trace": {"name": trace.name, "source": trace.source, "workloads": len(trace), "hash": trace_hash(trace)},
        "seed": seed,
        "sequences": sequences,
        "bound_seconds": bound_seconds,
        "loads": list(problems),
        "arrivals_per_slot": {str(load): p.sampler.rate["test"] for load, p in problems.items()},
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
        "notes": sorted({note for p in problems.values() for note in p.sampler.notes}),
    }
