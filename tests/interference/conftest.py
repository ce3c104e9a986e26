"""Batch tasks drawn for tests: jobs of three shapes whose tasks use what their place says, and a little noise."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tvwrl.interference.batch_tasks import BatchTasks, Tags

SHAPES = (("M1", "R2_1"), ("M1", "M2", "J3_1_2"), ("M1", "R2_1", "R3_2", "R4_2"))


def _draw_tasks(jobs: int, seed: int, noise: float = 0.1) -> BatchTasks:
    """Usage depends on a task's shape and number; instances on the job; a job every ten minutes."""
    rng, tags, rows = np.random.default_rng(seed), Tags(), []
    for j in range(jobs):
        shape = int(rng.integers(len(SHAPES)))
        names, instances = SHAPES[shape], int(rng.integers(1, 9))
        graph = tags.of(str(j), names)
        for k, (name, role) in enumerate(zip(names, graph.roles, strict=True)):
            usage = np.array([0.2 * 4**k, 0.05 * 3 ** ((shape + k) % 4), 4.0 * 6 ** ((shape + 2 * k) % 3)])
            cpu, memory, makespan = usage * np.exp(rng.normal(0, noise, 3))
            rows.append((f"j{j}", name, 600.0 * j, instances, 1.0, 0.5, graph.tag, role, cpu, memory, makespan))
    kinds = (object, object, float, np.int64, float, float, object, object, float, float, float)
    return BatchTasks(*(np.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)))


@pytest.fixture(scope="session")
def real_batch() -> Path:
    """The folder of published batch tasks; a test that needs it is skipped without it."""
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("TVWRL_REAL_DATA", default)) / "batch"
    if not folder.is_dir():
        pytest.skip("no real data")
    return folder


@pytest.fixture(scope="session")
def tasks() -> BatchTasks:
    """Three hundred jobs."""
    return _draw_tasks(300, 0)


@pytest.fixture(scope="session")
def draw_tasks() -> Callable[..., BatchTasks]:
    """The function that draws batch tasks: `_draw_tasks`."""
    return _draw_tasks
