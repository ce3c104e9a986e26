"""What tests of planners' kernels share: what a packing holds, and whether the independent referee accepts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvwrl.packing.affinity import entries
from tvwrl.packing.contents import contents_of
from tvwrl.planning.base import Watch
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.plan import Plan
from tvwrl.planning.planners import ByInput, FirstFit
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
    plan, machines = Plan.of("hand", *entries(packing)), int(packing.open[0])
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


def _packed(instance: Instance, fleet: Fleet, spare: int = 8) -> tuple[PackingProblem, Any]:
    """A packing problem, and the contents of the machines as first fit packs it."""
    problem = PackingProblem(instance, fleet)
    packing = FirstFit(ByInput()).pack(problem, Watch())
    kinds = Kinds.among(fleet)
    capacity = np.empty((len(kinds), problem.kinds.shape[1]))
    capacity[kinds.of] = problem.kinds
    number = np.arange(packing.open[0])
    return problem, contents_of(problem.applications, capacity, kinds.of, number, entries(packing), spare)


@pytest.fixture(scope="session")
def packed() -> Callable[..., tuple[PackingProblem, Any]]:
    """The function that packs by first fit; see `_packed`."""
    return _packed
