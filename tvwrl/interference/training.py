"""Learns interference scores: from a trace's training sequences, or from simulated days of batch tasks."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from tvwrl.checks import at_least, one_of
from tvwrl.envs import Problem
from tvwrl.interference.batch_tasks import USAGE_FILE, read_usage
from tvwrl.interference.categories import Thresholds, thresholds_of
from tvwrl.interference.score import WEIGHTINGS, InterferenceScore
from tvwrl.interference.testbed.episodes import TwoDays, episode_snapshots, observe_days, uniform_deployment
from tvwrl.interference.testbed.laws import LAWS, ResponseModel, draw_response_model
from tvwrl.schedulers import Runner, make_scheduler
from tvwrl.types import Trace

TEACHERS = ("random", "spread", "stack", "best-fit")  # schedulers whose placements scores learn from, in turn
EPISODES = 24  # training sequences that a score learns from
LEAST_EPISODES = 4 * len(TEACHERS)  # so that the last quarter, which sets the scale, has one of each teacher
EVERY = 2  # slots between the records that scores learn from


class TrainedScore(NamedTuple):
    """A score, and the simulated services that it learnt from, which only an evaluation may use."""

    score: InterferenceScore
    responses: ResponseModel


def check_training(law: str, weighting: str, episodes: int | None) -> None:
    """Raise InputError for an unknown law or weighting, or too few episodes."""
    one_of(LAWS, law=law)
    one_of(WEIGHTINGS, weighting=weighting)
    at_least(LEAST_EPISODES, episodes=episodes)


def train_on_trace(problem: Problem, law: str, weighting: str, episodes: int = EPISODES, seed: int = 0) -> TrainedScore:
    """A score for a trace, learnt from `episodes` training sequences that `TEACHERS` placed in turn.

    Workloads are the batch work, with thresholds of their own (`thresholds_of`). Response times are simulated under the
    law; the score learns from observations alone. Errors: as of `check_training`.
    """
    check_training(law, weighting, episodes)
    sequences = problem.sequences("train", episodes, seed)
    step = problem.scenario.step_seconds
    thresholds = thresholds_of(sequences, problem.machines.capacity.max(axis=0), step)
    runner = Runner(sequences, problem.machines, problem.scenario, seed)
    placed = [
        runner.play(make_scheduler(TEACHERS[i % len(TEACHERS)]), i)
        for i in tqdm(range(episodes), desc="placing to learn from", disable=None, leave=False)
    ]
    rng = np.random.default_rng([seed, 1])
    seen = episode_snapshots(placed, problem.machines, step, thresholds, seed)
    deployment = uniform_deployment(len(problem.machines), rng)
    responses = draw_response_model(LAWS[law], deployment, seen, rng)
    score = InterferenceScore.fit(
        responses.observe(seen, rng, EVERY),
        weighting=weighting,
        random_state=seed,
        skip_rare=True,
        thresholds=thresholds,
    )
    score.about = (
        f"{episodes} training sequences of trace {describe_trace(problem.trace)} on {len(problem.machines)} machines "
        f"at load {problem.scenario.load:g}, law {law}, weighting {weighting}, seed {seed}"
    )
    return TrainedScore(score, responses)


def train_on_batch_tasks(days: TwoDays, law: str, weighting: str) -> InterferenceScore:
    """A score learnt from two simulated days of recorded batch tasks, which set the thresholds of categories.

    Raises InputError for a missing or damaged file.
    """
    assert days.data is not None
    usage = read_usage(days.data / USAGE_FILE, Counter())  # the simulation warns of malformed names
    thresholds = Thresholds.from_usage(usage.cpu, usage.memory, usage.makespan)
    first, second = observe_days(days, law, 0)
    score = InterferenceScore.fit(
        first.and_then(second),
        weighting=weighting,
        random_state=days.seed,
        skip_rare=True,
        thresholds=thresholds,
    )
    score.about = (
        f"two simulated days of {days.hours} h of batch tasks on {days.machines} machines with {days.services} "
        f"services, law {law}, weighting {weighting}, seed {days.seed}"
    )
    return score


def describe_trace(trace: Trace) -> str:
    """Name of a trace, and its source unless it was recorded."""
    return trace.name if trace.source == "real" else f"{trace.name} ({trace.source})"
