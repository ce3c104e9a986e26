"""The vector environment: B environments are B single ones, each with its own stream, without a Python loop."""

import gc
import sys
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.envs import PlacementEnv, PlacementVectorEnv
from tvwrl.envs.base import streams_of
from tvwrl.penalties import TERMS
from tvwrl.simulation.state import STREAM
from tvwrl.types import InputError, Machines

GOLDEN = 0x9E3779B97F4A7C15  # what one draw adds to a stream


@pytest.fixture
def make(problem, train):
    """Vector environments of the small problem, with short episodes."""

    def build(count, **changes):
        changes = {"max_slots": 60, **changes}
        return PlacementVectorEnv(count, train, problem.machines, problem.scenario, **changes)

    return build


@pytest.mark.parametrize("changes", [{}, {"hold_action": True, "placements_per_slot": 2, "observe_request": False}])
def test_a_batch_is_as_many_single_environments(make, problem, train, changes):
    vector, count = make(5, max_slots=200, **changes), 5
    singles = [PlacementEnv(train, problem.machines, problem.scenario, **changes) for _ in range(count)]
    rng, over = np.random.default_rng(0), [False] * count
    seen, info = vector.reset(seed=7)
    for b, single in enumerate(singles):
        own, own_info = single.reset(seed=7 + b)
        assert all(np.array_equal(seen[name][b], own[name]) for name in seen)
        assert all(info[name][b] == own_info[name] for name in own_info)
    ends = set()
    episodes = 0
    for _ in range(150):
        actions = rng.integers(vector.single_action_space.n, size=count)
        seen, reward, terminated, truncated, info = vector.step(actions)
        assert vector.observation_space.contains(seen)
        for b, single in enumerate(singles):
            if over[b]:  # the step after an end ignores the action and begins the next episode
                own, own_info = single.reset()
                own_reward, ended = 0.0, (False, False)
                episodes += 1
            else:
                own, own_reward, *ended, own_info = single.step(int(actions[b]))
            assert all(np.array_equal(seen[name][b], own[name]) for name in seen)
            assert reward[b] == pytest.approx(own_reward, rel=1e-12)
            assert [terminated[b], truncated[b]] == list(ended)
            assert all(info[name][b] == own_info[name] for name in own_info)
            over[b] = any(ended)
            ends |= {name for name, end in zip(("terminated", "truncated"), ended, strict=True) if end}
    assert episodes > 10
    assert ends == {"terminated", "truncated"}


def test_next_step_autoreset_ignores_the_action(make):
    pair = [make(4, max_slots=25), make(4, max_slots=25)]
    for env in pair:
        env.reset(seed=0)
    assert pair[0].metadata["autoreset_mode"] is gym.vector.AutoresetMode.NEXT_STEP
    over, resets = np.zeros(4, bool), 0
    for i in range(60):
        action = np.full(4, i % 4)
        results = [env.step(np.where(over, other, action)) for env, other in zip(pair, (0, 3), strict=True)]
        seen, reward, terminated, truncated, info = results[0]
        assert all(np.array_equal(seen[name], results[1][0][name]) for name in seen)
        assert not reward[over].any()
        assert not (terminated | truncated)[over].any()
        assert not info["slots"][over].any()
        assert not seen["grid"][over].any()  # an empty cluster
        assert (seen["queue"][over][:, 0, 0] > 0).all()  # with somebody waiting
        resets += over.sum()
        over = terminated | truncated
    assert resets > 8


def test_same_step_autoreset_is_that_of_gymnasium(make, problem, train):
    """What SyncVectorEnv makes of single environments: observations, rewards, info, and those of ended episodes."""
    mode, single = gym.vector.AutoresetMode.SAME_STEP, partial(PlacementEnv, train, problem.machines, problem.scenario)
    mine = make(4, autoreset_mode=mode, max_slots=25)
    theirs = gym.vector.SyncVectorEnv([partial(single, max_slots=25)] * 4, autoreset_mode=mode)
    assert mine.metadata["autoreset_mode"] is mode
    mine.reset(seed=3)
    theirs.reset(seed=[3, 4, 5, 6])
    ended = 0
    for step in range(80):
        action = np.full(4, step % 3)
        one, other = mine.step(action), theirs.step(action)
        assert one[1] == pytest.approx(other[1])
        assert one[2].tolist() == other[2].tolist()
        assert one[3].tolist() == other[3].tolist()
        assert all(np.array_equal(one[0][name], other[0][name]) for name in other[0])
        info, wanted = one[4], other[4]
        assert set(info) == set(wanted)
        assert all(np.array_equal(info[name], wanted[name]) for name in wanted if not name.startswith("final"))
        if "final_obs" in wanted:
            ended += int(wanted["_final_obs"].sum())
            assert all(np.array_equal(info["final_info"][name], of) for name, of in wanted["final_info"].items())
            for own, theirs_ in zip(info["final_obs"], wanted["final_obs"], strict=True):
                assert (own is None) == (theirs_ is None)
                assert own is None or all(np.array_equal(own[name], theirs_[name]) for name in theirs_)
    assert ended > 8


