"""What PISM does to one scheduler of the time-varying simulator: the same sequences with and without it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.command_line import SlotSeconds, TraceName
from tvwrl.envs import Problem
from tvwrl.experiments import Rows
from tvwrl.interference import (
    EPISODES,
    Deployment,
    InterferenceScore,
    LevelPredictor,
    MonitoredMachines,
    ResponseModel,
    Snapshots,
    TrainedScore,
    WithInterference,
    episode_snapshots,
    train_on_trace,
    uniform_machines,
)
from tvwrl.papers.pism.clusters import K, Learnt
from tvwrl.papers.pism.published import TAIL_HEAVY
from tvwrl.schedulers import Runner, Scheduler, make_scheduler
from tvwrl.simulation import Scenario
from tvwrl.traces import how_to_open, open_trace
from tvwrl.types import Episode, Float, Int

if TYPE_CHECKING:
    from tvwrl.agents import Checkpoint

MIDDLE = 5.5  # of levels 1 to 10
NEAR = 2.0  # levels: "accurate with an absolute error of no more than 2"
SEVERE = (3.0, 8.0)  # a severe error is predicted below the first and observed above the second, or reverse
QUANTILES = (0, 50, 75, 90, 99)  # percent (Figure 15)
SERVICES = ("checkout", "browse_product", "coupon")


def accuracy(predicted: Float, observed: Float) -> dict[str, float]:
    """Agreement of n pairs of `predicted` and `observed` in [1, 10], in percent; NaN for shares of nothing.

    `within`: error of at most 2 levels; `exact`: less than half a level. BUSY is the upper half, > 5.5, IDLE the lower:
    `busy_precision`, `busy_recall`, `busy_f1`, and the same of IDLE. `read_as_low`: share of all pairs that are
    observed > 8 and predicted < 3; `read_as_high`: the reverse.
    """
    predicted, observed = np.asarray(predicted, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    error = np.abs(predicted - observed)
    busy, is_busy = predicted > MIDDLE, observed > MIDDLE
    low, high = SEVERE
    return {
        "within": _percent((error <= NEAR + 1e-9).sum(), len(error)),
        "exact": _percent((error < 0.5).sum(), len(error)),
        **_agreement("busy", busy, is_busy),
        **_agreement("idle", ~busy, ~is_busy),
        "read_as_low": _percent(((observed > high) & (predicted < low)).sum(), len(error)),
        "read_as_high": _percent(((observed < low) & (predicted > high)).sum(), len(error)),
    }


def _agreement(name: str, claimed: np.ndarray, true: np.ndarray) -> dict[str, float]:
    both = (claimed & true).sum()
    return {
        f"{name}_precision": _percent(both, claimed.sum()),
        f"{name}_recall": _percent(both, true.sum()),
        f"{name}_f1": _percent(2 * both, claimed.sum() + true.sum()),
    }


def _percent(part: int, whole: int) -> float:
    return 100.0 * float(part) / float(whole) if whole else float("nan")


def score_metrics(learnt: Learnt, predictor: LevelPredictor, seen: Snapshots, times: Float) -> dict[str, float]:
    """Predicted and observed scores of machines; `times` (T, R) ms of service instances."""
    deployment = learnt.responses.deployment
    service, machine = (np.tile(part, len(times)) for part in (deployment.service, deployment.machine))
    when = np.repeat(np.arange(len(times)), times.shape[1])
    level = learnt.levels.level(service, times.ravel()).reshape(times.shape).astype(float)
    predicted = predictor.levels_of(service, seen.composition[when, machine]).reshape(times.shape)
    known = (level > 0) & ~np.isnan(predicted)
    weight = np.where(known, learnt.weight, 0.0)
    first = deployment.first[:-1]
    total = np.maximum(np.add.reduceat(weight, first, axis=1), 1e-9)
    scores = {
        name: np.add.reduceat(np.where(known, part, 0.0) * weight, first, axis=1) / total
        for name, part in (("score", level), ("predicted", predicted))
    }
    found = {name: float(score.mean()) for name, score in scores.items()}
    found["within"] = 100.0 * float((np.abs(level - predicted) <= NEAR)[known].mean())
    for name, score in scores.items():
        shares = np.histogram(np.clip(score, 1.0, K), bins=np.linspace(1.0, K, 11))[0] / score.size
        found |= {f"{name}_{bucket}": 100.0 * float(share) for bucket, share in enumerate(shares)}
    return found


def service_metrics(responses: ResponseModel, seen: Snapshots, times: Float) -> dict[str, float]:
    """Utilisation of machines, response times of `SERVICES` and slowdown of all; `times` (T, R) ms."""
    cpu = seen.pressures.cpu
    found = {"utilisation": 100.0 * float(cpu.mean())}
    found |= {f"utilisation_p{q}": 100.0 * float(np.percentile(cpu, q)) for q in (5, 25, 50, 75, 95)}
    for name in SERVICES:
        own = times[:, responses.deployment.rows_of(name)]
        found |= {f"{name}_mean": float(own.mean())}
        found |= {f"{name}_p{q}": float(np.percentile(own, q)) for q in QUANTILES}
    return found | slowdown_metrics(responses, times)


def slowdown_metrics(responses: ResponseModel, times: Float) -> dict[str, float]:
    """Mean and 99th percentile of response times (T, R) over the undisturbed ones."""
    slowdown = times / responses.base[responses.deployment.service]
    return {"slowdown": float(slowdown.mean()), "slowdown_p99": float(np.percentile(slowdown, 99))}


def mean_and_tail(deployment: Deployment, times: Float) -> Float:
    """(2, S) mean and 90th percentile of each service's response times (T, R); NaN for a service without instances."""
    service, services = deployment.service, len(deployment.services)
    count, tails = np.bincount(service, minlength=services), np.zeros(services)
    for s in np.unique(service):
        tails[s] = np.percentile(times[:, service == s], 90)
    mean = np.bincount(service, times.sum(axis=0), services) / np.where(count > 0, count * len(times), np.nan)
    tail = np.bincount(service, tails[service], services) / np.where(count > 0, count, np.nan)
    return np.stack([mean, tail])


