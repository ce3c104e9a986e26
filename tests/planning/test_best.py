"""The planner with a time budget: what it finds, when it ends, and that it never breaks a rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvwrl.planning.best import PORTFOLIO, plan_best

from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.planning.registry import plan
from tvwrl.planning.suite import warm_up
from tvwrl.types import InputError

Make = Callable[..., Instance]
SECONDS = 0.3


@pytest.fixture(scope="module", autouse=True)
def _compiled(make: Make) -> None:
    warm_up(make([1], [[1.0, 1.0]]), "best")


@pytest.fixture
def six(make: Make) -> tuple[Instance, Fleet]:
    """Machines of 10. Every rule that begins with large ones takes 4: 6 + 4, 5 + 4, 3 + 3 + 3, 2. Three hold all:
    6 + 4, 5 + 3 + 2, 4 + 3 + 3."""
    return make([1, 1, 2, 3, 1], [[6.0], [5.0], [4.0], [3.0], [2.0]]), Fleet.of([10.0])


def test_it_finds_what_no_rule_finds(six: tuple[Instance, Fleet]) -> None:
    assert plan(*six, "FF").machines == plan(*six, "FFD-Avg").machines == 4
    better: list[int] = []
    found = plan_best(*six, 20.0, save=lambda made: better.append(made.machines))
    assert found.plan.machines == found.bound == 3  # 30 of 30: it ends there, not after 20 seconds
    assert better == [4, 3]
    assert validate(PlanningProblem(*six), found.plan).feasible


def test_a_bound_that_is_reached_ends_the_search(make: Make) -> None:
    # Three that exclude one another: volume says one machine, limits say three.
    instance, fleet = make([1, 1, 1], [[1.0], [1.0], [1.0]], [(0, 1, 0), (0, 2, 0), (1, 2, 0)]), Fleet.of([10.0])
    assert plan_best(instance, fleet, 20.0, bound=3).steps == 0
    assert plan_best(instance, fleet, SECONDS).steps > 0


def test_a_fixed_fleet_takes_as_many_as_possible(make: Make) -> None:
    # First fit puts an a on each machine and nothing else; without them there is room for all b.
    instance, fleet = make([2, 6], [[8.0], [3.0]]), Fleet(np.array([[10.0], [10.0]]), fixed=True)
    assert plan(instance, fleet, "FF").replicas.sum() == 2
    found = plan_best(instance, fleet, SECONDS)
    assert found.plan.replicas.sum() == 6
    assert validate(PlanningProblem(instance, fleet), found.plan).feasible


def test_bad_input_is_refused(make: Make) -> None:
    with pytest.raises(InputError, match="seconds is 0"):
        plan_best(make([1], [[1.0]]), Fleet.of([2.0]), 0)
    with pytest.raises(InputError, match="'a'"):
        plan_best(make([1], [[3.0]]), Fleet.of([2.0]), 1)


def test_it_is_never_worse_than_its_portfolio_and_breaks_no_rule(instances: Callable[..., st.SearchStrategy]) -> None:
    @settings(max_examples=25, deadline=None)
    @given(instance=instances(applications=6, replicas=5), seed=st.integers(0, 5))
    def check(instance: Instance, seed: int) -> None:
        fleet, kept = Fleet.of([8.0, 6.0]), list[Plan]()
        found = plan_best(instance, fleet, 0.05, seed, save=kept.append)
        assert all(validate(PlanningProblem(instance, fleet), made).feasible for made in [*kept, found.plan])
        assert all(validate(PlanningProblem(instance, fleet), made).missing == 0 for made in kept)
        assert found.plan.machines <= min(plan(instance, fleet, name).machines for name in PORTFOLIO)
        assert found.plan.machines >= found.bound

    check()


def test_the_first_plan_is_handed_on_at_once(six: tuple[Instance, Fleet], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever interrupts it while the second rule runs has First-Fit's plan."""
    from tvwrl.planning import best

    kept, ask = list[Plan](), best.planner

    def interrupted(name: str) -> object:
        if name != PORTFOLIO[0]:
            raise KeyboardInterrupt
        return ask(name)

    monkeypatch.setattr(best, "planner", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan_best(*six, 20.0, save=kept.append)
    assert [made.machines for made in kept] == [4]
