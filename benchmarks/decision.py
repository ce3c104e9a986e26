"""How long one decision of a `shared` policy takes on a large cluster: median and 99th percentile, one core."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.config import PRESETS
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.simulation import Simulation
from tvwrl.traces import open_trace
from tvwrl.traces.catalogue import trace_identity


def main() -> None:
    """Print the times of asking the policy for a machine, and how far above capacity what it placed went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, help="a run of scripts/train.py; default: an untrained policy")
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=3000, help="workloads that arrive; none leaves")
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    saved = untrained() if arguments.checkpoint is None else Checkpoint.load(find_checkpoint(arguments.checkpoint))
    trace = open_trace(saved.trace["argument"], saved.trace["slot_seconds"])
    scenario = replace(
        saved.config.scenario,
        machines=arguments.machines,
        workloads=arguments.workloads,
        placements_per_slot=None,
        load=0.5,
    )
    problem = Problem.build(trace, scenario, saved.classes, np.array(saved.unit), saved.forecaster)
    sequences = problem.sequences("test", 1, 0)
    simulation = Simulation(sequences, problem.machines, scenario, max_slots=0)
    simulation.reset(0)
    cluster, policy = Cluster(simulation), PolicyScheduler("policy", saved)
    policy.reset(cluster, np.random.default_rng(0))
    seconds, workloads = [], {}  # of wall clock and of the processor, which others cannot lengthen as much
    while not simulation.is_over():
        for i in simulation.waiting()[:1].tolist():
            workload = workloads.setdefault(i, sequences.workload(0, i))
            begun = np.array([time.perf_counter(), time.process_time()])
            placements = list(policy.schedule(cluster, [workload]))
            seconds.append(np.array([time.perf_counter(), time.process_time()]) - begun)
            if placements:
                simulation.place(0, placements[0].machine)
            else:
                simulation.next_slot()
        if not len(simulation.waiting()) and not simulation.is_over():
            simulation.next_slot()
    times = 1000 * np.array(seconds[10:])
    print(f"{arguments.machines} machines, {len(times)} decisions on one core")
    for clock, (low, high) in zip(("wall clock", "processor"), np.percentile(times, [50, 99], axis=0).T, strict=True):
        print(f"{clock}: median {low:.2f} ms, 99th percentile {high:.2f} ms")


def untrained() -> Checkpoint:
    """The untrained policy of the preset medium, whose decisions take as long, on the synthetic google population."""
    config = replace(PRESETS["medium"], train_sequences=1, sequences_per_iteration=1, eval_sequences=1)
    trace = open_trace("google")
    problem = Problem.build(trace, config.scenario)
    return Trainer(problem, config, Path(), trace_identity(trace, "google", None), print).checkpoint()


if __name__ == "__main__":
    main()
