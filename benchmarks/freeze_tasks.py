"""Print what `tvwrl/benchmark/tasks.py` freezes of each task: the hash of its test sequences and its penalty unit.

With `--prepared FOLDER` it writes instead what ships with the package, so that nobody has to fit it: classes and
forecasters of the tasks of the embedded trace.
"""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from tvwrl.benchmark.tasks import CLASSES, EMBEDDED, PREPARED, TASKS, Task, sequences_hash, trace_of
from tvwrl.ec import OwnLabels
from tvwrl.envs.problem import Problem
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner

SCHEDULER = "best-fit-peak"


def main(tasks: tuple[str, ...] = tuple(TASKS), prepared: Path | None = None) -> None:
    """Print a line of `FROZEN` per task; the traces have to be in TVWRL_DATA.

    Args:
        tasks: their names.
        prepared: folder to write classes and forecasters to, instead.
    """
    warnings.simplefilter("ignore")
    if prepared is not None:
        write_prepared(prepared)
        return
    for name in tasks:
        task = TASKS[name]
        # Neither the sequences nor this scheduler depend on classes
        problem = Problem.build(trace_of(task), task.scenario, OwnLabels(task.scenario.classes))
        found = sequences_hash(problem.sequences(task.split, task.sequences, task.seed), problem.sampler)
        print(f'    "{name}": ("{found}", {penalty_unit(task, problem):_}),', flush=True)


def write_prepared(folder: Path) -> None:
    """Write classes and forecaster of the embedded trace, in slots of either length."""
    for name in (f"{EMBEDDED}-0.5-v1", f"{EMBEDDED}-0.5-burst-v1"):
        task = TASKS[name]
        problem = Problem.build(trace_of(task), task.scenario, CLASSES).with_forecasts(print)
        assert problem.forecaster is not None
        for kind, made in (("classes", problem.classes), ("forecaster", problem.forecaster)):
            named = PREPARED.format(kind=kind, trace=task.trace, seconds=task.scenario.step_seconds)
            content = made.to_dict() if kind == "classes" else single(made.to_dict())  # as networks are
            text = json.dumps(content, separators=(",", ":")).encode()
            (folder / Path(named).name).write_bytes(gzip.compress(text, mtime=0))


def single(content: Any) -> Any:
    """The content with the digits of its numbers that single precision has: half as many, and the same numbers."""
    if isinstance(content, dict):
        return {name: single(value) for name, value in content.items()}
    if isinstance(content, list):
        return [single(value) for value in content]
    return float(str(np.float32(content))) if isinstance(content, float) else content


def penalty_unit(task: Task, problem: Problem) -> float:
    """Mean penalty per decision of best-fit-peak on training sequences, rounded to two digits."""
    few = 20 if task.scenario.machines <= 10 else 2
    drawn = problem.sequences("train", few, task.seed)
    runner = Runner(drawn, problem.machines, problem.scenario, task.seed)
    rewards = problem.rewards(runner, make_scheduler(SCHEDULER))
    return float(f"{-rewards.mean() / drawn.arrival.shape[1]:.2g}")


if __name__ == "__main__":
    tyro.cli(main)
