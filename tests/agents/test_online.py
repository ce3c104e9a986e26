"""Online learning: each arrival once, what stays frozen, what is learnt and what an interruption leaves."""

from dataclasses import replace

import pytest
import torch

from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.config import PRESETS
from tvwrl.agents.counterfactual import Counterfactual
from tvwrl.agents.online import OnlineConfig, OnlineLearner, Phase, play_frozen
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.agents.training import Trainer
from tvwrl.metrics import score_episode
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError

CONFIG = OnlineConfig(before=2, after=4, clusters=1, recent=2, minibatches=2, learning_rate=1e-3, save_every=2)
TRACE = {"argument": "google", "slot_seconds": None, "name": "google", "source": "synthetic", "hash": "x"}


@pytest.fixture(scope="module", params=["ppo", "counterfactual"])
def start(request, problem, tmp_path_factory):
    """A policy after one iteration of training."""
    few = {"algo": request.param} | {
        "iterations": 1,
        "train_sequences": 4,
        "sequences_per_iteration": 4,
        "eval_sequences": 2,
        "hidden": 16,
    }
    config = replace(PRESETS["smoke"], scenario=problem.scenario, **few)
    trainer = Trainer(problem, config, tmp_path_factory.mktemp("start"), TRACE, lambda _: None)
    trainer.run()
    return trainer.checkpoint()


@pytest.fixture(scope="module")
def stream(problem):
    """Two sequences at the load of the training, then four at a higher one."""
    phases = (problem, TRACE), (problem.at_load(0.8), {**TRACE, "name": "busier"})
    return [Phase.draw(*phase, place, CONFIG) for place, phase in enumerate(phases)]


def learn(start, stream, folder, config=CONFIG, stop_after=None):
    """A learner at the end of the stream, or after some updates."""
    learner = OnlineLearner(start, stream, config, folder)
    learner.run(stop_after)
    return learner


def same(one, two):
    """Nested dicts and lists of tensors and numbers are equal to the bit."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    return torch.equal(one, two) if isinstance(one, torch.Tensor) else bool(one == two)


def test_without_learning_the_policy_plays_every_sequence_once_as_the_checkpoint_does(
    start, stream, tmp_path, monkeypatch
):
    monkeypatch.setattr(Counterfactual, "play", None)  # labels, which nobody would look at, take most of the time
    learner = learn(start, stream, tmp_path, replace(CONFIG, learning_rate=0, explore=False))
    assert same(learner.policy.state_dict(), start.policy)
    frozen, expected = PolicyScheduler("frozen", start), []
    for place, phase in enumerate(stream):
        problem, scenario = phase.problem, phase.problem.scenario
        runner = Runner(phase.sequences, problem.machines, scenario)
        for i in range(len(phase.sequences)):
            scores = score_episode(runner.play(frozen, i), problem.machines, scenario.penalty_weights())
            expected.append((place, len(expected), i, scores["reward"]))
    by_two = replace(CONFIG, clusters=2)
    for rows in (learner.progress, play_frozen(start, stream, by_two, explore=False)):
        assert [(row["phase"], row["episode"], row["sequence"], row["reward"]) for row in rows] == expected


def test_arrivals_are_new_and_differ_by_phase_and_seed(problem, stream):
    first, other_place = (Phase.draw(problem, TRACE, place, replace(CONFIG, before=4)).sequences for place in range(2))
    other_seed = Phase.draw(problem, TRACE, 0, replace(CONFIG, before=4, seed=1)).sequences
    evaluated = problem.sequences("test", 4, 0)
    for sequences in (other_place, other_seed, evaluated):
        assert not (sequences.arrival == first.arrival).all(axis=1).any()
    train = {name.partition("#")[0] for name in problem.sequences("train", 8, 0).workload_id.ravel()}
    assert train.isdisjoint(name.partition("#")[0] for name in first.workload_id.ravel())


def test_an_update_follows_every_episode(start, stream, tmp_path):
    learner = OnlineLearner(start, stream, CONFIG, tmp_path)
    before = start.policy
    decisions = []
    for done in range(1, 4):
        learner.run(1)
        after = {name: value.clone() for name, value in learner.policy.state_dict().items()}
        assert learner.updates == len(learner.progress) == done
        assert not same(before, after)
        before = after
        decisions.append(learner.progress[-1]["decisions"])
    assert decisions[0] < decisions[1]  # of one episode, then of the latest two
    side_by_side = learn(start, stream, tmp_path / "two", replace(CONFIG, clusters=2))
    assert side_by_side.updates == side_by_side.total == 3
    assert [(row["phase"], row["sequence"]) for row in side_by_side.progress] == [
        (0, 0),
        (0, 1),
        *((1, i) for i in range(4)),
    ]


def test_a_broken_update_leaves_the_last_good_state(start, stream, tmp_path, monkeypatch):
    learner = OnlineLearner(start, stream, CONFIG, tmp_path)
    learner.run(1)
    good = {name: value.clone() for name, value in learner.policy.state_dict().items()}

    def broken(*_):
        for value in learner.policy.parameters():
            value.data.fill_(float("nan"))
        return {"gradient_norm": float("nan")}

    monkeypatch.setattr(learner.learner, "update", broken)
    with pytest.raises(InputError, match="gradient norm is nan in the update after episode 1: lower learning_rate"):
        learner.run()
    assert same(good, Checkpoint.load(tmp_path / "checkpoints" / "last.pt").policy)


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
    assert found == [("google", 0.5)] * 2 + [("busier", 0.8)] * 2
    assert same(saved.policy, learner.policy.state_dict())


def test_bad_settings_are_refused(start, stream, tmp_path):
    for change, message in (
        ({"after": 0}, "after is 0"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"before": 5, "clusters": 2}, "before is 5: must be a multiple of clusters, 2"),
    ):
        with pytest.raises(InputError, match=message):
            OnlineConfig(**change)
    reinforce = replace(start, config=replace(start.config, algo="reinforce"))
    with pytest.raises(InputError, match="where no sequence repeats: train with algo counterfactual or ppo"):
        OnlineLearner(reinforce, stream, CONFIG, tmp_path)
