"""Simulated clusters of paper 003: PISM learns under the default scheduler, and is tried in the time that follows.

A cell is one law and one seed. Its rows, one per scheduler, hold all that the figures show.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.bench.pism_judge import Judge, K, World, figures, throughput
from tvwrl.bench.requests import check_request
from tvwrl.interference import placement_kernels
from tvwrl.interference.batch_tasks import ARRIVALS_FILE, USAGE_FILE
from tvwrl.interference.levels import Levels
from tvwrl.interference.observations import Observations
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.scheduler import CANDIDATES
from tvwrl.interference.score_kernels import UTILISATION_ALONE
from tvwrl.interference.testbed.arrivals import (
    RECORDED_AT,
    Arrivals,
    kept_share,
    read_hour,
    replay_hour,
)
from tvwrl.interference.testbed.clock_kernels import DEFAULT
from tvwrl.interference.testbed.deployment import LEAST_SERVICES, draw_deployment
from tvwrl.interference.testbed.laws import LAWS
from tvwrl.interference.testbed.responses import ResponseModel, draw_response_model, observe
from tvwrl.interference.testbed.simulation import PlacementRule, simulate
from tvwrl.interference.testbed.snapshots import Snapshots, take_snapshots
from tvwrl.interference.weights import row_weights, service_weights
from tvwrl.parallel import Call, run_calls
from tvwrl.runs import provenance, read_csv, write_csv, write_json
from tvwrl.types import Float, InputError

WARM_UP = 20  # minutes before the first record: longer than an instance runs
EVERY = 4  # minutes between the records that trees learn from
MOVES = 5  # instances that may leave a bad machine in a minute, where PISM works alone
KINDS = {
    "default": DEFAULT,
    "random": placement_kernels.RANDOM,
    "spread": placement_kernels.SPREAD,
    "stack": placement_kernels.STACK,
    "LoadAware": placement_kernels.LOAD_AWARE,
    "TargetLoadPacking": placement_kernels.TARGET_LOAD_PACKING,
    "LoadVariationRiskBalancing": placement_kernels.RISK_BALANCING,
}
ALONE = "pism"  # every machine a candidate, equal scores decided by chance, and running instances moved
NO_MOVES = "pism, no moves"
TEACHERS = (ALONE, "random", "spread")  # whose placements PISM learns from again, each with it
ONCE, AGAIN = "learnt once", "learnt again"  # under the default scheduler alone; and under itself too
COUNTS = "counts alone"  # learnt once, by trees that ask for numbers of instances only, as the paper's
COMMON = (
    "learns",
    "rounds",
    "data",
    "truth",
    "silent",
    "stale_after",
    "alike",
    "weighting",
)  # to the cells of a request
SHUFFLED = "shuffled"  # learnt once, from compositions that belong to other records: trees that know nothing
UTILISATION = "utilisation"  # no trees: of the same candidates the one with the least CPU in use


@dataclass(frozen=True)
class Cell:
    """A cluster under one law, drawn by one seed."""

    law: str
    seed: int
    machines: int
    services: int
    learns: int  # minutes of the first period, under the default scheduler
    minutes: int  # of each later period
    rounds: int  # of learning again
    factor: float  # how hard the cluster presses, over the law's own assumption
    data: str  # folder of real batch tasks, "" = made-up ones
    truth: bool  # the scheduler is told true categories
    silent: float  # share of the machines whose reports are missing
    stale_after: float  # seconds without a report, after which nothing is known of a machine
    alike: bool  # services are equally sensitive
    weighting: str  # how much each service counts for its machine's score

    @property
    def name(self) -> str:
        """File name: all that tells cells of one request apart."""
        return f"{self.law}-{self.machines}-{self.services}-{self.minutes}-{self.factor:g}-{self.seed}"


def complete(out: Path, cells: Sequence[Cell], workers: int) -> list[dict[str, Any]]:
    """Rows of the cells, those that `out` lacks being simulated first; `cells/<cell>.csv` keeps them."""
    first = cells[0]
    asked = {name: getattr(first, name) for name in COMMON}
    check_request(out / "request.json", asked)
    write_json(out / "request.json", provenance() | asked)
    files = {cell: out / "cells" / f"{cell.name}.csv" for cell in cells}
    calls: list[Call] = [(play_cell, (cell, file)) for cell, file in files.items() if not file.exists()]
    with tqdm(total=len(calls), desc="clusters", unit="cluster", disable=None) as bar:
        for _ in run_calls(calls, workers, None, processes=True):
            bar.update()
    rows = [row for file in files.values() for row in _whole(file)]
    if others := {row.get("commit", "unknown") for row in rows} - {str(provenance()["commit"])}:
        tqdm.write(f"note: {out} has clusters simulated at commit {', '.join(sorted(others))}", sys.stderr)
    return [_typed(row) for row in rows]


def _whole(file: Path) -> list[dict[str, Any]]:
    """Rows of a cell. Raises InputError if it is damaged."""
    rows = read_csv(file)
    if not rows or any(None in row or None in row.values() or "slowdown" not in row for row in rows):
        raise InputError(f"{file}: is damaged: delete it, and it is simulated again")
    return rows


def _typed(row: dict[str, Any]) -> dict[str, Any]:
    words = ("law", "scheduler", "learnt", "trees", "data", "truth", "alike", "weighting", "commit")
    return {name: value if name in words else float(value) for name, value in row.items()}


def make_world(cell: Cell) -> World:
    """Deployment and first period of a cell's seed, the same under all laws."""
    return _drawn_world(replace(cell, law="", factor=1.0, alike=False, weighting=""))


