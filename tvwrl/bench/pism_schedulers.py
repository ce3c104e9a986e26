"""What PISM does to schedulers of the time-varying simulator: with and without, on the same sequences (simulated)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.bench.figures import write_figure
from tvwrl.command_line import Names
from tvwrl.envs.problem import Problem
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.interference.categories import Thresholds
from tvwrl.interference.machines import Machines, uniform_machines
from tvwrl.interference.scheduler import WithInterference
from tvwrl.interference.score import InterferenceScore
from tvwrl.interference.testbed.episodes import episode_snapshots
from tvwrl.interference.testbed.laws import LAWS
from tvwrl.interference.testbed.snapshots import Snapshots
from tvwrl.interference.training import EPISODES, TrainedScore, check_training, describe_trace, train_on_trace
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import Scheduler, make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import open_and_describe, open_trace
from tvwrl.types import Episode, Float, InputError, Int

NAMES = {"schedulers": "no figure, but schedulers of the time-varying simulator with and without PISM"}
ALONE, UTILISATION, PISM = "alone", "utilisation", "pism"  # ways: the last two add to the scheduler alone
FIGURES = {  # of a row, how many digits, and the unit
    "slowdown": ("mean slowdown", 3, 1),
    "slowdown_p99": ("P99 slowdown", 2, 1),
    "predicted": ("predicted level", 2, 1),
    "reward": ("reward, thousands", 0, 1000),
    "overshoot_pct": ("overshoot %", 2, 1),
    "wait_mean": ("wait, slots", 2, 1),
}


class LeastCpu(InterferenceScore):
    """What PISM has to beat: no score, but of the same candidates the machine with the least CPU in use."""

    def choose(self, machines: Machines, now: float, category: int, candidates: Int) -> int:
        """The first of `candidates` (n,) with the least share of its cores in use."""
        return int(candidates[(machines.cpu / machines.cores)[candidates].argmin()])

    @classmethod
    def of_score(cls, score: InterferenceScore) -> LeastCpu:
        """One that tells categories by the same thresholds."""
        return cls(**{one.name: getattr(score, one.name) for one in fields(score) if one.init})


@dataclass(frozen=True)
class SchedulerSettings:
    """Schedulers with and without PISM on the same test sequences of a trace; response times are simulated."""

    trace: str = "google"
    """google, alibaba, a prepared trace's name, a trace folder or a CSV."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    schedulers: Names = ("spread", "stack", "stack-80", "random", "load-aware", "target-load-packing", "risk-balancing")
    """Registered names."""
    checkpoint: Path | None = None
    """A training run whose policy to try too; environment and trace are then the checkpoint's."""
    laws: Names = tuple(LAWS)
    """How batch work slows services; control: by its total CPU alone."""
    load: float = 0.5
    """Offered load."""
    sequences: int = 30
    """Test sequences."""
    episodes: int = EPISODES
    """Training sequences to learn scores from."""
    weighting: str = "corr"
    """How much each service counts: fair, cpu-quota, corr, cv."""
    seed: int = 0
    """Of sequences, services, noise and trees."""

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown of `schedulers`, which is written to a folder of that name in `out` too."""
        for field, least in (("sequences", 2), ("seed", 0)):
            if getattr(self, field) < least:
                raise InputError(f"{field} is {getattr(self, field)}: must be at least {least}")
        if not self.laws or not (self.schedulers or self.checkpoint):
            raise InputError("the list of laws or of schedulers is empty")
        for law in self.laws:
            check_training(law, self.weighting, self.episodes)
        problem, inner = self._problem()
        rows = compare(problem, inner, self)
        text = _text(rows, self, problem, [scheduler.name for scheduler in inner])
        write_figure(out / name, text, rows, {}, asdict(self))
        return text

    def _problem(self) -> tuple[Problem, list[Scheduler]]:
        schedulers = [make_scheduler(name) for name in self.schedulers]
        if self.checkpoint is None:
            trace = open_and_describe(self.trace, self.slot_seconds, partial(tqdm.write, file=sys.stderr))
            return Problem.build(trace, Scenario(load=self.load)), schedulers
        from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
        from tvwrl.agents.policy_scheduler import load_policy

        saved = Checkpoint.load(find_checkpoint(self.checkpoint))
        trace = open_trace(saved.trace["argument"], saved.trace["slot_seconds"])
        return saved.problem(trace, self.load), [load_policy(self.checkpoint, saved), *schedulers]


def compare(problem: Problem, schedulers: Sequence[Scheduler], settings: SchedulerSettings) -> list[dict[str, Any]]:
    """A row per law, scheduler, way (alone, by utilisation, with PISM), and test sequence."""
    if any(scheduler.needs_forecasts for scheduler in schedulers):
        problem = problem.with_forecasts()
    drawn = problem.sequences("test", settings.sequences, settings.seed)
    runner = Runner(drawn, problem.machines, problem.scenario, settings.seed)
    alone = {one.name: [runner.play(one, i) for i in range(len(drawn))] for one in schedulers}
    rows = []
    pairs = [(law, one) for law in settings.laws for one in schedulers]
    learnt: dict[str, TrainedScore] = {}
    for law, one in tqdm(pairs, desc="placing with PISM", disable=None, leave=False):
        if law not in learnt:
            learnt[law] = train_on_trace(problem, law, settings.weighting, settings.episodes, settings.seed)
        score = learnt[law].score
        ways = {UTILISATION: WithInterference(one, LeastCpu.of_score(score)), PISM: WithInterference(one, score)}
        for i, before in enumerate(alone[one.name]):
            for way, episode in {ALONE: before, **{way: runner.play(ways[way], i) for way in ways}}.items():
                elsewhere = 100 * float((episode.machine != before.machine).mean())
                about = {"law": law, "scheduler": one.name, "way": way, "sequence": i, "elsewhere": elsewhere}
                rows.append(about | _judged(episode, problem, learnt[law]))
    return rows


def _judged(episode: Episode, problem: Problem, learnt: TrainedScore) -> dict[str, float]:
    """The referee's figures of an episode: response times by the law, over undisturbed ones, and the usual ones."""
    assert isinstance(learnt.score.thresholds, Thresholds)
    step = problem.scenario.step_seconds
    seen = episode_snapshots([episode], problem.machines, step, learnt.score.thresholds, learnt.seed)
    rng = np.random.default_rng([learnt.seed, 2, episode.sequence])
    slowed = (
        learnt.responses.response_ms(learnt.deployment, seen, rng) / learnt.responses.base[learnt.deployment.service]
    )
    usual = problem.score(episode)
    return {
        "slowdown": float(slowed.mean()),
        "slowdown_p99": float(np.percentile(slowed, 99)),
        "predicted": float(predicted_levels(learnt.score, seen).mean()),
        **{name: usual[name] for name in ("reward", "overshoot_pct", "wait_mean")},
    }


