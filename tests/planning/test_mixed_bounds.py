"""No placement beats the bound."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.planning.flow.conftest import constrained_problems, make_problem
from tvwrl.planning.bounds_on_machines import lower_bound
from tvwrl.planning.instance import Fleet
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.planning.registry import make_plan
from tvwrl.types import InputError


def test_volume_fills_large_machines_first() -> None:
    """20 cores: one machine of 12 and two of 4 are not enough, so three of 4."""
    problem = make_problem([20], [(1, 1)], [(12, 99)] + [(4, 99)] * 4)
    bound = lower_bound(problem)
    assert bound.each["volume"] == bound.machines == 3


def test_volume_knows_which_kinds_hold_a_replica() -> None:
    """By volume one machine of 100 cores does; but 4 of 30 GiB fit none of its 20 GiB."""
    problem = make_problem([4, 10], [(1, 30), (8, 1)], [(100, 20)] + [(8, 32)] * 4)
    assert lower_bound(problem).each["volume"] == 5


def test_limits_and_exclusion_count() -> None:
    alone = lower_bound(make_problem([5], [(1, 1)], [(99, 99)] * 9, [(0, 0, 1)]))
    assert (alone.each["volume"], alone.each["self_limits"], alone.machines) == (1, 5, 5)
    apart = lower_bound(make_problem([2, 2], [(1, 1)] * 2, [(99, 99)] * 9, [(0, 0, 1), (1, 1, 1), (0, 1, 0)]))
    assert (apart.each["exclusion"], apart.machines) == (4, 4)


def test_unplaceable_problems_have_no_bound() -> None:
    with pytest.raises(InputError, match="'t0': it needs 9, 9"):
        lower_bound(make_problem([1], [(9, 9)], [(4, 4)]))
    with pytest.raises(InputError, match="together they demand more than the machines that may hold them have"):
        lower_bound(make_problem([9], [(1, 1)], [(4, 4), (4, 4)]))


@settings(max_examples=100, deadline=None)
@given(constrained_problems(contradictions=False))
def test_no_placement_without_violations_uses_fewer(problem: PlanningProblem) -> None:
    plan = make_plan(problem, "Aladdin+H.2")
    if not (verdict := validate(problem, plan)).missing:
        assert lower_bound(problem).machines <= verdict.machines


def test_costs_are_bounded_by_volume_and_by_number() -> None:
    """12 cores, machines of 8 for 5 or of 4 for 3: 7.5 by volume, but costs are whole. Apart: three of the cheapest."""
    fleet = Fleet.of_kinds([(8, 8), (4, 4)], [9, 9], fixed=True, cost=[5.0, 3.0])
    problem = replace(make_problem([12], [(1, 1)], [(4, 4)]), fleet=fleet)
    bound = lower_bound(problem)
    assert (bound.machines, bound.cost) == (2, 8)
    apart = replace(make_problem([3], [(1, 1)], [(4, 4)], [(0, 0, 1)]), fleet=fleet)
    assert (lower_bound(apart).machines, lower_bound(apart).cost) == (3, 9)
