"""MaskablePPO of sb3-contrib on a task of the benchmark: python examples/maskable_ppo.py (pip install sb3-contrib)."""

from __future__ import annotations

import gymnasium as gym
import tyro
from sb3_contrib import MaskablePPO

import tvwrl


def main(task: str = "google-0.5-v1", timesteps: int = 200_000, sequences: int | None = None, seed: int = 0) -> None:
    """Train, then compare on the task's test sequences.

    Args:
        task: its name.
        timesteps: decisions to train on.
        sequences: test sequences to play; default: all of the task's.
        seed: of the training.
    """
    seen = {"history": 5, "hold_action": False}  # fewer inputs; discounted, it would learn to wait for ever
    env = gym.make(f"tvwrl/{task}", **seen)
    model = MaskablePPO("MultiInputPolicy", env, n_steps=256, batch_size=256, gamma=0.9, seed=seed, verbose=1)
    model.learn(timesteps)
    print(tvwrl.compare({"maskable-ppo": model}, task, sequences=sequences, observe=seen))


if __name__ == "__main__":
    tyro.cli(main)
