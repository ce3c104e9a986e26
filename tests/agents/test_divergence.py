"""Updates that break a policy: noticed by what they log or leave, undone, and named; episodes that would not end."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents import episodes
from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.config import PRESETS, TrainConfig
from tvwrl.agents.episodes import Diverged, play
from tvwrl.agents.networks import LOWEST, Policy, make_policy
from tvwrl.agents.policy_gradient import check_gradients, check_update
from tvwrl.agents.training import Trainer, make_task
from tvwrl.simulation.state import SLOT
from tvwrl.types import InputError

SMALL = {"iterations": 3, "train_sequences": 4, "eval_sequences": 2, "hidden": 8, "imitate": 0, "save_every": 1}
BATCH = {"sequences_per_iteration": 2, "trajectories": 2}
HOLDING = {"machines": 4, "workloads": 16, "history": 6, "hold_action": True, "max_slots": 0}


def trainer(problem, folder, **changes):
    """A small training; holding is offered."""
    scenario = replace(problem.scenario, **HOLDING)
    config = replace(PRESETS["medium"], **SMALL, **BATCH, **changes, scenario=scenario)
    return Trainer(replace(problem, scenario=scenario), config, folder, {"hash": ""}, lambda text: None)


def test_a_number_that_is_none_is_named():
    with pytest.raises(Diverged, match="value loss is inf"):
        check_update({"gradient_norm": 1.0, "value_loss": float("inf")}, [torch.ones(2)])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -2e6])
def test_a_weight_that_is_none_or_huge_is_named(value):
    check_update({"gradient_norm": 1.0}, [torch.full((2,), 9e5)])
    for weights in ([torch.ones(2), torch.tensor([0.0, value])], [torch.tensor([0.0, value]), torch.ones(2)]):
        with pytest.raises(Diverged, match="a weight is"):
            check_update({"gradient_norm": 1.0}, weights)


@pytest.mark.parametrize("name", ["gradient_norm", "critic_gradient_norm"])
def test_an_exploding_gradient_is_named(name):
    usual = [{name: 0.5}, {name: "0.5"}, {}, {name: ""}, *[{name: 0.5}] * 3]  # older logs may lack a column
    check_gradients({name: 499.0}, usual)
    with pytest.raises(Diverged, match=r"explodes: its norm is 501 \(0.5 in the 5 iterations before\)"):
        check_gradients({name: 501.0}, usual)
    check_gradients({name: 501.0}, usual[1:])  # four are too few to say what is usual


@pytest.mark.parametrize(
    ("algo", "policy", "minibatches"),
    [("ppo", "shared", 1), ("ppo", "shared", 4), ("reinforce", "flat", 1), ("sb3-ppo", "shared", 4)],
)
def test_a_rate_far_too_large_stops_at_the_last_good_state(problem, tmp_path, algo, policy, minibatches):
    if algo.startswith("sb3"):
        pytest.importorskip("stable_baselines3")
    large = {"learning_rate": 1e30, "final_learning_rate": 1e30, "epochs": 1, "minibatches": minibatches}
    run = trainer(problem, tmp_path, algo=algo, policy=policy, **large)
    before = {name: weight.clone() for name, weight in run.policy.state_dict().items()}
    with pytest.raises(InputError, match=r"in iteration 1: lower learning_rate .* of iteration 0"):
        run.run()
    saved = Checkpoint.load(tmp_path / "checkpoints/last.pt")
    assert saved.iteration == 0
    assert all(torch.equal(saved.policy[name], before[name]) for name in before)


@pytest.mark.parametrize("algo", ["ppo", "reinforce"])
def test_probabilities_that_are_no_numbers_are_trouble_too(problem, tmp_path, algo):
    run = trainer(problem, tmp_path, algo=algo)
    with torch.no_grad():
        run.policy.output.bias.fill_(float("nan"))
    with pytest.raises(InputError, match="probabilities are not numbers in iteration 1"):
        run.run()


def test_what_is_forbidden_stays_below_whatever_a_network_says():
    class Says(torch.nn.Module):
        logits = Policy.logits

        def forward(self, encoded):
            return encoded["logits"]

    raw = torch.tensor([[-1e30, -2e30, 5.0], [-1e30, -1e30, -1e30], [1.0, -2.0, 0.5]])
    mask = torch.tensor([[True, True, False]] * 3)
    logits = Says().logits({"logits": raw, "mask": mask})
    chances = torch.softmax(logits, dim=1)
    assert (chances[:, 2] == 0).all()
    assert (logits[:, :2] >= LOWEST).all()
    assert logits[2, :2].tolist() == [1.0, -2.0]  # what is healthy stays as it is


@pytest.mark.parametrize("kind", ["shared", "deeprm"])
def test_who_holds_everything_back_is_cut(problem, kind, monkeypatch):
    """Placements are forbidden by their logits, and holding where nothing runs by the mask; DeepRM may always wait."""
    monkeypatch.setattr(episodes, "MAX_SLOTS_AFTER_ARRIVALS", 100)
    scenario = replace(problem.scenario, **HOLDING)
    base = PRESETS["deeprm"] if kind == "deeprm" else PRESETS["medium"]
    config = replace(base, **{**SMALL, **BATCH}, scenario=scenario)
    task = make_task(replace(problem, scenario=scenario), config)
    policy = make_policy(kind, task.shapes, 8)
    with torch.no_grad():
        if kind == "deeprm":
            policy.output.bias[-1] = 1e4
        else:
            policy.hold.bias.fill_(1e4)
    played = play(policy, task.envs, np.arange(4), torch.Generator().manual_seed(0), "cpu")
    drawn, clock = task.envs.simulation.sequences, task.envs.simulation.state.counters[:, SLOT]
    assert clock.max() <= drawn.arrival.max() + 100 + drawn.length.max()
    if kind == "deeprm":
        assert played.truncated.all()
        scores = task.evaluate(policy)
        assert scores["unplaced"] == drawn.arrival.shape[1]  # nothing has started
        assert np.isnan(scores["reward"])
        assert np.isnan(scores["wait_mean"])


def test_an_episode_that_ends_is_not_cut(problem):
    scenario = replace(problem.scenario, **HOLDING)
    config = TrainConfig(**{**SMALL, **BATCH}, scenario=scenario)
    task = make_task(replace(problem, scenario=scenario), config)
    policy = make_policy("shared", task.shapes, 8)
    played = play(policy, task.envs, np.arange(4), torch.Generator().manual_seed(0), "cpu")
    assert not played.truncated.any()
