"""The programme of whole applications against everything that can be tried."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.planning.hand_plans import plan
from tvwrl.planning.admission import Admission, Weights, admit, volume_bound
from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import Bundles, PlanningProblem
from tvwrl.planning.referee import fragments, validate
from tvwrl.planning.suite import Budget, run_planners
from tvwrl.types import InputError

Make = Callable[..., Instance]
NOTHING = Plan.of("nothing", *(np.empty(0, np.int64) for _ in range(3)))
fixed = partial(Fleet.of_kinds, fixed=True)


def test_by_hand(make: Make) -> None:
    # 10 of each: either a (6), or b and c (5 each). The volume alone would let a and b in if d were as small as 0.
    instance, fleet = make([1, 1, 1], [[6, 6], [5, 5], [5, 5]]), fixed([(10, 10)])
    found = admit(instance, fleet, plan(instance, fleet, "LRASched"), 20)
    assert (found.value, found.bound, found.status, found.gap) == (2.0, 2.0, "optimal", 0.0)
    assert found.plan.application.tolist() == [1, 2]


def test_limits_and_wholeness_bind(make: Make) -> None:
    fleet = fixed([(10, 10), (10, 10)])
    for limit, whole in ((1, 0), (2, 1)):
        instance = make([4], [[2, 2]], [(0, 0, limit)])
        assert admit(instance, fleet, NOTHING, 20).value == whole


def test_fragments_cost_what_they_weigh(make: Make) -> None:
    instance, fleet = make([1, 1], [[9, 9], [2, 2]]), fixed([(10, 10)])  # a leaves 1, less than b needs
    assert admit(instance, fleet, NOTHING, 20, Weights(1, 0.5)).plan.application.tolist() == [1]
    alone = make([1], [[9, 9]])
    assert admit(alone, fleet, NOTHING, 20, Weights(1, 0.5)).value == 1.0  # placed; 9 is the least request
    assert admit(alone, fleet, NOTHING, 20, Weights(1, 1.5)).value == 1.5  # not placed, no fragment


def test_the_volume_bound_is_a_knapsack(make: Make) -> None:
    instance = make([1, 2, 1], [[6, 1], [2, 1], [5, 1]])
    assert volume_bound(instance, fixed([(5, 5), (4, 5)]), 5) == 2.0  # 4 + 5 of 9


def every_plan(instance: Instance, fleet: Fleet) -> list[Plan]:
    """Each way to place whole applications, or not."""
    machines = len(fleet.capacity)
    ways = [
        [counts for counts in product(range(n + 1), repeat=machines) if sum(counts) in (0, n)]
        for n in instance.replicas.tolist()
    ]
    return [Plan.of_counts("any", np.array(chosen)) for chosen in product(*ways)]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), weight=st.sampled_from([0.0, 0.75]))
def test_it_finds_the_most(
    instances: Callable[..., st.SearchStrategy[Instance]], data: st.DataObject, weight: float
) -> None:
    instance = data.draw(instances(applications=3, replicas=2))
    affinity = instance.affinity
    own = np.flatnonzero(affinity.own < 2**31 - 1)
    instance = Instance(
        "own", instance.application, instance.replicas, instance.demand, instance.resources,
        Affinity.of(len(instance), own, own, affinity.own[own]),
    )  # fmt: skip
    fleet = fixed(data.draw(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=2)))
    found: Admission = admit(instance, fleet, NOTHING, 20, Weights(1.0, weight))
    good = [made for made in every_plan(instance, fleet) if validate(PlanningProblem(instance, fleet), made).feasible]
    worth = [
        validate(PlanningProblem(instance, fleet), p).whole
        + weight * (len(fleet.capacity) - fragments(instance, fleet, p))
        for p in good
    ]
    assert found.status == "optimal"
    assert found.value == pytest.approx(max(worth))
    assert validate(PlanningProblem(instance, fleet), found.plan).feasible


def test_applications_that_exclude_each_other_are_apart(make: Make) -> None:
    """Two machines for three applications: with room for all, but the first is beside neither of the others."""
    instance = make([2, 1, 1], [[1, 1], [1, 1], [1, 1]], [(0, 1, 0), (2, 0, 1)])
    found = admit(instance, fixed([(4, 4)] * 2), NOTHING, 20)
    assert (found.value, found.status) == (3, "optimal")  # both of the first on one, the others on the other
    assert validate(PlanningProblem(instance, fixed([(4, 4)] * 2)), found.plan).feasible
    one = admit(instance, fixed([(4, 4)]), NOTHING, 20)
    assert (one.value, one.status) == (2, "optimal")  # without the first


def test_bad_input(make: Make) -> None:
    instance = make([1, 1], [[1, 1], [1, 1]], [(0, 1, 0)])
    with pytest.raises(InputError, match="needs a fixed fleet"):
        admit(instance, Fleet.of([2, 2]), NOTHING, 1)
    with pytest.raises(InputError, match="seconds is 0"):
        admit(make([1], [[1, 1]]), fixed([(2, 2)]), NOTHING, 0)
    with pytest.raises(InputError, match="weight of machine is -1"):
        Weights(1, -1)


def test_a_group_counts_as_one_application_and_what_is_left_out_has_a_reason(make: Make, tmp_path: Path) -> None:
    """Two of a and b share the machine of 4, or c has it alone: the group is one, though two applications are whole."""
    instance = make([1, 1, 1], [[1, 1], [1, 1], [3, 3]])
    problem = PlanningProblem(instance, fixed([(4, 4)]), Bundles.of([{0: 1, 1: 1}]))
    results = run_planners(problem, ["FF"], tmp_path / "out", Budget(0.1, 5.0))
    (row,) = (row for row in results.rows() if row["planner"] == "MILP")
    said, one = results.summary(), "an affinity group counted as one application"
    assert row["placed_whole"] == 2
    assert f"MILP: worth 1, at most 1 is possible (gap 0.0 %), {one}" in said
    assert f"MILP: solved; no plan places more than 1 application completely, {one}" in said
    assert "MILP: without a machine: 1 of 'c': the machines are full: 5 cpu are asked for, they have 4" in said


def test_left_out_by_choice_is_a_reason(make: Make, tmp_path: Path) -> None:
    """By volume three times 3 go onto machines of 5 twice; by size they do not."""
    problem = PlanningProblem(make([1, 1, 1], [[3, 3]] * 3), fixed([(5, 5)] * 2))
    results = run_planners(problem, ["FF"], tmp_path / "out", Budget(0.1, 5.0))
    assert "': the integer programme places all replicas of an application or none" in results.summary()
