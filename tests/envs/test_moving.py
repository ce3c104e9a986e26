"""Environments in which running workloads may be moved: phases, masks, rewards, one and many."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tvwrl.envs import PlacementEnv, PlacementVectorEnv
from tvwrl.metrics import penalties
from tvwrl.penalties import TERMS
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