def predicted_levels(score: InterferenceScore, seen: Snapshots) -> Float:
    """(T, M) mean level that a score predicts for machines which run one instance of each of its services."""
    times, count, categories = seen.composition.shape
    machines = uniform_machines(seen.composition.reshape(times * count, categories), len(score.services))
    return score.mean_level(machines).reshape(times, count)


def _text(rows: list[dict[str, Any]], settings: SchedulerSettings, problem: Problem, names: Sequence[str]) -> str:
    body = []
    for law in settings.laws:
        for name in names:
            own = {way: [row for row in rows if (row["law"], row["scheduler"], row["way"]) == (law, name, way)]
                   for way in (ALONE, UTILISATION, PISM)}  # fmt: skip
            alone = [f"{np.mean(_column(own[ALONE], field, unit)):.{digits}f}"
                     for field, (_, digits, unit) in FIGURES.items()]  # fmt: skip
            body.append([f"{law}: {name}", "", *alone])
            for way in (UTILISATION, PISM):
                elsewhere = f"{np.mean(_column(own[way], 'elsewhere')):.0f}"
                body.append([f"{law}: {name} + {way}", elsewhere, *_changes(own[way], own[ALONE])])
    head = ("law: scheduler (simulated)", "elsewhere, %", *(title for title, *_ in FIGURES.values()))
    return (
        "# Schedulers with and without PISM (simulated)\n\n"
        f"Trace {describe_trace(problem)}, load {settings.load:g}, {settings.sequences} test sequences: each "
        "scheduler alone, and what is added by the least CPU in use among its best machines (utilisation), or by PISM "
        "among the same [95 % interval, paired by sequence]. Response times are simulated under a law that "
        f"no score sees; slowdown: over the undisturbed response time. Scores are learnt of {settings.episodes} "
        "training sequences. Elsewhere: workloads that come to another machine than alone.\n\n"
        f"{markdown_table(head, body)}\n"
    )


def _changes(rows: list[dict[str, Any]], alone: list[dict[str, Any]]) -> list[str]:
    """Of each figure the difference to the scheduler alone, with its interval."""
    told = []
    for field, (_, digits, unit) in FIGURES.items():
        after, before = _column(rows, field, unit), _column(alone, field, unit)
        difference, low, high = paired_bootstrap(after, before)
        told.append(f"{difference:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]")
    return told


def _column(rows: list[dict[str, Any]], field: str, unit: float = 1.0) -> Float:
    return np.array([row[field] for row in rows], np.float64) / unit
