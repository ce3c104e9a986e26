"""What other libraries do with every id that we register: checkers, copies in mid-episode, and Gymnasium's wrappers.

A wrapper of a later Gymnasium has to be put into one of the tables below, with its constructor or the reason why not.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import wrappers
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import vector as vector_wrappers
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

from tvwrl.benchmark.tasks import EMBEDDED, TASKS

REAL_TRACES = Path(os.environ.get("TVWRL_DATA") or "none")  # before the tests' own folder hides it
IDS = sorted(name for name in gym.registry if name.startswith("tvwrl/"))
PLAIN = "tvwrl/Placement-v0"
# One id of each kind, which every test run takes; the others differ in trace, load or price
KINDS = [PLAIN] + [f"tvwrl/google-0.5-{kind}v1" for kind in ("", "burst-", "delay-", "move-")]
RECORDED = {name for name in IDS if name != PLAIN and TASKS[name.removeprefix("tvwrl/")].trace != EMBEDDED}
USUAL = [
    pytest.param(
        name,
        marks=[pytest.mark.slow] * (name not in KINDS) + [pytest.mark.real_data] * (name in RECORDED),
    )
    for name in IDS
]
ADVICE = (
    "ignore:.*(maximum value is infinity|minimum value is -infinity|not within the|overriding existing).*:UserWarning"
)
STEPS = 12
FILMS = mkdtemp()
Make = Callable[[Any], Any]


def flat(env: Any) -> Any:
    return wrappers.FlattenObservation(env)


def many_flat(envs: Any) -> Any:
    return vector_wrappers.FlattenObservation(envs)


def reshaped(env: Any, wrapper: Any, space: Any) -> Any:
    return wrapper(env, (*space.shape, 1))


WRAPPERS: dict[str, Make] = {
    "DelayObservation": lambda env: wrappers.DelayObservation(env, delay=2),
    "DtypeObservation": lambda env: wrappers.DtypeObservation(flat(env), np.float64),
    "FilterObservation": lambda env: wrappers.FilterObservation(env, ["queue", "backlog"]),
    "FlattenObservation": flat,
    "FrameStackObservation": lambda env: wrappers.FrameStackObservation(env, 3),
    "TransformObservation": lambda env: wrappers.TransformObservation(
        env, lambda seen: seen["queue"], env.observation_space["queue"]
    ),
    "NormalizeObservation": lambda env: wrappers.NormalizeObservation(flat(env)),
    "AddRenderObservation": lambda env: wrappers.AddRenderObservation(env, render_only=True),
    "ReshapeObservation": lambda env: reshaped(
        flat(env), wrappers.ReshapeObservation, gym.spaces.flatten_space(env.observation_space)
    ),
    "TimeAwareObservation": lambda env: wrappers.TimeAwareObservation(wrappers.TimeLimit(env, 50), flatten=False),
    "TransformAction": lambda env: wrappers.TransformAction(env, lambda action: action, env.action_space),
    "StickyAction": lambda env: wrappers.StickyAction(env, 0.1),
    "ClipReward": lambda env: wrappers.ClipReward(env, -10.0, 0.0),
    "TransformReward": lambda env: wrappers.TransformReward(env, lambda reward: 0.1 * reward),
    "NormalizeReward": wrappers.NormalizeReward,
    "TimeLimit": lambda env: wrappers.TimeLimit(env, 5),
    "Autoreset": wrappers.Autoreset,
    "PassiveEnvChecker": wrappers.PassiveEnvChecker,
    "OrderEnforcing": wrappers.OrderEnforcing,
    "RecordEpisodeStatistics": wrappers.RecordEpisodeStatistics,
    "AddWhiteNoise": lambda env: wrappers.AddWhiteNoise(env, 0.1),
    "ObstructView": lambda env: wrappers.ObstructView(env, 0.1, 8),
    "RenderCollection": wrappers.RenderCollection,
    "RecordVideo": lambda env: wrappers.RecordVideo(env, FILMS, video_length=3),
    "ArrayConversion": lambda env: wrappers.ArrayConversion(env, np, torch),
    "NumpyToTorch": lambda env: wrappers.NumpyToTorch(env),
}
MAKES_NO_SENSE = {
    "AtariPreprocessing": "for Atari",
    "GrayscaleObservation": "of a picture",
    "ResizeObservation": "of a picture",
    "DiscretizeObservation": "needs finite bounds, and demand has none",
    "RescaleObservation": "needs finite bounds, and demand has none",
    "MaxAndSkipObservation": "repeats an action, and each is about another workload",
    "RepeatAction": "repeats an action, and each is about another workload",
    "ClipAction": "of continuous actions",
    "DiscretizeAction": "of continuous actions",
    "RescaleAction": "of continuous actions",
    "HumanRendering": "opens a window with pygame; render_mode='human' needs none",
    "JaxToNumpy": "for environments in JAX",
    "JaxToTorch": "for environments in JAX",
}
VECTOR_WRAPPERS: dict[str, Make] = {
    "VectorizeTransformObservation": lambda envs: vector_wrappers.VectorizeTransformObservation(
        envs, wrappers.FilterObservation, filter_keys=["queue"]
    ),
    "VectorizeTransformAction": lambda envs: vector_wrappers.VectorizeTransformAction(
        envs, wrappers.TransformAction, func=lambda action: action, action_space=envs.single_action_space
    ),
    "VectorizeTransformReward": lambda envs: vector_wrappers.VectorizeTransformReward(
        envs, wrappers.ClipReward, min_reward=-10.0
    ),
    "DictInfoToList": vector_wrappers.DictInfoToList,
    "TransformObservation": lambda envs: vector_wrappers.TransformObservation(
        envs, lambda seen: seen["queue"], envs.observation_space["queue"], envs.single_observation_space["queue"]
    ),
    "FilterObservation": lambda envs: vector_wrappers.FilterObservation(envs, ["queue", "backlog"]),
    "FlattenObservation": many_flat,
    "ReshapeObservation": lambda envs: reshaped(
        many_flat(envs), vector_wrappers.ReshapeObservation, gym.spaces.flatten_space(envs.single_observation_space)
    ),
    "DtypeObservation": lambda envs: vector_wrappers.DtypeObservation(many_flat(envs), np.float64),
    "NormalizeObservation": lambda envs: vector_wrappers.NormalizeObservation(many_flat(envs)),
    "TransformAction": lambda envs: vector_wrappers.TransformAction(envs, lambda action: action, envs.action_space),
    "TransformReward": lambda envs: vector_wrappers.TransformReward(envs, lambda reward: 0.1 * reward),
    "ClipReward": lambda envs: vector_wrappers.ClipReward(envs, -10.0, 0.0),
    "NormalizeReward": vector_wrappers.NormalizeReward,
    "RecordEpisodeStatistics": vector_wrappers.RecordEpisodeStatistics,
    "RecordVideo": lambda envs: vector_wrappers.RecordVideo(envs, FILMS, video_length=3),
    "ArrayConversion": lambda envs: vector_wrappers.ArrayConversion(envs, np, torch),
    "NumpyToTorch": lambda envs: vector_wrappers.NumpyToTorch(envs),
}
VECTOR_MAKES_NO_SENSE = {name: why for name, why in MAKES_NO_SENSE.items() if name in vector_wrappers.__all__}


@cache
def made(name: str) -> Any:
    """The environment of an id, with pictures; it is copied for each test."""
    small = {"workloads": 40, "machines": 4, "history": 6} if name == PLAIN else {}
    return gym.make(name, sequences=1, render_mode="rgb_array", disable_env_checker=True, **small).unwrapped


@cache
def made_vec(name: str) -> Any:
    """Two of them in one."""
    small = {"workloads": 40, "machines": 4, "history": 6} if name == PLAIN else {}
    return gym.make_vec(
        name, 2, vectorization_mode="vector_entry_point", sequences=1, render_mode="rgb_array", **small
    ).unwrapped


@pytest.fixture(params=USUAL)
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An id whose trace is there."""
    if request.param in RECORDED:
        trace = TASKS[request.param.removeprefix("tvwrl/")].trace
        if not (REAL_TRACES / trace / "trace.json").is_file():
            pytest.skip(f"no trace {trace} in TVWRL_DATA")
        monkeypatch.setenv("TVWRL_DATA", str(REAL_TRACES))
    found: str = request.param
    return found


