"""REINFORCE: returns, baseline, the update, and the networks it trains."""

import numpy as np
import pytest
import torch

from tvwrl.agents.config import PRESETS, TrainConfig, preset_for
from tvwrl.agents.episodes import Trajectories
from tvwrl.agents.features import (
    COSTS,
    PEAKS,
    _cost_features,
    forecast_feature_count,
    forecast_features,
    machine_features,
)
from tvwrl.agents.networks import make_policy
from tvwrl.agents.policy_gradient import Reinforce, discounted_sums
from tvwrl.forecasting.segments import SEGMENTS, columns
from tvwrl.types import InputError

SHOWS = {"request": 4, "demand": 0, "forecast": 0}
SHAPES = {
    "grid": [4, 2, 5, 8], "queue": [3, 5], "classes": 3, "actions": 4, "peak_units": 6, "whole": True, "shows": SHOWS,
}  # fmt: skip


def episodes(reward, slots, alive=None, encoded=None, actions=None):
    """Trajectories from nested lists (T, B)."""
    reward = np.array(reward, float)
    return Trajectories(
        encoded=encoded or {},
        action=np.zeros(reward.shape, np.int64) if actions is None else actions,
        log_probability=np.full(reward.shape, np.log(0.25), np.float32),
        reward=reward,
        slots=np.array(slots),
        alive=np.ones(reward.shape, bool) if alive is None else np.array(alive),
        penalties={},
        costs=-reward[..., None],
        last={},
        truncated=np.zeros(reward.shape[1], bool),
    )


def observation(rng, batch=6, machines=4):
    """A random observation of the shapes above."""
    queue = np.zeros((batch, 3, 5), np.float32)
    queue[..., 0] = rng.integers(0, 4, (batch, 3))
    queue[..., 1:3] = rng.random((batch, 3, 2)) * 6
    queue[..., 3:] = rng.integers(0, 2, (batch, 3, 2))
    return {
        "grid": rng.integers(0, 4, (batch, machines, 2, 5, 8)).astype(np.uint8),
        "queue": queue,
        "backlog": rng.integers(0, 3, (batch, 1)).astype(np.float32),
    }


def encode(policy, seen):
    """Its encoding, with everything allowed."""
    return policy.encode(seen) | {"mask": torch.ones(6, 4, dtype=torch.bool)}


def logits(policy, seen):
    """Its logits, as numpy."""
    with torch.no_grad():
        return policy(policy.encode(seen)).numpy()


def advantages(played, **changes):
    """Those of REINFORCE with two trajectories of each sequence."""
    config = TrainConfig(**{"trajectories": 2, "gamma": 1.0, "advantage_scaling": False, **changes})
    return Reinforce(make_policy("flat", SHAPES, 4), config).advantages(played)


def test_discount_is_per_slot_not_per_decision():
    # Two decisions, 3 and 1 slots apart: G1 = -2, G0 = -1 + 0.5**3 * -2 = -1.25.
    assert discounted_sums(np.array([-1.0, -2.0]), 0.5 ** np.array([3, 1])).tolist() == [-1.25, -2.0]


def test_baseline_is_the_mean_of_the_same_decision_on_the_same_sequence():
    # Sequences A (trajectories 0, 1) and B (2, 3); gamma 1, one decision.
    played = episodes([[-1.0, -3.0, -10.0, -20.0]], [[1, 1, 1, 1]])
    assert advantages(played).tolist() == [[1.0, -1.0, 5.0, -5.0]]
    scaled = advantages(played, advantage_scaling=True)
    assert np.allclose(scaled, np.array([[1.0, -1.0, 5.0, -5.0]]) / np.std([1, -1, 5, -5]))


@pytest.mark.parametrize(
    ("options", "algo"),
    [
        *(({"preset": name}, config.algo) for name, config in PRESETS.items()),
        ({}, "counterfactual"),
        ({"algo": "ppo"}, "ppo"),
        ({"algo": "reinforce"}, "reinforce"),
        ({"algo": "reinforce", "preset": "smoke"}, "reinforce"),
        ({"policy": "flat"}, "reinforce"),
        ({"policy": "deeprm"}, "reinforce"),
        ({"policy": "deeprm", "preset": "smoke"}, "reinforce"),
        ({"policy": "flat", "algo": "sb3-ppo"}, "sb3-ppo"),
    ],
    ids=str,
)
def test_only_reinforce_plays_several_trajectories_of_a_sequence(options, algo):
    config = preset_for(**options)
    assert algo == config.algo or "algo" in options
    assert (config.trajectories > 1) == (algo == "reinforce")


