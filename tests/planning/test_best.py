"""The search: what it finds, when it ends, what it moves, and that it never breaks a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.flow.conftest import constrained_problems
from tvwrl.planning.best import PORTFOLIO, search
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.pattern_search import PatternSearch
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.planning.registry import make_plan
from tvwrl.planning.suite import warm_up
from tvwrl.types import InputError

Make = Callable[..., Instance]
SECONDS = 0.3


@pytest.fixture(scope="module", autouse=True)
def _compiled(make: Make) -> None:
    warm_up(PlanningProblem(make([1], [[1.0, 1.0]]), Fleet.of([2.0, 2.0])), "best")


@pytest.fixture
def six(make: Make) -> PlanningProblem:
    """Machines of 10. Every rule that begins with large ones takes 4: 6 + 4, 5 + 4, 3 + 3 + 3, 2. Three hold all:
    6 + 4, 5 + 3 + 2, 4 + 3 + 3."""
    return PlanningProblem(make([1, 1, 2, 3, 1], [[6.0], [5.0], [4.0], [3.0], [2.0]]), Fleet.of([10.0]))


def test_it_finds_what_no_rule_finds(six: PlanningProblem) -> None:
    assert make_plan(six, "FF").machines == make_plan(six, "FFD-Avg").machines == 4
    better: list[int] = []
    found = search(six, 20.0, save=lambda made: better.append(made().machines))
    assert found.plan.machines == found.bound == 3  # 30 of 30: it ends there, not after 20 seconds
    assert better == [4, 3]
    assert validate(six, found.plan).feasible


def test_a_bound_that_is_reached_ends_the_search(make: Make) -> None:
    # Three that exclude one another: volume says one machine, limits say three.
    apart = make([1, 1, 1], [[1.0], [1.0], [1.0]], [(0, 1, 0), (0, 2, 0), (1, 2, 0)])
    problem = PlanningProblem(apart, Fleet.of([10.0]))
    assert search(problem, 20.0, bound=3).steps == 0
    found = search(problem, SECONDS)  # which the search by patterns proves, too
    assert (found.steps, found.bound) == (0, pytest.approx(3))


@pytest.mark.slow
def test_searches_run_side_by_side(six: PlanningProblem) -> None:
    better: list[int] = []
    found = search(six, 20.0, searches=2, save=lambda made: better.append(made().machines))
    assert (found.plan.machines, better) == (3, [3])  # each ends at the bound


def test_no_time_is_first_fit(six: PlanningProblem) -> None:
    found = search(six, 0.0)
    assert (found.portfolio, found.steps, found.plan.machines) == ({"FF": 4}, 0, 4)


def test_a_fixed_fleet_takes_as_many_as_possible(make: Make) -> None:
    # First fit puts an a on each machine and nothing else; without them there is room for all b.
    problem = PlanningProblem(make([2, 6], [[8.0], [3.0]]), Fleet(np.array([[10.0], [10.0]]), fixed=True))
    assert make_plan(problem, "FF").replicas.sum() == 2
    found = search(problem, SECONDS)
    assert found.plan.replicas.sum() == 6
    assert validate(problem, found.plan).feasible
    assert set(found.plan.reasons) == {0}


def test_a_fixed_fleet_that_holds_all_is_emptied_further(six: PlanningProblem) -> None:
    ten = replace(six, fleet=Fleet.of_kinds([[10.0]], [10], fixed=True))
    assert len(np.unique(search(ten, 20.0).plan.machine)) == 3


def test_first_fit_that_fails_is_no_end(make: Make) -> None:
    """Two of (10, 10), then (4, 4) without end: first fit fills the large ones with what fits everywhere."""
    instance = make([20, 2], [[1.0, 1.0], [8.0, 8.0]])
    problem = PlanningProblem(instance, Fleet(np.array([[10.0, 10.0], [10.0, 10.0], [4.0, 4.0]])))
    with pytest.raises(InputError, match="2 replicas left over"):
        make_plan(problem, "FF")
    found = search(problem, 1.0)
    verdict = validate(problem, found.plan)
    assert (verdict.feasible, verdict.missing, verdict.machines) == (True, 0, 6)  # 8 + 2 twice, 4 four times


def test_small_machines_are_traded_for_a_large_one(make: Make) -> None:
    problem = PlanningProblem(make([12], [[1.0]]), Fleet.of_kinds([[3.0], [12.0]], [4, 1], fixed=True, cost=[2.0, 5.0]))
    found = search(problem, 5.0, start=make_plan(problem, "FF"))
    assert found.plan.machine.tolist() == [4]  # 5 in place of 4 x 2


def test_cheap_machines_are_chosen(make: Make) -> None:
    fleet = Fleet.of_kinds([[12.0], [3.0]], [9, 9], fixed=True, cost=[5.0, 1.0])
    problem = PlanningProblem(make([13], [[1.0]]), fleet)
    verdict = validate(problem, search(problem, 2.0).plan)
    assert (verdict.cost, verdict.machines) == (5.0, 5)  # five of 3, not one of 12 and one of 3, which cost 6


def test_dear_machines_are_exchanged_one_for_one(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where patterns are not tried: one dear machine holds b, and of the 19 other a each is on a cheap one."""
    monkeypatch.setattr(PatternSearch, "suits", lambda *_: False)
    instance = make([20, 1], [[1.0, 1.0], [20.0, 20.0]], [(0, 0, 1)])
    fleet = Fleet.of_kinds([[32.0, 128.0], [16.0, 64.0]], [6, 40], fixed=True, cost=[0.73, 0.40])
    found = search(PlanningProblem(instance, fleet), 6.0, bound=0.73 + 19 * 0.40)
    assert found.value == (0, pytest.approx(0.73 + 19 * 0.40))


