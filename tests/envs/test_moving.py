"""Environments in which running workloads may be moved: phases, masks, rewards, one and many."""

from dataclasses import replace

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tvwrl.envs import PlacementEnv, PlacementVectorEnv, Problem
from tvwrl.metrics import penalties
from tvwrl.penalties import TERMS
from tvwrl.schedulers import expected_costs, leaving_gains
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError

COMMON = {"moves_per_slot": 2, "machines": 4, "workloads": 20, "shown_running": 8, "max_slots": 0}


@pytest.mark.filterwarnings("ignore:.*Box observation space.*infinity")
@pytest.mark.parametrize(
    "changes",
    [{}, {"hold_action": True, "choose_from_queue": True}, {"usage_delay": 2, "move_slots": 2, "move_overlap": 1}],
)
def test_gymnasium_accepts_it(changes):
    check_env(PlacementEnv(3, scenario=Scenario(**COMMON, **changes)), skip_render_check=True)


@pytest.mark.parametrize(
    "changes",
    [{}, {"hold_action": True, "choose_from_queue": True}, {"machine_types": ("3x8,8", "1x0,0"), "usage_delay": 1}],
)
def test_rewards_add_up_to_what_the_referee_counts(changes):
    env = PlacementEnv(3, scenario=Scenario(**COMMON, **changes))
    rng, total, over, phases = np.random.default_rng(0), 0.0, False, set()
    seen, _ = env.reset(seed=1)
    sums = dict.fromkeys(TERMS, 0.0)
    while not over:
        masks = env.action_masks()
        phases.add((float(seen["phase"][0]), bool(masks[-1])))
        # Now and then something that is not possible, which ends the phase
        among = np.flatnonzero(masks) if rng.random() < 0.9 else np.setdiff1d(np.arange(len(masks)), list(env._off))
        seen, reward, over, _, info = env.step(int(rng.choice(among)))
        total += reward
        sums = {name: value + info[name] for name, value in sums.items()}
    record, scenario = env.simulation.record(), env.simulation.scenario
    expected = penalties(record, env.simulation.machines, scenario.penalty_weights())
    assert len(record.moves) > 10
    assert sums == pytest.approx(expected)
    assert total == pytest.approx(-sum(expected.values()))
    assert phases == {(0.0, False), (1.0, True)}  # stopping is possible while moves are due, and only then


def test_a_move_that_the_mask_allows_is_made_and_another_is_not():
    env = PlacementEnv(3, scenario=Scenario(**COMMON))
    seen, _ = env.reset(seed=0)
    first = env.simulation.placements
    while seen["phase"][0] == 0 or not env.action_masks()[first:-1].any():
        action = 0 if seen["phase"][0] == 0 else env.action_space.n - 1
        seen = env.step(action)[0]
    allowed = env.action_masks()[first:-1].reshape(-1, 4)
    i, m = np.argwhere(allowed)[0].tolist()
    here = int(seen["running"][i, 1])
    assert here != m
    assert not allowed[i, here]
    before = len(env.simulation.record().moves)
    seen, _, _, _, info = env.step(first + i * 4 + m)
    moves = env.simulation.record().moves
    assert (len(moves), moves.source[-1], moves.target[-1]) == (before + 1, here, m)
    # It is on its way: it may not be moved again in this slot
    if info["slots"] == 0:
        assert seen["running"][i, 1] == m
        assert seen["running"][i, 3] == 0
        env.step(first + i * 4 + here)  # not possible, so the slot ends
        assert len(env.simulation.record().moves) == before + 1


def test_many_environments_play_as_each_alone():
    scenario = Scenario(**COMMON)
    many = PlacementVectorEnv(4, 3, scenario=scenario)
    alone = [PlacementEnv(3, scenario=scenario) for _ in range(4)]
    many.reset(seed=0)
    for i, env in enumerate(alone):
        env.reset(seed=i)
    rng, over = np.random.default_rng(0), np.zeros(4, np.bool_)
    for _ in range(1500):
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in many.action_masks()])
        seen, rewards, terminated, _, _ = many.step(actions)
        for i in np.flatnonzero(~over):
            own, reward, over[i], _, _ = alone[i].step(int(actions[i]))
            assert reward == rewards[i]
            assert over[i] == terminated[i]
            assert over[i] or all(np.array_equal(own[name], seen[name][i]) for name in own)
    assert over.all()


@pytest.fixture(scope="module")
def foreseen(google):
    """A problem in which workloads move and forecasts are shown."""
    return Problem.build(google, Scenario(**COMMON, observe_forecast=True, load=0.8))


