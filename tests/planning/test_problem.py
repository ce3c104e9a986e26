"""What a problem refuses, and what becomes of limits when applications are made one."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.flow.conftest import constrained_problems, make_problem
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.merged import Merged
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import NOWHERE, Bundles, PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.types import InputError


def test_replicas_are_numbered_by_application() -> None:
    problem = make_problem([2, 1, 3], [(1, 1)] * 3, [(4, 4)], bundles=[{0: 2, 1: 1}])
    assert problem.first.tolist() == [0, 2, 3, 6]
    assert problem.application.tolist() == [0, 0, 1, 2, 2, 2]
    assert problem.bundles.owner.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("replicas", "bundles", "message"),
    [
        (
            [2, 3],
            [{0: 1, 1: 1}],
            "3 replicas of 't1', 1 in each, make 3 groups: must be a whole number, and as many as of 't0', 2",
        ),
        ([3, 3], [{0: 2, 1: 2}], "make 1.5 groups: must be a whole number"),
        ([2, 2], [{0: 1}, {0: 1, 1: 1}], "application 't0' is in several groups"),
        ([2, 2], [{0: 0, 1: 1}], "application 't0': count must be >= 1"),
        ([2, 2], [{0: 1, 7: 1}], "application 7: must be 0 to 1"),
    ],
)
def test_invalid_bundles_are_refused(replicas: list[int], bundles: list[dict[int, int]], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make_problem(replicas, [(1, 1)] * 2, [(4, 4)], bundles=bundles)


def test_bad_problems_are_refused() -> None:
    problem = make_problem([1], [(1, 1)], [(4, 4)])
    for changes, message in (
        ({"fleet": Fleet(np.array([[4.0]]), fixed=True)}, r"machine has 1 number: must be 2 \(cpu, mem\)"),
        ({"barred": np.array([[1, 0]])}, "blacklist: application 1: must be 0 to 0"),
        ({"barred": np.array([[0, 1]])}, "blacklist: machine 1: must be 0 to 0"),
        ({"pinned": np.array([True])}, "replicas are pinned where they run, but no running replicas are given"),
    ):
        with pytest.raises(InputError, match=message):
            replace(problem, **changes)


def test_a_bundle_becomes_one_vertex_with_the_tightest_limits() -> None:
    """6 replicas of t0 and 3 of t1 in 3 copies of (2, 1); t2 alone allows 5 of t0, 1 of t1; t0 allows 4 of itself."""
    limits = [(2, 0, 5), (2, 1, 1), (0, 0, 4), (1, 2, 3), (0, 2, 2)]
    vertices = Merged.of(make_problem([6, 3, 4], [(1, 2), (2, 1), (1, 1)], [(9, 9)], limits, [{0: 2, 1: 1}]))
    assert vertices.instance.application.tolist() == ["t0 + t1", "t2"]
    assert vertices.instance.replicas.tolist() == [3, 4]
    assert vertices.instance.peak.tolist() == [[4, 5], [1, 1]]
    assert vertices.refused == {}
    a = vertices.instance.affinity
    arcs = {(i, int(a.to[e])): int(a.limit[e]) for i in range(2) for e in range(int(a.start[i]), int(a.start[i + 1]))}
    assert arcs == {(1, 0): 1, (0, 0): 2, (0, 1): 2}  # min(5 // 2, 1 // 1), 4 // 2, min(3, 2)


def test_contradictory_and_oversized_vertices_are_refused() -> None:
    limits = [(0, 1, 0)]
    vertices = Merged.of(make_problem([2, 2, 1], [(1, 1), (1, 1), (10, 1)], [(9, 9)], limits, [{0: 1, 1: 1}]))
    assert set(vertices.refused) == {0, 1}
    assert (
        "contradict each other: 't0' and 't1' have to share a machine, with 1 of the latter, where 0 are"
        in vertices.refused[0]
    )
    assert "larger than every machine (9, 9 at most)" in vertices.refused[1]


def test_copies_are_expanded_to_replicas_and_merged_again() -> None:
    problem = make_problem([4, 2, 1], [(1, 1)] * 3, [(9, 9)] * 3, bundles=[{0: 2, 1: 1}])
    merged = Merged.of(problem)
    rows = merged.expand(np.array([0, 1]), np.array([2, 1]), np.array([1, 1]))
    assert [column.tolist() for column in rows] == [[0, 1, 2], [2, 2, 1], [2, 1, 1]]
    again = merged.merge(Plan.of("hand", *rows))
    assert [column.tolist() for column in again] == [[0, 1], [2, 1], [1, 1]]
    torn = Plan.of("hand", np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([2, 2, 2]))
    assert [column.tolist() for column in merged.merge(torn)] == [[0], [1], [1]]  # one whole copy


@settings(max_examples=200, deadline=None)
@given(constrained_problems(), st.data())
def test_merged_limits_allow_what_the_originals_do(problem: PlanningProblem, data: st.DataObject) -> None:
    """Of placements that keep bundles together, without those that are refused."""
    vertices = Merged.of(problem)
    merged = PlanningProblem(vertices.instance, problem.fleet, Bundles.of([]))
    machines = st.integers(NOWHERE, len(problem.fleet.capacity) - 1)
    of_copy = np.array([data.draw(machines) for _ in merged.application])
    of_copy[np.isin(merged.application, list(vertices.refused))] = NOWHERE
    plan = Plan.of_replicas("hand", merged.application, of_copy)
    verdict, of_vertices = validate(problem, vertices.expanded(plan)), validate(merged, plan)
    assert verdict.apart == 0
    assert (verdict.above_limits == 0) == (of_vertices.above_limits == 0)
    assert (verdict.over_capacity, verdict.machines) == (of_vertices.over_capacity, of_vertices.machines)


def test_more_than_memory_holds_is_refused(make: Callable[..., Instance]) -> None:
    many = make([9_000_000], np.ones((1, 300, 2)))
    with pytest.raises(InputError, match=r"up to 9,000,001 machines, 300 times and 2 resources make 5,400,000,600"):
        PlanningProblem(many, Fleet.of([1.0, 1.0]))
    assert PlanningProblem(many, Fleet.of_kinds([[1.0, 1.0]], [9], fixed=True))
    with pytest.raises(InputError, match="has 11,000,000 replicas: must be at most 10,000,000 together"):
        make([5_500_000, 5_500_000], np.ones((2, 2)))
    with pytest.raises(InputError, match=r"mem of application 'b' is inf: must be a number from 0 to 1e\+18"):
        make([1, 1], [[1, 1], [1, np.inf]])
