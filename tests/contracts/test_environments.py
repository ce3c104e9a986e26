"""What Gymnasium expects of the registered environment, in its single and its vector form."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tvwrl.agents.deeprm import DeepRMVectorEnv
from tvwrl.benchmark.environment import TaskEnv, TaskVectorEnv
from tvwrl.envs import PlacementEnv, PlacementVectorEnv
from tvwrl.types import InputError

NAME = "tvwrl/Placement-v0"
ADVICE = "ignore:.*(maximum value is infinity|no screen to draw on).*:UserWarning"


@pytest.fixture(scope="module")
def arguments(problem, train):
    """Arguments that make the environment small."""
    return {"sequences": train, "cluster": problem.machines, "scenario": problem.scenario}


def same(left, right):
    """Whether two (nested) results of reset or step are equal in every element."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(np.array_equal(left, right))


@pytest.mark.filterwarnings(ADVICE)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"hold_action": True, "observe_request": False, "K_u": 0},
        {"observe_demand": True, "observe_forecast": True},
        {"choose_from_queue": True, "hold_action": True},
    ],
)
def test_gymnasium_checker(arguments, changes):
    check_env(gym.make(NAME, **arguments, **changes).unwrapped)


@pytest.mark.parametrize("vector", [False, True])
def test_a_seed_fixes_everything(arguments, vector):
    def run(seed):
        env = gym.make_vec(NAME, num_envs=3, **arguments) if vector else gym.make(NAME, **arguments)
        env.action_space.seed(seed)
        results = [env.reset(seed=seed)]
        for _ in range(60):
            results.append(env.step(env.action_space.sample()))
            if not vector and (results[-1][2] or results[-1][3]):
                results.append(env.reset())
        return results

    first, again, other = run(1), run(1), run(2)
    assert all(map(same, first, again))
    assert not all(map(same, first, other))


def test_vector_form(arguments):
    single, env = gym.make(NAME, **arguments), gym.make_vec(NAME, num_envs=3, **arguments)
    assert env.unwrapped.metadata["autoreset_mode"] in gym.vector.AutoresetMode
    assert env.single_observation_space == single.observation_space
    assert env.single_action_space == single.action_space
    assert env.num_envs == 3
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    env.action_space.seed(0)
    for _ in range(40):
        seen, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(seen)
        assert [array.shape for array in (reward, terminated, truncated)] == [(3,)] * 3
        assert np.isfinite(reward).all()
    env.close()


def test_a_picture_shows_what_the_machines_run(arguments):
    env = gym.make(NAME, render_mode="rgb_array", **arguments)
    env.reset(seed=0)
    frames = [env.render()]
    env.step(0)
    frames.append(env.render())
    assert {(frame.dtype, frame.ndim, frame.shape[2]) for frame in frames} == {(np.dtype(np.uint8), 3, 3)}
    assert not np.array_equal(*frames)


def test_a_second_start_compiles_nothing():
    start = (
        "import gymnasium as gym, tvwrl; from tvwrl.simulation.episode_kernels import drive;"
        "from tvwrl.simulation.scenario import Scenario; from tvwrl.traces.synthetic import synthetic_trace;"
        "from tvwrl.envs.problem import Problem;"
        "problem = Problem.build(synthetic_trace('google', workloads=20, days=4), Scenario(workloads=4), 'none');"
        "env = gym.make('tvwrl/Placement-v0', sequences=problem.sequences('train', 1, 0));"
        "env.reset(seed=0); env.step(0)"
    )
    exec(start)  # leaves compiled code in the cache, unless it is there already
    count = "; print(sum(drive.stats.cache_misses.values()), sum(drive.stats.cache_hits.values()))"
    misses, hits = subprocess.check_output([sys.executable, "-c", start + count], text=True).split()[-2:]
    assert int(misses) == 0
    assert int(hits) >= 1


@pytest.fixture(params=["single", "vector", "task", "vector of tasks", "deeprm"])
def any_env(request, arguments, problem, train):
    """Every environment of ours, and whether it is a vector."""
    if request.param == "deeprm":
        return DeepRMVectorEnv(2, train, problem.machines, problem.scenario, 30, 1.0), True
    if "task" in request.param:
        options = {"task": "google-0.5-v0", "sequences": 2}
        return (TaskVectorEnv(2, **options), True) if "vector" in request.param else (TaskEnv(**options), False)
    vector = request.param == "vector"
    return (PlacementVectorEnv(2, **arguments) if vector else PlacementEnv(**arguments)), vector


def test_what_is_no_option_or_action_is_refused(any_env):
    env, vector = any_env
    with pytest.raises(InputError, match="options has no 'sequences': did you mean sequence"):
        env.reset(options={"sequences": 3})
    for wrong in (True, 1.0, [True, 0]):
        with pytest.raises(InputError, match=r"options\['sequence'\] is .*must be a whole number"):
            env.reset(options={"sequence": wrong})
    env.reset(options={"sequence": 1})
    wrong = (True, np.True_, 1.0, np.float32(1), "1", None)
    for action in [[one, 0] for one in wrong] + [np.array([True, False])] if vector else wrong:
        with pytest.raises(InputError, match=r"must be (a )?whole number|integers"):
            env.step(action)
    env.step(np.array([0, 0]) if vector else np.int64(0))