def throughput(before: Float, now: Float) -> dict[str, float]:
    """Percent more requests of tail-heavy and tail-light services, mean over services; (2, S) as of `mean_and_tail`.

    A fixed number of requests is under way, so throughput is inverse to the mean response time. Tail-heavy: the
    `TAIL_HEAVY` of services with the highest ratio of 90th percentile to mean before.
    """
    known = np.flatnonzero(~np.isnan(before[0]))
    ratio = (before[1] / before[0])[known]
    heavy = known[np.argsort(ratio)[-max(1, round(TAIL_HEAVY * len(known))) :]]
    light = np.setdiff1d(known, heavy)
    more = 100.0 * (before[0] / now[0] - 1.0)
    return {"heavy": float(more[heavy].mean()), "light": float(more[light].mean()), "heaviest": float(ratio.max())}


ALONE, UTILISATION, PISM = "alone", "utilisation", "pism"  # ways to place; the last two add to the scheduler alone
POLICY = "policy"  # stands for the policy of a checkpoint among schedulers


class LeastCpu(InterferenceScore):
    """The baseline of PISM: among the same candidates, the machine with the least CPU in use."""

    def choose(self, machines: MonitoredMachines, now: float, category: int, candidates: Int) -> int:
        """The first of `candidates` (n,) with the least share of its cores in use."""
        return int(candidates[(machines.cpu / machines.cores)[candidates].argmin()])

    @classmethod
    def of_score(cls, score: InterferenceScore) -> LeastCpu:
        """A baseline with the score's thresholds of categories."""
        return cls(**{one.name: getattr(score, one.name) for one in fields(score) if one.init})


@dataclass(frozen=True)
class TrialOptions:
    """What all seeds of a comparison have in common."""

    trace: TraceName = "google"
    slot_seconds: SlotSeconds = None
    checkpoint: Path | None = None
    """Training run (its folder or a .pt file) whose policy is compared too; environment and trace are then the
    run's."""
    load: float = 0.5
    """Offered load on the busier resource, as a share of the cluster's capacity."""
    sequences: int = 6
    """Test sequences per seed."""
    episodes: int = EPISODES
    """Training sequences to learn scores from."""
    weighting: str = "corr"
    """Weights of the services: fair, cpu-quota, corr, cv."""


