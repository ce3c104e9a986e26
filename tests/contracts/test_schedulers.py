"""What every registered scheduler keeps to, and what each may know."""

import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from tvwrl.agents.config import PRESETS
from tvwrl.agents.deeprm import DeepRM
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.explorer.recorder import record
from tvwrl.metrics import penalties, score_episode
from tvwrl.schedulers import KNOWLEDGE, PRODUCTION, SCHEDULERS, Scheduler, make_scheduler
from tvwrl.schedulers.knowledge import CURRENT_LOAD, FORECASTS, FUTURE, PEAKS, REQUESTS
from tvwrl.schedulers.planning.continuation import WAIT
from tvwrl.schedulers.planning.rollout import Rollout
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.types import Machines, Placement

LEARNING = (
    "lava-like",
    "nilas-like",
    "coach-like",
    "resource-central-like",
)  # from training sequences, in every episode
PLANNING = ("rollout(expected-cost)", "rollout(best-fit-peak)", "rollout(spread)")  # one for each kind of knowledge
EVERY = (*SCHEDULERS, *PLANNING, "deeprm")  # the last is learnt
CAUTIOUS = [
    *(name for name in SCHEDULERS if KNOWLEDGE[name] in (PEAKS, FUTURE) and name not in PRODUCTION),
    *(f"rollout({base}-peak)" for base in ("best-fit", "expected-cost")),
    "deeprm",
]
SEEING_NO_FUTURE = (CURRENT_LOAD.group, REQUESTS.group, FORECASTS.group)
HETEROGENEOUS = Machines(np.array([[8.0, 6.0], [6.0, 12.0], [16.0, 16.0]]), ("cpu", "mem"))


def make(name):
    """A scheduler of the registry, DeepRM after a little training, or a rollout that spends little."""
    if name.startswith("rollout("):
        return Rollout(make_scheduler(name[len("rollout(") : -1]), rollouts=8, horizon=8, certainty=0.0)
    return deeprm() if name == "deeprm" else make_scheduler(name)


@lru_cache(maxsize=1)
def deeprm():
    trace = synthetic_trace("google", workloads=40, seed=0, days=4)
    config = replace(PRESETS["deeprm"], iterations=2, train_sequences=4, sequences_per_iteration=2, trajectories=2)
    config = replace(config, scenario=Scenario(machines=4, workloads=16, max_slots=0), eval_every=100)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(Problem.build(trace, config.scenario), config, Path(folder), {}, print)
        trainer.run()
        return DeepRM("deeprm", trainer.checkpoint())


def play(name, sequences, machines, scenario, sequence=0):
    return Runner(sequences, machines, scenario, seed=3).play(make(name), sequence)


def assert_valid(episode, machines, limit):
    """Everything is placed on a real machine, not before it arrives, and no more than `limit` in a slot."""
    assert (episode.start >= episode.arrival).all()
    assert ((episode.machine >= 0) & (episode.machine < len(machines))).all()
    assert limit is None or np.bincount(episode.start).max() <= limit


# ---- every scheduler


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("limit", [1, None])
def test_places_everything(problem, train, name, limit):
    machines = Machines.homogeneous(2, 8, ("cpu", "mem"))
    scenario = replace(problem.scenario, placements_per_slot=limit)
    for sequence in (1, 4):
        episode = play(name, train, machines, scenario, sequence)
        assert_valid(episode, machines, limit)
        assert (episode.scheduler, episode.sequence) == (name, sequence)
        assert episode.decision_ms >= 0
        assert (episode.start > episode.arrival).any()  # two machines are too few to place all at once


@pytest.mark.parametrize("name", EVERY)
def test_the_same_seed_gives_the_same_placements(problem, train, name):
    scheduler, runner = make(name), Runner(train, problem.machines, problem.scenario, seed=3)
    first = runner.play(scheduler, 2)
    runner.play(scheduler, 5)  # what it did in between makes no difference
    for again in (runner.play(scheduler, 2), play(name, train, problem.machines, problem.scenario, 2)):
        assert np.array_equal(again.start, first.start)
        assert np.array_equal(again.machine, first.machine)


@pytest.mark.parametrize("name", EVERY)
def test_runs_on_unequal_machines(problem, train, name):
    episode = play(name, train, HETEROGENEOUS, problem.scenario, 3)
    assert_valid(episode, HETEROGENEOUS, 1)
    first = np.array([demand[0] for demand in episode.demand])
    assert (first <= HETEROGENEOUS.capacity[episode.machine]).all()


@pytest.mark.parametrize("name", CAUTIOUS)
@pytest.mark.parametrize("quantise", [True, False])
def test_who_knows_peaks_or_future_never_overshoots(problem, google, name, quantise):
    if quantise:
        sequences = problem.sequences("test", 3, seed=1)
    else:
        fractional = Problem.build(
            google,
            replace(problem.scenario, quantise=False, machine_types=("3x16",)),
            problem.classes,
            None,
            problem.forecaster,
        )
        sequences = fractional.sequences("test", 3, seed=1)
    machines = Machines.homogeneous(3, 8 if quantise else 16, ("cpu", "mem"))
    weights = problem.scenario.penalty_weights()
    for sequence in range(3):
        episode = play(name, sequences, machines, problem.scenario, sequence)
        assert score_episode(episode, machines, weights)["overshoot_pct"] == 0
        assert (episode.start >= 0).all()


