"""MaskablePPO of sb3-contrib on a task of the benchmark: python examples/maskable_ppo.py (pip install sb3-contrib).

It scores all machines with the same weights, on rows with forecasts, and may not wait: MaskablePPO cannot leave slots
of waiting undiscounted, so it would learn never to place anything (docs/tutorials/bring-an-agent.md).
"""

from __future__ import annotations

from pathlib import Path

import torch
import tyro
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

import tvwrl
from tvwrl.agents import MaskableMachinePolicy, SB3VecEnv
from tvwrl.envs.observations import Costs, Forecasts, Head, Machines, PerMachine, Progress, Room

SEEN = [PerMachine(Costs(), Room(), Machines(), Forecasts(), Head(), Progress())]  # a row for each machine
GAMMA = 0.95
AGAINST = ["random", "spread", "expected-cost", "best-fit-peak", "clairvoyant"]


def main(
    task: str = "google-0.5-v1",
    timesteps: int = 204_800,
    sequences: int | None = None,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Train, then compare on the task's test sequences.

    Args:
        task: its name.
        timesteps: decisions to train on.
        sequences: test sequences to play; default: all of the task's.
        seed: of the training.
        out: folder to write the comparison to.
    """
    torch.set_num_threads(1)
    bare = SB3VecEnv(tvwrl.make_vec(task, 64, observation=SEEN, autoreset_mode="SameStep"))
    envs = VecNormalize(VecMonitor(bare), norm_obs=False, gamma=GAMMA)  # else errors of the value drown the policy
    options = {"n_steps": 64, "batch_size": 512, "n_epochs": 3, "learning_rate": 1e-3, "gae_lambda": 0.9}
    model = MaskablePPO(MaskableMachinePolicy, envs, gamma=GAMMA, **options, seed=seed, verbose=1)
    model.learn(timesteps)
    found = tvwrl.compare({"maskable-ppo": model}, task, sequences, AGAINST, observation=SEEN)
    print(found)
    if out is not None:
        found.write(out)


if __name__ == "__main__":
    tyro.cli(main)
