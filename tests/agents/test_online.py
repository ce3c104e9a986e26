"""Online learning: each arrival once, what stays frozen, what is learnt and what an interruption leaves."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.config import PRESETS
from tvwrl.agents.online import OnlineConfig, OnlineLearner, OnlinePPO, Phase
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.agents.training import Trainer
from tvwrl.bench.runner import Runner
from tvwrl.metrics import score_episode
from tvwrl.types import InputError

CONFIG = OnlineConfig(episodes=3, learning_rate=1e-3, save_every=2)
TRACE = {"argument": "google", "slot_seconds": None, "name": "google", "source": "synthetic", "hash": "x"}


@pytest.fixture(scope="module")
def start(problem, tmp_path_factory):
    """A policy after one iteration of training."""
    few = {"iterations": 1, "train_sequences": 4, "sequences_per_iteration": 4, "eval_sequences": 2, "hidden": 16}
    config = replace(PRESETS["smoke"], scenario=problem.scenario, **few)
    trainer = Trainer(problem, config, tmp_path_factory.mktemp("start"), TRACE, lambda _: None)
    trainer.run()
    return trainer.checkpoint()


@pytest.fixture(scope="module")
def stream(problem):
    """Three sequences at the load of the training, then three at a higher one."""
    phases = (problem, TRACE), (problem.at_load(0.8), {**TRACE, "name": "busier"})
    return [Phase.draw(*phase, place, CONFIG) for place, phase in enumerate(phases)]


def learn(start, stream, folder, config=CONFIG, stop_after=None):
    """A learner at the end of the stream, or after some updates."""
    learner = OnlineLearner(start, stream, config, folder)
    learner.run(stop_after)
    return learner


def same(one, two):
    """Nested dicts of tensors and numbers are equal to the bit."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    return torch.equal(one, two) if isinstance(one, torch.Tensor) else bool(one == two)


def test_without_learning_the_policy_plays_every_sequence_once_as_the_checkpoint_does(start, stream, tmp_path):
    learner = learn(start, stream, tmp_path, replace(CONFIG, learning_rate=0, explore=False))
    assert same(learner.policy.state_dict(), start.policy)
    assert [(row["phase"], row["sequence"]) for row in learner.progress] == [(p, i) for p in range(2) for i in range(3)]
    assert [row["episode"] for row in learner.progress] == list(range(6))
    frozen = PolicyScheduler("frozen", start)
    for place, phase in enumerate(stream):
        problem, scenario = phase.problem, phase.problem.scenario
        runner = Runner(phase.sequences, problem.machines, scenario)
        for i in range(3):
            scores = score_episode(runner.play(frozen, i), problem.machines, scenario.penalty_weights())
            assert learner.progress[3 * place + i]["reward"] == scores["reward"]


def test_arrivals_are_new_and_differ_by_phase_and_seed(problem, stream):
    first, other_place = stream[0].sequences, Phase.draw(problem, TRACE, 1, CONFIG).sequences
    other_seed = Phase.draw(problem, TRACE, 0, replace(CONFIG, seed=1)).sequences
    evaluated = problem.sequences("test", 3, 0)
    for sequences in (other_place, other_seed, evaluated):
        assert not (sequences.arrival == first.arrival).all(axis=1).any()
    train = {name.partition("#")[0] for name in problem.sequences("train", 8, 0).workload_id.ravel()}
    assert train.isdisjoint(name.partition("#")[0] for name in first.workload_id.ravel())


def test_each_update_learns_from_the_episodes_just_played(start, stream, tmp_path):
    learner = OnlineLearner(start, stream, CONFIG, tmp_path)
    before = start.policy
    for done in range(1, 4):
        learner.run(1)
        after = {name: value.clone() for name, value in learner.policy.state_dict().items()}
        assert learner.updates == len(learner.progress) == done
        assert not same(before, after)
        before = after
    gathered = learn(start, stream, tmp_path / "gathered", replace(CONFIG, episodes=2, episodes_per_update=2))
    assert gathered.updates == gathered.total == 2
    assert [(row["phase"], row["sequence"]) for row in gathered.progress] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_resuming_is_exact_and_the_same_seed_repeats(start, stream, tmp_path):
    whole, again = learn(start, stream, tmp_path / "whole"), learn(start, stream, tmp_path / "again")
    for stop_after in (1, 3, 2):
        parts = OnlineLearner(start, stream, CONFIG, tmp_path / "parts")
        if stop_after != 1:
            parts.restore(Checkpoint.load(tmp_path / "parts" / "checkpoints" / "last.pt"))
        parts.run(stop_after)
    one = whole.checkpoint()
    for other in (again, parts):
        two = other.checkpoint()
        assert one.iteration == two.iteration == start.iteration + 6
        for part in ("policy", "learner", "random"):
            assert same(getattr(one, part), getattr(two, part))
        progress = [(learner.folder / "progress.csv").read_text() for learner in (whole, other)]
        assert progress[0] == progress[1]
    other = learn(start, stream, tmp_path / "other", replace(CONFIG, seed=1))
    assert not same(one.policy, other.policy.state_dict())


def test_the_checkpoint_is_of_the_phase_that_the_policy_last_worked_in(start, stream, tmp_path):
    learner = OnlineLearner(start, stream, CONFIG, tmp_path)
    found = []
    for _ in range(4):
        learner.run(1)
        saved = Checkpoint.load(tmp_path / "checkpoints" / "last.pt")
        found.append((saved.trace["name"], saved.config.scenario.load))
    assert found == [("google", 0.5)] * 3 + [("busier", 0.8)]
    assert same(saved.policy, learner.policy.state_dict())


def test_running_moments_by_hand(start):
    policy = start.make_policy()
    learner = OnlinePPO(policy, start.config, memory=0.5)
    assert learner.moments(np.array([0.0, 2.0])) == (1.0, 1.0)  # the first update: its own
    mean, deviation = learner.moments(np.array([4.0, 4.0]))  # weights 1/3 and 2/3
    assert mean == pytest.approx((1 * 1 + 2 * 4) / 3)
    assert deviation == pytest.approx(np.sqrt((1 * 2 + 2 * 16) / 3 - 9))
    other = OnlinePPO(policy, start.config, memory=0.5)
    other.restore(learner.state())
    assert other.moments(np.array([1.0])) == learner.moments(np.array([1.0]))


def test_bad_settings_are_refused(start, stream, tmp_path):
    for change, said in (
        ({"episodes": 0}, "episodes is 0"),
        ({"memory": 1.0}, "memory is 1.0"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"episodes": 5, "episodes_per_update": 2}, "multiple of episodes_per_update, 2"),
    ):
        with pytest.raises(InputError, match=said):
            OnlineConfig(**change)
    reinforce = replace(start, config=replace(start.config, algo="reinforce"))
    with pytest.raises(InputError, match="each arrives once"):
        OnlineLearner(reinforce, stream, CONFIG, tmp_path)
