"""The referee by hand, and against the definition on random plans."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.flow.conftest import constrained_problems, make_problem
from tvwrl.planning import referee
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import NOWHERE, PlanningProblem
from tvwrl.planning.referee import Verdict, fragments, utilisation, validate

Make = Callable[..., Instance]
FLEET = Fleet.of([8, 8])


def plan_of(*rows: tuple[int, int, int]) -> Plan:
    """Rows (application, machine, replicas)."""
    return Plan.of("hand", *np.array(rows, np.int64).reshape(-1, 3).T)


def test_good_plan(make: Make) -> None:
    # Two times: 2 a + 2 b load machine 0 with (6, 8) and (8, 4). Two b may be beside a.
    instance = make([3, 2], [[[2, 1], [1, 1]], [[1, 3], [3, 1]]], [(0, 1, 2), (1, 0, 2)])
    verdict = validate(PlanningProblem(instance, FLEET), plan_of((0, 0, 2), (1, 0, 2), (0, 1, 1)))
    assert verdict.feasible
    assert verdict.examples == ()
    assert (verdict.machines, verdict.replicas, verdict.placed, verdict.missing) == (2, 5, 5, 0)


def test_capacity_at_one_time_only(make: Make) -> None:
    instance = make([2], [[[1, 1], [4, 5]]])
    verdict = validate(PlanningProblem(instance, FLEET), plan_of((0, 0, 2)))
    assert (verdict.feasible, verdict.over_capacity) == (False, 1)
    assert verdict.examples == ("machine 1, time 1: mem 10 of 8",)
    assert validate(PlanningProblem(instance, Fleet(np.array([[8.0, 8.0], [8.0, 10.0]]))), plan_of((0, 1, 2))).feasible


@pytest.mark.parametrize(
    ("arcs", "faults"),
    [
        ([(0, 1, 1)], ("machine 1: 2 replicas of 'b' beside 'a', which allows 1",)),
        ([(1, 0, 0)], ("machine 1: 1 replica of 'a' beside 'b', which allows 0",)),
        ([(1, 1, 1)], ("machine 1: 2 replicas of 'b' beside 'b', which allows 1",)),
        ([(0, 1, 2), (1, 0, 1), (1, 1, 2), (0, 2, 0)], ()),
    ],
)
def test_affinity_in_each_direction(make: Make, arcs: list[tuple[int, int, int]], faults: tuple[str, ...]) -> None:
    instance = make([1, 2, 1], np.ones((3, 2)), arcs)
    verdict = validate(PlanningProblem(instance, FLEET), plan_of((0, 0, 1), (1, 0, 2), (2, 1, 1)))
    assert verdict.examples == faults
    assert verdict.broken_limits == len(faults)


def test_replicas(make: Make) -> None:
    instance = make([2, 1], np.ones((2, 2)))
    few = plan_of((0, 0, 1), (1, 0, 1))
    assert validate(PlanningProblem(instance, FLEET), few).examples == ("application 'a': 1 replica placed, it has 2",)
    fixed = validate(PlanningProblem(instance, Fleet(np.array([[8.0, 8.0]]), fixed=True)), few)
    assert fixed.feasible
    assert fixed.missing == 1
    assert not validate(
        PlanningProblem(instance, Fleet(np.array([[8.0, 8.0]]), fixed=True)), plan_of((0, 1, 2), (1, 0, 1))
    ).feasible
    assert not validate(PlanningProblem(instance, FLEET), plan_of((0, 0, 3), (1, 0, 1))).feasible
    assert "again" in validate(PlanningProblem(instance, FLEET), plan_of((0, 0, 1), (0, 0, 1), (1, 0, 1))).examples[0]
    assert "no application 2" in validate(PlanningProblem(instance, FLEET), plan_of((2, 0, 1))).examples[0]
    assert (
        "0 replicas" in validate(PlanningProblem(instance, FLEET), plan_of((0, 0, 2), (1, 0, 1), (1, 1, 0))).examples[0]
    )


def test_fragments_and_utilisation_by_hand(make: Make) -> None:
    # Beside a the first machine keeps 6, 1, beside b 9, 1: less than the least request 1, 2. The second keeps 2, 4.
    instance, fleet = make([1, 1], [[4, 2], [1, 2]]), Fleet.of_kinds([[10, 3], [6, 6]], fixed=True)
    assert [fragments(instance, fleet, plan_of((i, 0, 1))) for i in (0, 1)] == [1, 1]
    assert fragments(instance, fleet, plan_of((0, 1, 1))) == 0
    assert utilisation(instance, fleet, plan_of((0, 1, 1), (1, 0, 1))) == 9 / 25


@given(st.data())
def test_it_agrees_with_the_definition(
    instances: Callable[..., st.SearchStrategy[Instance]], fits: Callable[..., bool], data: st.DataObject
) -> None:
    instance = data.draw(instances())
    first = np.array(data.draw(st.tuples(*(st.integers(0, n) for n in instance.replicas.tolist()))))
    counts = np.stack([first, instance.replicas - first], axis=1)
    verdict = validate(PlanningProblem(instance, FLEET), Plan.of_counts("hand", counts))
    assert verdict.feasible == all(fits(instance, on_one, FLEET.capacity[0]) for on_one in counts.T)


def test_it_shares_no_code_with_planners_and_kernels() -> None:
    tree = ast.parse(Path(referee.__file__).read_text())
    known = {"tvwrl.planning.instance", "tvwrl.planning.plan", "tvwrl.planning.problem", "tvwrl.types"}
    known |= {"tvwrl.planning.instance"}  # of its messages
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module for module in modules if module and module.startswith("tvwrl")} == known
    assert not any(node.names[0].name.startswith("tvwrl") for node in ast.walk(tree) if isinstance(node, ast.Import))


def judged(problem: PlanningProblem, machine: np.ndarray) -> Verdict:
    """The verdict on the machines of all replicas, in order of application."""
    return validate(problem, Plan.of_replicas("hand", problem.application, machine))


def test_violations_are_counted_in_replicas() -> None:
    """t0 and t1 exclude each other, of t1 two may share a machine, t2 and t3 belong together."""
    problem = make_problem([1, 4, 2, 2], [(1, 1)] * 4, [(4, 8)] * 3, [(0, 1, 0), (1, 1, 2)], [{2: 1, 3: 1}])
    good = judged(problem, np.array([0, 1, 1, 2, 2, 0, 1, 0, 1]))
    assert (good.violations, good.over_capacity, good.machines, good.placed) == (0, 0, 3, 9)
    assert good.efficiency.tolist() == [[0.75, 0.375], [1.0, 0.5], [0.5, 0.25]]
    together = judged(problem, np.array([0, 0, 0, 0, 1, 1, 1, 1, 1]))
    assert together.above_limits == 3  # all of t1 beside t0, though only one is above its own limit
    assert together.over_capacity == 1  # five replicas on 4 cores
    assert together.examples == (
        "machine 2, time 0: cpu 5 of 4",
        "machine 1: 3 replicas of 't1' beside 't0', which allows 0",
    )
    torn = judged(problem, np.array([0, 1, 1, 2, 2, 0, 1, 1, 1]))
    assert (torn.above_limits, torn.apart, torn.violations) == (0, 2, 2)
    assert torn.examples[1:] == (
        "machine 1: the affinity group t2 + t3 is not whole there: 1 of 't2', 0 of 't3'",
        "machine 2: the affinity group t2 + t3 is not whole there: 1 of 't2', 2 of 't3'",
    )
    half = judged(problem, np.array([0, 1, 1, 2, 2, 0, NOWHERE, 0, 2]))
    assert half.apart == 1  # the one of the second copy that is placed
    nobody = judged(problem, np.full(9, NOWHERE))
    assert (nobody.violations, nobody.placed, nobody.machines) == (0, 0, 0)


def test_limits_bind_in_their_direction_only() -> None:
    problem = make_problem([1, 2], [(1, 1)] * 2, [(9, 9)], [(0, 1, 1)])
    assert judged(problem, np.array([0, 0, 0])).above_limits == 1
    other = make_problem([1, 2], [(1, 1)] * 2, [(9, 9)], [(1, 0, 1)])
    assert judged(other, np.array([0, 0, 0])).above_limits == 0


@settings(max_examples=200, deadline=None)
@given(constrained_problems(), st.data())
def test_against_a_recount(problem: PlanningProblem, data: st.DataObject) -> None:
    machines = st.integers(NOWHERE, len(problem.fleet.capacity) - 1)
    machine = np.array([data.draw(machines) for _ in problem.application])
    verdict = judged(problem, machine)
    assert verdict.above_limits == above_limits(problem, machine)
    assert verdict.apart == apart(problem, machine)
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
    """Replicas of a group on a machine beyond the whole copies that are there."""
    total = 0
    for b in range(len(problem.bundles)):
        rows = range(int(problem.bundles.start[b]), int(problem.bundles.start[b + 1]))
        for m in range(len(problem.fleet.capacity)):
            there = problem.application[machine == m].tolist()
            held = [there.count(int(problem.bundles.member[row])) for row in rows]
            counts = [int(problem.bundles.count[row]) for row in rows]
            copies = min(has // n for has, n in zip(held, counts, strict=True))
            total += sum(held) - copies * sum(counts)
    return total
