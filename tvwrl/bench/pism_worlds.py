"""Simulated clusters of paper 003: PISM learns under the default scheduler, and is tried in the time that follows.

A cell is one law and one seed. Its rows, one per scheduler, hold all that the figures show.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.bench.pism_judge import Judge, K, World, figures, throughput
from tvwrl.bench.requests import check_request
from tvwrl.interference import kernels
from tvwrl.interference.arrivals import (
    RECORDED_AT,
    Arrivals,
    as_arrivals,
    draw_alike,
    kept_share,
    replayed,
    synthetic_hour,
    with_usage,
)
from tvwrl.interference.batch_tasks import ARRIVALS_FILE, USAGE_FILE, read_arrivals, read_usage
from tvwrl.interference.categories import Thresholds
from tvwrl.interference.classifier import TaskClassifier
from tvwrl.interference.laws import LAWS
from tvwrl.interference.levels import Levels
from tvwrl.interference.observations import Observations
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.scheduler import CANDIDATES
from tvwrl.interference.services import Behaviour, draw_behaviour, observe
from tvwrl.interference.weights import row_weights, service_weights
from tvwrl.interference.world import LEAST_SERVICES, Policy, Seen, draw_site, look, simulate
from tvwrl.interference.world_kernels import DEFAULT
from tvwrl.parallel import Call, run_calls
from tvwrl.runs import provenance, read_csv, write_csv, write_json
from tvwrl.types import Float, InputError

WARM_UP = 20  # minutes before the first record: longer than an instance runs
EVERY = 4  # minutes between the records that trees learn from
MOVES = 5  # instances that may leave a bad machine in a minute, where PISM works alone
KINDS = {
    "default": DEFAULT,
    "random": kernels.RANDOM,
    "spread": kernels.SPREAD,
    "stack": kernels.STACK,
    "LoadAware": kernels.LOAD_AWARE,
    "TargetLoadPacking": kernels.TARGET_LOAD_PACKING,
    "LoadVariationRiskBalancing": kernels.RISK_BALANCING,
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


def read_hour(data: str, truth: bool, rng: np.random.Generator) -> Arrivals:
    """An hour of batch tasks with usage drawn for them; made up without `data`.

    Raises InputError if a file is missing or damaged. The classifier learns from half of the jobs; usage is drawn from
    the other half, and a task that arrives is taken for what the classifier takes the task for whose usage it has: by
    its own name and plan, which do not tell the usage drawn, it would be taken for anything.
    """
    if not data:
        return synthetic_hour(rng)
    bad: Counter[str] = Counter()
    usage, tasks = read_usage(Path(data) / USAGE_FILE, bad), read_arrivals(Path(data) / ARRIVALS_FILE, bad)
    if bad:
        tqdm.write(f"{bad.total()} names of tasks tell no graph: {dict(bad)}; they wait for none", sys.stderr)
    thresholds = Thresholds.from_usage(usage.cpu, usage.memory, usage.makespan)
    names, job = np.unique(usage.job.astype(str), return_inverse=True)
    known = (rng.random(len(names)) < 0.5)[job]
    others = usage.only(np.flatnonzero(~known))
    source = draw_alike(tasks, others, rng)
    seen = None if truth else TaskClassifier(thresholds).fit(usage.only(np.flatnonzero(known))).predict(others)[source]
    return as_arrivals(with_usage(tasks, others, source), tasks.makespan, thresholds, rng, seen)


def make_world(cell: Cell) -> World:
    """Site and first period of a cell's seed, the same under all laws."""
    return _drawn_world(replace(cell, law="", factor=1.0, alike=False, weighting=""))


@lru_cache(maxsize=1)
def _drawn_world(cell: Cell) -> World:
    rng = np.random.default_rng(cell.seed)
    hour = read_hour(cell.data, cell.truth, rng)
    arrivals = replayed(hour, cell.machines, cell.learns, rng)
    site = draw_site(cell.machines, cell.services, arrivals, 60 * cell.learns, rng)
    record = simulate(site, arrivals, Policy(DEFAULT), rng, RECORDED_AT)
    return World(site, hour, look(record, _minutes(cell.learns)))


def judge_of(cell: Cell, world: World) -> tuple[Judge, Observations]:
    """Services under the cell's law, and what was observed of them in the first period."""
    rng = np.random.default_rng([cell.seed, 1])
    law = LAWS[cell.law].shifted(cell.factor)
    behaviour = draw_behaviour(law, world.site, world.default, rng)
    behaviour = behaviour.alike() if cell.alike else behaviour
    seen = _observed(world, behaviour, world.default, rng)
    weight = row_weights(world.site.service, service_weights(cell.weighting, seen))
    return Judge(world, behaviour, Levels.of(seen, K, skip_rare=True), weight), seen


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
    arrivals = replayed(world.hour, cell.machines, cell.minutes, np.random.default_rng([cell.seed, 2]))
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
                    "right": world.hour.told_right(),
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


def _policy(cell: Cell, name: str, judge: Judge, learnt: str, predictor: LevelPredictor | None) -> Policy:
    """A scheduler, with the score by utilisation, or with PISM's if there is a predictor."""
    if learnt == UTILISATION:
        return Policy(KINDS[name], CANDIDATES, kernels.UTILISATION_ALONE)
    if predictor is None:
        return Policy(KINDS[name])
    kind, candidates, moves = KINDS.get(name, kernels.RANDOM), CANDIDATES, 0
    if name in (ALONE, NO_MOVES):
        candidates, moves = cell.machines, MOVES if name == ALONE else 0
    return Policy(kind, candidates, predictor.trees_, judge.weight, moves, cell.stale_after)


def _minutes(lasts: int) -> Float:
    """Seconds at which a period of so many minutes is looked at: each minute after the warm-up."""
    return np.arange(60.0 * WARM_UP, 60.0 * lasts, 60.0)


def _play(cell: Cell, judge: Judge, arrivals: Arrivals, policy: Policy, rng: np.random.Generator) -> tuple[Seen, float]:
    """The cluster at each minute after the warm-up, and moves per machine and minute."""
    record = simulate(judge.world.site, arrivals, policy, rng, RECORDED_AT, silent=cell.silent)
    return look(record, _minutes(cell.minutes)), len(record.moves) / (cell.machines * cell.minutes)


def _observed(world: World, behaviour: Behaviour, seen: Seen, rng: np.random.Generator) -> Observations:
    return observe(world.site, seen, behaviour.response_ms(world.site, seen, rng), slice(None, None, EVERY))


def _learn_again(cell: Cell, judge: Judge, seen: Observations, predictor: LevelPredictor) -> LevelPredictor:
    """Period by period, learn from what was observed under PISM as it was, added to all before.

    Levels stay those of the default scheduler. Paper: trained on a day of the trace, once. Here as well: a scheduler
    that seeks machines which trees hold for quiet finds those that trees are wrong about.
    """
    for number in range(cell.rounds):
        for teacher in TEACHERS:
            rng = np.random.default_rng([cell.seed, 4, number, TEACHERS.index(teacher)])
            arrivals = replayed(judge.world.hour, cell.machines, cell.minutes, rng)
            policy = _policy(cell, teacher, judge, AGAIN, predictor)
            found, _ = _play(cell, judge, arrivals, policy, rng)
            seen = seen.and_then(_observed(judge.world, judge.behaviour, found, rng))
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
