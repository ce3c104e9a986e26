"""`tvwrl/Placement-v0` for one cluster: Gymnasium's and Stable-Baselines3's contracts, and what may be known when."""

import copy
import pickle
from dataclasses import fields

import gymnasium as gym
import numpy as np
import pytest

from tvwrl.envs import PlacementEnv
from tvwrl.metrics import score_episode
from tvwrl.penalties import TERMS
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError, Machines

TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))
# Advice of the two checkers on image-like and unbounded observations
ADVICE = "ignore:.*(maximum value is infinity|unconventional shape|no screen to draw on).*:UserWarning"


@pytest.fixture
def env(problem, train):
    """The environment of the small problem; episodes end with the last arrival."""
    return PlacementEnv(train, problem.machines, problem.scenario, max_slots=0)


def assert_same(left, right):
    """Two observations are equal in every key and element."""
    assert left.keys() == right.keys()
    for name in left:
        assert np.array_equal(left[name], right[name]), name


def play(env, actions, **reset):
    """The first observation and the steps of the actions, up to the episode's end."""
    seen, _ = env.reset(**reset)
    steps = []
    for action in actions:
        steps.append(env.step(action))
        if steps[-1][2] or steps[-1][3]:
            break
    return seen, steps


@pytest.mark.slow
@pytest.mark.filterwarnings(ADVICE)
def test_stable_baselines3(env):
    ppo = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_checker import check_env as check_sb3

    check_sb3(env)
    model = ppo.PPO("MultiInputPolicy", env, n_steps=64, batch_size=64, n_epochs=1, seed=0, device="cpu")
    model.learn(total_timesteps=128)
    assert model.num_timesteps == 128
    assert 0 <= model.predict(env.reset(seed=0)[0])[0] < 4


def test_observations_are_not_overwritten_by_later_steps(env):
    seen, _ = env.reset(seed=0)
    kept = {name: array.copy() for name, array in seen.items()}
    for _ in range(5):
        env.step(0)
    assert_same(seen, kept)


def test_spaces(problem, train, env):
    assert env.observation_space["grid"].shape == (4, 2, 6, 8)
    assert env.observation_space["queue"].shape == (5, 1 + 2 * 2)
    assert env.action_space == gym.spaces.Discrete(4)
    assert PlacementEnv(train, problem.machines, hold_action=True).action_space == gym.spaces.Discrete(5)


def test_episode_reward_is_the_referees(env, problem):
    _, steps = play(env, [(i * 7) % 4 for i in range(16)], seed=3)
    assert steps[-1][2]
    assert not steps[-1][3]
    row = score_episode(env.simulation.record(), problem.machines, problem.scenario.penalty_weights())
    assert sum(step[1] for step in steps) == pytest.approx(row["reward"], rel=1e-12)
    for _, reward, _, _, info in steps:
        assert reward == -sum(info[name] for name in TERMS)
    first = env.simulation.record().arrival[0]
    assert sum(step[4]["slots"] for step in steps) == row["slots"] - first


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_goes_its_own_way_to_the_same_end(env, copied):
    env.reset(seed=4)
    for _ in range(4):
        env.step(1)
    other = copied(env)
    actions = [0, 2, 1, 0] * 3
    mine = [env.step(a) for a in actions]
    yours = [other.step(a) for a in actions[:40]]
    for one, two in zip(mine, yours, strict=True):
        assert_same(one[0], two[0])
        assert one[1:4] == two[1:4]


def test_seeds_give_different_orders_of_sequences(env):
    orders = {tuple(env.reset(seed=s if i == 0 else None)[1]["sequence"] for i in range(8)) for s in range(20)}
    assert len(orders) == 20


def test_every_sequence_is_drawn(env, train):
    count = np.bincount([env.reset(seed=0 if i == 0 else None)[1]["sequence"] for i in range(400)], minlength=8)
    assert len(count) == len(train)
    assert count.min() > 20  # 50 expected


def test_unseeded_environments_differ(problem, train):
    orders = set()
    for _ in range(4):
        env = PlacementEnv(train, problem.machines, problem.scenario)
        orders.add(tuple(env.reset()[1]["sequence"] for _ in range(20)))
    assert len(orders) == 4


def test_options_pick_the_sequence(env, train):
    for sequence in (6, 0, 3):
        _, info = env.reset(options={"sequence": sequence})
        assert info["sequence"] == sequence
        assert np.array_equal(env.simulation.record().arrival, train.arrival[sequence])
    for wrong in (8, -2, "a", 1.5):
        with pytest.raises(InputError, match=rf"options\['sequence'\].* {wrong}"):
            env.reset(options={"sequence": wrong})


