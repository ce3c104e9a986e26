"""A task that is small, so that all its sequences are played in a moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from tvwrl.benchmark import fresh, tasks
from tvwrl.benchmark.tasks import TASKS, Task, sequences_hash
from tvwrl.envs.problem import Problem
from tvwrl.traces.synthetic import synthetic_trace


@pytest.fixture(scope="session", autouse=True)
def few_populations() -> Iterator[None]:
    """Few and small fresh populations, each drawn once: drawing large ones takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fresh, "WORKLOADS", 60)
        patch.setattr(fresh, "POPULATIONS", 3)
        patch.setattr(fresh, "synthetic_trace", cache(synthetic_trace))
        yield


@pytest.fixture(scope="session")
def small() -> Iterator[Task]:
    """Three sequences of 20 workloads on 4 machines, of the embedded population; `find_task` finds it."""
    yield from _made_small("google-0.5-v1", "small-v1")


@pytest.fixture(scope="session")
def moving() -> Iterator[Task]:
    """The same, where workloads may move."""
    yield from _made_small("google-0.5-move-v1", "small-move-v1")


def _made_small(name: str, called: str) -> Iterator[Task]:
    task = TASKS[name]
    scenario = replace(task.scenario, machines=4, workloads=20)
    problem = Problem.build(tasks.trace_of(task), scenario)
    drawn = problem.sequences("test", 3, seed=0)
    identity = sequences_hash(drawn, problem.sampler)
    found = replace(task, name=called, scenario=scenario, sequences=3, sequences_hash=identity)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, found.name, found)
        yield found