def test_moves_are_weighed_against_machines(make: Make) -> None:
    """Ten on three machines, of which two would do: to close the third, which holds two, two have to move."""
    problem = PlanningProblem(make([10], [[1.0]]), Fleet.of_kinds([[5.0]], [3], fixed=True))
    running = Plan.of("running", np.array([0, 0, 0]), np.array([0, 1, 2]), np.array([4, 4, 2]))
    problem = replace(problem, running=running)
    for price, most, machines, moved in ((0.4, None, 2, 2), (0.6, None, 3, 0), (0.0, 2, 2, 2), (0.0, 1, 3, 0)):
        found = search(problem, SECONDS, moves_cost=price, most_moves=most)
        verdict = validate(problem, found.plan)
        assert (verdict.feasible, verdict.machines, verdict.moved) == (True, machines, moved), (price, most)


def test_what_may_not_move_stays(make: Make) -> None:
    problem = PlanningProblem(
        make([1, 3], [[2.0], [2.0]]),
        Fleet.of_kinds([[8.0]], [3], fixed=True),
        running=Plan.of("running", np.array([0, 1, 1]), np.array([2, 0, 1]), np.array([1, 1, 1])),
        pinned=np.array([True, False]),
    )
    found = search(problem, 2.0)
    verdict = validate(problem, found.plan)
    assert (verdict.feasible, verdict.missing, verdict.machines, verdict.unpinned) == (True, 0, 1, 0)
    assert set(found.plan.machine.tolist()) == {2}
    elsewhere = Plan.of("moved", np.array([0, 1]), np.array([0, 0]), np.array([1, 3]))
    with pytest.raises(InputError, match="the plan to improve moves replicas that must not move"):
        search(problem, 2.0, start=elsewhere)
    with pytest.raises(InputError, match="places all replicas anew, but some must not move: use best"):
        make_plan(problem, "FF")
    crowded = replace(problem, running=Plan.of("running", np.array([0, 1]), np.array([2, 2]), np.array([1, 3])))
    assert validate(crowded, search(crowded, SECONDS).plan).feasible
    alone = replace(problem, instance=make([5, 1], [[2.0], [2.0]]))
    with pytest.raises(InputError, match="application 'a' must not move, but what runs of it breaks"):
        search(replace(alone, running=Plan.of("running", np.zeros(1, int), np.zeros(1, int), np.array([5]))), SECONDS)


def test_blacklists_hold(make: Make) -> None:
    fleet = Fleet.of_kinds([[4.0]], [3], fixed=True)
    problem = PlanningProblem(make([2, 2], [[2.0], [2.0]]), fleet, barred=np.array([[0, 0], [1, 1]]))
    for name in ("FF", "SpreadWFD-Avg-BinSearch", "NCD-DotProduct", "Aladdin+H.2", "best"):
        verdict = validate(problem, make_plan(problem, name, seconds=SECONDS))
        assert (verdict.feasible, verdict.missing) == (True, 0), name
    everywhere = replace(problem, barred=np.array([[0, 0], [0, 1], [0, 2]]))
    assert make_plan(everywhere, "FF").reasons == {0: "it is on the blacklist of every machine that is large enough"}