def test_disabled_stands_still_until_reset_by_mask(make):
    env = make(3, autoreset_mode="Disabled", max_slots=0)
    assert env.metadata["autoreset_mode"] is gym.vector.AutoresetMode.DISABLED
    env.reset(seed=0, options={"sequence": np.array([0, 1, 2])})
    for _ in range(16):  # one step per workload
        seen, reward, terminated, truncated, _ = env.step(np.array([0, 1, 2]))
    assert terminated.all()
    assert not truncated.any()
    assert (reward < 0).all()
    still, reward, terminated, _, info = env.step(np.array([3, 3, 3]))
    assert all(np.array_equal(seen[name], still[name]) for name in seen)
    assert not reward.any()
    assert terminated.all()
    assert not info["slots"].any()

    mask = np.array([False, True, False])
    begun, info = env.reset(options={"reset_mask": mask, "sequence": 5})
    assert info["sequence"].tolist() == [0, 5, 0]  # zero where nothing was reset
    for name in seen:
        assert np.array_equal(begun[name][~mask], still[name][~mask])
    _, reward, terminated, _, _ = env.step(np.array([0, 0, 0]))
    assert terminated.tolist() == [True, False, True]
    assert (reward < 0).tolist() == [False, True, False]


def test_reset_by_mask_seeds_only_what_it_resets(make):
    env, other = make(3), make(3)
    for one in (env, other):
        one.reset(seed=0)
    streams = env.simulation.state.counters[:, STREAM].copy()
    env.reset(seed=50, options={"reset_mask": np.array([False, True, False])})
    now = env.simulation.state.counters[:, STREAM]
    assert (now == streams).tolist() == [True, False, True]
    other.reset(seed=50)
    assert now[1] == other.simulation.state.counters[1, STREAM]


def test_seeds_may_be_given_one_by_one(make):
    env, other = make(3), make(3)
    env.reset(seed=[11, 12, 13])
    other.reset(seed=11)
    assert np.array_equal(env.simulation.state.counters, other.simulation.state.counters)
    kept = env.simulation.state.counters[1, STREAM]
    env.reset(seed=[None, None, 12], options={"reset_mask": np.array([True, False, True])})
    assert env.simulation.state.counters[1, STREAM] == kept
    assert env.simulation.state.counters[2, STREAM] == other.simulation.state.counters[1, STREAM]
    with pytest.raises(InputError, match="seed has 2 entries for 3 environments"):
        env.reset(seed=[1, 2])


def smallest_distance(streams):
    """Draws after which the first of the streams reaches the beginning of another one."""
    inverse = pow(GOLDEN, -1, 2**64)
    position = sorted(int(s) * inverse % 2**64 for s in np.unique(streams.view(np.uint64)))
    return min((b - a) % 2**64 for a, b in zip(position, position[1:] + position[:1], strict=True))


@settings(max_examples=25)
@given(st.integers(0, 2**66))
def test_streams_of_a_batch_never_meet(seed):
    streams = streams_of(seed, 3000)
    assert len(np.unique(streams)) == 3000
    assert smallest_distance(streams) > 10**6  # episodes


@pytest.mark.parametrize("seed", [0, 12345, None])
def test_environments_draw_from_streams_of_their_own(make, seed):
    env = make(200, max_slots=30, history=1)
    env.reset(seed=seed)
    assert smallest_distance(env.simulation.state.counters[:, STREAM].copy()) > 10**6
    drawn = []
    for _ in range(12):
        _, info = env.reset()
        drawn.append(info["sequence"])
    assert len({tuple(order) for order in np.array(drawn).T.tolist()}) == 200


def test_reward_is_minus_the_penalties_and_info_has_masks(make):
    env = make(4)
    env.reset(seed=0)
    for i in range(20):
        _, reward, _, _, info = env.step(np.full(4, i % 4))
        assert reward == pytest.approx(-sum(info[name] for name in TERMS))
        for name in (*TERMS, "slots", "sequence"):
            assert info[name].shape == (4,)
            assert info[f"_{name}"].all()