def test_an_unknown_parameter_lists_those_that_are_near_or_all(train):
    with pytest.raises(InputError, match=r"^Scenario has no field 'lod': did you mean load"):
        PlacementEnv(train, lod=0.3)
    with pytest.raises(InputError, match="Scenario has no field 'xyz': must be one of ") as caught:
        PlacementEnv(train, xyz=0.3)
    for field in fields(Scenario):
        assert field.name in str(caught.value)


def test_errors_name_field_and_limit(env, train):
    with pytest.raises(InputError, match="history is 0: must be at least 1"):
        PlacementEnv(train, history=0)
    with pytest.raises(InputError, match="penalty weight K_c has 3 values for 2 resources"):
        PlacementEnv(train, K_c=(1, 2, 3))
    with pytest.raises(InputError, match="unknown render_mode 'ascii'; valid: rgb_array, human"):
        PlacementEnv(train, render_mode="ascii")
    with pytest.raises(InputError, match=r"call reset\(\) first"):
        env.step(0)
    env.reset(seed=0)
    for action in (4, -1, 1.5):
        with pytest.raises(InputError, match=f"action .*{action}"):
            env.step(action)
    play(env, [0] * 16)
    with pytest.raises(InputError, match=r"episode is over: call reset\(\) first"):
        env.step(0)
    env.reset()
    env.step(0)


def test_fractional_demand_is_played_as_it_is(make_sequences):
    # The scenario's default is whole units, but these sequences are not: nothing may be cut off.
    env = PlacementEnv(make_sequences([(0, [[2.75, 0.5]])]), TWO, K_u=1)
    assert play(env, [0], seed=0)[1][0][1] == -(5.25 + 7.5)
    env = PlacementEnv(make_sequences([(0, [[300.0, 7.0]])]), TWO, K_u=1, K_o=10)  # more than fits a byte
    assert play(env, [0], seed=0)[1][0][1] == -(1 + 10)


def test_nothing_seen_tells_the_future(make_sequences):
    # a differs from slot 3 on and b in its length, labels being equal; the placements are the same.
    past = [[3, 2], [4, 2], [5, 1]]
    calm = [(0, [*past, [1, 1], [1, 1]]), (1, [[1, 3]] * 4), (2, [[1, 1]] * 2), (3, [[1, 1]]), (4, [[1, 1]])]
    wild = [(0, [*past, [6, 6], [6, 6]]), (1, [[1, 3]] * 6), *calm[2:]]
    runs = [play(PlacementEnv(make_sequences(rows, slots=6), TWO, history=4), [0, 0, 1, 1, 1]) for rows in (calm, wild)]
    assert_same(runs[0][0], runs[1][0])
    for decision in (0, 1):  # after them, slots 1 and 2 are seen
        assert_same(runs[0][1][decision][0], runs[1][1][decision][0])
        assert runs[0][1][decision][1] == runs[1][1][decision][1]
    # The observation after the third decision is that of slot 3, when a turns out to use more.
    assert runs[0][1][2][0]["grid"][0, 0, -1].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    assert runs[1][1][2][0]["grid"][0, 0, -1].tolist() == [1, 1, 1, 1, 1, 1, 1, 0]
    for row in (0, 1, 2):
        assert np.array_equal(runs[0][1][2][0]["grid"][:, :, row], runs[1][1][2][0]["grid"][:, :, row])


def test_labels_of_the_future_are_not_shown(make_sequences):
    # Labels after three slots seen differ; slot 2 is the third.
    rows = [[(0, [[3, 3]] * 4, [1, 1, 1, late, late]), (1, [[1, 1]]), (2, [[1, 1]])] for late in (2, 6)]
    runs = [play(PlacementEnv(make_sequences(own), TWO, history=4), [0, 1, 1]) for own in rows]
    assert_same(runs[0][1][0][0], runs[1][1][0][0])
    assert [run[1][1][0]["grid"][0, 0, -1, 0] for run in runs] == [2, 6]


