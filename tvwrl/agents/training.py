"""The training run: iterations, logs, periodic evaluation, checkpoints, stopping and exact resumption."""

from __future__ import annotations

import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from tvwrl.agents.acting import DeterministicActions
from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint, generator_state, restore_generator
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.counterfactual import Counterfactual
from tvwrl.agents.deeprm import DeepRMVectorEnv
from tvwrl.agents.episodes import Diverged, Environments, logits_of, play
from tvwrl.agents.head_start import check_start, imitate, with_starting_rule
from tvwrl.agents.networks import Policy, check_device, make_policy
from tvwrl.agents.observing import shapes_of
from tvwrl.agents.policy_gradient import (
    EpisodeLearner,
    Learner,
    Reinforce,
    check_gradients,
    check_update,
    restored_on_divergence,
)
from tvwrl.agents.ppo import PPO
from tvwrl.ec import EquivalenceClasses
from tvwrl.envs import PlacementVectorEnv, Problem, picture
from tvwrl.markdown import markdown_table
from tvwrl.progress import Report, hidden, nothing, phase
from tvwrl.runs import read_csv, write_csv
from tvwrl.schedulers import Runner, Scheduler, check_memory, knowledge_of
from tvwrl.traces import check_others, open_trace, trace_hash
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

    def rewards_of(self, schedulers: Sequence[Scheduler]) -> dict[str, float]:
        """Mean rewards of schedulers on the validation sequences, without those that left workloads unplaced."""
        problem, drawn = self.problem, self._validation_set
        runner = Runner(drawn, problem.machines, problem.scenario, self._config.seed)
        played = [one for one in schedulers if drawn.forecast is not None or not one.needs_forecasts]
        found = {one.name: float(problem.rewards(runner, one).mean()) for one in played}
        return {name: reward for name, reward in found.items() if np.isfinite(reward)}


def make_task(problem: Problem, config: TrainConfig, report: Report = nothing) -> Task:
    """The task of the policy that `config` names; `report` gets a line before its sequences are drawn."""
    count, trace = config.train_sequences + config.eval_sequences, problem.trace.name
    with phase(f"drawing {count} sequences of '{trace}' for training and validation", report):
        return DeepRMTask(problem, config) if config.policy == "deeprm" else PlacementTask(problem, config)