def allowed(env: Any, rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(env.unwrapped.action_masks())))


def same(left: Any, right: Any) -> bool:
    """Whether two (nested) results are equal in every element."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(np.array_equal(left, right))


def test_every_wrapper_of_gymnasium_is_classified() -> None:
    assert set(wrappers.__all__) - {"vector"} == set(WRAPPERS) | set(MAKES_NO_SENSE)
    assert not set(WRAPPERS) & set(MAKES_NO_SENSE)
    assert set(vector_wrappers.__all__) == set(VECTOR_WRAPPERS) | set(VECTOR_MAKES_NO_SENSE)
    assert not set(VECTOR_WRAPPERS) & set(VECTOR_MAKES_NO_SENSE)


@pytest.mark.filterwarnings(ADVICE)
def test_the_checkers_accept_it(name: str) -> None:
    check_env(copy.deepcopy(made(name)), skip_render_check=True)
    check_env_for_sb3(copy.deepcopy(made(name)), warn=False)


def test_a_copy_and_a_snapshot_in_mid_episode_go_on_alike(name: str) -> None:
    env, rng = copy.deepcopy(made(name)), np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(STEPS):
        env.step(allowed(env, rng))
    twin, node = copy.deepcopy(env), env.snapshot()
    actions, first = [], []
    for _ in range(STEPS):
        actions.append(allowed(env, rng))
        first.append(env.step(actions[-1]))
    assert all(same(twin.step(action), found) for action, found in zip(actions, first, strict=True))
    env.restore(node)
    assert all(same(env.step(action), found) for action, found in zip(actions, first, strict=True))


def known(table: dict[str, Make]) -> Iterator[tuple[str, Make]]:
    for called, make in table.items():
        if called != "RecordVideo" or find_spec("moviepy") is not None:
            yield called, make


@pytest.mark.filterwarnings(ADVICE)
def test_every_wrapper_works(name: str) -> None:
    rng = np.random.default_rng(0)
    for called, make in known(WRAPPERS):
        env = make(copy.deepcopy(made(name)))
        if called not in ("ArrayConversion", "NumpyToTorch"):
            assert env.observation_space.contains(env.reset(seed=0)[0]), called
        env.reset(seed=0)
        for _ in range(STEPS):
            seen, reward, terminated, truncated, _ = env.step(allowed(env, rng))
            assert np.isfinite(float(reward)), called
            if called not in ("ArrayConversion", "NumpyToTorch"):
                assert env.observation_space.contains(seen), called
            if (terminated or truncated) and called != "Autoreset":
                env.reset()
        if called == "NumpyToTorch":
            assert all(isinstance(part, torch.Tensor) for part in seen.values())
        if called == "RenderCollection":
            assert len(env.render()) == STEPS + 1
        env.close()


@pytest.mark.filterwarnings(ADVICE)
def test_every_vector_wrapper_works(name: str) -> None:
    for called, make in known(VECTOR_WRAPPERS):
        envs = make(copy.deepcopy(made_vec(name)))
        seen, _ = envs.reset(seed=0)
        for _ in range(STEPS):
            if called not in ("ArrayConversion", "NumpyToTorch"):
                assert envs.observation_space.contains(seen), called
            actions = envs.unwrapped.action_masks().argmax(axis=1)
            if called in ("ArrayConversion", "NumpyToTorch"):
                actions = torch.from_numpy(actions)
            seen, rewards, *_ = envs.step(actions)
            assert np.isfinite(np.asarray(rewards)).all(), called
        envs.close()


@pytest.mark.skipif(find_spec("moviepy") is None, reason="pip install '.[video]'")
def test_a_film_of_an_episode_is_written(tmp_path: Path) -> None:
    env = wrappers.RecordVideo(copy.deepcopy(made(PLAIN)), str(tmp_path), video_length=4)
    env.reset(seed=0)
    for _ in range(6):
        env.step(0)
    env.close()
    assert [path.suffix for path in tmp_path.iterdir()] == [".mp4"]
    assert next(tmp_path.iterdir()).stat().st_size > 1000
