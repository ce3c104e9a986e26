"""Stable-Baselines3 on our networks: what its environments show and add up, masks, exact resumption, refusals."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.networks import make_policy
from tvwrl.agents.training import PlacementTask, Trainer, make_learner
from tvwrl.simulation.state import SEQUENCE
from tvwrl.types import InputError

from .test_online import same
from .test_ppo import TINY as OWN

sb3 = pytest.importorskip("tvwrl.agents.sb3")

TINY = replace(OWN, algo="sb3-ppo", imitate=0, sequences_per_iteration=4, save_every=1, minibatches=4)


@pytest.fixture
def task(problem):
    """A tiny training task with forecasts."""
    return PlacementTask(replace(problem, scenario=TINY.scenario), TINY)


def trainer(problem, folder, **changes):
    """A training of the tiny config with changes."""
    config = replace(TINY, **changes)
    return Trainer(replace(problem, scenario=config.scenario), config, folder, {"hash": ""}, lambda text: None)


def test_it_sees_the_rewards_and_ends_of_the_environment(task):
    torch.manual_seed(0)
    envs, policy = task.envs, make_policy("shared", task.shapes, 8)
    seen_by_it = sb3.EncodedEnvironments(envs, policy, policy)
    seen_by_it.begin(np.arange(4))
    assert set(seen_by_it.reset()) == {"machines", "queue", "prior", "mask"}
    total, ends = 0.0, 0
    for _ in range(16):  # workloads of a sequence; nothing is held back
        _, reward, done, infos = seen_by_it.step(np.arange(4))
        total, ends = total + reward.sum(), ends + done.sum()
        assert all(("terminal_observation" in info) == ended for info, ended in zip(infos, done, strict=True))
    assert ends == 4
    assert -sum(seen_by_it.terms().values()) == pytest.approx(total / 4)
    sequence = envs.simulation.state.counters[:, SEQUENCE]
    assert sequence.tolist() == [1, 2, 3, 0]  # each goes on with its neighbour's


def test_where_an_episode_is_cut_its_end_is_valued(problem):
    cut = PlacementTask(problem, replace(TINY, scenario=replace(TINY.scenario, max_slots=60)))
    policy = make_policy("shared", cut.shapes, 8)
    torch.nn.init.normal_(policy.output.weight)
    envs = sb3.EncodedEnvironments(cut.envs, policy, policy)
    envs.begin(np.arange(4))
    while not (envs.beyond and envs.beyond[-1].any()):
        _, _, done, infos = envs.step(np.arange(4))
        assert not any(info.get("TimeLimit.truncated") for info in infos)  # or it would be discounted by one slot
    b = int(np.flatnonzero(envs.beyond[-1])[0])
    last = {name: torch.from_numpy(part)[None] for name, part in infos[b]["terminal_observation"].items()}
    assert done[b]
    assert envs.beyond[-1][b] == pytest.approx(float(policy(last).detach().sum()), rel=1e-5)


def test_the_norm_of_the_gradient_is_that_before_it_is_clipped(problem, tmp_path):
    found = []
    for limit in (1e-6, 0.0):
        run = trainer(problem, tmp_path / str(limit), max_gradient_norm=limit, minibatches=1, epochs=1)
        run.run(stop_after=1)
        found.append(float(run.progress[-1]["gradient_norm"]))
    assert found[0] == found[1] > 1e-3


def test_the_discount_is_per_slot(task):
    # Two decisions 2 and 1 slots apart, gamma and lambda 1/2; values 4, 6 and 8 after them; rewards -1 and -3.
    policy = make_policy("shared", task.shapes, 8)
    envs = sb3.EncodedEnvironments(task.envs, policy, policy)
    spaces = envs.observation_space, envs.action_space
    buffer = sb3.Decisions(2, *spaces, gamma=0.5, gae_lambda=0.5, n_envs=4, episodes=envs)
    envs.slots += [np.full(4, 2), np.full(4, 1)]
    envs.beyond += [np.zeros(4), np.zeros(4)]
    buffer.values[:], buffer.rewards[:] = [[4.0] * 4, [6.0] * 4], [[-1.0] * 4, [-3.0] * 4]
    buffer.compute_returns_and_advantage(torch.full((4, 1), 8.0), np.array([False, False, False, True]))
    last = -3.0 + 0.5 * 8.0 - 6.0
    first = -1.0 + 0.25 * 6.0 - 4.0 + 0.25 * 0.5 * last
    assert buffer.advantages[:, 0].tolist() == [first, last]
    assert buffer.advantages[1, 3] == -3.0 - 6.0  # over: nothing is to come
    assert np.allclose(buffer.returns, buffer.advantages + buffer.values)
    buffer.actions[0] = 4  # held: lambda lets it pass
    buffer.compute_returns_and_advantage(torch.full((4, 1), 8.0), np.zeros(4, bool))
    assert buffer.advantages[0, 0] == -1.0 + 0.25 * 6.0 - 4.0 + 0.25 * last
    envs.slots[1], envs.beyond[1] = np.full(4, 3), np.array([0.0, 0.0, 0.0, 16.0])
    buffer.compute_returns_and_advantage(torch.full((4, 1), 8.0), np.array([False, False, False, True]))
    assert buffer.advantages[1].tolist() == [-3.0 + 0.125 * 8.0 - 6.0] * 3 + [-3.0 + 0.125 * 16.0 - 6.0]  # cut


@pytest.mark.parametrize(("algo", "policy"), [("sb3-ppo", "shared"), ("sb3-ppo", "flat"), ("sb3-a2c", "shared")])
def test_it_learns_resumes_bit_exactly_and_leaves_our_checkpoints(problem, tmp_path, algo, policy):
    whole, parts = (trainer(problem, tmp_path / name, algo=algo, policy=policy) for name in ("whole", "parts"))
    before = {name: weight.clone() for name, weight in whole.policy.state_dict().items()}
    assert whole.run() == "finished"
    assert not same(before, whole.policy.state_dict())
    assert parts.run(stop_after=2) == "stopped"
    again = trainer(problem, tmp_path / "parts", algo=algo, policy=policy)
    again.restore(Checkpoint.load(tmp_path / "parts/checkpoints/last.pt"))
    assert again.run() == "finished"
    one, two = (Checkpoint.load(tmp_path / name / "checkpoints/last.pt") for name in ("whole", "parts"))
    for part in ("policy", "learner", "random", "iteration", "best_reward", "best_iteration"):
        assert same(getattr(one, part), getattr(two, part))
    assert (tmp_path / "whole/progress.csv").read_text() == (tmp_path / "parts/progress.csv").read_text()
    assert same(one.make_policy().state_dict(), whole.policy.state_dict())
    columns = set((tmp_path / "whole/progress.csv").read_text().splitlines()[0].split(","))
    assert {"reward", "overshoot", "wait", "entropy", "gradient_norm", "value_loss", "eval_reward"} <= columns


def test_what_it_cannot_train_is_refused(task, problem, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="shared or flat, not deeprm"):
        trainer(problem, tmp_path, policy="deeprm", scenario=replace(TINY.scenario, observe_forecast=False))
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.delitem(sys.modules, "tvwrl.agents.sb3")
    with pytest.raises(InputError, match=r"pip install '\.\[sb3\]'"):
        make_learner(make_policy("shared", task.shapes, 8), TINY, task.envs, task.shapes)
