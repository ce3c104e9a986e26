"""The referee by hand, and against the definition on random plans."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.planning import referee
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import fragments, utilisation, validate

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
    assert verdict.examples == ("machine 0, time 1: mem 10 of 8",)
    assert validate(PlanningProblem(instance, Fleet(np.array([[8.0, 8.0], [8.0, 10.0]]))), plan_of((0, 1, 2))).feasible


@pytest.mark.parametrize(
    ("arcs", "faults"),
    [
        ([(0, 1, 1)], ("machine 0: 2 replicas of 'b' beside 'a', which allows 1",)),
        ([(1, 0, 0)], ("machine 0: 1 replicas of 'a' beside 'b', which allows 0",)),
        ([(1, 1, 1)], ("machine 0: 2 replicas of 'b' beside 'b', which allows 1",)),
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
    assert validate(PlanningProblem(instance, FLEET), few).examples == ("application 'a': 1 replicas placed, it has 2",)
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
    known = {"tvwrl.planning.instance", "tvwrl.planning.plan", "tvwrl.types"}
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module for module in modules if module and module.startswith("tvwrl")} == known
    assert not any(node.names[0].name.startswith("tvwrl") for node in ast.walk(tree) if isinstance(node, ast.Import))
