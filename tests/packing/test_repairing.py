"""Ejection search by hand: whom it places, and that it never breaks a rule on the way."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.packing.running import close_machine, open_machine, search
from tvwrl.planning.instance import Fleet
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate


def plan_of(s):
    """What the machines hold, as a plan."""
    rows = [(s.application[m, w], m, s.count[m, w]) for m in range(s.open[0]) for w in range(s.kinds[m])]
    return Plan.of("hand", *np.array(rows, np.int64).reshape(-1, 3).T)


def test_the_search_places_what_a_planner_left(make, packed):
    # Three machines of 10 hold 6 + 4, 5 + 3 + 2 and 4 + 3 + 3, and no planner finds it.
    instance = make([1, 1, 2, 3, 1], [[6.0], [5.0], [4.0], [3.0], [2.0]])
    problem, s = packed(instance, Fleet.of_kinds([[10.0]], [3], fixed=True))
    assert s.unplaced[0] > 0
    search(problem.applications, s, 5000, 3, 3, 0, True, np.random.default_rng(0))
    assert s.unplaced[0] == 0
    verdict = validate(PlanningProblem(instance, problem.fleet), plan_of(s))
    assert (verdict.feasible, verdict.missing) == (True, 0)


def test_the_lightest_machine_closes(make, packed):
    problem, s = packed(make([2, 1], [[4, 4], [5, 5]]), Fleet.of_kinds([[8, 8]], [2], fixed=True))
    assert close_machine(problem.applications, s, 0)
    assert s.open[0] == 1
    assert s.pool[: s.unplaced[0]].tolist() == [1]
    assert plan_of(s).application.tolist() == [0]
    assert not open_machine(s, 1)
    assert open_machine(s, 0)
    assert (s.open[0], s.number.tolist(), s.place.tolist()) == (2, [0, 1], [0, 1])
    assert s.residual[1].tolist() == [8, 8]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99), in_turn=st.booleans())
def test_no_rule_is_broken_and_no_replica_lost(instances, data, seed, in_turn, packed):
    machines = data.draw(st.lists(st.tuples(st.integers(3, 8), st.integers(3, 8)), min_size=1, max_size=4))
    instance, fleet = data.draw(instances(applications=4)), Fleet(np.array(machines, np.float64), fixed=True)
    problem, s = packed(instance, fleet)
    search(problem.applications, s, 50, 4, 2, 0, in_turn, np.random.default_rng(seed))
    plan = plan_of(s)
    verdict = validate(PlanningProblem(instance, fleet), plan)
    assert verdict.feasible, verdict.examples
    assert plan.replicas.sum() + s.unplaced[0] == instance.replicas.sum()
