"""Simulated clusters of paper 003: PISM learns under the default scheduler, and is tried in the time that follows.

A cell is one law and one seed. Its rows, one per scheduler, hold all that the figures show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from tvwrl.bench.requests import check_request
from tvwrl.interference import kernels
from tvwrl.interference.arrivals import RECORDED_AT, Arrivals, as_arrivals, replayed, synthetic_hour, with_usage
from tvwrl.interference.batch_tasks import read_arrivals, read_usage
from tvwrl.interference.candidates import CANDIDATES
from tvwrl.interference.categories import Thresholds
from tvwrl.interference.classifier import TaskClassifier
from tvwrl.interference.laws import LAWS
from tvwrl.interference.levels import Levels
from tvwrl.interference.observations import Observations
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.services import Behaviour, draw_behaviour, observe
from tvwrl.interference.weights import row_weights, service_weights
from tvwrl.interference.world import LEAST_SERVICES, Policy, Seen, Site, draw_site, look, simulate
from tvwrl.interference.world_kernels import DEFAULT
from tvwrl.parallel import Call, run_calls
from tvwrl.runs import read_csv, write_csv, write_json
from tvwrl.types import Float, InputError

FILES = ("ali18_usage_tasks.csv.gz", "spar_sample_tasks.csv.gz")
WARM_UP = 20  # minutes before the first record: longer than an instance runs
EVERY = 4  # minutes between the records that trees learn from
MOVES = 5  # instances that may leave a bad machine in a minute, where PISM works alone
WEIGHTING = "corr"  # the best of the paper's four (6.3.2)
K = 10
KINDS = {
    "default": DEFAULT,
    "random": kernels.RANDOM,
    "spread": kernels.SPREAD,
    "stack": kernels.STACK,
    "LoadAware": kernels.LOAD_AWARE,
    "TargetLoadPacking": kernels.TARGET_LOAD_PACKING,
    "LoadVariationRiskBalancing": kernels.RISK_BALANCING,
}
ALONE = "pism"  # every machine a candidate, and running instances moved
TEACHERS = (ALONE, "random", "spread")  # whose placements PISM learns from again, each with it
ONCE, AGAIN = "learnt once", "learnt again"  # under the default scheduler alone; and under itself too
QUANTILES = (0, 50, 75, 90, 99)  # Figure 15
SERVICES = ("checkout", "browse_product", "coupon")


class World(NamedTuple):
    """What is the same for every scheduler of a seed."""

    site: Site
    hour: Arrivals
    minutes: int
    default: Seen  # the first period, under the default scheduler


class Judge(NamedTuple):
    """What turns the cluster as it was into figures."""

    world: World
    behaviour: Behaviour
    levels: Levels
    weight: Float  # (R,) of service instances


@dataclass(frozen=True)
class Cell:
    """A cluster under one law, drawn by one seed."""

    law: str
    seed: int
    machines: int
    services: int
    minutes: int  # of each period
    rounds: int  # of learning again
    factor: float  # how hard the cluster presses, over the law's own assumption
    data: str  # folder of real batch tasks, "" = made-up ones
    truth: bool  # the scheduler is told true categories
    counts_alone: bool  # trees ask for counts only, as in the paper

    @property
    def name(self) -> str:
        """File name: all that tells cells of one request apart."""
        return f"{self.law}-{self.machines}-{self.services}-{self.minutes}-{self.factor:g}-{self.seed}"


def complete(out: Path, cells: Sequence[Cell], workers: int) -> list[dict[str, Any]]:
    """Rows of the cells, those that `out` lacks being simulated first; `cells/<cell>.csv` keeps them."""
    first = cells[0]
    asked = {name: getattr(first, name) for name in ("rounds", "data", "truth", "counts_alone")}
    check_request(out / "request.json", asked)
    write_json(out / "request.json", asked)
    files = {cell: out / "cells" / f"{cell.name}.csv" for cell in cells}
    calls: list[Call] = [(play_cell, (cell, file)) for cell, file in files.items() if not file.exists()]
    with tqdm(total=len(calls), desc="clusters", unit="cluster", disable=None) as bar:
        for _ in run_calls(calls, workers, None, processes=True):
            bar.update()
    return [_typed(row) for file in files.values() for row in read_csv(file)]


def _typed(row: dict[str, Any]) -> dict[str, Any]:
    words = ("law", "scheduler", "learnt", "data", "truth", "counts_alone")
    return {name: value if name in words else float(value) for name, value in row.items()}


def read_hour(data: str, truth: bool, rng: np.random.Generator) -> Arrivals:
    """An hour of batch tasks with usage drawn for them; made up without `data`.

    Raises InputError if a file is missing or damaged. What the scheduler takes a task for comes from the classifier,
    which learnt from the half of the jobs whose usage is not drawn from.
    """
    if not data:
        return synthetic_hour(rng)
    usage, tasks = read_usage(Path(data) / FILES[0], Counter()), read_arrivals(Path(data) / FILES[1], Counter())
    thresholds = Thresholds.from_usage(usage.cpu, usage.memory, usage.makespan)
    if truth:
        return as_arrivals(with_usage(tasks, usage, rng), tasks.makespan, thresholds)
    names, job = np.unique(usage.job.astype(str), return_inverse=True)
    known = (rng.random(len(names)) < 0.5)[job]
    drawn = with_usage(tasks, usage.only(np.flatnonzero(~known)), rng)
    classifier = TaskClassifier(thresholds).fit(usage.only(np.flatnonzero(known)))
    return as_arrivals(drawn, tasks.makespan, thresholds, classifier.predict(tasks))


def make_world(cell: Cell) -> World:
    """Site and first period of a cell's seed, the same under all laws."""
    rng = np.random.default_rng(cell.seed)
    hour = read_hour(cell.data, cell.truth, rng)
    arrivals = replayed(hour, cell.machines, cell.minutes, rng)
    site = draw_site(cell.machines, cell.services, arrivals, 60 * cell.minutes, rng)
    return World(site, hour, cell.minutes, _play(site, arrivals, Policy(DEFAULT), rng, cell.minutes))