def open_others(config: TrainConfig, trace: Trace) -> list[Trace]:
    """The traces of `config.also`, which are trained on in turn with `trace`.

    Raises InputError for one that is not there, is a CSV file, has other resources, or the content of another.
    """
    if files := [name for name in config.also if name.endswith(".csv")]:
        raise InputError(f"also {files[0]}: must be a prepared trace; tvwrl prepare makes one of a CSV file")
    opened = {name: open_trace(name) for name in config.also}
    check_others(trace, opened)
    return list(opened.values())


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
        for name_of, shown in other.shapes.items():
            if shown != task.shapes[name_of]:
                raise InputError(
                    f"also {name}: the network would see {name_of} {shown}, but {task.shapes[name_of]} of trace "
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


_UNITS = "reward; its scale is the penalty weights'"
CURVES = {  # a curve: what it is, its unit, and which way is better
    "eval/reward": ("mean reward of the policy on validation sequences; it chooses best.pt", _UNITS, "higher"),
    "eval/unplaced": (
        "workloads never placed, per validation sequence; where it is above 0, there are no other points",
        "workloads",
        "0",
    ),
    "eval/overshoot_pct": ("demand above capacity, on validation sequences", "% of all capacity", "lower"),
    "eval/machines_used": ("machines that ran anything, on validation sequences", "machines", "lower"),
    "eval/wait_mean": ("wait from arrival to placement, on validation sequences", "slots", "lower"),
    "eval/contention": ("products of demands that share a machine, without weight", "units squared", "lower"),
    "eval/utilisation_*": ("use of the machines that run anything, by resource", "share, 0 to 1", "higher"),
    "eval/slowdown": ("DeepRM: time from arrival to end, by the time of running", "ratio", "lower"),
    "eval/unused": ("DeepRM: its penalty of capacity that is not used, on validation sequences", _UNITS, "lower"),
    "train/reward": ("mean reward of the training episodes; actions are drawn, so it lies lower", _UNITS, "higher"),
    "penalty/contention": ("part of the penalty of training episodes for sharing a machine", _UNITS, "lower"),
    "penalty/under_utilisation": ("part for unused capacity of machines in use", _UNITS, "lower"),
    "penalty/overshoot": ("part for demand above capacity", _UNITS, "lower"),
    "penalty/wait": ("part for workloads that wait", _UNITS, "lower"),
    "penalty/*": ("DeepRM: the parts of its own penalty", _UNITS, "lower"),
    "train/expected_regret": ("the loss: cost of the policy's decisions beyond the best ones", _UNITS, "lower"),
    "train/value_loss": ("the loss of the critic, which predicts returns", "square of scaled returns", "lower"),
    "train/explained_variance": ("how much of the returns the critic predicts", "share, at most 1", "higher"),
    "train/entropy": ("how undecided the policy is", "nats per decision", "falls slowly while it learns"),
    "train/approx_kl": (
        "how far the updates of an iteration moved the policy: mean of r - 1 - log r, r the probability ratio to the "
        "policy that played, over all updates of an iteration (Stable-Baselines3: over its last epoch)",
        "nats",
        "below about 0.02",
    ),
    "train/clip_fraction": ("decisions whose ratio is beyond the clipping range", "share, 0 to 1", "below about 0.2"),
    "train/gradient_norm": ("size of the policy's gradient", "", "steady; peaks mean a learning rate too high"),
    "train/critic_gradient_norm": ("size of the critic's gradient", "", "steady"),
    "train/waits": ("decisions in which the base policy waits", "share, 0 to 1", "neither"),
    "train/decisions": ("decisions that the iteration learnt from", "decisions", "neither"),
    "train/iteration": (
        "updates of the policy; the axis counts environment steps, all decisions so far",
        "",
        "neither",
    ),
    "train/learning_rate": ("step size of the optimiser", "", "neither"),
    "train/steps_per_second": ("speed: decisions played and learnt from", "decisions per second", "higher"),
}
LAYOUT = {  # regular expressions of tags
    "What matters": {
        "reward on validation sequences (higher is better)": ["Multiline", ["^eval/reward$"]],
        "penalties of training episodes (lower is better)": ["Multiline", ["^penalty/.*"]],
        "overshoot on validation sequences, % (lower is better)": ["Multiline", ["^eval/overshoot_pct$"]],
    },
    "How it learns": {
        "loss (lower is better)": ["Multiline", ["^train/expected_regret$", "^train/value_loss$"]],
        "entropy, nats per decision": ["Multiline", ["^train/entropy$"]],
        "speed, decisions per second (higher is better)": ["Multiline", ["^train/steps_per_second$"]],
    },
}


LEARNERS: dict[str, type[EpisodeLearner]] = {"reinforce": Reinforce, "ppo": PPO, "counterfactual": Counterfactual}


def make_learner(policy: Policy, config: TrainConfig, envs: Environments, shapes: dict[str, Any]) -> Learner:
    """The algorithm that `config.algo` names, for a policy on the config's device; `shapes`: see `Task`.

    Raises InputError if the policy does not suit the algorithm, or Stable-Baselines3 is missing.
    """
    if config.algo in LEARNERS:
        return LEARNERS[config.algo](policy, config)
    try:
        from tvwrl.agents.sb3 import StableBaselines
    except ModuleNotFoundError as error:
        if error.name != "stable_baselines3":
            raise
        raise InputError(f"algo {config.algo} needs Stable-Baselines3: pip install '.[sb3]'") from None
    return StableBaselines(policy, config, envs, shapes)


INITIAL_POLICY = "initial.pt"  # the checkpoint of iteration 0


@dataclass
class Trainer:
    """One training run in a folder: `checkpoints/`, `progress.csv`, `tensorboard/`.

    Parameters
    ----------
    problem : Problem
        What is trained on: trace, scenario and classes.
    config : TrainConfig
        Hyper-parameters; a teacher and a base policy are added where they are not named.
    folder : Path
        Where files go.
    trace : dict
        Argument, slot_seconds, name, source, hash.
    report : Report
        Gets a line as each step begins.
    iteration : int, default 0
        How many are done.
    steps : int, default 0
        Environment steps (decisions) that were learnt from so far: the axis of TensorBoard.
    best_reward : float, default -np.inf
        Mean validation reward of the best policy so far.
    best_iteration : int, default -1
        Iterations that the best policy had; -1: none yet.
    imitated : bool, default False
        Whether the head start is done.
    progress : list[dict], optional
        Rows of progress.csv.
    others : Sequence[Trace], optional
        Those of `config.also`; opened if not given.
    on_validation : Callable[[int, float], None], optional
        Gets iteration and reward; may raise to end the run.

    Examples
    --------
    >>> trainer = Trainer(problem, TrainConfig(), Path("runs/mine"), {"name": "mine"}, print)  # doctest: +SKIP
    >>> trainer.run()  # doctest: +SKIP
    'finished'
    """

    problem: Problem
    config: TrainConfig
    folder: Path
    trace: dict[str, Any]
    report: Report
    iteration: int = 0
    steps: int = 0
    best_reward: float = -np.inf
    best_iteration: int = -1
    imitated: bool = False
    progress: list[dict[str, Any]] = field(default_factory=list)
    others: Sequence[Trace] | None = None
    on_validation: Callable[[int, float], None] | None = None

    def __post_init__(self) -> None:
        check_device(self.config.device)
        traces = open_others(self.config, self.problem.trace) if self.others is None else self.others
        now = {name: trace_hash(trace) for name, trace in zip(self.config.also, traces, strict=True)}
        before = self.trace.setdefault("also", now) if now else {}
        for name, digest in before.items():
            if now[name] != digest:
                raise InputError(f"also {name}: the content of this trace has changed since the run began")
        if self.config.algo == "counterfactual":
            arrivals = self.problem.sampler.arrivals["train"]
            check_memory(self.config.scenario, self.problem.machines, arrivals, self.config.rollout_slots)
        self.config = config = with_starting_rule(self.config, self.problem, self.report)
        torch.set_num_threads(config.threads)
        self._task, *others = make_tasks(self.problem, config, traces, self.report)
        self._every = [self._task.envs, *(other.envs for other in others)]
        self.envs, self.shapes = self._task.envs, self._task.shapes
        self._rng = np.random.default_rng([config.seed, 1])
        self._actions = torch.Generator().manual_seed(config.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.policy = self._made()
        self.learner = make_learner(self.policy, config, self.envs, self.shapes)
        self._best: dict[str, Any] | None = None  # not that of best.pt, which may be newer than what a run resumes from

    def _made(self) -> Policy:
        """A new policy. Raises InputError for a network of the user's own that cannot be made, or not be trained."""
        config = self.config
        try:
            policy = make_policy(config.policy, self.shapes, config.hidden, config.network).to(config.device).eval()
            if config.network:
                seen, _ = self.envs.reset(options={"sequence": np.zeros(self.envs.num_envs, np.int64)})
                mask = torch.from_numpy(self.envs.action_masks())
                encoded = {
                    name: part.to(config.device) for name, part in (policy.encode(seen) | {"mask": mask}).items()
                }
                policy.logits(encoded).sum().backward()  # type: ignore[no-untyped-call]
                policy.zero_grad()
        except InputError:
            raise
        except Exception as error:
            if not config.network:
                raise
            raise InputError(f"network {config.network}: {type(error).__name__}: {error}") from error
        return policy

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint.

        Parameters
        ----------
        saved : Checkpoint
            A checkpoint of the same run.
        """
        self.policy.load_state_dict(saved.policy)
        self.learner.restore(saved.learner)
        restore_generator(self._rng, saved.random["sequences"])
        self._actions.set_state(saved.random["actions"])
        self.iteration, self.imitated = saved.iteration, saved.imitated
        self.best_reward, self.best_iteration = saved.best_reward, saved.best_iteration
        self._best = saved.best_policy
        rows = read_csv(self.folder / "progress.csv")
        self.progress = [row for row in rows if int(row["iteration"]) <= self.iteration]
        counted = (row["decisions"] for row in self.progress if row.get("decisions"))  # earlier versions kept no sum
        self.steps = saved.steps or sum(int(float(decisions)) for decisions in counted)

    def checkpoint(self) -> Checkpoint:
        """The current state of training."""
        return Checkpoint(
            config=self.config,
            trace=self.trace,
            unit=self.problem.sampler.unit.tolist(),
            resources=list(self.problem.trace.resources),
            classes=self.problem.classes,
            forecaster=self.problem.forecaster,
            shapes=self.shapes,
            policy=self.policy.state_dict(),
            learner=self.learner.state(),
            random={"sequences": generator_state(self._rng), "actions": self._actions.get_state()},
            iteration=self.iteration,
            steps=self.steps,
            best_reward=self.best_reward,
            best_iteration=self.best_iteration,
            imitated=self.imitated,
            best_policy=self._best,
        )

    def run(self, stop_after: int | None = None) -> str:
        """Train to the configured total; returns "finished", "stopped" (`stop_after`), "SIGINT" or "SIGTERM".

        Parameters
        ----------
        stop_after : int, optional
            Iterations after which to stop; default: when all are done.
        """
        from torch.utils.tensorboard import SummaryWriter

        total = self.config.iterations
        end = total if stop_after is None else min(total, self.iteration + stop_after)
        logged = self.steps + (self.imitated or self.iteration > 0)  # TensorBoard drops later steps
        writer = SummaryWriter(str(self.folder / "tensorboard"), purge_step=logged)
        off = hidden(self.report)
        bar = tqdm(total=total, initial=self.iteration, unit="it", desc="training", leave=None, disable=off)
        try:
            with writer, bar, collect_signals() as received:
                known = knowledge_of(self.config.scenario, self.problem.forecaster)
                writer.add_text("knowledge", f"{known.group}: {known.note}", logged)
                writer.add_custom_scalars(LAYOUT)
                said = markdown_table(["curve", "what it is", "unit", "better"], [[n, *c] for n, c in CURVES.items()])
                writer.add_text("curves", said, logged)
                head_start = self.config.imitates or self.config.built_in or self.config.start_from
                if self.iteration == 0 and head_start and not self.imitated and end:
                    self._head_start(writer)
                while self.iteration < end and not received:
                    self._iterate(writer, bar)
                    if self.iteration % self.config.save_every == 0:
                        self.save()
                    if self.config.checkpoint_every and self.iteration % self.config.checkpoint_every == 0:
                        self.save(f"iteration-{self.iteration:0{len(str(total))}}.pt")
                self.save()
        finally:
            for envs in self._every:
                envs.close()
        if received:
            return str(received[0])
        return "finished" if self.iteration >= total else "stopped"

    def _head_start(self, writer: Any) -> None:
        """Imitate the teacher and validate: iteration 0 of the log and the first candidate for the best policy."""
        if teacher := self.config.imitates:
            agree = imitate(self.policy, self.problem, self.config)
            self.report(
                f"imitated {teacher} on {self.config.imitate} sequences: agrees in {agree:.0%} of the decisions"
            )
        if begun := self.config.start_from:
            check_start(self.config, self.problem.trace.resources, self.problem.classes.k)
            try:
                self.policy.load_state_dict(Checkpoint.load(find_checkpoint(Path(begun))).policy)
            except RuntimeError:
                raise InputError(
                    f"start_from is {begun}: its network is built differently; use the options that it was trained with"
                ) from None
            self.report(f"the initial policy is that of {begun}")
        elif rule := self.config.built_in:
            self.report(f"the policy starts from the built-in rule {rule}, without imitation")
        self.imitated = True
        self.progress = [{"iteration": 0, "steps": 0} | self._evaluate(writer)]
        self.save(INITIAL_POLICY)
        self.save()

    def _iterate(self, writer: Any, bar: Any) -> None:
        config, begun = self.config, time.perf_counter()
        if generation := config.begins_generation(self.iteration):  # the best policy so far becomes the base policy
            start = f"{self.iteration}, as none has finished all validation sequences"
            if self._best is not None:
                self.policy.load_state_dict(self._best)
                start = f"{self.best_iteration}, the best on validation sequences so far"
            if isinstance(self.learner, Counterfactual):
                self.learner.begin_generation()
            self.report(f"generation {generation}/{config.generations} starts from the policy of iteration {start}")
        available = self.config.train_sequences
        wanted = config.sequences_per_iteration
        chosen = self._rng.choice(available, wanted, replace=wanted > available)
        penalties, steps = self._improve(np.repeat(chosen, config.trajectories))
        self.iteration += 1
        self.steps += int(steps["decisions"])
        row = self._log(writer, penalties, steps, time.perf_counter() - begun)
        ended = config.ends_generation(self.iteration)
        if self.iteration % config.eval_every == 0 or ended:
            row |= self._evaluate(writer)
        if ended and self._best is not None and self.best_iteration <= config.generation_starts[ended - 1]:
            self.report(
                f"generation {ended} did not improve on validation sequences; the policy of iteration "
                f"{self.best_iteration} is kept"
            )
        if self.iteration % config.picture_every == 0 or self.iteration == 1:
            frame = self._task.picture(self.policy, f"iteration {self.iteration}")
            if frame is not None:
                writer.add_image("cluster", frame, self.steps, dataformats="HWC")
        self.progress.append(row)
        bar.set_postfix(reward=f"{row['reward']:.4g}", best=f"{self.best_reward:.4g}", refresh=False)
        bar.update()
        if self.on_validation is not None and "eval_reward" in row:
            self.on_validation(self.iteration, row["eval_reward"])

    def _improve(self, sequence: npt.NDArray[np.int64]) -> tuple[dict[str, float], dict[str, float]]:
        """See `Learner.iterate`. Raises InputError if an update breaks the policy, after rolling it back."""
        envs = self._every[self.iteration % len(self._every)]
        try:
            with restored_on_divergence(self.policy, self.learner):
                penalties, steps = self.learner.iterate(envs, sequence, self.iteration, self._actions)
                check_update(steps, self.learner.weights())
                check_gradients(steps, self.progress)
        except Diverged as trouble:
            self.save()
            raise InputError(
                f"{trouble} in iteration {self.iteration + 1}: lower learning_rate (or set max_gradient_norm); the "
                f"last good state, of iteration {self.iteration}, is in {self.folder / 'checkpoints/last.pt'}"
            ) from None
        return penalties, steps

    def _log(self, writer: Any, penalties: dict[str, float], steps: dict[str, float], seconds: float) -> dict[str, Any]:
        done = {"iteration": self.iteration, "steps": self.steps}
        measured = {"reward": -sum(penalties.values())} | penalties | steps
        shown = {"iteration": self.iteration, **measured}
        shown |= {"learning_rate": self.learner.optimiser.param_groups[0]["lr"]}
        shown |= {"steps_per_second": steps["decisions"] / seconds}
        for name, value in shown.items():
            writer.add_scalar(f"{'penalty' if name in penalties else 'train'}/{name}", value, self.steps)
        return done | measured

    def rewards_of(self, schedulers: Sequence[Scheduler]) -> dict[str, float]:
        """Mean rewards of schedulers on the sequences that the policy is validated on.

        Parameters
        ----------
        schedulers : Sequence[Scheduler]
            Those that need forecasts are left out if the policy sees none, and those that left workloads unplaced.
        """
        return self._task.rewards_of(schedulers)

    def evaluate(self) -> dict[str, float]:
        """Mean metrics of the current policy over the validation sequences, as `Task.evaluate` gives them."""
        return self._task.evaluate(self.policy)

    def _evaluate(self, writer: Any) -> dict[str, float]:
        """Validate the policy and keep it if it is the best so far: one that leaves workloads unplaced never is."""
        scores = self.evaluate()
        for name, value in scores.items():
            if not np.isnan(value):
                writer.add_scalar(f"eval/{name}", value, self.steps)
        better = scores["reward"] > self.best_reward  # not where it is NaN
        if better:
            self.best_reward, self.best_iteration = scores["reward"], self.iteration
            if self.config.generations > 1:
                self._best = deepcopy(self.policy.state_dict())
            self.save("best.pt")
        shown = ", ".join(
            f"{name.removesuffix('_mean').replace('_', ' ')} {scores[name]:.4g}" for name in list(scores)[:3]
        )
        if scores["unplaced"]:
            shown = f"left {scores['unplaced']:.4g} workloads unplaced per sequence, so it has no reward"
        self.report(
            f"iteration {self.iteration}/{self.config.iterations}: validation {shown}"
            + (" (best so far)" if better else "")
        )
        return {f"eval_{name}": value for name, value in scores.items()}

    def save(self, name: str = "last.pt") -> None:
        """Write progress.csv, then the checkpoint, whose iteration says how many rows are valid.

        Parameters
        ----------
        name : str, default 'last.pt'
            Of the checkpoint.
        """
        if self.progress:
            write_csv(self.folder / "progress.csv", self.progress)
        self.checkpoint().save(self.folder / "checkpoints" / name)


@contextmanager
def collect_signals() -> Any:
    """Collect SIGINT and SIGTERM so that the current iteration is completed; a second signal interrupts at once."""
    received: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def handle(number: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(signal.Signals(number).name)
        with suppress(OSError):  # not print: the signal may have interrupted one
            os.write(2, b"\nstopping after this iteration; press again to stop at once\n")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
