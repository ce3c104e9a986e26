"""What tests of planners' kernels share: what a packing holds, and whether the independent referee accepts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvwrl.packing.affinity import entries
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate

Held = list[dict[int, int]]


def _held(packing: Any) -> Held:
    """Application -> replicas, by open machine."""
    machines: Held = [{} for _ in range(int(packing.open[0]))]
    for i, m, count in zip(*entries(packing), strict=True):
        machines[m][int(i)] = int(count)
    return machines


def _check(problem: PackingProblem, packing: Any) -> None:
    """Every replica is placed or left, no rule is broken, and residuals are what placements leave."""
    plan, machines = problem.plan("hand", packing, 0.0), int(packing.open[0])
    verdict = validate(PlanningProblem(problem.instance, Fleet(problem.fleet.rows(machines), fixed=True)), plan)
    assert verdict.feasible, verdict.examples
    assert verdict.missing == packing.left.sum()
    residual = packing.capacity[np.minimum(np.arange(machines), len(packing.capacity) - 1)]
    np.subtract.at(residual, plan.machine, plan.replicas[:, None] * problem.demand[plan.application])
    np.testing.assert_allclose(packing.residual[:machines], residual, atol=1e-9)


@pytest.fixture(scope="session")
def held() -> Callable[[Any], Held]:
    """The function that lists what a packing holds; see `_held`."""
    return _held


@pytest.fixture(scope="session")
def check() -> Callable[[PackingProblem, Any], None]:
    """The function that checks a packing; see `_check`."""
    return _check
