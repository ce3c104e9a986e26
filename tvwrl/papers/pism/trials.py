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
    InterferenceScore,
    MonitoredMachines,
    TrainedScore,
    WithInterference,
    episode_snapshots,
    train_on_trace,
    uniform_machines,
)
from tvwrl.papers.pism.metrics import slowdown_metrics
from tvwrl.schedulers import Runner, Scheduler, make_scheduler
from tvwrl.simulation import Scenario
from tvwrl.traces import how_to_open, open_trace
from tvwrl.types import Episode, Int

if TYPE_CHECKING:
    from tvwrl.agents import Checkpoint

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
class SchedulerTrial:
    """What all schedulers of a comparison have in common."""

    trace: TraceName = "google"
    slot_seconds: SlotSeconds = None
    checkpoint: Path | None = None
    """Training run (its folder or a .pt file) whose policy is compared too; environment and trace are then the
    run's."""
    load: float = 0.5
    """Offered load on the busier resource, as a share of the cluster's capacity."""
    sequences: int = 30
    """Test sequences per load."""
    episodes: int = EPISODES
    """Training sequences to learn scores from."""
    weighting: str = "corr"
    """Weights of the services: fair, cpu-quota, corr, cv."""
    seed: int = 0
    """Seed of sequences, services, noise and trees."""


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
            about = {"law": law, "scheduler": scheduler.name, "way": way, "sequence": i}
            rows.append(about | {"elsewhere": elsewhere} | _metrics(episode, trial, learnt))
    return rows


@lru_cache(maxsize=1)
def problem_of(trial: SchedulerTrial) -> Problem:
    """The trace as a problem. Raises InputError for a trace or checkpoint that cannot be read."""
    if trial.checkpoint is None:
        return Problem.build(open_trace(trial.trace, trial.slot_seconds), Scenario(load=trial.load))
    saved = _saved(trial.checkpoint)
    return saved.problem(open_trace(*how_to_open(saved.trace)), trial.load)


def scheduler_of(trial: SchedulerTrial, name: str) -> Scheduler:
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
