"""How long one decision takes on clusters of several sizes, on one core: median and 99th percentile per scheduler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from timing import measure

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.config import PRESETS
from tvwrl.agents.export import export_policy
from tvwrl.agents.exported import ExportedPolicy
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.agents.training import Trainer
from tvwrl.command_line import parse
from tvwrl.envs.problem import Problem
from tvwrl.schedulers import PRODUCTION, Scheduler, make_scheduler
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.traces import open_trace
from tvwrl.traces.catalogue import trace_identity
from tvwrl.types import Float, InputError, Machines, SequenceSet

OTHERS = (
    "best-fit-peak-backfill", "expected-cost", "expected-cost-peak", "rollout(best-fit-peak-backfill,milliseconds=50)",
    *PRODUCTION,
)  # fmt: skip
FIRST = 20  # decisions that are not counted: they load and prepare what the others use


def main(
    checkpoint: Path | None = None,
    machines: tuple[int, ...] = (10, 100, 1000),
    schedulers: tuple[str, ...] = OTHERS,
    load: float = 0.5,
    decisions: int = 3000,
) -> None:
    """Print how long it takes to choose one placement from the visible queue.

    Args:
        checkpoint: a run of tvwrl train; default: untrained policies, with choice from the queue and without.
        machines: numbers of machines, one per cluster.
        schedulers: compared with the policies; by default some that look ahead and all rules of production clusters.
        load: offered load.
        decisions: number to measure, of each scheduler on each cluster.
    """
    torch.set_num_threads(1)
    if checkpoint is None:
        policies = {
            "policy": untrained(choose_from_queue=True),
            "policy, head of the queue": untrained(choose_from_queue=False),
        }
    else:
        policies = {"policy": Checkpoint.load(find_checkpoint(checkpoint))}
    print("| machines | scheduler | decisions | median, ms | 99 %, ms | median, CPU ms | 99 %, CPU ms |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    for count in machines:
        saved = next(iter(policies.values()))
        trace = open_trace(saved.trace["argument"], saved.trace["slot_seconds"])
        problem = saved.problem(trace, load).on_machines(count)
        scenario = replace(problem.scenario, placements_per_slot=None)
        drawn = problem.sequences("test", -(-2 * decisions // problem.sampler.arrivals["test"]), 0)
        compared = [
            (made(name, one), one.config.scenario.choose_from_queue)
            for name, one in policies.items()
            for made in (PolicyScheduler, exported)
        ]
        for scheduler, chooses in [*compared, *((make_scheduler(name), True) for name in schedulers)]:
            played = replace(scenario, choose_from_queue=chooses)
            try:
                times = 1000 * times_of(scheduler, drawn, problem.machines, played, decisions)
            except InputError as error:
                print(f"| {count} | {scheduler.name} | {error} |", flush=True)
                continue
            (wall, late), (cpu, late_cpu) = np.percentile(times[FIRST:], [50, 99], axis=0).T
            shown = f"{len(times) - FIRST} | {wall:.2f} | {late:.2f} | {cpu:.2f} | {late_cpu:.2f}"
            print(f"| {count} | {scheduler.name} | {shown} |", flush=True)


def times_of(scheduler: Scheduler, sequences: SequenceSet, machines: Machines, scenario: Scenario, most: int) -> Float:
    """(n, 2) wall-clock and CPU seconds of each decision; at most `most`, after the first `FIRST`."""
    grid, forecasts = scheduler.looks_at_grid, scheduler.needs_forecasts
    simulation = Simulation(sequences, machines, scenario, grid=grid, forecasts=forecasts, max_slots=0)
    cluster, seconds = Cluster(simulation), []
    for s in range(len(sequences)):
        simulation.reset(s)
        scheduler.reset(cluster, np.random.default_rng(s))
        while not simulation.is_over() and len(seconds) < most + FIRST:
            waiting = simulation.waiting()[: scenario.queue].tolist()
            own = None
            if waiting:
                pending = [sequences.workload(s, i) for i in waiting]
                own, wall, cpu, _ = measure(lambda seen=pending: next(iter(scheduler.schedule(cluster, seen)), None))
                seconds.append((wall, cpu))
            if own is None:
                simulation.next_slot()
            else:
                simulation.place(waiting.index(own.workload.index), own.machine)
    return np.array(seconds)


def exported(name: str, saved: Checkpoint) -> ExportedPolicy:
    """The policy as `tvwrl export` writes it, computed by ONNX Runtime."""
    policy = ExportedPolicy.from_bytes(export_policy(saved, name).content, name)
    policy.name = f"{name}, exported"
    return policy


def untrained(choose_from_queue: bool) -> Checkpoint:
    """An untrained policy with forecasts and peaks, for the synthetic population google; a trained one is as fast."""
    shown = replace(PRESETS["counterfactual"].scenario, observe_peak=True, choose_from_queue=choose_from_queue)
    config = replace(PRESETS["counterfactual"], teacher="expected-cost-peak", scenario=shown)
    config = replace(config, train_sequences=1, sequences_per_iteration=1, eval_sequences=1)
    trace = open_trace("google")
    return Trainer(
        Problem.build(trace, shown), config, Path(), trace_identity(trace, "google", None), print
    ).checkpoint()


if __name__ == "__main__":
    parse(main)