def test_a_machine_that_is_switched_off_takes_nothing(make_sequences):
    sequences = make_sequences([(0, [[1, 1]] * 3), (1, [[1, 1]])])
    env = PlacementEnv(sequences, scenario=Scenario(machine_types=("1x8,8", "1x0,0"), hold_action=True))
    env.reset(seed=0)
    assert env.action_masks().tolist() == [True, False, False]  # nothing runs: there is nothing to wait for
    with pytest.raises(InputError, match="action is 1: that machine is switched off"):
        env.step(1)
    env.step(0)
    assert env.action_masks().tolist() == [True, False, True]
    env = PlacementEnv(sequences, scenario=Scenario(machine_types=("1x8,8", "1x0,0"), choose_from_queue=True, queue=2))
    env.reset(seed=0)
    assert env.action_masks().tolist() == [True, False, False, False]
    with pytest.raises(InputError, match="action is 3: that machine is switched off"):
        env.step(3)
    with pytest.raises(InputError, match="all machines are switched off"):
        PlacementEnv(sequences, scenario=Scenario(machine_types=("2x0,0",)))
    with pytest.raises(InputError, match=r"capacity of machine 0, mem is 0\.0"):
        Machines(np.array([[8.0, 0.0]]), ("cpu", "mem"))


def test_only_what_waits_may_be_placed(make_sequences):
    # Three wait, of which two are seen; then two, then one.
    sequences = make_sequences([(0, [[1, 1]]), (0, [[2, 1]] * 9), (0, [[3, 1]])])
    env = PlacementEnv(sequences, TWO, choose_from_queue=True, queue=2, hold_action=True)
    assert env.action_space == gym.spaces.Discrete(5)
    env.reset(seed=0)
    assert env.action_masks().tolist() == [True, True, True, True, False]
    env.step(2)
    assert env.action_masks().tolist() == [True, True, True, True, True]
    env.step(2)
    assert env.action_masks().tolist() == [True, True, False, False, True]
    with pytest.raises(InputError, match="action is 5: must be 0 to 4"):
        env.step(5)
    env.step(0)
    assert env.simulation.record().start.tolist() == [2, 0, 1]


def test_a_choice_needs_several_places(train):
    with pytest.raises(InputError, match=r"choose_from_queue is set, but queue is 1: .* show at least 2 waiting"):
        PlacementEnv(train, choose_from_queue=True, queue=1)


def test_one_machine_and_one_workload_leave_the_choice_of_waiting(make_sequences):
    env = PlacementEnv(
        make_sequences([(0, [[1, 1]])]), Machines.homogeneous(1, 8, ("cpu", "mem")), choose_from_queue=True, queue=3
    )
    env.reset(seed=0)
    assert env.action_masks().tolist() == [True, False, False]
    assert env.step(1)[4]["wait"] == 50  # nothing waits there: the slot passes
    assert env.step(0)[2]


def after(env, actions):
    """Rewards of a few actions, and the last observation."""
    found = [env.step(action) for action in actions]
    return [reward for _, reward, *_ in found], found[-1][0]


@pytest.mark.parametrize("changes", [{}, {"moves_per_slot": 2}, {"usage_delay": 2, "hold_action": True}])
def test_it_goes_on_from_a_snapshot_as_often_as_one_likes(changes):
    env = PlacementEnv(3, machines=4, workloads=12, history=4, **changes)
    observation, _ = env.reset(seed=0)
    actions = [1, 0, 2, 3, 0, 1]
    after(env, actions[:3])
    node = env.snapshot()
    rewards, last = after(env, actions)
    for _ in range(2):
        observation, info = env.restore(node)
        assert set(info) >= {"slots", "sequence"}
        again, seen = after(env, actions)
        assert again == rewards
        assert all(np.array_equal(seen[name], last[name]) for name in last)
    env.restore(node)
    twin = copy.deepcopy(env)
    assert after(twin, actions)[0] == rewards
    assert after(env, actions)[0] == rewards  # which the copy has not disturbed
    assert pickle.loads(pickle.dumps(env)).snapshot().state[1][0].tolist() == env.snapshot().state[1][0].tolist()
    assert observation["grid"].shape == last["grid"].shape


def test_random_streams_are_part_of_a_snapshot():
    env = PlacementEnv(20, machines=4, workloads=8)
    env.reset(seed=3)
    node = env.snapshot()
    drawn = [env.reset()[1]["sequence"] for _ in range(5)]
    env.restore(node)
    assert [env.reset()[1]["sequence"] for _ in range(5)] == drawn


def test_a_snapshot_of_another_environment_is_refused():
    one = PlacementEnv(2, machines=4, workloads=8)
    one.reset(seed=0)
    one.step(1)
    before = one.snapshot()
    for others in ({"machines": 5}, {"sequences": 3}, {"K_o": 1.0}, {"history": 3}, {"load": 0.6}):
        other = PlacementEnv(**{"sequences": 2, "machines": 4, "workloads": 8, **others})
        other.reset(seed=0)
        with pytest.raises(InputError, match="the snapshot is of an environment with other sequences, machines"):
            one.restore(other.snapshot())
        assert all(np.array_equal(a, b) for a, b in zip(one.snapshot().state[1], before.state[1], strict=True))