def test_a_single_trajectory_is_refused():
    policy = make_policy("flat", SHAPES, 4)
    with pytest.raises(InputError, match="trajectories is 1: must be at least 2 with algo reinforce"):
        Reinforce(policy, TrainConfig(algo="reinforce", policy="flat"))


def test_as_many_episodes_are_played_whatever_the_algorithm():
    ours, fast = preset_for(algo="reinforce"), PRESETS["medium"]
    assert ours.sequences_per_iteration * ours.trajectories == fast.sequences_per_iteration


def test_decisions_after_the_end_count_for_nothing():
    played = episodes([[-1.0, -3.0], [0.0, -5.0]], [[1, 1], [0, 1]], alive=[[True, True], [False, True]])
    # Second decision: only trajectory 1 is alive, so it is its own baseline.
    assert advantages(played).tolist() == [[3.5, -3.5], [0.0, 0.0]]


@pytest.mark.parametrize("name", ["flat", "shared"])
def test_plain_reinforce_gradient_equals_the_formula(name):
    """One epoch and one minibatch: the gradient of -mean(log p(a) A), whatever the clip."""
    torch.manual_seed(1)
    policy = make_policy(name, SHAPES, 8)
    seen = observation(np.random.default_rng(1))
    actions = np.array([[0, 1, 2, 3, 0, 1]])
    encoded = encode(policy, seen)
    log_probability = torch.log_softmax(policy(encoded), 1)[torch.arange(6), torch.from_numpy(actions[0])]
    played = episodes([[-1.0, -2.0, -3.0, -5.0, -8.0, -1.0]], [[1] * 6], actions=actions)
    played.encoded = encoded
    played.log_probability = log_probability.detach().numpy()[None]
    config = TrainConfig(
        trajectories=3,
        entropy_bonus=0.0,
        final_entropy_bonus=0.0,
        epochs=1,
        minibatches=1,
        clip=0.0,
        max_gradient_norm=0.0,
        learning_rate=1.0,
        final_learning_rate=1.0,
    )
    learner = Reinforce(policy, config)
    learner.optimiser = torch.optim.SGD(policy.parameters(), lr=1.0)
    advantage = torch.tensor(learner.advantages(played)[0]).float()
    expected = torch.autograd.grad(-(log_probability * advantage).mean(), policy.output.weight)[0]
    before = policy.output.weight.detach().clone()
    learner.update(played, 0, torch.Generator())
    assert torch.allclose(before - policy.output.weight, expected, atol=1e-6)


def test_shared_policy_is_equivariant_to_the_order_of_machines():
    torch.manual_seed(0)
    policy = make_policy("shared", SHAPES, 16)
    torch.nn.init.normal_(policy.output.weight)
    rng = np.random.default_rng(3)
    seen = observation(rng)
    order = rng.permutation(4)
    moved = {**seen, "grid": np.ascontiguousarray(seen["grid"][:, order])}
    assert np.allclose(logits(policy, moved), logits(policy, seen)[:, order], atol=1e-5)
    assert not np.allclose(logits(policy, seen)[:, 0], logits(policy, seen)[:, 1])


def test_shared_policy_runs_on_any_number_of_machines():
    policy = make_policy("shared", SHAPES, 16)
    assert logits(policy, observation(np.random.default_rng(0), machines=37)).shape == (6, 37)


def test_features_of_a_machine_by_hand():
    # One machine, one resource, 2 rows of 4 columns; labels 1, 2; 3 = beyond the machine's capacity of 3 units.
    grid = np.array([[1, 0, 0, 3], [1, 2, 2, 3]], np.uint8).reshape(1, 1, 1, 2, 4)
    row = machine_features(grid, 2)[0, 0]
    # loads 1/4, 3/4; mean 1/2, maximum 3/4, deviation 1/4; size 3/4; now 1/4 of class 1, 2/4 of class 2; means 1/4, 1/4
    assert np.allclose(row, [0.25, 0.75, 0.5, 0.75, 0.25, 0.75, 0.25, 0.5, 0.25, 0.25])


@pytest.mark.parametrize(
    ("field", "value"),
    [("gamma", 0.0), ("gamma", 1.5), ("iterations", 0), ("learning_rate", float("nan")), ("trajectories", -1)],
)
def test_bad_hyper_parameters_are_named(field, value):
    with pytest.raises(InputError, match=field):
        TrainConfig(**{field: value})


