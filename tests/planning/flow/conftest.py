"""Problems of the Aladdin+H paper by hand."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import strategies as st

from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import NOWHERE, Bundles, PlanningProblem

Make = Callable[..., PlanningProblem]


def make_problem(
    replicas: Sequence[int],
    demand: Sequence[Sequence[float]],
    machines: Sequence[Sequence[float]],
    limits: Sequence[tuple[int, int, int]] = (),
    bundles: Sequence[Mapping[int, int]] = (),
) -> PlanningProblem:
    """Applications t0, t1, ... with `limits` (i, j, a_ij), on these machines."""
    arcs = np.array(limits, dtype=np.int64).reshape(-1, 3).T
    names = np.array([f"t{i}" for i in range(len(replicas))], dtype=object)
    sizes = np.array(demand, dtype=np.float64)[:, None]
    resources = ("cpu", "mem")[: sizes.shape[2]]
    instance = Instance("hand", names, np.array(replicas), sizes, resources, Affinity.of(len(names), *arcs))
    return PlanningProblem(instance, Fleet(np.array(machines, dtype=np.float64), fixed=True), Bundles.of(bundles))


def replicas_of(problem: PlanningProblem, plan: Plan) -> list[int]:
    """The machine of each replica, those of an application in order of machines, and NOWHERE for what has none."""
    where: list[list[int]] = [[] for _ in problem.instance.replicas]
    for i, machine, count in sorted(zip(plan.application, plan.machine, plan.replicas, strict=True)):
        where[i] += [int(machine)] * int(count)
    missing = problem.instance.replicas.tolist()
    return [m for own, n in zip(where, missing, strict=True) for m in own + [NOWHERE] * (n - len(own))]


@pytest.fixture
def make() -> Make:
    return make_problem


@st.composite
def constrained_problems(draw: st.DrawFn, contradictions: bool = True) -> PlanningProblem:
    """A few applications on a few machines, limits from 0 on, and perhaps an affinity group of two with 1 or 2 of each.

    Without `contradictions` every copy fits the largest machine and no group excludes itself.
    """
    n = draw(st.integers(3, 6))
    copies, counts = draw(st.integers(1, 2)), draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    grouped = draw(st.booleans())
    replicas = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    replicas[:2] = [copies * count for count in counts] if grouped else replicas[:2]
    most = 6 if contradictions else 2
    demand = draw(st.lists(st.tuples(st.integers(0, most), st.integers(1, most)), min_size=n, max_size=n))
    machines = draw(st.lists(st.tuples(st.integers(4, 9), st.integers(4, 9)), min_size=1, max_size=4))
    machines += [] if contradictions else [(9, 9)]
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(0, 2))
    limits = [
        (i, j, max(limit, 1) if i == j else limit)
        for i, j, limit in draw(st.lists(pairs, max_size=6, unique_by=lambda arc: arc[:2]))
        if contradictions or not grouped or max(i, j) > 1
    ]
    bundles = [dict(enumerate(counts))] if grouped else []
    return make_problem(replicas, demand, machines, limits, bundles)
