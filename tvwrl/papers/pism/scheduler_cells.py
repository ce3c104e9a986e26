"""What PISM does to one scheduler of the time-varying simulator: the same sequences with and without it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

import numpy as np

from tvwrl.envs.problem import Problem
from tvwrl.experiments.engine import Rows, RowsCell
from tvwrl.interference.machines import Machines, uniform_machines
from tvwrl.interference.scheduler import WithInterference
from tvwrl.interference.score import InterferenceScore
from tvwrl.interference.testbed.episodes import episode_snapshots
from tvwrl.interference.testbed.snapshots import Snapshots
from tvwrl.interference.training import TrainedScore, train_on_trace
from tvwrl.schedulers import Scheduler, make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_trace
from tvwrl.types import Episode, Float, Int

ALONE, UTILISATION, PISM = "alone", "utilisation", "pism"  # ways to place; the last two add to the scheduler alone
POLICY = "policy"  # stands for the policy of a checkpoint among schedulers


class LeastCpu(InterferenceScore):
    """The baseline of PISM: among the same candidates, the machine with the least CPU in use."""

    def choose(self, machines: Machines, now: float, category: int, candidates: Int) -> int:
        """The first of `candidates` (n,) with the least share of its cores in use."""
        return int(candidates[(machines.cpu / machines.cores)[candidates].argmin()])

    @classmethod
    def of_score(cls, score: InterferenceScore) -> LeastCpu:
        """A baseline with the score's thresholds of categories."""
        return cls(**{one.name: getattr(score, one.name) for one in fields(score) if one.init})


@dataclass(frozen=True)
class SchedulerTrial:
    """What all schedulers of a comparison have in common."""

    trace: str
    slot_seconds: int | None
    checkpoint: Path | None  # of a training run, which then gives environment and trace
    load: float
    sequences: int  # for testing
    episodes: int  # training sequences that scores learn from
    weighting: str
    seed: int


@dataclass(frozen=True)
class SchedulerCell(RowsCell):
    """One scheduler under one law: a row per test sequence and way to place."""

    trial: SchedulerTrial
    law: str
    scheduler: str  # registered name, or `POLICY`

    @property
    def group(self) -> str:
        """The law, for which a score is learnt once."""
        return f"schedulers/{self.law}"

    @property
    def name(self) -> str:
        """The scheduler's folder in that of the law."""
        return f"{self.group}/{self.scheduler}"

    def measure(self) -> Rows:
        """Rewards and waits, response times under the law, and how many workloads PISM places elsewhere."""
        learnt, scheduler = _learn(self.trial, self.law), scheduler_of(self.trial, self.scheduler)
        runner = _runner(self.trial, scheduler.needs_forecasts)
        scores = {UTILISATION: LeastCpu.of_score(learnt.score), PISM: learnt.score}
        ways = {way: WithInterference(scheduler, score) for way, score in scores.items()}
        rows = []
        for i, before in enumerate(_play_alone(self.trial, self.scheduler)):
            for way, episode in {ALONE: before, **{way: runner.play(ways[way], i) for way in ways}}.items():
                elsewhere = 100 * float((episode.machine != before.machine).mean())
                about = {"law": self.law, "scheduler": scheduler.name, "way": way, "sequence": i}
                rows.append(about | {"elsewhere": elsewhere} | _metrics(episode, problem_of(self.trial), learnt))
        return rows


@lru_cache(maxsize=1)
def problem_of(trial: SchedulerTrial) -> Problem:
    """The trace as a problem. Raises InputError for a trace or checkpoint that cannot be read."""
    if trial.checkpoint is None:
        return Problem.build(open_trace(trial.trace, trial.slot_seconds), Scenario(load=trial.load))
    from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint

    saved = Checkpoint.load(find_checkpoint(trial.checkpoint))
    return saved.problem(open_trace(saved.trace["argument"], saved.trace["slot_seconds"]), trial.load)


def scheduler_of(trial: SchedulerTrial, name: str) -> Scheduler:
    """A registered scheduler, or the checkpoint's policy. Raises InputError for an unknown name."""
    if name != POLICY or trial.checkpoint is None:
        return make_scheduler(name)
    from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
    from tvwrl.agents.policy_scheduler import load_policy

    return load_policy(trial.checkpoint, Checkpoint.load(find_checkpoint(trial.checkpoint)))


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


def _metrics(episode: Episode, problem: Problem, learnt: TrainedScore) -> dict[str, float]:
    """Slowdown under the law, predicted level, and the usual metrics of an episode."""
    score = learnt.score
    assert score.thresholds is not None
    step = problem.scenario.step_seconds
    seen = episode_snapshots([episode], problem.machines, step, score.thresholds, learnt.seed)
    rng = np.random.default_rng([learnt.seed, 2, episode.sequence])
    times = learnt.responses.response_ms(learnt.deployment, seen, rng)
    slowdown = times / learnt.responses.base[learnt.deployment.service]
    usual = problem.score(episode)
    return {
        "slowdown": float(slowdown.mean()),
        "slowdown_p99": float(np.percentile(slowdown, 99)),
        "predicted": float(_predicted_levels(score, seen).mean()),
        **{name: usual[name] for name in ("reward", "overshoot_pct", "wait_mean")},
    }


def _predicted_levels(score: InterferenceScore, seen: Snapshots) -> Float:
    """(T, M) mean level that a score predicts for machines with one instance of each of its services."""
    times, count, categories = seen.composition.shape
    machines = uniform_machines(seen.composition.reshape(times * count, categories), len(score.services))
    return score.mean_level(machines).reshape(times, count)
