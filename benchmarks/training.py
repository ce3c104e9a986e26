"""Time and memory of training as in the paper: the whole run extrapolated from a few measured iterations."""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace

import numpy as np
import torch

from tvwrl.agents.config import PRESETS
from tvwrl.agents.episodes import play
from tvwrl.agents.learners import LEARNERS
from tvwrl.agents.networks import check_device, make_policy, shapes_of
from tvwrl.envs import PlacementVectorEnv
from tvwrl.envs.problem import default_problem


def main() -> None:
    """Print seconds per iteration, the extrapolated total and the peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=50, help="iterations to measure")
    parser.add_argument("--preset", choices=list(PRESETS), default="paper")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of the network's arithmetic")
    parser.add_argument("--device", default="cpu", help="where the networks are: cpu, cuda")
    arguments = parser.parse_args()
    check_device(arguments.device)
    preset = PRESETS[arguments.preset]
    config = replace(preset, device=arguments.device, scenario=replace(preset.scenario, workloads=40))
    torch.set_num_threads(arguments.threads)

    problem = default_problem(config.scenario)
    sequences = problem.sequences("train", config.train_sequences, 0)
    batch = config.sequences_per_iteration * config.trajectories
    envs = PlacementVectorEnv(batch, sequences, problem.machines, config.scenario, "Disabled", copy=False)
    policy = make_policy(config.policy, shapes_of(envs.simulation), config.hidden).to(config.device)
    learner = LEARNERS[config.algo](policy, config)
    actions, rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
    decisions, seconds = 0.0, {"play": 0.0, "update": 0.0}
    for iteration in range(arguments.iterations + 1):  # the first one compiles and is not counted
        begun = time.perf_counter()
        chosen = rng.choice(config.train_sequences, config.sequences_per_iteration, replace=False)
        played = play(policy, envs, np.repeat(chosen, config.trajectories), actions, config.device)
        between = time.perf_counter()
        steps = learner.update(played, iteration, actions)
        if iteration:
            seconds["play"] += between - begun
            seconds["update"] += time.perf_counter() - between
            decisions += steps["decisions"]

    play_each, update_each = (seconds[part] / arguments.iterations for part in ("play", "update"))
    each = play_each + update_each
    print(
        f"preset {arguments.preset}, {batch} episodes per iteration, 40 workloads, "
        f"{arguments.threads} threads, {config.device}: {each:.2f} s per iteration (play {play_each:.2f}, "
        f"update {update_each:.2f}), "
        f"{decisions / arguments.iterations / each:,.0f} decisions/s"
    )
    print(f"{config.iterations} iterations: {each * config.iterations / 60:.1f} minutes (extrapolated)")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