def test_current_load_alone_does_overshoot(problem, train):
    # Otherwise the test above would not tell anything.
    machines = Machines.homogeneous(3, 8, ("cpu", "mem"))
    weights = problem.scenario.penalty_weights()
    episodes = [play("stack", train, machines, problem.scenario, sequence) for sequence in range(len(train))]
    assert any(score_episode(episode, machines, weights)["overshoot_pct"] > 0 for episode in episodes)


# ---- what may be known


def with_other_future(sequences, sequence, episode, now):
    """The sequences with all that lies after slot `now` of an episode changed: demand and ends of what runs, demand
    after the first slot of what waits, all demand of what has not arrived."""
    demand, length = sequences.demand.copy(), sequences.length.copy()
    rng = np.random.default_rng(1)
    for i, (arrival, start) in enumerate(zip(episode.arrival, episode.start, strict=True)):
        seen = 0 if arrival > now else 1 if start > now else now - start + 1
        if seen < length[sequence, i]:
            ends = int(rng.integers(max(seen, 1), demand.shape[2] + 1))
            demand[sequence, i, seen:ends] = rng.integers(1, 7, (ends - seen, demand.shape[3]))
            demand[sequence, i, ends:] = 0
            length[sequence, i] = ends
    return replace(sequences, demand=demand, length=length)


def changed_decisions(name, sequences, machines, scenario):
    """How many of several moments' decisions (up to then) depend on what comes after them."""
    changed = 0
    for sequence in range(1 if name in (*PLANNING, *LEARNING) else 3):
        episode = play(name, sequences, machines, scenario, sequence)
        for now in np.quantile(episode.start, (0.3, 0.5, 0.7), method="nearest"):
            other = play(name, with_other_future(sequences, sequence, episode, now), machines, scenario, sequence)
            known = [np.where(e.start <= now, [e.start, e.machine], -1) for e in (episode, other)]
            changed += not np.array_equal(*known)
    return changed


@pytest.mark.parametrize("name", [*SCHEDULERS, "rollout(expected-cost)"])
def test_only_peaks_and_clairvoyant_know_the_future(problem, train, name):
    machines = Machines.homogeneous(3, 8, ("cpu", "mem"))
    changed = changed_decisions(name, train, machines, problem.scenario)
    if KNOWLEDGE[name].group in SEEING_NO_FUTURE:
        assert changed == 0
    elif name in ("best-fit-peak", "clairvoyant", "hindsight", "peak-oracle"):
        assert changed > 0  # shows that the change can be noticed


def with_other_usage(sequences, sequence, episode, last):
    """The sequences with all usage after slot `last` of an episode changed, and all that is derived from it: labels and
    forecasts. Lengths stay, and so does what is known of waiting workloads, their first slot."""
    demand, label, table = sequences.demand.copy(), sequences.label.copy(), sequences.forecast.values.copy()
    rng = np.random.default_rng(1)
    for i, start in enumerate(episode.start):
        seen, length = max(int(last - start) + 1, 1), sequences.length[sequence, i]
        if seen < length:
            demand[sequence, i, seen:length] = rng.integers(1, 7, (length - seen, demand.shape[3]))
            label[sequence, i, seen + 1 :] = rng.integers(1, sequences.classes + 1, label.shape[2] - seen - 1)
            table[sequence, i, seen + 1 :] = rng.integers(0, 200, table[sequence, i, seen + 1 :].shape)
    forecast = replace(sequences.forecast, values=table)
    return replace(sequences, demand=demand, label=label, forecast=forecast)


SEEING_USAGE = [
    name
    for name in SCHEDULERS
    if KNOWLEDGE[name] in (CURRENT_LOAD, FORECASTS) or (name in PRODUCTION and KNOWLEDGE[name] != FUTURE)
]


@pytest.mark.parametrize("name", [*SEEING_USAGE, "rollout(expected-cost)", "rollout(spread)"])
def test_nobody_sees_usage_before_it_is_measured(problem, train, name):
    machines, changed = Machines.homogeneous(3, 8, ("cpu", "mem")), {0: 0, 2: 0}
    if name in PRODUCTION:
        changed = {2: 0}
    for late in changed:
        scenario = replace(problem.scenario, usage_delay=late)
        for sequence in range(1 if name in (*PLANNING, *LEARNING) else 3):
            episode = play(name, train, machines, scenario, sequence)
            for now in np.quantile(episode.start, (0.3, 0.5, 0.7, 0.9), method="nearest"):
                other = with_other_usage(train, sequence, episode, now - 2)
                again = play(name, other, machines, scenario, sequence)
                known = [np.where(e.start <= now, [e.start, e.machine], -1) for e in (episode, again)]
                changed[late] += not np.array_equal(*known)
    assert changed[2] == 0
    assert changed.get(0) != 0 or name in ("random", "round-robin")  # shows that the change can be noticed


