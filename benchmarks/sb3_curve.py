"""The figure of docs/tutorials/bring-an-agent.md: how PPO of Stable-Baselines3 learns on a task of the benchmark."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from tvwrl.benchmark.tasks import find_task, problem_of
from tvwrl.plotting import DPI, OURS, new_figure, tidy
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.schedulers.titles import title_of

REFERENCES = ("best-fit", "random", "spread", "best-fit-peak")


def main(
    task: str = "google-0.5-v1",
    decisions: int = 200_000,
    seeds: int = 3,
    episodes: int = 20,
    every: int = 20_480,
    history: int = 5,
    gamma: float = 0.9,
    figure: Path = Path("docs/tutorials/bring-an-agent/learning.png"),
) -> None:
    """Train as the tutorial does; play validation sequences now and then.

    Args:
        task: its name.
        decisions: of each training.
        seeds: how many trainings.
        episodes: validation sequences.
        every: decisions between two validations.
        history: slots of usage that the agent sees.
        gamma: discount per decision.
        figure: where it is drawn.
    """
    seen = {"history": history}
    unit = find_task(task).penalty_unit / 1000
    judge = gym.make(f"tvwrl/{task}", split="validation", sequences=episodes, **seen)
    curves, seconds = [], []
    for seed in range(seeds):
        envs = make_vec_env(f"tvwrl/{task}", n_envs=8, env_kwargs=seen)
        model = PPO("MultiInputPolicy", envs, gamma=gamma, n_steps=256, batch_size=256, seed=seed)
        validation = Validation(judge, episodes, every, unit)
        started = perf_counter()
        model.learn(decisions, callback=validation)
        seconds.append(perf_counter() - started - validation.seconds)
        curves.append(validation.points)
        print(seed, f"{seconds[-1]:.0f} s", *(f"{at}: {reward:.0f}" for at, reward in validation.points), flush=True)
    lines = {name: reference(task, name, episodes, seen) for name in REFERENCES}
    print(lines)
    draw(curves, lines, task, figure)


class Validation(BaseCallback):
    """Mean reward of the likeliest actions, before the first update and every so many decisions."""

    def __init__(self, env: gym.Env[Any, Any], episodes: int, every: int, unit: float) -> None:
        super().__init__()
        self.env, self.episodes, self.every, self.unit = env, episodes, every, unit
        self.points: list[tuple[int, float]] = []
        self.seconds = 0.0

    def _on_rollout_start(self) -> None:
        if not self.points or self.num_timesteps >= self.points[-1][0] + self.every:
            self.play()

    def _on_training_end(self) -> None:
        self.play()

    def _on_step(self) -> bool:
        return True

    def play(self) -> None:
        started, total = perf_counter(), 0.0
        for episode in range(self.episodes):
            observation, _ = self.env.reset(options={"sequence": episode})
            over = False
            while not over:
                action, _ = self.model.predict(observation, deterministic=True)
                observation, reward, terminated, truncated, _ = self.env.step(action)
                total += float(reward)
                over = terminated or truncated
        self.points.append((self.num_timesteps, total / self.episodes * self.unit))
        self.seconds += perf_counter() - started


def reference(task: str, name: str, episodes: int, seen: dict[str, Any]) -> float:
    """Mean reward of one of our schedulers on the same sequences, thousands."""
    problem = problem_of(find_task(task), seen)
    sequences = problem.sequences("validation", episodes, 0)
    runner = Runner(sequences, problem.machines, problem.scenario)
    return float(problem.rewards(runner, make_scheduler(name)).mean()) / 1000


def draw(curves: list[list[tuple[int, float]]], lines: dict[str, float], task: str, file: Path) -> None:
    """Each seed a thin line, their mean a thick one, schedulers as dashed lines."""
    figure = new_figure(7.2, 4.2)
    axis = figure.subplots()
    at = np.array([point[0] for point in curves[0]]) / 1000
    rewards = np.array([[point[1] for point in curve] for curve in curves])
    for curve in rewards:
        axis.plot(at, curve, color=OURS, linewidth=0.8, alpha=0.6)
    axis.plot(at, rewards.mean(axis=0), color=OURS, linewidth=2.2)
    axis.annotate("PPO", (at[-1], rewards.mean(axis=0)[-1]), (6, 0), textcoords="offset points", va="center",
                  color=OURS, weight="bold")  # fmt: skip
    for name, reward in lines.items():
        axis.axhline(reward, color="#555555", linewidth=1, linestyle="--")
        axis.annotate(
            title_of(name),
            (at[-1], reward),
            (0, 3),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color="#333333",
        )
    axis.set_xlabel("training decisions, thousands")
    axis.set_ylabel("reward of an episode, thousands (higher is better)")
    axis.set_title(
        f"{len(curves)} training runs and their mean, on validation sequences of {task}", fontsize=10, loc="left"
    )
    tidy(axis)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=DPI)


if __name__ == "__main__":
    tyro.cli(main)
