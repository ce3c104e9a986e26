"""The integer programme against everything that can be tried."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvwrl.planning import milp
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.milp import MOST_APPLICATIONS, solve
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.types import InputError

Make = Callable[..., Instance]


def singly(instance: Instance) -> Plan:
    """Every replica on a machine of its own."""
    application = np.repeat(np.arange(len(instance)), instance.replicas)
    return Plan.of("singly", application, np.arange(len(application)), np.ones_like(application))


@pytest.fixture(params=["at once", "as they are broken"])
def _limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits come into the programme in either way."""
    if request.param != "at once":
        monkeypatch.setattr(milp, "MOST_AT_ONCE", 0)


@pytest.mark.usefixtures("_limits")
def test_by_hand(make: Make) -> None:
    # 3 a of 4 and 3 b of 4 in 8: three machines. With one b at most beside a, as (a, b) three times; with none, four.
    for arcs, machines in (([], 3), ([(0, 1, 1)], 3), ([(0, 1, 0)], 4), ([(1, 0, 0), (0, 0, 1)], 5)):
        instance = make([3, 3], [[4, 1], [4, 1]], arcs)
        solved = solve(instance, Fleet.of([8, 8]), singly(instance), 20)
        assert (solved.plan.machines, solved.bound, solved.status) == (machines, machines, "optimal")
        assert validate(PlanningProblem(instance, Fleet.of([8, 8])), solved.plan).feasible
        assert solved.plan.algorithm == "MILP"


def test_machines_that_differ(make: Make) -> None:
    instance = make([4], [[4, 1]])
    fleet = Fleet(np.array([[4.0, 8.0], [8.0, 8.0], [16.0, 8.0]]))
    assert solve(instance, fleet, singly(instance), 20).plan.machines == 3


@pytest.mark.usefixtures("_limits")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_it_finds_the_fewest(
    instances: Callable[..., st.SearchStrategy[Instance]],
    fewest_machines: Callable[..., int],
    data: st.DataObject,
) -> None:
    instance, fleet = data.draw(instances()), Fleet.of([5, 5])
    solved = solve(instance, fleet, singly(instance), 20)
    assert solved.plan.machines == solved.bound == fewest_machines(instance, fleet)
    assert validate(PlanningProblem(instance, fleet), solved.plan).feasible


def test_a_programme_without_room_for_its_limits_says_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    instance, fleet = make([3, 3], [[4, 1], [4, 1]], [(0, 1, 1)]), Fleet.of([8, 8])
    monkeypatch.setattr(milp, "MOST_ENTRIES", 1)
    solved = solve(instance, fleet, singly(instance), 20)
    assert (solved.status, solved.plan.machines, solved.bound) == ("too large", 6, 3)


def test_what_cannot_be_solved_is_refused(make: Make) -> None:
    instance, fleet = make([3], [[4, 1]]), Fleet.of([8, 8])
    wrong = Plan("all", np.array([0]), np.array([0]), np.array([3]), 1)
    with pytest.raises(InputError, match="initial plan is infeasible: machine 1, time 0: cpu 12 of 8"):
        solve(instance, fleet, wrong, 1)
    with pytest.raises(InputError, match="seconds is 0"):
        solve(instance, fleet, singly(instance), 0)
    with pytest.raises(InputError, match="the initial plan leaves 1 replicas over: it must place all"):
        solve(instance, Fleet(np.full((2, 2), 8.0), fixed=True), Plan.of("two", *np.array([[0, 0], [0, 1], [1, 1]])), 1)
    many = make([1] * (MOST_APPLICATIONS + 1), np.ones((MOST_APPLICATIONS + 1, 2)))
    with pytest.raises(InputError, match="2001 applications: the integer programme is for 2000"):
        solve(many, fleet, singly(many), 1)
