"""Print what `tvwrl/benchmark/tasks.py` freezes of each task: the hash of its test sequences and its penalty unit."""

from __future__ import annotations

import warnings

import tyro

from tvwrl.benchmark.tasks import TASKS, Task, sequences_hash, trace_of
from tvwrl.ec import OwnLabels
from tvwrl.envs.problem import Problem
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner

SCHEDULER = "best-fit-peak"


def main(tasks: tuple[str, ...] = tuple(TASKS)) -> None:
    """Print a line of `FROZEN` per task; the traces have to be in TVWRL_DATA."""
    warnings.simplefilter("ignore")
    for name in tasks:
        task = TASKS[name]
        # Neither the sequences nor this scheduler depend on classes
        problem = Problem.build(trace_of(task), task.scenario, OwnLabels(task.scenario.classes))
        found = sequences_hash(problem.sequences(task.split, task.sequences, task.seed), problem.sampler)
        print(f'    "{name}": ("{found}", {penalty_unit(task, problem):_}),', flush=True)


def penalty_unit(task: Task, problem: Problem) -> float:
    """Mean penalty per decision of best-fit-peak on training sequences, rounded to two digits."""
    few = 20 if task.scenario.machines <= 10 else 2
    drawn = problem.sequences("train", few, task.seed)
    runner = Runner(drawn, problem.machines, problem.scenario, task.seed)
    rewards = problem.rewards(runner, make_scheduler(SCHEDULER))
    return float(f"{-rewards.mean() / drawn.arrival.shape[1]:.2g}")


if __name__ == "__main__":
    tyro.cli(main)