def test_forecast_features_by_hand():
    # One machine of 8/6 peaks; its workloads are expected to need 0.8 with variance 0.01, the head of the queue 0.4.
    resources, wide = 1, len(SEGMENTS)
    forecast, own = np.zeros((1, 1, columns(1)), np.float32), np.zeros((1, columns(1)), np.float32)
    forecast[0, 0, :wide], forecast[0, 0, wide : 2 * wide], forecast[0, 0, 2 * wide : 3 * wide] = 0.8, 0.01, 0.6
    forecast[0, 0, 3 * wide], forecast[0, 0, 3 * wide + 1], forecast[0, 0, -wide:] = 1.0, 0.03, 2.0
    own[0, :wide], own[0, wide : 2 * wide], own[0, 3 * wide], own[0, 3 * wide + 1] = 0.4, 0.03, 0.5, 0.01
    size = 4 / 3
    row = forecast_features(forecast, own, np.full((1, 1, 1), size, np.float32))[0, 0]
    sure = min((size - 1.2) / 0.2, 4) / 4
    segment = [0.8 / size, 0.6 / size, 1.2 / size, sure]
    peak = [1 / size, 1.5 / size, (size - 1.5) / 0.2 / 4, 1, size]
    assert np.allclose(row, [*segment * wide, *peak, *[0.2] * wide], atol=1e-5)
    assert len(row) == forecast_feature_count(resources)


def weigh(costs, capacity, left, spare=None, tight=False, hold=True):
    """Features (M, F) and logits of one state's costs (M, 2), by the rule that knows `spare` units (M, D), if given."""
    peaks = np.zeros((1, len(costs), 0)) if spare is None else np.array([spare], np.float64)
    seen = np.zeros((1, len(costs), COSTS + (PEAKS if peaks.size else 0)), np.float32)
    logits = np.zeros((1, len(costs) + hold), np.float32)
    dominant = np.array([1])
    _cost_features(np.array([costs]), capacity[None], left[None], peaks, dominant, tight, 5000.0, 6.0, seen, logits)
    return seen[0], logits[0]


def test_costs_are_weighed_by_hand():
    # Three machines; the third is the cheapest, but there is no room on it: the first is 2,000 cheaper than the second.
    costs, sizes = [[3000.0, -1000.0], [0.0, 4000.0], [0.0, 0.0]], np.ones((3, 2), np.float32)
    left = np.array([[0, 0.5], [0.5, 0.5], [0.5, -0.1]], np.float32)
    seen, logits = weigh(costs, sizes, left)
    assert np.allclose(seen, np.arcsinh([[3, -1, 0], [0, 4, 2], [0, 0, -2]]) / 4)
    places = np.log(1 + np.exp(-1) + np.exp(-8))  # 2,000 are one; to hold is 2,000 of overshoot less likely than that
    assert np.allclose(logits, [0, -1, -8, places - 1])
    assert np.allclose(weigh(costs, sizes, left, hold=False)[1], [0, -1, -8])
    # Where nobody has room everyone that is on is compared, and to hold is the likeliest.
    sizes[2] = 0
    logits = weigh(costs, sizes, left - 1)[1]
    assert np.allclose(logits[:3], [0, -1, -8])
    assert logits.argmax() == 3


def test_costs_are_weighed_with_peaks_by_hand():
    # Peaks do not fit the first machine; by unused capacity the third is better, by the tightest fit the second.
    costs, sizes = [[0.0, -9000.0], [0.0, 2000.0], [9e9, 0.0]], np.ones((3, 2), np.float32)
    left, spare = np.ones((3, 2), np.float32), [[1, -1], [6, 0], [3, 3]]
    seen, logits = weigh(costs, sizes, left, spare)
    assert np.allclose(seen[:, 2:], [[np.arcsinh(-9) / 4, 0, -1 / 6], [np.arcsinh(2) / 4, 1, 0], [0, 1, 0.5]])
    assert np.allclose(logits[:3], [-8, -1, 0])
    assert logits[3] < logits[2]  # what is expected to overshoot does not, as peaks fit
    assert np.allclose(weigh(costs, sizes, left, spare, tight=True)[1][:3], [-8, 0, -6])  # 2 a unit
    assert weigh(costs, sizes, left, [[-1, -1]] * 3)[1].argmax() == 3
