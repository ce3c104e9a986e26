"""Bounds by hand, and never above what trying everything finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.hand_plans import plan
from tvwrl.planning.bounds_on_machines import lower_bound
from tvwrl.planning.instance import Fleet, Instance, check_fits
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.types import InputError

Make = Callable[..., Instance]


def test_volume_by_hand(make: Make) -> None:
    # 12 and 9 of cpu at the two times, 10 and 14 of mem: 14 / 8 makes 2, 14 / 6 makes 3; 7 + 6 < 14
    instance = make([2, 1], [[[5, 3], [2, 6]], [[2, 4], [5, 2]]])
    for kinds, machines in (([[8, 8]], 2), ([[8, 6], [9, 6]], 3), ([[6, 7], [6, 6]], 3)):
        problem = PlanningProblem(instance, Fleet(np.array(kinds, dtype=np.float64)))
        assert lower_bound(problem).each["volume"] == machines


def test_sizes_by_hand(make: Make) -> None:
    # five of 3 in 8: two to a machine, three machines; volume 15 / 8
    bound = lower_bound(PlanningProblem(make([5], [[3, 1]]), Fleet.of([8, 8])))
    assert (bound.each["volume"], bound.each["sizes"], bound.machines) == (2, 3, 3)


def test_self_limits_and_exclusion_by_hand(make: Make) -> None:
    # a: 4 replicas, 2 to a machine; b excludes a and needs 1; c excludes b and a, one way and the other: 2
    arcs = [(0, 0, 2), (1, 0, 0), (1, 2, 0), (2, 0, 0), (2, 2, 1)]
    bound = lower_bound(PlanningProblem(make([4, 1, 2], [[0.1, 0.1]] * 3, arcs), Fleet.of([8, 8])))
    assert bound.each == {"volume": 1, "sizes": 1, "self_limits": 2, "exclusion": 5}


def test_too_large_together_at_one_time_is_exclusion(make: Make) -> None:
    instance = make([2, 1], [[[5, 1], [1, 1]], [[1, 1], [4, 8]]])
    assert (
        lower_bound(PlanningProblem(instance, Fleet.of([8, 8]))).each["exclusion"] == 3
    )  # 1 + 8 of mem; a fills one each


def test_patterns_by_hand(make: Make) -> None:
    # a and b exclude one another and leave 3 of 8 free; nine c of 2 go singly beside 4, the rest four to a machine
    instance = make([2, 2, 9], [[5, 0], [5, 0], [2, 0]], [(0, 1, 0)])
    bound = lower_bound(PlanningProblem(instance, Fleet.of([8, 8])), seconds=30)
    assert bound.each["volume"] == 5
    assert bound.each["patterns"] == bound.machines == 6  # 4 + 5 / 4


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_never_more_than_needed(
    instances: Callable[..., st.SearchStrategy[Instance]],
    fewest_machines: Callable[..., int],
    data: st.DataObject,
) -> None:
    instance, fleet = data.draw(instances()), Fleet.of([5, 5])
    assert max(lower_bound(PlanningProblem(instance, fleet), seconds=0.2).each.values()) <= fewest_machines(
        instance, fleet
    )


def test_bad_input_is_refused(make: Make) -> None:
    with pytest.raises(InputError, match="larger than every machine"):
        lower_bound(PlanningProblem(make([1], [[9, 1]]), Fleet.of([8, 8])))
    with pytest.raises(InputError, match="seconds"):
        lower_bound(PlanningProblem(make([1], [[1, 1]]), Fleet.of([8, 8])), seconds=-1)


@pytest.mark.real_data
def test_published_bound(published: Callable[[str], Instance]) -> None:
    bound = lower_bound(PlanningProblem(published("TClab_2D"), Fleet.of([64, 128])))
    assert bound.each["volume"] == 5087
    assert bound.machines >= 5087


def test_slack_leaves_the_bound_below_the_plan(make: Make) -> None:
    # A tenth of 30 is 2.9999999999999996 in floating point; three replicas of 1 fit it by the rule of what fits.
    instance, fleet = make([3], [[1.0, 1.0]]), Fleet.of_kinds([[30.0, 30.0]], slack=0.9)
    assert plan(instance, fleet, "FF").machines == 1
    assert set(lower_bound(PlanningProblem(instance, fleet), 1.0).each.values()) <= {1, None}
    check_fits(make([1], [[3.0, 3.0]]), fleet)


@pytest.mark.parametrize("unit", [1e-7, 1.0, 1e9])
def test_the_unit_makes_no_difference(make: Make, unit: float) -> None:
    # Thirty replicas of a third of a machine need ten machines, in whatever unit capacity is given.
    instance, fleet = make([30], [[unit / 3, unit / 3]]), Fleet.of([unit, unit])
    assert lower_bound(PlanningProblem(instance, fleet)).machines == 10
    made = plan(instance, fleet, "FF")
    assert (made.machines, validate(PlanningProblem(instance, fleet), made).feasible) == (10, True)
    crowded = Plan("hand", np.zeros(8, np.int64), np.arange(8), np.array([4, 4, 4, 4, 4, 4, 3, 3]), 8)
    assert validate(PlanningProblem(instance, fleet), crowded).over_capacity == 12
