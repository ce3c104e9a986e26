"""Time and memory of training as in the paper: the whole run extrapolated from a few measured iterations."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
import tyro
from timing import peak

from tvwrl.agents.config import PRESETS
from tvwrl.agents.episodes import play
from tvwrl.agents.networks import check_device, make_policy
from tvwrl.agents.observing import shapes_of
from tvwrl.agents.training import LEARNERS
from tvwrl.envs import PlacementVectorEnv
from tvwrl.envs.problem import default_problem


def main(iterations: int = 50, preset: str = "paper", threads: int = 1, device: str = "cpu") -> None:
    """Print seconds per iteration, the extrapolated total and the peak memory.

    Args:
        iterations: to measure.
        preset: of tvwrl train.
        threads: CPU threads of the network's arithmetic.
        device: where the networks are: cpu, cuda.
    """
    check_device(device)
    scenario = replace(PRESETS[preset].scenario, workloads=40)
    config = replace(PRESETS[preset], device=device, scenario=scenario)
    torch.set_num_threads(threads)

    problem = default_problem(config.scenario)
    sequences = problem.sequences("train", config.train_sequences, 0)
    batch = config.sequences_per_iteration * config.trajectories
    envs = PlacementVectorEnv(batch, sequences, problem.machines, config.scenario, "Disabled", copy=False)
    policy = make_policy(config.policy, shapes_of(envs.simulation), config.hidden).to(config.device)
    learner = LEARNERS[config.algo](policy, config)
    actions, rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
    decisions, seconds = 0.0, {"play": 0.0, "update": 0.0}
    for iteration in range(iterations + 1):  # the first one compiles and is not counted
        begun = time.perf_counter()
        chosen = rng.choice(config.train_sequences, config.sequences_per_iteration, replace=False)
        played = play(policy, envs, np.repeat(chosen, config.trajectories), actions, config.device)
        between = time.perf_counter()
        steps = learner.update(played, iteration, actions)
        if iteration:
            seconds["play"] += between - begun
            seconds["update"] += time.perf_counter() - between
            decisions += steps["decisions"]

    play_each, update_each = (seconds[part] / iterations for part in ("play", "update"))
    each = play_each + update_each
    print(f"preset {preset}, {batch} episodes per iteration, 40 workloads, {threads} threads, {device}:", end=" ")
    print(f"{each:.2f} s per iteration (play {play_each:.2f}, update {update_each:.2f}),", end=" ")
    print(f"{decisions / iterations / each:,.0f} decisions/s")
    print(f"{config.iterations} iterations: {each * config.iterations / 60:.1f} minutes (extrapolated)")
    print(f"peak memory: {peak():.2f} GiB")


if __name__ == "__main__":
    tyro.cli(main)
