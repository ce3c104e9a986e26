"""Ejection search by hand: what has to go, whom it places, and that it never breaks a rule on the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.packing.affinity import entries
from tvwrl.packing.contents import contents_of, set_limits
from tvwrl.packing.repair import affinity_ejections, capacity_ejections, close_machine, open_machine, search
from tvwrl.planning.instance import Fleet
from tvwrl.planning.kinds import Kinds
from tvwrl.planning.measures import ByInput
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.plan import Plan
from tvwrl.planning.planners import FirstFit, Watch
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate


def packed(instance, fleet, spare=8):
    """A packing problem, and what first fit makes of it."""
    problem = PackingProblem(instance, fleet)
    packing = FirstFit(ByInput()).pack(problem, Watch())
    kinds, machines = Kinds.among(fleet), np.arange(len(problem.kinds))
    capacity = np.empty((len(kinds), problem.kinds.shape[1]))
    capacity[kinds.of] = problem.kinds
    number = machines[: packing.open[0]]
    return problem, contents_of(problem.applications, capacity, kinds.of, number, entries(packing), spare)


def plan_of(s):
    """What the machines hold, as a plan."""
    rows = [(s.application[m, w], m, s.count[m, w]) for m in range(s.open[0]) for w in range(s.kinds[m])]
    return Plan.of("hand", *np.array(rows, np.int64).reshape(-1, 3).T)


def test_what_affinity_ejects_by_hand(make):
    # Two of a and one of b are there. c allows one of a, and b no c: one a and the b have to go.
    problem, s = packed(
        make([2, 1, 1], [[1, 1]] * 3, [(2, 0, 1), (1, 2, 0)]), Fleet.of_kinds([[8, 8]], [2], fixed=True)
    )
    s.weight[:] = [1, 5, 1]
    set_limits(problem.applications, s, 2)

    def eject(most, max_ejected=8, own=9):
        machine = s.application[0], s.count[0], s.kinds[0]
        return affinity_ejections(2, own, *machine, s.allows, s.bears, s.weight, most, max_ejected, s.trial)

    assert eject(np.inf) == (6.0, 2, 2)
    assert s.trial[:, :2].tolist() == [[0, 1], [1, 1]]
    assert eject(6.0)[0] == np.inf  # no cheaper than what is known
    assert eject(np.inf, max_ejected=1)[0] == np.inf


@pytest.mark.parametrize("unit", [1e-7, 1.0, 1e9])
def test_what_capacity_ejects_by_hand(unit):
    # 3 too much of the second resource: b frees 3 for weight 2; three of a would free 1 each for weight 1 each.
    demand = np.array([[1.0, 1.0], [1.0, 3.0], [1.0, 4.0]]) * unit
    application, count, weight = np.array([0, 1], np.int32), np.array([3, 1], np.int32), np.array([1.0, 2.0, 1.0])
    trial, room, capacity = np.zeros((2, 2), np.int32), np.array([0.0, -3.0]) * unit, np.array([8.0, 8.0]) * unit
    arguments = (2, application, count, 2, demand, weight)
    assert capacity_ejections(*arguments, np.inf, 8, 0.0, 0, 0, trial, room.copy(), capacity) == (2.0, 1)
    assert trial[:, 0].tolist() == [1, 1]
    rounding = np.array([0.0, -1e-10]) * unit
    assert capacity_ejections(*arguments, np.inf, 8, 0.0, 0, 0, trial, rounding, capacity) == (0.0, 0)
    assert capacity_ejections(*arguments, 2.0, 8, 0.0, 0, 0, trial, room.copy(), capacity)[0] == np.inf


def test_the_search_places_what_a_planner_left(make):
    # Three machines of 10 hold 6 + 4, 5 + 3 + 2 and 4 + 3 + 3, and no planner finds it.
    instance = make([1, 1, 2, 3, 1], [[6.0], [5.0], [4.0], [3.0], [2.0]])
    problem, s = packed(instance, Fleet.of_kinds([[10.0]], [3], fixed=True))
    assert s.unplaced[0] > 0
    search(problem.applications, s, 5000, 3, 3, 0, True, np.random.default_rng(0))
    assert s.unplaced[0] == 0
    verdict = validate(PlanningProblem(instance, problem.fleet), plan_of(s))
    assert (verdict.feasible, verdict.missing) == (True, 0)


def test_the_lightest_machine_closes(make):
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
def test_no_rule_is_broken_and_no_replica_lost(instances, data, seed, in_turn):
    machines = data.draw(st.lists(st.tuples(st.integers(3, 8), st.integers(3, 8)), min_size=1, max_size=4))
    instance, fleet = data.draw(instances(applications=4)), Fleet(np.array(machines, np.float64), fixed=True)
    problem, s = packed(instance, fleet)
    search(problem.applications, s, 50, 4, 2, 0, in_turn, np.random.default_rng(seed))
    plan = plan_of(s)
    verdict = validate(PlanningProblem(instance, fleet), plan)
    assert verdict.feasible, verdict.examples
    assert plan.replicas.sum() + s.unplaced[0] == instance.replicas.sum()