def test_copy_false_returns_views(make):
    copied, viewed = make(2), make(2, copy=False)
    before, _ = copied.reset(seed=0)
    kept = before["grid"].copy()
    shared, _ = viewed.reset(seed=0)
    copied.step(np.zeros(2, int))
    after, *_ = viewed.step(np.zeros(2, int))
    assert np.array_equal(before["grid"], kept)
    assert shared["grid"] is after["grid"]
    assert np.shares_memory(after["grid"], viewed.simulation.seen_grid)
    assert not np.array_equal(after["grid"], kept)


def python_work(function):
    """Lines of Python that a function executes; a line counts again each time a loop comes back to it."""
    lines = 0

    def count(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    gc.disable()  # its callbacks would count
    try:
        sys.settrace(count)
        function()
    finally:
        sys.settrace(before)
        gc.enable()
    return lines


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_no_python_work_per_environment(make, mode):
    work = []
    for count in (4, 64):
        env = make(count, autoreset_mode=mode, max_slots=30)
        env.reset(seed=0)
        for _ in range(3):
            env.step(np.zeros(count, int))
        mask = np.arange(count) % 2 == 0
        actions = [
            lambda env=env, count=count: [env.step(np.ones(count, int)) for _ in range(20)],  # some episodes end
            lambda env=env: env.reset(seed=3),
            lambda env=env: env.reset(),
            lambda env=env, mask=mask: env.reset(seed=2, options={"reset_mask": mask, "sequence": 1}),
        ]
        work.append([python_work(action) for action in actions])
    assert work[0] == work[1]


def test_counting_finds_a_loop():
    short, long = (python_work(lambda n=n: [i for i in range(n)]) for n in (4, 64))  # noqa: C416
    assert long > short


def test_errors(make, train):
    with pytest.raises(InputError, match="unknown render_mode 'human' for the vector environment; valid: rgb_array"):
        make(2, render_mode="human")
    with pytest.raises(InputError, match="Scenario has no field 'wait_weight'"):
        make(2, wait_weight=3)
    with pytest.raises(InputError, match="batch is 0"):
        make(0)
    env = make(2)
    with pytest.raises(InputError, match=r"call reset\(\) first"):
        env.step(np.zeros(2, int))
    env.reset(seed=0)
    for actions in ([0, 4], [-1, 0], [0], [[0, 0]]):
        with pytest.raises(InputError, match=r"actions must be \(2,\) integers from 0 to 3"):
            env.step(np.array(actions))
    with pytest.raises(InputError, match=r"options\['reset_mask'\] has shape \(3,\): must be \(2,\)"):
        env.reset(options={"reset_mask": np.ones(3, bool)})
    with pytest.raises(InputError, match=r"options\['sequence'\] is 8: must be 0 to 7"):
        env.reset(options={"sequence": 8})


def test_a_refused_reset_changes_nothing(make):
    env = make(2)
    env.reset(seed=0)
    env.step(np.zeros(2, int))
    before = env.simulation.state.counters.copy()
    with pytest.raises(InputError):
        env.reset(seed=1, options={"sequence": 99})
    assert np.array_equal(env.simulation.state.counters, before)


def test_renders_one_picture_per_environment(make):
    env = make(2, render_mode="rgb_array")
    env.reset(seed=0, options={"sequence": np.array([0, 1])})
    frames = env.render()
    assert frames is not None
    assert len(frames) == 2
    assert frames[0].shape == frames[1].shape
    assert not np.array_equal(*frames)  # their slots and queues differ
    assert make(1).render() is None


def test_heterogeneous_machines_are_seen_and_charged(make_sequences):
    machines = Machines(np.array([[8.0, 4.0], [16.0, 8.0]]), ("cpu", "mem"))
    env = PlacementVectorEnv(2, make_sequences([(0, [[6, 6]])]), machines, history=2, K_u=1, K_o=10)
    seen, _ = env.reset(seed=0)
    absent = (seen["grid"][0] == 7).sum(axis=(1, 2, 3)).tolist()
    # m0 lacks 8 of cpu's 16 columns and 12 of mem's, m1 8 of mem's, in each of two rows; axes 1 to 3 are D, h, C.
    assert absent == [2 * (8 + 12), 2 * 8]
    _, reward, _, _, info = env.step(np.array([0, 1]))
    assert info["overshoot"].tolist() == [10, 0]
    assert info["under_utilisation"].tolist() == [2, 10 + 2]
    assert reward.tolist() == [-12, -12]
