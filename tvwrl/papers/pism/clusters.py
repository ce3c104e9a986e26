"""Simulated clusters: PISM learns under the default scheduler, then every scheduler is tried on the time that follows.

A cluster is one law and one seed; what its cells have in common is computed once per process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tvwrl.interference import (
    CANDIDATES,
    DEFAULT,
    LAWS,
    LOAD_AWARE,
    RANDOM,
    RISK_BALANCING,
    SPREAD,
    STACK,
    TARGET_LOAD_PACKING,
    UTILISATION_ALONE,
    Arrivals,
    Deployment,
    LevelPredictor,
    Levels,
    Observations,
    PlacementRule,
    ResponseModel,
    Snapshots,
    draw_deployment,
    draw_response_model,
    read_hour,
    replay_hour,
    service_weights,
    simulate,
    take_snapshots,
)
from tvwrl.papers.pism.law_fitting import ERMS_FILE, fit_erms
from tvwrl.types import Float

K = 10  # levels
WARM_UP = 20  # minutes before the first record: longer than an instance runs
EVERY = 4  # minutes between the records that trees learn from
MOVES = 5  # instances that may leave a bad machine per minute where PISM decides alone
KINDS = {
    "default": DEFAULT,
    "random": RANDOM,
    "spread": SPREAD,
    "stack": STACK,
    "LoadAware": LOAD_AWARE,
    "TargetLoadPacking": TARGET_LOAD_PACKING,
    "LoadVariationRiskBalancing": RISK_BALANCING,
}
ALONE = "pism"  # every machine is a candidate, ties are broken at random, and running instances move
NO_MOVES = "pism, no moves"
TEACHERS = (ALONE, "random", "spread")  # that PISM learns from again, each with PISM
# How a score was learnt; "" = a scheduler without one
ONCE, AGAIN = "learnt once", "learnt again"  # under the default scheduler alone; and then under PISM too
COUNTS = "counts alone"  # learnt once, by trees that test numbers of instances only, as the paper's
SHUFFLED = "shuffled"  # learnt once from other records' compositions: trees that know nothing
UTILISATION = "utilisation"  # no trees: the candidate with the least CPU in use


@dataclass(frozen=True)
class SimulatedCluster:
    """A cluster under one law, drawn with one seed."""

    law: str
    seed: int
    machines: int
    services: int
    learns: int  # minutes of the first period, under the default scheduler
    minutes: int  # of each later period
    rounds: int  # of learning again
    factor: float  # pressure of batch work, over the law's own assumption
    data: str  # folder of recorded batch tasks, "" = synthetic ones
    truth: bool  # schedulers know true categories
    silent: float  # share of the machines that do not report
    stale_after: float  # seconds after which a machine's last report no longer counts
    alike: bool  # services are equally sensitive
    measured_services: bool  # as sensitive as Erms' microservices, not as the distribution fitted to them

    @property
    def name(self) -> str:
        """Different for all clusters of a figure."""
        return f"{self.law}-{self.machines}-{self.services}-{self.minutes}-{self.factor:g}-{self.seed}"


class FirstPeriod(NamedTuple):
    """The cluster while PISM learns, the same under all laws."""

    deployment: Deployment
    hour: Arrivals
    seen: Snapshots


class Learnt(NamedTuple):
    """Services under a law, and what PISM learnt of them."""

    responses: ResponseModel
    levels: Levels
    weight: Float  # (R,) of service instances in a machine's score
    observations: Observations
    predictors: dict[str, LevelPredictor]  # by how they learnt, but `AGAIN`


def first_period(cluster: SimulatedCluster) -> FirstPeriod:
    """Deployment, recorded hour, and the first period under the default scheduler."""
    later = replace(cluster, minutes=0, rounds=0, silent=0.0, stale_after=0.0)  # what the first period does not see
    return _first_period(replace(later, law="", factor=1.0, alike=False, measured_services=False))


@lru_cache(maxsize=1)
def _first_period(cluster: SimulatedCluster) -> FirstPeriod:
    rng = np.random.default_rng(cluster.seed)
    hour = read_hour(Path(cluster.data) if cluster.data else None, cluster.truth, rng)
    arrivals = replay_hour(hour, cluster.machines, cluster.learns, rng)
    deployment = draw_deployment(cluster.machines, cluster.services, arrivals, 60 * cluster.learns, rng)
    record = simulate(deployment, arrivals, PlacementRule(DEFAULT), rng)
    return FirstPeriod(deployment, hour, take_snapshots(record, _minutes(cluster.learns)))


@lru_cache(maxsize=1)
def learn(cluster: SimulatedCluster) -> Learnt:
    """Services under the cluster's law, and trees learnt from the first period."""
    deployment, _, seen = first_period(cluster)
    rng = np.random.default_rng([cluster.seed, 1])
    known = fit_erms(Path(cluster.data) / ERMS_FILE) if cluster.measured_services else None
    responses = draw_response_model(LAWS[cluster.law].scaled(cluster.factor), deployment, seen, rng, known)
    responses = responses.equally_sensitive() if cluster.alike else responses
    observations = responses.observe(seen, rng, EVERY)
    levels = Levels.of(observations, K, skip_rare=True)
    weight = service_weights("corr", observations)[deployment.service]
    other = np.random.default_rng([cluster.seed, 6]).permutation(len(observations.seconds))
    shuffled = replace(observations, composition=observations.composition[other])
    predictors = {
        name: LevelPredictor(counts_alone=name == COUNTS, random_state=cluster.seed).fit(records, levels)
        for name, records in ((ONCE, observations), (COUNTS, observations), (SHUFFLED, shuffled))
    }
    return Learnt(responses, levels, weight, observations, predictors)


