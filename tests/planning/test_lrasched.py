"""LRASched's placement: the order of applications, batches, machines added for the rest, the search."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.planning.hand_plans import plan
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate

Make = Callable[..., Instance]
Rows = Callable[[Instance, Plan], dict[tuple[str, int], int]]
fixed = partial(Fleet.of_kinds, fixed=True)


@pytest.mark.parametrize(("limit", "expected"), [(1, {("a", 0): 1, ("a", 1): 1}), (2, {("a", 0): 2})])
def test_measure_and_fitness_by_hand(make: Make, rows: Rows, limit: int, expected: dict[tuple[str, int], int]) -> None:
    # Demand: 6, 8. Measures: a 4/6 + 2/8 = 0.92, b 2/6 + 6/8 = 1.08, so b is first; it fits the second machine only.
    # That leaves 8, 4 and 2, 2 of 10, 6: a is worth 8/30 + 4/48 = 0.35 on the first, then 0.26; 0.11 on the second.
    instance = make([2, 1], [[2, 1], [2, 6]], [(0, 0, limit)])
    assert rows(instance, plan(instance, fixed([(8, 4), (4, 8)]), "LRASched")) == {("b", 1): 1} | expected


def test_what_found_no_place_gets_new_machines(make: Make, rows: Rows) -> None:
    instance = make([2, 1], [[5, 1], [2, 1]])
    fleet = Fleet(np.array([[4.0, 8.0], [8.0, 8.0]]))  # these, and more of the last
    made = plan(instance, fleet, "LRASched")
    assert rows(instance, made) == {("b", 1): 1, ("a", 2): 1, ("a", 3): 1}


def test_without_a_gain_the_search_changes_nothing(make: Make, rows: Rows) -> None:
    instance, fleet = make([1, 1], [[6, 6], [5, 5]]), fixed([(10, 10)])  # b alone would be smaller, but no more
    assert rows(instance, plan(instance, fleet, "LRASched-Search")) == {("a", 0): 1}


def test_batches_come_one_after_another(make: Make, rows: Rows) -> None:
    instance = make([1, 1, 1], [[2, 2], [3, 3], [4, 4]])
    assert rows(instance, plan(instance, fixed([(5, 5)]), "LRASched")) == {("c", 0): 1}
    assert rows(instance, plan(instance, fixed([(5, 5)]), "LRASched-Batch2")) == {("b", 0): 1, ("a", 0): 1}


def test_first_fit_keeps_replicas_apart(make: Make, rows: Rows) -> None:
    instance = make([2, 1], [[3, 1], [1, 1]])
    assert rows(instance, plan(instance, fixed([(8, 8)] * 2), "FFD-AntiAffinity")) == {
        ("a", 0): 1,
        ("a", 1): 1,
        ("b", 0): 1,
    }
    beyond = plan(instance, Fleet.of([8, 8]), "FFD-AntiAffinity")
    assert rows(instance, beyond) == {("b", 0): 1, ("a", 1): 1, ("a", 2): 1}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), name=st.sampled_from(["LRASched", "LRASched-Search", "FFD-AntiAffinity"]))
def test_no_rule_is_broken_and_no_application_split(
    instances: Callable[..., st.SearchStrategy[Instance]], data: st.DataObject, name: str
) -> None:
    instance = data.draw(instances(applications=5))
    machines = data.draw(st.lists(st.tuples(st.integers(5, 8), st.integers(5, 8)), min_size=1, max_size=4))
    fleet = fixed(machines)
    made = plan(instance, fleet, name)
    verdict = validate(PlanningProblem(instance, fleet), made)
    assert verdict.feasible, verdict.examples
    placed = np.bincount(made.application, weights=made.replicas, minlength=len(instance))
    assert all(count in (0, replicas) for count, replicas in zip(placed, instance.replicas, strict=True))
    if name == "LRASched-Search":
        assert verdict.whole >= validate(PlanningProblem(instance, fleet), plan(instance, fleet, "LRASched")).whole
