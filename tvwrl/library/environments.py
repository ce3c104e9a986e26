"""Gymnasium environments of a named task, or of a problem of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import gymnasium as gym
from gymnasium.vector import VectorEnv

from tvwrl.benchmark import TASKS, Task, TaskEnv, TaskVectorEnv, find_task
from tvwrl.checks import at_least, one_of
from tvwrl.envs import (
    Observed,
    Paid,
    Part,
    PlacementEnv,
    PlacementVectorEnv,
    Problem,
    Reward,
    VectorObserved,
    VectorPaid,
    check_parts,
    needs_of,
    with_needs,
    with_unit,
)
from tvwrl.traces import Split
from tvwrl.types import InputError, SequenceSet

SEQUENCES = 200  # drawn of a problem by default
PLAIN = "Placement-v0"  # the environment without a task


def make(
    task: str | Problem = "google-0.5-v1",
    *,
    observation: Sequence[Part] | Part | None = None,
    reward: Reward | None = None,
    **options: Any,
) -> gym.Env[Any, Any]:
    """A Gymnasium environment: of a named task of the benchmark, of a `Problem`, or `Placement-v0`.

    Parameters
    ----------
    task : str | Problem, default 'google-0.5-v1'
        A name in `tvwrl.TASK_NAMES`, a `Problem`, or "Placement-v0", the environment without a task.
    observation : sequence of Part, optional
        What is observed in place of the standard observation: parts of `tvwrl.envs.observations`, or of your own, which
        also set the `observe_*` options that they need.
    reward : Reward, optional
        What is paid in place of minus the sum of the penalties; see `tvwrl.envs.rewards`.
    **options : Any
        Of a task, those of `tvwrl.envs.PlacementEnv` for tasks (`tvwrl.benchmark.TaskEnv`); of a problem, `split`
        (train, the default, validation or test), `sequences` (arrival sequences to draw, default 200), `seed` of the
        draw, and `render_mode` (rgb_array or human); of Placement-v0, fields of `Scenario`.

    Returns
    -------
    gym.Env[Any, Any]
        An environment of the Gymnasium API.

    Raises
    ------
    InputError
        For an unknown task, a trace that is not on this machine, and bad options.

    Examples
    --------
    >>> env = make("Placement-v0", machines=4, workloads=8)
    >>> observation, info = env.reset(seed=0)
    >>> observation["grid"].shape  # machines, resources, slots of history, units
    (4, 2, 20, 8)

    >>> from tvwrl.envs.observations import Machines, Progress
    >>> env = make("Placement-v0", observation=[Machines(), Progress()], machines=4, workloads=8)
    >>> {name: array.shape for name, array in env.reset(seed=0)[0].items()}
    {'machines': (4, 3), 'progress': (3,)}
    """
    env: gym.Env[Any, Any]
    if isinstance(task, Problem):
        problem = _showing(task, observation)
        render_mode = options.pop("render_mode", None)
        drawn = _drawn(problem, **options)
        env = PlacementEnv(drawn, cluster=problem.machines, scenario=problem.scenario, render_mode=render_mode)
    else:
        options = with_needs(() if observation is None else check_parts(observation), options)
        env = TaskEnv(task, **options) if _is_own(task) else gym.make(_name_of(task), **options)
    unit = _unit_of(env)
    if reward is not None:
        env = Paid(env, with_unit(reward, unit))
    return env if observation is None else Observed(env, check_parts(observation), unit)


def make_vec(
    task: str | Problem = "google-0.5-v1",
    num_envs: int = 1,
    *,
    observation: Sequence[Part] | Part | None = None,
    reward: Reward | None = None,
    **options: Any,
) -> VectorEnv[Any, Any, Any]:
    """`num_envs` (>= 1) environments in one, stepped together by one compiled call; observations have their axis first.

    Parameters
    ----------
    task : str | Problem, default 'google-0.5-v1'
        As of `make`.
    num_envs : int, default 1
        Environments side by side (B), >= 1.
    observation, reward
        As of `make`.
    **options : Any
        As of `make`, and those of `tvwrl.envs.PlacementVectorEnv`.

    Returns
    -------
    VectorEnv[Any, Any, Any]
        The environments as one of the Gymnasium API.

    Raises
    ------
    InputError
        As `make` does.

    Examples
    --------
    >>> envs = make_vec("Placement-v0", num_envs=3, machines=4, workloads=8)
    >>> envs.reset(seed=0)[0]["grid"].shape
    (3, 4, 2, 20, 8)
    """
    at_least(1, num_envs=num_envs)
    if isinstance(task, Problem):
        own = {name: options.pop(name) for name in ("autoreset_mode", "copy", "render_mode") if name in options}
        problem = _showing(task, observation)
        drawn = _drawn(problem, **options)
        envs: VectorEnv[Any, Any, Any] = PlacementVectorEnv(
            num_envs, drawn, cluster=problem.machines, scenario=problem.scenario, **own
        )
    else:
        options = with_needs(() if observation is None else check_parts(observation), options)
        if _is_own(task):
            envs = TaskVectorEnv(num_envs, task=task, **options)
        else:
            envs = gym.make_vec(_name_of(task), num_envs, vectorization_mode="vector_entry_point", **options)
    unit = _unit_of(envs)
    if reward is not None:
        envs = VectorPaid(envs, with_unit(reward, unit))
    return envs if observation is None else VectorObserved(envs, check_parts(observation), unit)


def _unit_of(env: Any) -> float:
    """What a reward of -1 costs: the unit of the task, if there is one."""
    task = getattr(env.unwrapped, "task", None)
    return 1.0 if task is None else float(task.penalty_unit)


def _is_own(task: Any) -> TypeGuard[Task]:
    """Whether a task is none of those that Gymnasium knows."""
    return isinstance(task, Task) and TASKS.get(task.name) != task


def _showing(problem: Problem, observation: Any) -> Problem:
    """The problem, showing what the parts of an observation need."""
    needs = {} if observation is None else needs_of(check_parts(observation))
    if all(getattr(problem.scenario, name) == value for name, value in needs.items()):
        return problem
    scenario = replace(problem.scenario, **needs)
    return Problem.build(problem.trace, scenario, problem.classes, problem.sampler.unit, problem.forecaster)


def _name_of(task: Any) -> str:
    """The name of a task among Gymnasium's. Raises InputError, with near matches, for an unknown one."""
    if not isinstance(task, str | Task):
        raise InputError(f"task is {task!r}: must be a name, as in make('google-0.5-v1'), or a Problem")
    if isinstance(task, str) and task.removeprefix("tvwrl/") == PLAIN:
        return f"tvwrl/{PLAIN}"
    return f"tvwrl/{find_task(task).name}"


def _drawn(
    problem: Problem, split: Split = "train", sequences: int = SEQUENCES, seed: int = 0, **unknown: Any
) -> SequenceSet:
    if unknown:
        raise InputError(
            f"'{next(iter(unknown))}' is not an option when the environment is made from a problem: the options are "
            "split, sequences, seed and render_mode; everything else is in the problem's scenario"
        )
    one_of(("train", "validation", "test"), split=split)
    at_least(1, sequences=sequences)
    return problem.sequences(split, sequences, seed)