@pytest.mark.parametrize("name", [name for name in SCHEDULERS if KNOWLEDGE[name].group == REQUESTS.group])
def test_what_stands_in_for_requests_is_no_future(problem, train, name):
    silent = replace(train, request=np.full_like(train.request, np.nan))
    machines = Machines.homogeneous(3, 8, ("cpu", "mem"))
    assert changed_decisions(name, silent, machines, problem.scenario) == 0


@pytest.mark.parametrize("name", ["deeprm"] + [name for name in SCHEDULERS if KNOWLEDGE[name] == PEAKS])
def test_peaks_are_all_that_is_known_of_demand(problem, train, name):
    # Every slot but the peaks' own is set to 1 unit: lengths and peaks stay, so nothing else may change.
    flat = np.where(train.demand > 0, 1.0, 0.0)
    at_peak = train.demand == train.demand.max(axis=2, keepdims=True)
    other = replace(train, demand=np.where(at_peak, train.demand, flat))
    assert not np.array_equal(other.demand, train.demand)
    episodes = [play(name, sequences, problem.machines, problem.scenario, 1) for sequences in (train, other)]
    assert np.array_equal(episodes[0].start, episodes[1].start)
    assert np.array_equal(episodes[0].machine, episodes[1].machine)


# ---- what alternatives cost


class Deviating(Scheduler):
    """Decides as `inner` does, but for decision `number`, where the workload goes to `machine` or waits a slot."""

    def __init__(self, inner, number, machine):
        self.name, self.knowledge = inner.name, inner.knowledge
        self.looks_at_grid, self.needs_forecasts = inner.looks_at_grid, inner.needs_forecasts
        self.inner, self.number, self.machine = inner, number, machine

    def reset(self, cluster, rng):
        self.inner.reset(cluster, rng)
        self.taken, self.waits_in = 0, -1

    def schedule(self, cluster, pending):
        if cluster.slot == self.waits_in:
            return
        some = False
        for placement in self.inner.schedule(cluster, pending):
            if self.taken == self.number:
                self.taken += 1
                if self.machine == WAIT:
                    self.waits_in = cluster.slot
                else:
                    yield Placement(placement.workload, self.machine)
                return
            self.taken, some = self.taken + 1, True
            yield placement
        if not some:
            self.taken += 1
            if self.taken - 1 == self.number and self.machine != WAIT:
                yield Placement(pending[0], self.machine)


@pytest.mark.parametrize("name", [name for name in EVERY if not name.startswith("rollout(")])
@pytest.mark.parametrize("limit", [1, None])
def test_an_alternative_costs_what_the_referee_says_when_it_is_played(problem, train, name, limit):
    machines = Machines.homogeneous(3, 8, ("cpu", "mem"))
    scenario = replace(problem.scenario, placements_per_slot=limit)
    runner, weights = Runner(train, machines, scenario, seed=3), scenario.penalty_weights()
    recording = record(runner, make(name), 1, seconds=0.04)  # from a few decisions: that is enough, and quick
    assert recording.repeats
    assert recording.penalties.sum() == pytest.approx(-score_episode(recording.episode, machines, weights)["reward"])
    draws = np.random.default_rng(5)
    for k in np.flatnonzero(recording.simulated)[:5:2]:
        before = recording.penalties[: recording.slot[k]].sum(axis=0)
        for a in draws.choice(4, 2, replace=False):
            machine = recording.machines[k, a]
            played = runner.play(Deviating(make(name), k, machine), 1)
            found = np.array(list(penalties(played, machines, weights).values()))[:-1]  # nothing moves
            assert before + recording.costs[k, a] == pytest.approx(found, rel=1e-9), (k, machine)


@pytest.mark.parametrize("name", PLANNING)
def test_after_the_alternatives_of_a_rollout_goes_on_what_it_improves(problem, train, name):
    machines, base = Machines.homogeneous(3, 8, ("cpu", "mem")), name[len("rollout(") : -1]
    runner = Runner(train, machines, problem.scenario, seed=3)
    recording = record(runner, make(name), 1)
    assert recording.continued_by == base
    first = runner.play(Deviating(make_scheduler(base), 0, recording.machines[0, 2]), 1)
    total = sum(penalties(first, machines, problem.scenario.penalty_weights()).values())
    assert recording.totals[0, 2] == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_recording_an_episode_does_not_change_it(problem, train, name):
    machines = Machines.homogeneous(2, 8, ("cpu", "mem"))
    runner = Runner(train, machines, problem.scenario, seed=3)
    recording = record(runner, make(name), 4, what_if=False)
    again = play(name, train, machines, problem.scenario, 4)
    assert (recording.episode.machine == again.machine).all()
    assert (recording.episode.start == again.start).all()
