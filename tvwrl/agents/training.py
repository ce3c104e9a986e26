"""The training run: iterations, logs, periodic evaluation, checkpoints, stopping and exact resumption."""

from __future__ import annotations

import csv
import signal
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from tvwrl.agents.checkpoint import Checkpoint, generator_state, restore_generator
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.episodes import Trajectories, logits_of, play
from tvwrl.agents.learners import make_learner
from tvwrl.agents.networks import check_device, make_policy, shapes_of
from tvwrl.envs import PlacementVectorEnv
from tvwrl.envs.base import picture
from tvwrl.envs.problem import Problem
from tvwrl.metrics import score_episode
from tvwrl.runs import whole_file
from tvwrl.types import InputError

EVALUATED = ("reward", "overshoot_pct", "machines_used", "wait_mean", "contention")  # and utilisation per resource


@dataclass
class Trainer:
    """One training run in a folder: `checkpoints/`, `progress.csv`, `tensorboard/`."""

    problem: Problem
    config: TrainConfig
    folder: Path
    trace: dict[str, Any]  # argument, slot_seconds, name, source, hash
    report: Callable[[str], None]
    iteration: int = 0
    best_reward: float = -np.inf
    best_iteration: int = -1
    progress: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = self.config
        check_device(config.device)
        torch.set_num_threads(config.threads)
        train = self.problem.sequences("train", config.train_sequences, config.seed)
        validation = self.problem.sequences("validation", config.eval_sequences, config.seed)
        batch = config.sequences_per_iteration * config.trajectories
        cluster, scenario = self.problem.machines, config.scenario
        self.envs = PlacementVectorEnv(batch, train, cluster, scenario, "Disabled", copy=False)
        self.validation = PlacementVectorEnv(
            config.eval_sequences, validation, cluster, scenario, "Disabled", copy=False, max_slots=0
        )
        self.shapes = shapes_of(self.envs.simulation)
        self._rng = np.random.default_rng([config.seed, 1])
        self._actions = torch.Generator().manual_seed(config.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.policy = make_policy(config.policy, self.shapes, config.hidden).to(config.device)
        self.learner = make_learner(self.policy, config)

    def restore(self, saved: Checkpoint) -> None:
        """Continue where the checkpoint was written."""
        self.policy.load_state_dict(saved.policy)
        self.learner.restore(saved.learner)
        restore_generator(self._rng, saved.random["sequences"])
        self._actions.set_state(saved.random["actions"])
        self.iteration, self.best_reward, self.best_iteration = (
            saved.iteration,
            saved.best_reward,
            saved.best_iteration,
        )
        path = self.folder / "progress.csv"
        if path.exists():
            with path.open(newline="") as file:
                self.progress = [row for row in csv.DictReader(file) if int(row["iteration"]) <= self.iteration]

    def checkpoint(self) -> Checkpoint:
        """The state of training as it is now."""
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
        )

    def run(self, stop_after: int | None = None) -> str:
        """Train to the configured total; returns "finished", "stopped" (`stop_after`), "SIGINT" or "SIGTERM"."""
        from torch.utils.tensorboard import SummaryWriter

        total = self.config.iterations
        end = total if stop_after is None else min(total, self.iteration + stop_after)
        writer = SummaryWriter(str(self.folder / "tensorboard"), purge_step=self.iteration + 1)
        bar = tqdm(total=total, initial=self.iteration, unit="it", desc="training", disable=None)
        try:
            with writer, bar, _signals() as received:
                while self.iteration < end and not received:
                    self._iterate(writer, bar)
                    if self.iteration % self.config.save_every == 0:
                        self.save()
                self.save()
        finally:
            self.envs.close()
        if received:
            return str(received[0])
        return "finished" if self.iteration >= total else "stopped"

    def _iterate(self, writer: Any, bar: Any) -> None:
        config, begun = self.config, time.perf_counter()
        available = self.config.train_sequences
        wanted = config.sequences_per_iteration
        chosen = self._rng.choice(available, wanted, replace=wanted > available)
        played = play(self.policy, self.envs, np.repeat(chosen, config.trajectories), self._actions, config.device)
        steps = self.learner.update(played, self.iteration, self._actions)
        if not np.isfinite(steps["gradient_norm"]):
            raise InputError(
                f"the gradient is {steps['gradient_norm']} in iteration {self.iteration + 1}: "
                "lower --learning-rate; the last good state is in checkpoints/last.pt"
            )
        self.iteration += 1
        row = self._log(writer, played, steps, time.perf_counter() - begun)
        if self.iteration % config.eval_every == 0 or self.iteration == config.iterations:
            row |= self._evaluate(writer)
        if self.iteration % config.picture_every == 0 or self.iteration == 1:
            self._paint(writer)
        self.progress.append(row)
        bar.set_postfix(reward=f"{row['reward'] / 1000:.0f}k", best=f"{self.best_reward / 1000:.0f}k", refresh=False)
        bar.update()

    def _log(self, writer: Any, played: Trajectories, steps: dict[str, float], seconds: float) -> dict[str, Any]:
        penalties = played.penalties
        row: dict[str, Any] = {"iteration": self.iteration, "reward": -sum(penalties.values())}
        row |= penalties | steps
        for name, value in row.items():
            if name != "iteration":
                group = "penalty" if name in penalties else "train"
                writer.add_scalar(f"{group}/{name}", value, self.iteration)
        writer.add_scalar("train/learning_rate", self.learner.optimiser.param_groups[0]["lr"], self.iteration)
        writer.add_scalar("train/steps_per_second", steps["decisions"] / seconds, self.iteration)
        return row

    def _evaluate(self, writer: Any) -> dict[str, float]:
        """Play the validation sequences greedily to their ends; the referee scores, the best policy is kept."""
        count, envs = self.config.eval_sequences, self.validation
        seen, _ = envs.reset(options={"sequence": np.arange(count)})
        alive = np.ones(count, np.bool_)
        slots = 0
        while alive.any() and slots < 10_000:
            seen, _, terminated, truncated, info = envs.step(self._best_actions(seen))
            slots += int(info["slots"].max())
            alive &= ~(terminated | truncated)
        weights, scenario = self.config.scenario.penalty_weights(), self.config.scenario
        machines = self.problem.machines
        rows = [
            score_episode(envs.simulation.record(b), machines, weights, scenario.overshoot_per) for b in range(count)
        ]
        names = [*EVALUATED, *(f"utilisation_{r}" for r in machines.resources)]
        scores = {f"eval_{name}": float(np.nanmean([row[name] for row in rows])) for name in names}
        for name, value in scores.items():
            writer.add_scalar(f"eval/{name.removeprefix('eval_')}", value, self.iteration)
        reward = scores["eval_reward"]
        better = bool(alive.sum() == 0) and reward > self.best_reward
        if better:
            self.best_reward, self.best_iteration = reward, self.iteration
            self.save("best.pt")
        self.report(
            f"iteration {self.iteration}/{self.config.iterations}: validation reward {reward / 1000:.1f}k, overshoot "
            f"{scores['eval_overshoot_pct']:.3f} %, machines {scores['eval_machines_used']:.1f}"
            + (" (best so far)" if better else "")
        )
        return scores

    def _best_actions(self, seen: Any) -> Any:
        masks = self.validation.action_masks()
        return logits_of(self.policy, seen, masks, self.config.device)[0].argmax(1).cpu().numpy()

    def _paint(self, writer: Any) -> None:
        """The cluster of the first validation sequence, in the middle of it."""
        from tvwrl.envs.rendering import draw_cluster

        envs = self.validation
        seen, _ = envs.reset(options={"sequence": np.arange(envs.num_envs)})
        for _ in range(envs.simulation.record(0).arrival.size // 2):
            seen, *_ = envs.step(self._best_actions(seen))
        frame = draw_cluster(picture(envs.simulation, 0, f"iteration {self.iteration}"))
        writer.add_image("cluster", frame, self.iteration, dataformats="HWC")

    def save(self, name: str = "last.pt") -> None:
        """Write checkpoints/<name> and progress.csv."""
        self.checkpoint().save(self.folder / "checkpoints" / name)
        if self.progress:
            columns = list(dict.fromkeys(name for row in self.progress for name in row))
            with whole_file(self.folder / "progress.csv") as partial, partial.open("w", newline="") as file:
                table = csv.DictWriter(file, columns)
                table.writeheader()
                table.writerows(self.progress)


@contextmanager
def _signals() -> Any:
    """Collect SIGINT and SIGTERM while the block runs, so that an iteration ends whole; a second one is immediate."""
    received: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def handle(number: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(signal.Signals(number).name)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