def judge_of(cell: Cell, world: World) -> tuple[Judge, Observations]:
    """Services under the cell's law, and what was observed of them in the first period."""
    rng = np.random.default_rng([cell.seed, 1])
    law = LAWS[cell.law].shifted(cell.factor)
    behaviour = draw_behaviour(law, world.site, world.default, rng)
    seen = _observed(world, behaviour, world.default, rng)
    weight = row_weights(world.site.service, service_weights(WEIGHTING, seen))
    return Judge(world, behaviour, Levels.of(seen, K, skip_rare=True), weight), seen


def play_cell(cell: Cell, file: Path) -> dict[str, Any]:
    """Learn, then play the same arrivals under every scheduler; writes the rows."""
    world = make_world(cell)
    judge, seen = judge_of(cell, world)
    once = LevelPredictor(counts_alone=cell.counts_alone, random_state=cell.seed).fit(seen, judge.levels)
    predictors = {"": once, ONCE: once}
    if cell.rounds:
        predictors[AGAIN] = _learn_again(cell, judge, seen, once)
    rng = np.random.default_rng([cell.seed, 2])
    arrivals = replayed(world.hour, cell.machines, cell.minutes, rng)
    rows, before = [], None
    for learnt, predictor in predictors.items():
        for name in KINDS if not learnt else (ALONE, *KINDS):
            if learnt and name == "default":
                continue
            policy = _policy(name, judge, predictor if learnt else None)
            found = _play(world.site, arrivals, policy, np.random.default_rng([cell.seed, 3]), cell.minutes)
            figures, times = _figures(cell, judge, predictor, found)
            before = times if before is None else before
            rows.append(asdict(cell) | {"scheduler": name, "learnt": learnt} | figures | _throughput(before, times))
    write_csv(file, rows)
    return {"cell": cell.name}


def _policy(name: str, judge: Judge, predictor: LevelPredictor | None) -> Policy:
    """A scheduler, with PISM if there is a predictor."""
    if predictor is None:
        return Policy(KINDS[name])
    if name == ALONE:
        return Policy(kernels.RANDOM, judge.world.site.count, predictor.trees_, judge.weight, MOVES)
    return Policy(KINDS[name], CANDIDATES, predictor.trees_, judge.weight)


def _play(site: Site, arrivals: Arrivals, policy: Policy, rng: np.random.Generator, minutes: int) -> Seen:
    """The cluster at each minute after the warm-up."""
    return look(simulate(site, arrivals, policy, rng, RECORDED_AT), np.arange(60.0 * WARM_UP, 60.0 * minutes, 60.0))


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
            policy = _policy(teacher, judge, predictor)
            found = _play(judge.world.site, arrivals, policy, rng, cell.minutes)
            seen = seen.and_then(_observed(judge.world, judge.behaviour, found, rng))
        predictor = replace(predictor).fit(seen, judge.levels)
    return predictor


