"""Arrivals on a running plan: by hand, and that no rule is ever broken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.flow.conftest import constrained_problems, make_problem
from tvwrl.planning.arrivals import Arrival, RunningPlan
from tvwrl.planning.instance import Fleet
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.planning.registry import make_plan
from tvwrl.types import InputError


def test_replicas_go_to_the_fullest_machine_then_to_an_empty_one_then_others_move() -> None:
    problem = make_problem([1, 1, 1], [(3, 3), (2, 2), (4, 4)], [(6, 6), (6, 6), (4, 4)])
    running = RunningPlan(problem, Plan.of("hand", np.array([0, 1]), np.array([0, 1]), np.array([1, 1])))
    assert running.arrive(1) == Arrival(0, 0, False)  # 3 + 2 of 6 is fuller than 2 + 2
    assert running.arrive(2) == Arrival(1, 0, False)  # 2 + 4
    assert running.arrive(2) == Arrival(2, 0, True)
    running.depart(1, 0)
    running.depart(2, 2)
    running.arrive(1)
    assert running.arrive(1).machine in (0, 2)
    with pytest.raises(InputError, match="machine 1 has no replica of vertex 0"):
        running.depart(0, 1)
    with pytest.raises(InputError, match="vertex is 7: must be 0 to 2"):
        running.arrive(7)


def test_others_move_where_nothing_else_makes_room() -> None:
    problem = make_problem([2, 1], [(2, 2), (4, 4)], [(4, 4), (4, 4)])
    running = RunningPlan(problem, Plan.of("hand", np.array([0, 0]), np.array([0, 1]), np.array([1, 1])))
    arrival = running.arrive(1)
    assert (arrival.moved, arrival.machine in (0, 1)) == (1, True)
    before = running.rows()
    assert running.arrive(1) == Arrival(-1, 0, False)
    assert all(np.array_equal(*pair) for pair in zip(before, running.rows(), strict=True))


def test_bad_beginnings_are_refused() -> None:
    problem = make_problem([2], [(3, 3)], [(4, 4)])
    with pytest.raises(InputError, match="the plan of hand breaks a rule"):
        RunningPlan(problem, Plan.of("hand", np.array([0]), np.array([0]), np.array([2])))
    with pytest.raises(InputError, match="the fleet is unlimited"):
        RunningPlan(replace(problem, fleet=Fleet.of((4, 4))), make_plan(problem, "FF"))


@settings(max_examples=60, deadline=None)
@given(problem=constrained_problems(), data=st.data())
def test_no_rule_is_broken_whatever_comes_and_goes(problem: PlanningProblem, data: st.DataObject) -> None:
    if not len(problem.merged.kept):
        return
    running = RunningPlan(problem, make_plan(problem, "FF"))
    more = problem.instance.replicas + 6 * running.merged.count
    larger = replace(problem, instance=replace(problem.instance, replicas=more))
    for vertex in data.draw(st.lists(st.sampled_from(running.merged.kept.tolist()), max_size=6)):
        before = running.rows()[2].sum()
        arrival = running.arrive(vertex)
        own = running.merged.count[running.merged.vertex == vertex].sum()
        assert running.rows()[2].sum() == before + (own if arrival.machine >= 0 else 0)
        verdict = validate(larger, Plan.of("running", *running.rows()))
        assert verdict.feasible, verdict.examples
