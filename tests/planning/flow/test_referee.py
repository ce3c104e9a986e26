"""The referee by hand, and against a recount that looks at every pair of replicas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.flow.conftest import Make, constrained_problems
from tvwrl.planning.problem import NOWHERE, PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.types import InputError


def test_violations_are_counted_in_replicas(make: Make) -> None:
    """t0 and t1 exclude each other, of t1 two may share a machine, t2 and t3 belong together."""
    problem = make([1, 4, 2, 2], [(1, 1)] * 4, [(4, 8)] * 3, [(0, 1, 0), (1, 1, 2)], [{2: 1, 3: 1}])
    good = validate(problem, np.array([0, 1, 1, 2, 2, 0, 1, 0, 1]))
    assert (good.violating_replicas, good.over_capacity, good.machines, good.placed) == (0, 0, 3, 9)
    assert good.efficiency.tolist() == [[0.75, 0.375], [1.0, 0.5], [0.5, 0.25]]
    together = validate(problem, np.array([0, 0, 0, 0, 1, 1, 1, 1, 1]))
    assert together.replicas_above_limits == 3  # all of t1 beside t0, though only one is above its own limit
    assert together.over_capacity == 1  # five replicas on 4 cores
    assert together.examples == (
        "machine 1, time 0: cpu 5 of 4",
        "machine 0: 3 replicas of 't1' beside 't0', which allows 0",
    )
    torn = validate(problem, np.array([0, 1, 1, 2, 2, 0, 1, 1, 1]))
    assert (torn.replicas_above_limits, torn.replicas_apart, torn.violating_replicas) == (0, 2, 2)
    assert torn.examples[1:] == ("copy 0 of the affinity group t2 + t3 is on machines [0, 1]",)
    half = validate(problem, np.array([0, 1, 1, 2, 2, 0, NOWHERE, 0, 2]))
    assert half.replicas_apart == 1  # the one of the second copy that is placed
    nobody = validate(problem, np.full(9, NOWHERE))
    assert (nobody.violating_replicas, nobody.placed, nobody.machines) == (0, 0, 0)


def test_limits_bind_in_their_direction_only(make: Make) -> None:
    problem = make([1, 2], [(1, 1)] * 2, [(9, 9)], [(0, 1, 1)])
    assert validate(problem, np.array([0, 0, 0])).replicas_above_limits == 1
    other = make([1, 2], [(1, 1)] * 2, [(9, 9)], [(1, 0, 1)])
    assert validate(other, np.array([0, 0, 0])).replicas_above_limits == 0


@pytest.mark.parametrize(
    ("machine", "message"),
    [([0, 0], r"shape \(2,\): must be \(3,\)"), ([0, 5, 0], "replica 1 is on machine 5"), ([-2, 0, 0], "replica 0")],
)
def test_invalid_assignments_are_refused(make: Make, machine: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        validate(make([1, 2], [(1, 1)] * 2, [(9, 9)]), np.array(machine))


@settings(max_examples=200, deadline=None)
@given(constrained_problems(), st.data())
def test_against_a_recount(problem: PlanningProblem, data: st.DataObject) -> None:
    machines = st.integers(NOWHERE, len(problem.fleet.capacity) - 1)
    machine = np.array([data.draw(machines) for _ in problem.application])
    verdict = validate(problem, machine)
    assert verdict.replicas_above_limits == above_limits(problem, machine)
    assert verdict.replicas_apart == apart(problem, machine)
    over = 0
    for m, capacity in enumerate(problem.fleet.capacity):
        load = sum(
            (problem.instance.demand[i, 0] for i, at in zip(problem.application, machine, strict=True) if at == m)
        )
        over += int((load > capacity + 1e-6).sum()) if (machine == m).any() else 0
    assert verdict.over_capacity == over


def above_limits(problem: PlanningProblem, machine: np.ndarray) -> int:
    """On each machine, of each application: how many more than the least limit of those that are there."""
    a, total = problem.instance.affinity, 0
    for m in range(len(problem.fleet.capacity)):
        there = problem.application[machine == m].tolist()
        for j in set(there):
            allowed = [
                int(a.limit[e]) for i in there for e in range(int(a.start[i]), int(a.start[i + 1])) if a.to[e] == j
            ]
            total += max(0, there.count(j) - min(allowed, default=len(there)))
    return total


def apart(problem: PlanningProblem, machine: np.ndarray) -> int:
    """Placed replicas whose copy is not whole on one machine."""
    copies: dict[tuple[int, int], list[int]] = {}
    for b in range(len(problem.bundles)):
        for row in range(int(problem.bundles.start[b]), int(problem.bundles.start[b + 1])):
            i, n = int(problem.bundles.member[row]), int(problem.bundles.count[row])
            for number in range(int(problem.instance.replicas[i])):
                copies.setdefault((b, number // n), []).append(int(machine[problem.first[i] + number]))
    return sum(sum(m != NOWHERE for m in where) for where in copies.values() if len(set(where)) > 1)
