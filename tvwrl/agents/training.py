"""The training run: iterations, logs, periodic evaluation, checkpoints, stopping and exact resumption."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint, generator_state, restore_generator
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.counterfactual import Counterfactual
from tvwrl.agents.divergence import Diverged, check_gradients, check_update, restored_on_divergence
from tvwrl.agents.episodes import Environments
from tvwrl.agents.imitation import imitate
from tvwrl.agents.networks import Policy, check_device, make_policy
from tvwrl.agents.policy_gradient import EpisodeLearner, Learner, Reinforce
from tvwrl.agents.ppo import PPO
from tvwrl.agents.starting_policy import check_start, with_starting_rule
from tvwrl.agents.tasks import make_tasks, open_others
from tvwrl.envs import Problem
from tvwrl.markdown import markdown_table
from tvwrl.progress import Report, hidden
from tvwrl.runs import read_csv, write_csv
from tvwrl.schedulers import check_memory, knowledge_of
from tvwrl.traces import trace_hash
from tvwrl.types import InputError, Trace


class Curve(NamedTuple):
    """A curve: what it is, its unit, and which way is better."""

    meaning: str
    unit: str
    better: str


_UNITS = "reward; its scale is the penalty weights'"
CURVES = {
    "eval/reward": Curve("mean reward of the policy on validation sequences; it chooses best.pt", _UNITS, "higher"),
    "eval/unplaced": Curve(
        "workloads never placed, per validation sequence; where it is above 0, there are no other points",
        "workloads",
        "0",
    ),
    "eval/overshoot_pct": Curve("demand above capacity, on validation sequences", "% of all capacity", "lower"),
    "eval/machines_used": Curve("machines that ran anything, on validation sequences", "machines", "lower"),
    "eval/wait_mean": Curve("wait from arrival to placement, on validation sequences", "slots", "lower"),
    "eval/contention": Curve("products of demands that share a machine, without weight", "units squared", "lower"),
    "eval/utilisation_*": Curve("use of the machines that run anything, by resource", "share, 0 to 1", "higher"),
    "eval/slowdown": Curve("DeepRM: time from arrival to end, by the time of running", "ratio", "lower"),
    "eval/unused": Curve("DeepRM: its penalty of capacity that is not used, on validation sequences", _UNITS, "lower"),
    "train/reward": Curve(
        "mean reward of the training episodes; actions are drawn, so it lies lower", _UNITS, "higher"
    ),
    "penalty/contention": Curve("part of the penalty of training episodes for sharing a machine", _UNITS, "lower"),
    "penalty/under_utilisation": Curve("part for unused capacity of machines in use", _UNITS, "lower"),
    "penalty/overshoot": Curve("part for demand above capacity", _UNITS, "lower"),
    "penalty/wait": Curve("part for workloads that wait", _UNITS, "lower"),
    "penalty/*": Curve("DeepRM: the parts of its own penalty", _UNITS, "lower"),
    "train/expected_regret": Curve("the loss: cost of the policy's decisions beyond the best ones", _UNITS, "lower"),
    "train/value_loss": Curve("the loss of the critic, which predicts returns", "square of scaled returns", "lower"),
    "train/explained_variance": Curve("how much of the returns the critic predicts", "share, at most 1", "higher"),
    "train/entropy": Curve("how undecided the policy is", "nats per decision", "falls slowly while it learns"),
    "train/gradient_norm": Curve("size of the policy's gradient", "", "steady; peaks mean a learning rate too high"),
    "train/critic_gradient_norm": Curve("size of the critic's gradient", "", "steady"),
    "train/waits": Curve("decisions in which the base policy waits", "share, 0 to 1", "neither"),
    "train/decisions": Curve("decisions that the iteration learnt from", "decisions", "neither"),
    "train/learning_rate": Curve("step size of the optimiser", "", "neither"),
    "train/steps_per_second": Curve("speed: decisions played and learnt from", "decisions per second", "higher"),
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


def explain_curves(writer: Any, step: int) -> None:
    """Give a `SummaryWriter` the layout of its custom scalars, and a text that says what each curve is."""
    body = [[name, *curve] for name, curve in CURVES.items()]
    writer.add_custom_scalars(LAYOUT)
    writer.add_text("curves", markdown_table(["curve", "what it is", "unit", "better"], body), step)


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
    """One training run in a folder: `checkpoints/`, `progress.csv`, `tensorboard/`."""

    problem: Problem
    config: TrainConfig
    folder: Path
    trace: dict[str, Any]  # argument, slot_seconds, name, source, hash
    report: Report
    iteration: int = 0
    best_reward: float = -np.inf
    best_iteration: int = -1
    imitated: bool = False  # whether the head start is done
    progress: list[dict[str, Any]] = field(default_factory=list)
    others: Sequence[Trace] | None = None  # those of `config.also`; opened if not given
    on_validation: Callable[[int, float], None] | None = None  # gets iteration and reward; may raise to end the run

    def __post_init__(self) -> None:
        check_device(self.config.device)
        traces = open_others(self.config, self.problem.trace) if self.others is None else self.others
        self._check_others(dict(zip(self.config.also, traces, strict=True)))
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
            self.policy = make_policy(config.policy, self.shapes, config.hidden).to(config.device)
        self.learner = make_learner(self.policy, config, self.envs, self.shapes)
        self._best: dict[str, Any] | None = None  # not that of best.pt, which may be newer than what a run resumes from

    def _take_weights(self, run: str) -> None:
        """Take the policy of another run as the initial policy. Raises InputError as `check_start` does."""
        check_start(self.config, self.problem.trace.resources, self.problem.classes.k)
        try:
            self.policy.load_state_dict(Checkpoint.load(find_checkpoint(Path(run))).policy)
        except RuntimeError:
            raise InputError(
                f"start_from is {run}: its network is built differently; use the options that it was trained with"
            ) from None
        self.report(f"the initial policy is that of {run}")

    def _check_others(self, others: dict[str, Trace]) -> None:
        """Record the content of the other traces; raise InputError if it has changed since the run began."""
        now = {name: trace_hash(trace) for name, trace in others.items()}
        before = self.trace.setdefault("also", now) if others else {}
        for name, digest in before.items():
            if now[name] != digest:
                raise InputError(f"also {name}: the content of this trace has changed since the run began")

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint."""
        self.policy.load_state_dict(saved.policy)
        self.learner.restore(saved.learner)
        restore_generator(self._rng, saved.random["sequences"])
        self._actions.set_state(saved.random["actions"])
        self.iteration, self.imitated = saved.iteration, saved.imitated
        self.best_reward, self.best_iteration = saved.best_reward, saved.best_iteration
        self._best = saved.best_policy
        rows = read_csv(self.folder / "progress.csv")
        self.progress = [row for row in rows if int(row["iteration"]) <= self.iteration]

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
            best_reward=self.best_reward,
            best_iteration=self.best_iteration,
            imitated=self.imitated,
            best_policy=self._best,
        )

    def run(self, stop_after: int | None = None) -> str:
        """Train to the configured total; returns "finished", "stopped" (`stop_after`), "SIGINT" or "SIGTERM"."""
        from torch.utils.tensorboard import SummaryWriter

        total = self.config.iterations
        end = total if stop_after is None else min(total, self.iteration + stop_after)
        logged = self.iteration + (self.imitated or self.iteration > 0)  # TensorBoard drops later steps
        writer = SummaryWriter(str(self.folder / "tensorboard"), purge_step=logged)
        off = hidden(self.report)
        bar = tqdm(total=total, initial=self.iteration, unit="it", desc="training", leave=None, disable=off)
        try:
            with writer, bar, collect_signals() as received:
                known = knowledge_of(self.config.scenario)
                writer.add_text("knowledge", f"{known.group}: {known.note}", logged)
                explain_curves(writer, logged)
                head_start = self.config.imitates or self.config.built_in or self.config.start_from
                if self.iteration == 0 and head_start and not self.imitated and end:
                    self._head_start(writer)
                while self.iteration < end and not received:
                    self._iterate(writer, bar)
                    if self.iteration % self.config.save_every == 0:
                        self.save()
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
            self._take_weights(begun)
        elif rule := self.config.built_in:
            self.report(f"the policy starts from the built-in rule {rule}, without imitation")
        self.imitated = True
        self.progress = [{"iteration": 0} | self._evaluate(writer)]
        self.save(INITIAL_POLICY)
        self.save()

    def _iterate(self, writer: Any, bar: Any) -> None:
        config, begun = self.config, time.perf_counter()
        if generation := config.begins_generation(self.iteration):
            self._begin_generation(generation)
        available = self.config.train_sequences
        wanted = config.sequences_per_iteration
        chosen = self._rng.choice(available, wanted, replace=wanted > available)
        penalties, steps = self._improve(np.repeat(chosen, config.trajectories))
        self.iteration += 1
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
            self._paint(writer)
        self.progress.append(row)
        bar.set_postfix(reward=f"{row['reward']:.4g}", best=f"{self.best_reward:.4g}", refresh=False)
        bar.update()
        if self.on_validation is not None and "eval_reward" in row:
            self.on_validation(self.iteration, row["eval_reward"])

    def _begin_generation(self, generation: int) -> None:
        """Continue from the best policy so far, and make it the base policy."""
        start = f"{self.iteration}, as none has finished all validation sequences"
        if self._best is not None:
            self.policy.load_state_dict(self._best)
            start = f"{self.best_iteration}, the best on validation sequences so far"
        if isinstance(self.learner, Counterfactual):
            self.learner.begin_generation()
        self.report(f"generation {generation}/{self.config.generations} starts from the policy of iteration {start}")

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
        row: dict[str, Any] = {"iteration": self.iteration, "reward": -sum(penalties.values())}
        row |= penalties | steps
        for name, value in row.items():
            if name != "iteration":
                group = "penalty" if name in penalties else "train"
                writer.add_scalar(f"{group}/{name}", value, self.iteration)
        writer.add_scalar("train/learning_rate", self.learner.optimiser.param_groups[0]["lr"], self.iteration)
        writer.add_scalar("train/steps_per_second", steps["decisions"] / seconds, self.iteration)
        return row

    def evaluate(self) -> dict[str, float]:
        """Mean metrics of the current policy over the validation sequences, as `Task.evaluate` gives them."""
        return self._task.evaluate(self.policy)

    def _evaluate(self, writer: Any) -> dict[str, float]:
        """Validate the policy and keep it if it is the best so far: one that leaves workloads unplaced never is."""
        scores = self.evaluate()
        for name, value in scores.items():
            if not np.isnan(value):
                writer.add_scalar(f"eval/{name}", value, self.iteration)
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

    def _paint(self, writer: Any) -> None:
        frame = self._task.picture(self.policy, f"iteration {self.iteration}")
        if frame is not None:
            writer.add_image("cluster", frame, self.iteration, dataformats="HWC")

    def save(self, name: str = "last.pt") -> None:
        """Write progress.csv, then checkpoints/<name>, whose iteration says how many rows are valid."""
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
