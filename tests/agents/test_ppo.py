"""PPO: generalised advantages over unequal steps, by machine; the critic; trouble in an update."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents.acting import DeterministicActions
from tvwrl.agents.config import INFORMED, TrainConfig
from tvwrl.agents.episodes import Trajectories
from tvwrl.agents.networks import make_policy
from tvwrl.agents.ppo import MANY, PPO, Critic, generalised_advantages
from tvwrl.agents.training import PlacementTask, Trainer
from tvwrl.types import InputError

from .test_reinforce import SHAPES, episodes

TINY = TrainConfig(
    iterations=4,
    train_sequences=4,
    sequences_per_iteration=8,
    eval_sequences=2,
    eval_every=2,
    hidden=8,
    scenario=replace(INFORMED, machines=4, workloads=16, history=6),
)


@pytest.fixture
def task(problem):
    """A tiny training task with forecasts."""
    return PlacementTask(replace(problem, scenario=TINY.scenario), TINY)


@pytest.fixture
def policy(task):
    """An untrained policy."""
    return make_policy("shared", task.shapes, 8)


@pytest.fixture
def played(task, policy):
    """Two episodes on each of the four sequences."""
    return PPO(policy, TINY).play(task.envs, np.arange(8) % 4, torch.Generator().manual_seed(0))


def of_a_machine(values):
    """(T, B, 2) parts: those of one machine, and a wait that costs nothing."""
    values = np.array(values, float)
    return np.stack([values, np.zeros_like(values)], axis=2)


@pytest.mark.parametrize(("action", "trust"), [(0, 0.5), (1, 1.0)])  # placed; held, which lambda lets pass
def test_generalised_advantages_by_hand(action, trust):
    # Two decisions 2 and 1 slots apart; gamma 1/2, lambda 1/2; values 4 and 6; rewards -1 and -3; over at the end.
    played = episodes([[-1.0], [-3.0]], [[2], [1]], actions=np.array([[action], [0]]))
    config = TrainConfig(gamma=0.5, gae_lambda=0.5)
    values, after = of_a_machine([[4.0], [6.0]]), np.zeros((1, 2))
    advantage = generalised_advantages(of_a_machine(played.reward), values, after, played, config, 1)
    last = -3.0 - 6.0
    first = -1.0 + 0.25 * 6.0 - 4.0 + 0.25 * trust * last
    assert advantage[..., 0].ravel().tolist() == [first, last]
    assert not advantage[..., 1].any()


def test_decisions_after_the_end_have_no_advantage():
    alive = [[True, True], [False, True]]
    played = episodes([[-1.0, -1.0], [0.0, -1.0]], [[1, 1], [0, 1]], alive=alive)
    advantage = generalised_advantages(
        played.reward[..., None], np.full((2, 2, 1), 3.0), np.zeros((2, 1)), played, TrainConfig(gamma=1.0), 1
    )
    assert advantage[0, 0, 0] == -4.0  # nothing follows it
    assert advantage[1, 0, 0] == 0.0


def test_costs_by_machine_add_up_to_the_penalties(played):
    assert played.costs.shape[2] == 5  # four machines and waiting
    assert np.allclose(played.costs.sum(axis=2), -played.reward)


def test_concatenated_episodes_are_those_played_together(task, policy, played):
    one, two = played, PPO(policy, TINY).play(task.envs, np.arange(8) % 4, torch.Generator().manual_seed(1))
    both = Trajectories.concatenate([one, Trajectories.unpack(two.pack())])
    assert both.alive.shape == (max(len(one.alive), len(two.alive)), 16)
    for part, columns in ((one, slice(0, 8)), (two, slice(8, 16))):
        rows = len(part.alive)
        assert np.array_equal(both.costs[:rows, columns], part.costs)
        assert not both.alive[rows:, columns].any()
        mine = np.broadcast_to((np.arange(16) // 8 == columns.start // 8), both.alive.shape)[both.alive]
        for name, seen in part.encoded.items():
            assert torch.equal(both.encoded[name][torch.from_numpy(mine)], seen)
    assert Trajectories.concatenate([one]) is one


def test_advantages_are_scaled_only_if_asked(policy, played):
    scaled, raw = (PPO(policy, replace(TINY, advantage_scaling=on)).advantages(played) for on in (True, False))
    known = raw[played.alive]
    expected = np.clip((known - known.mean()) / known.std(), -TINY.advantage_clip, TINY.advantage_clip)
    assert np.allclose(scaled[played.alive], expected)
    # At first the critic expects what machines cost anyway; an advantage is the rest, in units of the scale
    costs = float(np.abs(played.costs * played.alive[..., None]).sum(axis=0).mean())
    anyway = float(played.encoded["committed"][-1].sum())
    assert known[-1] == pytest.approx(
        (played.reward[played.alive][-1] + anyway) / costs, rel=1e-5
    )  # in single precision


def test_only_what_was_cut_has_something_to_come(policy, played):
    """A critic that says -2 of each of the five parts, beside what machines cost anyway: only of episodes that were
    cut does it speak at their end."""
    played = replace(played, truncated=np.arange(8) % 2 == 1)
    learner = PPO(policy, replace(TINY, advantage_scaling=False, gamma=0.99))
    for head in (learner.critic.machine, learner.critic.wait):
        torch.nn.init.constant_(head.bias, -2.0)
    found, before = learner.advantages(played), np.zeros(played.alive.shape)
    before[played.alive] = 10.0 + played.encoded["committed"].sum(dim=1).numpy() / learner.scale
    after = 10.0 + played.last["committed"].sum(dim=1).numpy() / learner.scale
    for b in range(8):
        t = played.alive[:, b].nonzero()[0][-1]
        to_come = 0.99 ** played.slots[t, b] * after[b] if b % 2 else 0.0
        assert found[t, b] == pytest.approx(played.reward[t, b] / learner.scale - to_come + before[t, b])


def test_each_decision_comes_with_what_was_to_come_then(played):
    left = np.full(played.alive.shape, np.inf)
    left[played.alive] = played.encoded["ahead"][:, 0].numpy() * MANY
    for b in range(8):
        own = left[played.alive[:, b], b]
        assert own[0] < 16  # the first has arrived
        assert own[-1] == pytest.approx(0, abs=1e-5)
        assert (np.diff(own) < 1e-5).all()


def test_a_critic_that_saw_less_is_refused(policy):
    state = PPO(policy, TINY).state()
    state["critic"] = Critic(policy, TINY.hidden).state_dict()
    with pytest.raises(InputError, match=r"critic .* does not fit .* train again"):
        PPO(policy, TINY).restore(state)


def test_the_critics_step_size_falls_with_the_iterations(policy, played):
    learner = PPO(policy, replace(TINY, learning_rate=0.004, final_learning_rate=0.001))
    for iteration, rate in ((0, 0.004), (1, 0.003), (3, 0.001)):
        learner.update(played, iteration, torch.Generator().manual_seed(0))
        assert learner.critic_optimiser.param_groups[0]["lr"] == pytest.approx(rate)


def test_the_critic_learns_what_is_to_come(policy, played):
    learner = PPO(policy, replace(TINY, epochs=8, gae_lambda=1.0))  # the same returns to learn each time
    learnt = [learner.update(played, 0, torch.Generator().manual_seed(0)) for _ in range(3)]
    assert learnt[2]["value_loss"] < 0.8 * learnt[0]["value_loss"]
    assert learnt[0]["explained_variance"] < learnt[2]["explained_variance"] < 1


def test_ppo_refuses_a_network_that_does_not_see_machines_apart():
    with pytest.raises(InputError, match="algo ppo needs policy shared, not flat"):
        PPO(make_policy("flat", SHAPES, 8), TrainConfig(policy="flat"))


def test_a_broken_update_stops_at_the_last_good_state(problem, tmp_path, monkeypatch):
    trainer = Trainer(replace(problem, scenario=TINY.scenario), TINY, tmp_path, {}, lambda text: None)
    trainer.run(stop_after=2)
    good = {name: part.clone() for name, part in trainer.policy.state_dict().items()}

    def break_it(*_):
        for part in trainer.policy.parameters():
            part.data.fill_(float("nan"))
        return {"gradient_norm": float("nan"), "decisions": 1.0}

    monkeypatch.setattr(trainer.learner, "update", break_it)
    with pytest.raises(InputError, match=r"gradient norm is nan in iteration 3.*last good state, of iteration 2"):
        trainer.run()
    saved = torch.load(tmp_path / "checkpoints/last.pt", weights_only=True)
    assert saved["iteration"] == 2
    assert all(torch.equal(saved["policy"][name], good[name]) for name in good)


def test_holding_lasts_as_long_as_its_median():
    # Held with probability 0.8: 0.8, 0.64, 0.51 are above one half, 0.41 is not; then the next workload begins anew.
    deterministic = DeterministicActions(1, 2)
    logits = np.log(np.array([[0.05, 0.15, 0.8]]))
    assert [int(deterministic.choose(logits)[0]) for _ in range(8)] == [2, 2, 2, 1, 2, 2, 2, 1]


def test_without_holding_the_likeliest_machine_is_chosen():
    assert DeterministicActions(2, 2).choose(np.array([[0.0, 1.0], [2.0, 1.0]])).tolist() == [1, 0]


def test_of_machines_that_differ_by_rounding_the_first_is_chosen():
    logits = np.array([[0.0, 1.0, 1.0 + 1e-6], [0.0, 1.0, 1.001], [50.0, 50.0002, 49.0]])
    assert DeterministicActions(3, 3).choose(logits).tolist() == [1, 2, 0]


def test_playing_without_chance_remembers_how_long_each_environment_has_held():
    deterministic, evenly = DeterministicActions(3, 2), np.array([[0.0, 1.0, 2.0]])  # held with probability 0.665
    assert deterministic.choose(evenly.repeat(3, axis=0)).tolist() == [2, 2, 2]
    assert deterministic.choose(evenly, np.array([False, True, False])).tolist() == [1]  # 0.665 ** 2 < 0.5
    assert deterministic.choose(evenly.repeat(2, axis=0), np.array([False, True, True])).tolist() == [2, 1]