@lru_cache(maxsize=1)
def _drawn_world(cell: Cell) -> World:
    rng = np.random.default_rng(cell.seed)
    hour = read_hour(Path(cell.data) if cell.data else None, cell.truth, rng)
    arrivals = replay_hour(hour, cell.machines, cell.learns, rng)
    deployment = draw_deployment(cell.machines, cell.services, arrivals, 60 * cell.learns, rng)
    record = simulate(deployment, arrivals, PlacementRule(DEFAULT), rng, RECORDED_AT)
    return World(deployment, hour, take_snapshots(record, _minutes(cell.learns)))


def judge_of(cell: Cell, world: World) -> tuple[Judge, Observations]:
    """Services under the cell's law, and what was observed of them in the first period."""
    rng = np.random.default_rng([cell.seed, 1])
    law = LAWS[cell.law].scaled(cell.factor)
    response_model = draw_response_model(law, world.deployment, world.default, rng)
    response_model = response_model.equally_sensitive() if cell.alike else response_model
    seen = _observed(world, response_model, world.default, rng)
    weight = row_weights(world.deployment.service, service_weights(cell.weighting, seen))
    return Judge(world, response_model, Levels.of(seen, K, skip_rare=True), weight), seen


def play_cell(cell: Cell, file: Path) -> dict[str, Any]:
    """Learn, then play the same arrivals under every scheduler; writes the rows.

    A scheduler without PISM has a row for each kind of trees, by which alone they differ in the score predicted.
    """
    world = make_world(cell)
    judge, seen = judge_of(cell, world)
    predictors = {
        name: LevelPredictor(counts_alone=name == COUNTS, random_state=cell.seed).fit(seen, judge.levels)
        for name in (ONCE, COUNTS)
    }
    other = np.random.default_rng([cell.seed, 6]).permutation(len(seen.seconds))
    shuffled = replace(seen, composition=seen.composition[other])
    predictors[SHUFFLED] = LevelPredictor(random_state=cell.seed).fit(shuffled, judge.levels)
    if cell.rounds:
        predictors[AGAIN] = _learn_again(cell, judge, seen, predictors[ONCE])
    arrivals = replay_hour(world.hour, cell.machines, cell.minutes, np.random.default_rng([cell.seed, 2]))
    rows: list[dict[str, Any]] = []
    before = None
    for learnt in ("", UTILISATION, *predictors):
        for name in _schedulers(learnt):
            policy = _policy(cell, name, judge, learnt, predictors.get(learnt))
            found, moves = _play(cell, judge, arrivals, policy, np.random.default_rng([cell.seed, 3]))
            for trees in [learnt] if learnt in predictors else predictors:
                told, times = figures(judge, predictors[trees], found, np.random.default_rng([cell.seed, 5]))
                before = times if before is None else before
                about = {"scheduler": name, "learnt": learnt, "trees": trees, "moves": moves}
                kept = {
                    "kept": 100.0 * kept_share(world.hour, cell.machines),
                    "right": world.hour.percent_classified(),
                    "commit": provenance()["commit"],
                }
                rows.append(asdict(cell) | about | kept | told | throughput(before, times))
    write_csv(file, rows)
    return {"cell": cell.name}