def test_a_workload_that_leaves_a_machine_alone_saves_all_that_it_costs():
    """J = 6 segments, 1 resource, a machine of 8 units; each workload uses 2 units of 8 and surely runs on."""
    own = np.zeros((1, 3, 26), np.float32)
    own[0, :2, :6] = own[0, :2, 12:18] = 0.25  # largest and mean demand by segment
    own[0, :2, 18] = 0.25  # peak
    own[0, :2, 20:] = 1.0  # runs
    weights, sizes, slots = (
        np.array([[0.1], [3.0], [30_000.0], [50.0]]),
        np.ones((2, 1)),
        np.array([1, 2, 4, 8, 16, 32]),
    )
    machine = np.array([[0, 1, 0]])
    apart = own[:, [0, 1]]
    gains = leaving_gains(machine, own, apart, sizes, 8.0, weights)
    assert gains[0, 0] == pytest.approx([*(slots * 6.0**3), 0.0])
    assert gains[0, 2] == pytest.approx(np.zeros(7))  # there is none
    together = np.stack([own[:, 0] + own[:, 1], np.zeros_like(own[:, 0])], axis=1)
    gains = leaving_gains(np.zeros((1, 3), np.int64), own, together, sizes, 8.0, weights)
    assert gains[0, 0] == pytest.approx([*(slots * (4.0**3 - 6.0**3)), 0.0])  # it fills what the other leaves unused


@pytest.mark.filterwarnings("ignore:.*Box observation space.*infinity")
def test_gains_are_what_placing_a_workload_where_it_is_would_cost(foreseen):
    env = PlacementEnv(foreseen.sequences("test", 2, 0), foreseen.machines, foreseen.scenario)
    check_env(env, skip_render_check=True)
    many = PlacementVectorEnv(2, foreseen.sequences("test", 2, 0), foreseen.machines, foreseen.scenario)
    seen, _ = env.reset(seed=0)
    every, _ = many.reset(seed=0)
    rng, units, compared = np.random.default_rng(0), float(foreseen.scenario.peak_units), 0
    weights = foreseen.scenario.penalty_weights().per_resource(2)
    for _ in range(60):
        assert env.observation_space.contains(seen)
        assert np.array_equal(seen["gains"], every["gains"][0])
        for row, gains in zip(seen["running"], seen["gains"], strict=True):
            m, own = int(row[1]), row[7:]
            without = np.maximum(seen["forecast"] - own * (np.arange(4) == m)[:, None], 0.0)
            size = foreseen.machines.capacity / units
            cost = expected_costs(without[None], own[None], size[None], units, weights)[0, m]
            assert gains[:-1].sum() == pytest.approx(cost[1], rel=1e-3, abs=0.5)
            assert gains[-1] == pytest.approx(cost[0], rel=1e-3, abs=0.5)
            compared += abs(cost).sum() > 0
        action = int(rng.choice(np.flatnonzero(env.action_masks())))
        seen, _, over, _, _ = env.step(action)
        every = many.step(np.array([action, many.action_masks()[1].argmax()]))[0]
        if over:
            break
    assert compared > 50


def test_gains_are_there_with_moves_and_forecasts_only(foreseen):
    drawn = foreseen.sequences("test", 1, 0)
    keys = {"grid", "queue", "backlog"}
    for changes, more in (
        ({}, {"forecast", "running", "phase", "gains"}),
        ({"moves_per_slot": 0}, {"forecast"}),
        ({"observe_forecast": False}, {"running", "phase"}),
    ):
        env = PlacementEnv(drawn, foreseen.machines, replace(foreseen.scenario, **changes))
        assert set(env.observation_space) == keys | more


def test_without_moves_spaces_are_as_before():
    env = PlacementEnv(3, scenario=Scenario(machines=4, workloads=20))
    assert env.action_space.n == 4
    assert set(env.observation_space) == {"grid", "queue", "backlog"}


def test_what_is_shown_is_bounded():
    with pytest.raises(InputError, match="shown_running is 0"):
        Scenario(moves_per_slot=1, shown_running=0)
    for field, value in {
        "K_m": -1.0,
        "move_slots": 0,
        "move_overlap": -1,
        "immovable": 1.5,
        "moves_per_slot": -1,
    }.items():
        with pytest.raises(InputError, match=field):
            Scenario(**{field: value})
    for value in (float("inf"), None, True, "much"):
        with pytest.raises(InputError, match="K_m"):
            Scenario(K_m=value)
    for field in ("moves_per_slot", "move_slots", "move_overlap", "move_rest", "shown_running", "immovable", "load"):
        with pytest.raises(InputError, match=field):
            Scenario(**{field: None})
    assert Scenario(placements_per_slot=None, workloads=None).placements_per_slot is None
    Scenario(moves_per_slot=1, K_m=0.0)
