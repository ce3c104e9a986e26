"""How long one decision of a `shared` policy takes on a large cluster: median and 99th percentile, one core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import tyro
from timing import measure

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.config import PRESETS
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.simulation import Simulation
from tvwrl.traces import open_trace
from tvwrl.traces.catalogue import trace_identity


def main(checkpoint: Path | None = None, machines: int = 1000, workloads: int = 3000) -> None:
    """Print the times of asking the policy for a machine.

    Args:
        checkpoint: a run of scripts/train.py; default: an untrained policy.
        machines: of the cluster.
        workloads: that arrive; none leaves.
    """
    torch.set_num_threads(1)

    saved = untrained() if checkpoint is None else Checkpoint.load(find_checkpoint(checkpoint))
    trace = open_trace(saved.trace["argument"], saved.trace["slot_seconds"])
    size = {"machines": machines, "workloads": workloads, "load": 0.5, "placements_per_slot": None}
    scenario = replace(saved.config.scenario, **size)
    problem = Problem.build(trace, scenario, saved.classes, np.array(saved.unit), saved.forecaster)
    sequences = problem.sequences("test", 1, 0)
    simulation = Simulation(sequences, problem.machines, scenario, max_slots=0)
    simulation.reset(0)
    cluster, policy = Cluster(simulation), PolicyScheduler("policy", saved)
    policy.reset(cluster, np.random.default_rng(0))
    seconds, known = [], {}
    while not simulation.is_over():
        for i in simulation.waiting()[:1].tolist():
            workload = known.setdefault(i, sequences.workload(0, i))
            placements, wall, cpu, _ = measure(lambda known=workload: list(policy.schedule(cluster, [known])))
            seconds.append((wall, cpu))
            if placements:
                simulation.place(0, placements[0].machine)
            else:
                simulation.next_slot()
        if not len(simulation.waiting()) and not simulation.is_over():
            simulation.next_slot()
    times = 1000 * np.array(seconds[10:])
    print(f"{machines} machines, {len(times)} decisions on one core")
    for clock, (low, high) in zip(("wall clock", "processor"), np.percentile(times, [50, 99], axis=0).T, strict=True):
        print(f"{clock}: median {low:.2f} ms, 99th percentile {high:.2f} ms")


def untrained() -> Checkpoint:
    """The untrained policy of the preset medium, whose decisions take as long, on the synthetic google population."""
    config = replace(PRESETS["medium"], train_sequences=1, sequences_per_iteration=1, eval_sequences=1)
    trace = open_trace("google")
    problem = Problem.build(trace, config.scenario)
    return Trainer(problem, config, Path(), trace_identity(trace, "google", None), print).checkpoint()


if __name__ == "__main__":
    tyro.cli(main)
