"""Policies with weights shared by machines learn in Stable-Baselines3, on environments stepped as one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

import tvwrl
from tvwrl.agents import MachinePolicy, SB3VecEnv
from tvwrl.envs.observations import Head, Machines, PerMachine, Progress
from tvwrl.types import InputError

SMALL = {"machines": 3, "workloads": 6, "max_slots": 60, "observe_demand": True}
ROWS = [PerMachine(Machines(), Head(), Progress())]


def many(count=2, observation=ROWS, **options):
    made = tvwrl.make_vec("Placement-v0", count, observation=observation, autoreset_mode="SameStep", **SMALL, **options)
    return SB3VecEnv(made)


def test_it_plays_what_single_environments_play():
    ours, theirs = many(), DummyVecEnv([lambda: tvwrl.make("Placement-v0", observation=ROWS, **SMALL)] * 2)
    for envs in (ours, theirs):
        envs.seed(7)
    rng, ended = np.random.default_rng(0), 0
    seen, expected = ours.reset(), theirs.reset()
    for _ in range(80):
        np.testing.assert_array_equal(seen["permachine"], expected["permachine"])
        actions = rng.integers(3, size=2)
        seen, reward, done, infos = ours.step(actions)
        expected, their_reward, their_done, their_infos = theirs.step(actions)
        np.testing.assert_allclose(reward, their_reward, rtol=1e-6)
        np.testing.assert_array_equal(done, their_done)
        for b in np.flatnonzero(done):
            ended += 1
            assert infos[b]["TimeLimit.truncated"] == their_infos[b]["TimeLimit.truncated"]
            last, their_last = infos[b]["terminal_observation"], their_infos[b]["terminal_observation"]
            np.testing.assert_array_equal(last["permachine"], their_last["permachine"])
        if done.any():  # which sequence comes next is drawn by each in its own way
            break
    assert ended


def test_masks_are_those_of_each_environment():
    envs = many(3, hold_action=True)
    envs.reset()
    masks = np.stack(envs.env_method("action_masks"))
    np.testing.assert_array_equal(masks, envs.envs.action_masks())
    assert envs.env_method("action_masks", indices=[1])[0].shape == (4,)
    assert envs.has_attr("action_masks")


def test_another_autoreset_mode_is_refused():
    with pytest.raises(InputError, match="autoreset_mode='SameStep'"):
        SB3VecEnv(tvwrl.make_vec("Placement-v0", 2, **SMALL))


@pytest.mark.parametrize("hold", [False, True])
def test_exchanging_machines_exchanges_their_probabilities(hold):
    model = PPO(MachinePolicy, many(hold_action=hold), policy_kwargs={"hidden": 8}, n_steps=8, batch_size=16, seed=0)
    policy, rows = model.policy, torch.randn(5, 3, model.observation_space["permachine"].shape[1])
    probabilities = policy.get_distribution({"permachine": rows}).distribution.probs
    assert torch.allclose(probabilities, torch.full((5, 3 + hold), 1 / (3 + hold)))  # before it has learnt anything
    for weight in policy.parameters():
        torch.nn.init.normal_(weight)
    order = [2, 0, 1]
    before = policy.get_distribution({"permachine": rows}).distribution.probs
    after = policy.get_distribution({"permachine": rows[:, order]}).distribution.probs
    assert torch.allclose(after, before[:, order + [3] * hold], atol=1e-6)
    assert not torch.allclose(after, before, atol=1e-2)
    values = [policy.predict_values({"permachine": each}) for each in (rows, rows[:, order])]
    assert torch.allclose(*values, atol=1e-5)


def test_parts_with_and_without_rows_may_be_separate():
    together, apart = many(), many(observation=[Machines(), Head(), Progress()])
    models = [PPO(MachinePolicy, envs, n_steps=8, batch_size=16, seed=0) for envs in (together, apart)]
    sizes = [sum(weight.numel() for weight in model.policy.parameters()) for model in models]
    assert sizes[0] == sizes[1]


def test_it_learns_to_avoid_a_full_machine_and_is_saved(tmp_path):
    envs = VecMonitor(many(16))
    model = PPO(MachinePolicy, envs, gamma=0.5, n_steps=32, batch_size=128, learning_rate=3e-3, seed=0)
    model.learn(4096)
    rows = np.zeros((1, 3, model.observation_space["permachine"].shape[1]), np.float32)
    rows[0, 0, :2] = 1.0  # full
    with torch.no_grad():
        full, *others = model.policy.get_distribution({"permachine": torch.from_numpy(rows)}).distribution.probs[0]
    assert full < min(others)
    model.policy.save(tmp_path / "policy")
    again = MachinePolicy.load(tmp_path / "policy")
    np.testing.assert_array_equal(again.predict({"permachine": rows})[0].shape, (1,))
    for old, new in zip(model.policy.parameters(), again.parameters(), strict=True):
        assert torch.equal(old, new)


def test_maskable_ppo_never_chooses_what_is_forbidden():
    contrib = pytest.importorskip("sb3_contrib")
    from tvwrl.agents import MaskableMachinePolicy

    model = contrib.MaskablePPO(MaskableMachinePolicy, many(hold_action=True), n_steps=16, batch_size=32, seed=0)
    model.learn(32)
    rows = {"permachine": np.zeros((3, model.observation_space["permachine"].shape[1]), np.float32)}
    for allowed in range(4):
        mask = np.arange(4) == allowed
        assert model.predict(rows, action_masks=mask, deterministic=True)[0] == allowed


def test_the_standard_observation_is_refused():
    with pytest.raises(InputError, match="rows for each machine"):
        PPO(MachinePolicy, many(observation=None), n_steps=8)


def test_actions_that_choose_a_workload_are_refused():
    with pytest.raises(InputError, match="15 actions"):
        PPO(MachinePolicy, many(choose_from_queue=True), n_steps=8)