def predictors_of(cluster: SimulatedCluster) -> dict[str, LevelPredictor]:
    """All predictors by how they learnt; `AGAIN` only with `rounds`."""
    again = {AGAIN: _learn_again(cluster)} if cluster.rounds else {}
    return learn(cluster).predictors | again


@lru_cache(maxsize=1)
def _learn_again(cluster: SimulatedCluster) -> LevelPredictor:
    """Learn, period by period, from what was observed under PISM so far, in addition to all before.

    Levels remain those of the default scheduler. Paper: trained once, on a day of the trace. Here as well: a scheduler
    that prefers machines with low predictions finds those whose predictions are too low.
    """
    hour, learnt = first_period(cluster).hour, learn(cluster)
    observations, predictor = learnt.observations, learnt.predictors[ONCE]
    for number in range(cluster.rounds):
        for teacher in TEACHERS:
            rng = np.random.default_rng([cluster.seed, 4, number, TEACHERS.index(teacher)])
            arrivals = replay_hour(hour, cluster.machines, cluster.minutes, rng)
            seen, _ = _play(cluster, arrivals, _rule(cluster, teacher, predictor), rng)
            observations = observations.and_then(learnt.responses.observe(seen, rng, EVERY))
        predictor = replace(predictor).fit(observations, learnt.levels)
    return predictor


def try_scheduler(cluster: SimulatedCluster, scheduler: str, learnt: str) -> tuple[Snapshots, float]:
    """The second period under a scheduler whose score was `learnt` in one of the ways above ("" = none).

    Returns the cluster at each minute after the warm-up, and moves per machine and minute.
    """
    if learnt == UTILISATION:
        rule = PlacementRule(KINDS[scheduler], CANDIDATES, UTILISATION_ALONE)
    elif learnt:
        rule = _rule(cluster, scheduler, predictors_of(cluster)[learnt])
    else:
        rule = PlacementRule(KINDS[scheduler])
    draws = np.random.default_rng([cluster.seed, 2])  # the same arrivals for all schedulers
    arrivals = replay_hour(first_period(cluster).hour, cluster.machines, cluster.minutes, draws)
    return _play(cluster, arrivals, rule, np.random.default_rng([cluster.seed, 3]))


def _play(
    cluster: SimulatedCluster, arrivals: Arrivals, rule: PlacementRule, rng: np.random.Generator
) -> tuple[Snapshots, float]:
    """The cluster at each minute after the warm-up, and moves per machine and minute."""
    record = simulate(first_period(cluster).deployment, arrivals, rule, rng, silent=cluster.silent)
    moves = len(record.moves) / (cluster.machines * cluster.minutes)
    return take_snapshots(record, _minutes(cluster.minutes)), moves


def _rule(cluster: SimulatedCluster, scheduler: str, predictor: LevelPredictor) -> PlacementRule:
    """The scheduler with PISM."""
    kind, moves = KINDS.get(scheduler, RANDOM), MOVES if scheduler == ALONE else 0
    candidates = CANDIDATES if scheduler in KINDS else cluster.machines
    return PlacementRule(kind, candidates, predictor.trees_, learn(cluster).weight, moves, cluster.stale_after)


def _minutes(last: int) -> Float:
    """Seconds of each minute after the warm-up, in a period of `last` minutes."""
    return np.arange(60.0 * WARM_UP, 60.0 * last, 60.0)