def _figures(cell: Cell, judge: Judge, predictor: LevelPredictor, seen: Seen) -> tuple[dict[str, float], Float]:
    """A row's figures; and response times (T, R), seeded alike for every scheduler."""
    site = judge.world.site
    times = judge.behaviour.response_ms(site, seen, np.random.default_rng([cell.seed, 5]))
    rows = np.tile(site.service, len(times))
    level = judge.levels.level(rows, times.ravel()).reshape(times.shape).astype(float)
    machine = np.tile(site.machine, len(times))
    when = np.repeat(np.arange(len(times)), times.shape[1])
    predicted = predictor.levels_of(rows, seen.composition[when, machine]).reshape(times.shape)
    known = (level > 0) & ~np.isnan(predicted)
    weight = np.where(known, judge.weight, 0.0)
    score, told = (
        np.add.reduceat(np.where(known, part, 0.0) * weight, site.first[:-1], axis=1)
        / np.maximum(np.add.reduceat(weight, site.first[:-1], axis=1), 1e-9)
        for part in (level, predicted)
    )
    cpu = seen.pressures.cpu
    found = {
        "score": float(score.mean()),
        "predicted": float(told.mean()),
        "within": 100.0 * float((np.abs(level - predicted) <= 2)[known].mean()),
        "utilisation": 100.0 * float(cpu.mean()),
    }
    found |= {f"utilisation_p{q}": 100.0 * float(np.percentile(cpu, q)) for q in (5, 25, 50, 75, 95)}
    for name, part in (("score", score), ("predicted", told)):
        shares = np.histogram(np.clip(part, 1.0, K), bins=np.linspace(1.0, K, 11))[0] / part.size
        found |= {f"{name}_{bucket}": 100.0 * float(share) for bucket, share in enumerate(shares)}
    for name in SERVICES:
        own = times[:, site.service == site.services.index(name)]
        found |= {f"{name}_mean": float(own.mean())}
        found |= {f"{name}_p{q}": float(np.percentile(own, q)) for q in QUANTILES}
    undisturbed = judge.behaviour.base[site.service]
    found["slowdown"] = float((times / undisturbed).mean())
    found["slowdown_p99"] = float(np.percentile(times / undisturbed, 99))
    return found, np.stack([_by_service(site, part) for part in (times, *_tails(site, times))])


def _by_service(site: Site, times: Float) -> Float:
    """(S,) mean over times and instances; NaN for a service without instances."""
    count = np.bincount(site.service, minlength=len(site.services)) * len(times)
    total = np.bincount(site.service, times.sum(axis=0), len(site.services))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _tails(site: Site, times: Float) -> list[Float]:
    """[(1, R)] each service's 90th percentile, repeated for its instances."""
    tail = np.zeros(len(site.services))
    for s in np.unique(site.service):
        tail[s] = np.percentile(times[:, site.service == s], 90)
    return [tail[site.service][None]]


def _throughput(before: Float, now: Float) -> dict[str, float]:
    """Percent more requests of tail-heavy and tail-light services, mean over services; (2, S): mean RT, P90.

    A fixed number of requests under way: throughput is that number over the mean response time, so it grows as the
    mean response time falls. Tail-heavy: the `HEAVY` of services with the highest P90 over mean before.
    """
    known = np.flatnonzero(~np.isnan(before[0]))
    ratio = (before[1] / before[0])[known]
    heavy = known[np.argsort(ratio)[-max(1, round(HEAVY * len(known))) :]]
    light = np.setdiff1d(known, heavy)
    more = 100.0 * (before[0] / now[0] - 1.0)
    return {"heavy": float(more[heavy].mean()), "light": float(more[light].mean()), "heaviest": float(ratio.max())}


HEAVY = 0.093  # of the services (Table 3)


def check_cells(machines: int, services: int, minutes: int, data: Path | None) -> None:
    """Raise InputError for a cluster that is too small to tell anything, or a file that is not there."""
    if data and (missing := [file for file in FILES if not (data / file).exists()]):
        raise InputError(f"{data / missing[0]}: no such file")
    least = {
        "machines": (machines, 3),
        "services": (services, LEAST_SERVICES),
        "minutes": (minutes, WARM_UP + 2 * EVERY),
    }
    for name, (value, limit) in least.items():
        if value < limit:
            raise InputError(f"{name} is {value}: must be at least {limit}")
