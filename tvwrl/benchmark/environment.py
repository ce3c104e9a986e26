"""`tvwrl/<task>`, e.g. `tvwrl/google-0.5-v1`: a task as a Gymnasium environment for training, single and vector."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.benchmark.tasks import Task, check_observed, files_of, find_task, problem_of
from tvwrl.checks import one_of
from tvwrl.disk_cache import cached
from tvwrl.envs import Observation, PlacementEnv, PlacementVectorEnv, build_simulation
from tvwrl.progress import say
from tvwrl.simulation import Simulation
from tvwrl.traces import Split, load_sequences, save_sequences
from tvwrl.types import InputError, SequenceSet

VECTOR = ("autoreset_mode", "copy", "render_mode")  # options of `PlacementVectorEnv`
OPTIONS = ("split", "sequences", "seed", *VECTOR)  # beside fields of `OBSERVED`
SEQUENCES, OF_MANY_MACHINES = 200, 4  # sequences drawn by default, with about as many workloads in both cases


class _PickledByTask:
    """Pickles of an environment say which sequences it plays, and its copies draw them, or read them from disk."""

    task: Task
    simulation: Simulation
    _asked: tuple[Split, int | None, int, dict[str, Any]]  # arguments of `_drawn` beside the task

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"simulation": self.simulation.snapshot()}

    def __setstate__(self, content: dict[str, Any]) -> None:
        vars(self).update(content)
        _, drawn = _drawn(self.task, *self._asked)
        scenario = replace(self.task.scenario, **self._asked[-1])
        self.simulation = build_simulation(getattr(self, "num_envs", 1), drawn, None, scenario, {})
        self.simulation.go_back(content["simulation"])


class TaskEnv(_PickledByTask, PlacementEnv):
    """`tvwrl/Placement-v0` with the trace, cluster and load of a named task of the benchmark, for training.

    ## Rewards
    Minus the penalties of `PlacementEnv`, divided by the task's `penalty_unit`. This scales the mean reward of
    `best-fit-peak` to about -1 per decision, so a value network needs no normalisation. `info` has the raw penalties;
    their negative sum over an episode is the reward in the benchmark's tables.

    ## Observations
    By default the queue shows requests and the demand in a workload's first slot, and the action mask is `room`. With
    `hold_action` the last action places nothing. In any single slot waiting is cheaper than placing, so an agent that
    discounts slots of waiting learns never to place anything; `reward=Shaped(Penalties(), Waiting(), gamma=1.0)` is a
    way out.

    Parameters
    ----------
    task : str | Task
        A named task, or its name as in `tvwrl.TASK_NAMES`.
    split : Split, default 'train'
        Series that arrivals are cut from: train, or validation for model selection; only `tvwrl.compare` plays test
        sequences.
    sequences : int, optional
        How many are drawn, >= 1; default: 200, and 4 for 1,000 machines.
    seed : int, default 0
        Seed of the draw.
    render_mode : str, optional
        As of `PlacementEnv`.
    **observe
        Any field of `OBSERVED` by name, e.g. `gym.make("tvwrl:tvwrl/google-0.5-v1", observe_forecast=True)`.

    Raises
    ------
    InputError
        If the trace is not on this machine or not the task's, and for unknown names and splits.
    """

    def __init__(
        self,
        task: str | Task,
        split: Split = "train",
        sequences: int | None = None,
        seed: int = 0,
        render_mode: str | None = None,
        **observe: Any,
    ) -> None:
        self.task, drawn = _drawn(task, split, sequences, seed, observe)
        self._asked = (split, sequences, seed, observe)
        super().__init__(drawn, scenario=replace(self.task.scenario, **observe), render_mode=render_mode)

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """See `PlacementEnv.step`; the reward is in the task's unit."""
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward / self.task.penalty_unit, terminated, truncated, info


class TaskVectorEnv(_PickledByTask, PlacementVectorEnv):
    """The vector form of `TaskEnv`: its arguments and those of `PlacementVectorEnv`, without `render_mode` human.

    Parameters
    ----------
    num_envs : int, default 1
        Environments side by side (B), >= 1.
    task, split, sequences, seed
        As of `TaskEnv`.
    **options
        Arguments of `PlacementVectorEnv`, and fields of `OBSERVED` as of `TaskEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        task: str | Task,
        split: Split = "train",
        sequences: int | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        observe = {name: options.pop(name) for name in list(options) if name not in VECTOR}
        self.task, drawn = _drawn(task, split, sequences, seed, observe)
        self._asked = (split, sequences, seed, observe)
        super().__init__(num_envs, drawn, scenario=replace(self.task.scenario, **observe), **options)

    def step(
        self, actions: npt.NDArray[Any]
    ) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        """See `PlacementVectorEnv.step`; rewards are in the task's unit."""
        observation, reward, terminated, truncated, info = super().step(actions)
        return observation, reward / self.task.penalty_unit, terminated, truncated, info


def _drawn(
    name: str | Task, split: Split, sequences: int | None, seed: int, observe: dict[str, Any]
) -> tuple[Task, SequenceSet]:
    """The task, and the sequences to train on."""
    task = find_task(name)
    check_observed(observe, OPTIONS)
    one_of(("train", "validation", "test"), split=split)
    if split == task.split:
        raise InputError(
            f"split is '{split}': task {task.name} is evaluated on it, so it is not for training; use train, or "
            "validation for model selection; tvwrl.compare plays the test sequences"
        )
    usual = SEQUENCES if task.scenario.machines <= 100 else OF_MANY_MACHINES
    count = usual if sequences is None else sequences
    return task, _sequences(task, split, count, seed, tuple(sorted(observe.items())), tuple(files_of(task)))


@lru_cache(maxsize=4)
def _sequences(
    task: Task, split: Split, count: int, seed: int, observe: tuple[tuple[str, Any], ...], trace: tuple[Any, ...]
) -> SequenceSet:
    """Drawn once, kept on disk, and shared by all environments of the process. `trace`: what its files look like."""

    def draw() -> SequenceSet:
        problem = problem_of(task, dict(observe))
        say(f"drawing {count} {split} sequences of task {task.name}")
        return replace(problem.sequences(split, count, seed), training=None)

    return cached("sequences", (task, split, count, seed, observe, trace), draw, save_sequences, load_sequences)