def _schedulers(learnt: str) -> list[str]:
    """Those that are tried without PISM, with the score by utilisation, or with PISM."""
    if not learnt:
        return list(KINDS)
    return [*(() if learnt == UTILISATION else (ALONE, NO_MOVES)), *(name for name in KINDS if name != "default")]


def _policy(cell: Cell, name: str, judge: Judge, learnt: str, predictor: LevelPredictor | None) -> PlacementRule:
    """A scheduler, with the score by utilisation, or with PISM's if there is a predictor."""
    if learnt == UTILISATION:
        return PlacementRule(KINDS[name], CANDIDATES, UTILISATION_ALONE)
    if predictor is None:
        return PlacementRule(KINDS[name])
    kind, candidates, moves = KINDS.get(name, placement_kernels.RANDOM), CANDIDATES, 0
    if name in (ALONE, NO_MOVES):
        candidates, moves = cell.machines, MOVES if name == ALONE else 0
    return PlacementRule(kind, candidates, predictor.trees_, judge.weight, moves, cell.stale_after)


def _minutes(lasts: int) -> Float:
    """Seconds at which a period of so many minutes is looked at: each minute after the warm-up."""
    return np.arange(60.0 * WARM_UP, 60.0 * lasts, 60.0)


def _play(
    cell: Cell, judge: Judge, arrivals: Arrivals, policy: PlacementRule, rng: np.random.Generator
) -> tuple[Snapshots, float]:
    """The cluster at each minute after the warm-up, and moves per machine and minute."""
    record = simulate(judge.world.deployment, arrivals, policy, rng, RECORDED_AT, silent=cell.silent)
    return take_snapshots(record, _minutes(cell.minutes)), len(record.moves) / (cell.machines * cell.minutes)


def _observed(world: World, response_model: ResponseModel, seen: Snapshots, rng: np.random.Generator) -> Observations:
    return observe(
        world.deployment, seen, response_model.response_ms(world.deployment, seen, rng), slice(None, None, EVERY)
    )


def _learn_again(cell: Cell, judge: Judge, seen: Observations, predictor: LevelPredictor) -> LevelPredictor:
    """Period by period, learn from what was observed under PISM as it was, added to all before.

    Levels stay those of the default scheduler. Paper: trained on a day of the trace, once. Here as well: a scheduler
    that seeks machines which trees hold for quiet finds those that trees are wrong about.
    """
    for number in range(cell.rounds):
        for teacher in TEACHERS:
            rng = np.random.default_rng([cell.seed, 4, number, TEACHERS.index(teacher)])
            arrivals = replay_hour(judge.world.hour, cell.machines, cell.minutes, rng)
            policy = _policy(cell, teacher, judge, AGAIN, predictor)
            found, _ = _play(cell, judge, arrivals, policy, rng)
            seen = seen.and_then(_observed(judge.world, judge.response_model, found, rng))
        predictor = replace(predictor).fit(seen, judge.levels)
    return predictor


def check_cells(machines: int, services: int, learns: int, minutes: int, data: Path | None) -> None:
    """Raise InputError for a cluster that is too small to tell anything, or a file that is not there."""
    if data and (missing := [file for file in (USAGE_FILE, ARRIVALS_FILE) if not (data / file).exists()]):
        raise InputError(f"{data / missing[0]}: no such file")
    least = {
        "machines": (machines, 3),
        "services": (services, LEAST_SERVICES),
        "learns": (learns, WARM_UP + 2 * EVERY),
        "minutes": (minutes, WARM_UP + 2 * EVERY),
    }
    for name, (value, limit) in least.items():
        if value < limit:
            raise InputError(f"{name} is {value}: must be at least {limit}")
