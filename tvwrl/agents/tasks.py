"""What a policy is trained on: training environments, and evaluation on validation sequences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.deeprm import DeepRMVectorEnv
from tvwrl.agents.deterministic import DeterministicActions
from tvwrl.agents.episodes import Environments, logits_of, play
from tvwrl.agents.networks import Policy
from tvwrl.agents.shapes import shapes_of
from tvwrl.ec import EquivalenceClasses
from tvwrl.envs import PlacementVectorEnv, Problem, picture
from tvwrl.progress import Report, nothing, phase
from tvwrl.traces import open_trace, trace_hash
from tvwrl.types import InputError, Trace

EVALUATED = ("reward", "overshoot_pct", "machines_used", "wait_mean", "contention", "unplaced")  # and utilisation
DRAWS = 4  # episodes of DeepRM on each validation sequence, as its actions are drawn


class Task(ABC):
    """Training environments and the validation of a policy; `shapes` describes the environments to its network."""

    envs: Environments
    shapes: dict[str, Any]

    def __init__(self, problem: Problem, config: TrainConfig) -> None:
        drawn = config.seed, config.train_loads
        self.problem, self._config = problem, config
        self._train = problem.sequences("train", config.train_sequences, *drawn)
        self._validation_set = problem.sequences("validation", config.eval_sequences, *drawn)
        self._batch = config.sequences_per_iteration * config.trajectories

    @abstractmethod
    def evaluate(self, policy: Policy) -> dict[str, float]:
        """Mean metrics over the validation sequences, `reward` first.

        If workloads were left `unplaced` in any sequence, the reward and all that an incomplete episode does not have
        (`tvwrl.metrics.score_episode`) are NaN.
        """

    def picture(self, policy: Policy, title: str) -> npt.NDArray[np.uint8] | None:
        """An RGB picture of the cluster halfway through the first validation sequence; None if it has no machines."""
        return None


def make_task(problem: Problem, config: TrainConfig, report: Report = nothing) -> Task:
    """The task of the policy that `config` names; `report` gets a line before its sequences are drawn."""
    count, trace = config.train_sequences + config.eval_sequences, problem.trace.name
    with phase(f"drawing {count} sequences of '{trace}' for training and validation", report):
        return DeepRMTask(problem, config) if config.policy == "deeprm" else PlacementTask(problem, config)


def open_others(config: TrainConfig, trace: Trace) -> list[Trace]:
    """The traces of `config.also`, which are trained on in turn with `trace`.

    Raises InputError for one that is not there, is a CSV file, has other resources, or the content of another.
    """
    opened, known = [], {trace_hash(trace): f"trace '{trace.name}'"}
    for name in config.also:
        if name.endswith(".csv"):
            raise InputError(f"also {name}: must be a prepared trace; tvwrl prepare makes one of a CSV file")
        found = open_trace(name)
        if found.resources != trace.resources:
            raise InputError(
                f"also {name}: it has the resources {', '.join(found.resources)}, but trace '{trace.name}' has "
                f"{', '.join(trace.resources)}"
            )
        if (twin := known.setdefault(trace_hash(found), f"also {name}")) != f"also {name}":
            raise InputError(f"also {name}: it has the same content as {twin}; name every trace once")
        opened.append(found)
    return opened


def make_tasks(problem: Problem, config: TrainConfig, others: Sequence[Trace], report: Report = nothing) -> list[Task]:
    """The task of `problem`, then one for each of `others`, each with its own forecasts, and its own
    classes, made in the same way and as many as for `problem`. `report` gets a line as each step begins.

    Raises InputError for a trace whose workloads look different to the network.
    """
    task, classes = make_task(problem, config, report), problem.classes
    kind = classes.representation if isinstance(classes, EquivalenceClasses) else "none"
    tasks, scenario = [task], replace(config.scenario, classes=classes.k)
    for name, trace in zip(config.also, others, strict=True):
        own = Problem.build(trace, scenario, kind, report=report)
        other = make_task(own, replace(config, eval_sequences=1), report)
        for field, shown in other.shapes.items():
            if shown != task.shapes[field]:
                raise InputError(
                    f"also {name}: the network would see {field} {shown}, but {task.shapes[field]} of trace "
                    f"'{problem.trace.name}'; train on it alone, or with other classes and forecaster"
                )
        tasks.append(other)
    return tasks


class PlacementTask(Task):
    """Choose a machine for the head of the queue, or a waiting workload as well (TVW-RL). Validation is deterministic
    and scored by the referee.

    `shapes`: see `shapes_of` and `SharedPolicy`.
    """

    def __init__(self, problem: Problem, config: TrainConfig) -> None:
        super().__init__(problem, config)
        fixed = (problem.machines, config.scenario, "Disabled")
        envs = PlacementVectorEnv(self._batch, self._train, *fixed, copy=False)
        envs.reset(seed=config.seed)  # fixes the random streams, which are part of the state in checkpoints
        self.envs = envs
        count, drawn = config.eval_sequences, self._validation_set
        self._validation = PlacementVectorEnv(count, drawn, *fixed, copy=False, max_slots=0)
        self.shapes = shapes_of(envs.simulation)
        if config.built_in:
            weights = config.scenario.penalty_weights().per_resource(len(problem.machines.resources))
            self.shapes |= {"weights": weights.tolist(), "rule": config.built_in}

    def evaluate(self, policy: Policy) -> dict[str, float]:
        """See `Task`."""
        envs = self._validation
        play(policy, envs, np.arange(envs.num_envs), self._deterministic(), self._config.device)
        rows = [self.problem.score(envs.simulation.record(b)) for b in range(envs.num_envs)]
        names = [*EVALUATED, *(f"utilisation_{r}" for r in self.problem.machines.resources)]
        return {name: float(np.mean([row[name] for row in rows])) for name in names}

    def picture(self, policy: Policy, title: str) -> npt.NDArray[np.uint8]:
        """See `Task`."""
        from tvwrl.envs import draw_cluster

        envs = self._validation
        seen, _ = envs.reset(options={"sequence": np.arange(envs.num_envs)})
        deterministic = self._deterministic()
        for _ in range(envs.simulation.record(0).arrival.size // 2):
            logits, _ = logits_of(policy, seen, envs.action_masks(), self._config.device)
            seen, *_ = envs.step(deterministic.choose(logits.cpu().numpy()))
        return draw_cluster(picture(envs.simulation, 0, title))

    def _deterministic(self) -> DeterministicActions:
        return DeterministicActions(self._validation.num_envs, self._validation.simulation.placements)


class DeepRMTask(Task):
    """Choose the next workload, in DeepRM's own environment and by its own reward. Validation draws actions from the
    same random stream each time.

    `shapes`: cluster (T, D), queue (Q, D + 1), actions.
    """

    def __init__(self, problem: Problem, config: TrainConfig) -> None:
        super().__init__(problem, config)
        fixed = (problem.machines, config.scenario, self._train.demand.shape[2], config.unused_weight)
        envs = DeepRMVectorEnv(self._batch, self._train, *fixed)
        self.envs = envs
        self._validation = DeepRMVectorEnv(DRAWS * config.eval_sequences, self._validation_set, *fixed, max_slots=0)
        self.shapes = envs.shapes

    def evaluate(self, policy: Policy) -> dict[str, float]:
        """See `Task`; `slowdown` is the mean of (finish - arrival) / duration, waits are in slots."""
        envs, drawn = self._validation, torch.Generator().manual_seed(self._config.seed)
        sequence = np.repeat(np.arange(self._config.eval_sequences), DRAWS)
        played = play(policy, envs, sequence, drawn, self._config.device)
        costs, episodes = played.penalties, [envs.simulation.record(b) for b in range(envs.num_envs)]
        start, arrival, finish = (
            np.stack([getattr(e, name) for e in episodes]) for name in ("start", "arrival", "finish")
        )
        unplaced = {"unplaced": float((start < 0).sum(axis=1).mean())}
        if unplaced["unplaced"]:
            return dict.fromkeys(("reward", "slowdown", "wait_mean", "unused"), float("nan")) | unplaced
        wait, length = start - arrival, finish - start
        means = {"slowdown": float((1 + wait / length).mean()), "wait_mean": float(wait.mean())}
        return {"reward": -sum(costs.values()), **means, "unused": costs["unused"]} | unplaced