@dataclass(frozen=True)
class SchedulerTrial(TrialOptions):
    """What all schedulers of a comparison have in common."""

    seed: int = 0  # of sequences, services, noise and trees


def compare_ways(trial: SchedulerTrial, law: str, name: str) -> Rows:
    """A row per test sequence and way to place, of one scheduler under one law."""
    learnt, scheduler = _learn(trial, law), scheduler_of(trial, name)
    runner = _runner(trial, scheduler.needs_forecasts)
    scores = {UTILISATION: LeastCpu.of_score(learnt.score), PISM: learnt.score}
    ways = {way: WithInterference(scheduler, score) for way, score in scores.items()}
    rows = []
    for i, before in enumerate(_play_alone(trial, name)):
        for way, episode in {ALONE: before, **{way: runner.play(ways[way], i) for way in ways}}.items():
            elsewhere = 100 * float((episode.machine != before.machine).mean())
            about = {"law": law, "seed": trial.seed, "scheduler": scheduler.name, "way": way, "sequence": i}
            rows.append(about | {"elsewhere": elsewhere} | _metrics(episode, trial, learnt))
    return rows


@lru_cache(maxsize=1)
def problem_of(trial: TrialOptions) -> Problem:
    """The trace as a problem. Raises InputError for a trace or checkpoint that cannot be read."""
    if trial.checkpoint is None:
        return Problem.build(open_trace(trial.trace, trial.slot_seconds), Scenario(load=trial.load))
    saved = _saved(trial.checkpoint)
    return saved.problem(open_trace(*how_to_open(saved.trace)), trial.load)


def scheduler_of(trial: TrialOptions, name: str) -> Scheduler:
    """A registered scheduler, or the checkpoint's policy. Raises InputError for an unknown name."""
    if name != POLICY or trial.checkpoint is None:
        return make_scheduler(name)
    from tvwrl.agents import load_policy

    return load_policy(trial.checkpoint, _saved(trial.checkpoint))


def _saved(run: Path) -> Checkpoint:
    from tvwrl.agents import Checkpoint, find_checkpoint

    return Checkpoint.load(find_checkpoint(run))


@lru_cache(maxsize=2)
def _runner(trial: SchedulerTrial, forecasts: bool) -> Runner:
    problem = problem_of(trial).with_forecasts() if forecasts else problem_of(trial)
    sequences = problem.sequences("test", trial.sequences, trial.seed)
    return Runner(sequences, problem.machines, problem.scenario, trial.seed)


@lru_cache(maxsize=32)
def _play_alone(trial: SchedulerTrial, name: str) -> list[Episode]:
    scheduler = scheduler_of(trial, name)
    runner = _runner(trial, scheduler.needs_forecasts)
    return [runner.play(scheduler, i) for i in range(trial.sequences)]


@lru_cache(maxsize=1)
def _learn(trial: SchedulerTrial, law: str) -> TrainedScore:
    return train_on_trace(problem_of(trial), law, trial.weighting, trial.episodes, trial.seed)


def _metrics(episode: Episode, trial: SchedulerTrial, learnt: TrainedScore) -> dict[str, float]:
    """Slowdown under the law, predicted level, and the usual metrics of an episode; all NaN if it left workloads
    unplaced, which slow nothing down."""
    problem, score = problem_of(trial), learnt.score
    assert score.thresholds is not None
    seen = episode_snapshots([episode], problem.machines, problem.scenario.step_seconds, score.thresholds, trial.seed)
    times = learnt.responses.response_ms(seen, np.random.default_rng([trial.seed, 2, episode.sequence]))
    # the level that the score predicts for machines with one instance of each of its services
    alike = uniform_machines(seen.composition.reshape(-1, seen.composition.shape[-1]), len(score.services))
    usual = problem.score(episode)
    found = {
        **slowdown_metrics(learnt.responses, times),
        "predicted": float(score.mean_level(alike).reshape(seen.batch_cpu.shape).mean()),
        **{name: usual[name] for name in ("reward", "overshoot_pct", "wait_mean")},
    }
    return dict.fromkeys(found, float("nan")) if usual["unplaced"] else found