def test_bad_input_is_refused(make: Make) -> None:
    problem = PlanningProblem(make([1], [[1.0]]), Fleet.of([2.0]))
    for options, message in (
        ({"seconds": -1}, "seconds is -1"),
        ({"seconds": 1, "moves_cost": -1.0}, "moves_cost is -1"),
        ({"seconds": 1, "most_moves": -1}, "most_moves is -1"),
        ({"seconds": 1, "seed": -1}, "seed is -1"),
    ):
        with pytest.raises(InputError, match=message):
            search(problem, **options)
    with pytest.raises(InputError, match=r"'a'.*larger than every machine"):
        search(replace(problem, instance=make([1], [[3.0]])), 1)
    with pytest.raises(InputError, match="not all replicas were placed in 0 s: allow more"):
        search(PlanningProblem(make([2], [[3.0]]), Fleet(np.array([[4.0], [2.0]]))), 0.0)


def test_it_is_never_worse_than_its_portfolio_and_breaks_no_rule(instances: Callable[..., st.SearchStrategy]) -> None:
    @settings(max_examples=25, deadline=None)
    @given(instance=instances(applications=6, replicas=5), seed=st.integers(0, 5))
    def check(instance: Instance, seed: int) -> None:
        problem, kept = PlanningProblem(instance, Fleet.of([8.0, 6.0])), list[Plan]()
        found = search(problem, 0.05, seed=seed, save=lambda made: kept.append(made()))
        verdicts = [validate(problem, made) for made in [*kept, found.plan]]
        assert all(verdict.feasible and verdict.missing == 0 for verdict in verdicts)
        least = min(make_plan(problem, name).machines for name in PORTFOLIO)
        assert found.bound <= verdicts[-1].machines <= least

    check()


@settings(max_examples=40, deadline=None)
@given(problem=constrained_problems(), seed=st.integers(0, 5), data=st.data())
def test_groups_kinds_moves_and_blacklists_hold_together(
    problem: PlanningProblem, seed: int, data: st.DataObject
) -> None:
    pairs = st.tuples(st.integers(0, len(problem.instance) - 1), st.integers(0, len(problem.fleet.capacity) - 1))
    barred = np.array(data.draw(st.lists(pairs, max_size=3, unique=True)), dtype=np.int64).reshape(-1, 2)
    problem = replace(problem, barred=barred)
    before = make_plan(problem, "FF")
    found = search(problem, 0.03, seed=seed).plan
    assert validate(problem, before).feasible
    verdict = validate(problem, found)
    assert verdict.feasible, verdict.examples
    assert verdict.placed >= validate(problem, before).placed
    running = replace(problem, running=before)
    few = validate(running, search(running, 0.03, seed=seed, moves_cost=0.1, most_moves=2).plan)
    assert (few.feasible, few.placed >= verdict.placed or few.moved <= 2) == (True, True)
    if (first := validate(running, before)).missing == 0:
        last = validate(running, search(running, 0.03, seed=seed, moves_cost=0.1).plan)
        assert last.cost + 0.1 * last.moved <= first.cost + 1e-9


def test_the_first_plan_is_handed_on_at_once(six: PlanningProblem) -> None:
    """Whoever interrupts it then has First-Fit's plan."""
    kept = list[Plan]()

    def interrupted(made: Callable[[], Plan]) -> None:
        kept.append(made())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(six, 20.0, save=interrupted)
    assert [made.machines for made in kept] == [4]


def test_every_better_plan_is_offered_and_may_be_made_later(make: Make) -> None:
    """Saying why replicas are left over takes longer than finding room for one of them."""
    full = PlanningProblem(make([20, 20], [[6.0], [5.0]]), Fleet.of_kinds([[10.0]], (8,), fixed=True))
    offered = list[Callable[[], Plan]]()
    found = search(full, SECONDS, save=offered.append)
    assert (found.value[0] < 32, len(offered) > 1) == (True, True)  # First-Fit leaves 32
    assert offered[-1]().machines == 8
