"""Machines of several kinds and prices: the search and the integer programme against everything that can be tried."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.planning import Affinity, Fleet, Instance, PlanningProblem, kinds, make_plan, validate
from tvwrl.planning.best import search
from tvwrl.planning.bounds_on_machines import lower_bound
from tvwrl.planning.kinds import next_sum, slack
from tvwrl.planning.milp import solve
from tvwrl.planning.pattern_search import PatternSearch
from tvwrl.planning.plan import Plan
from tvwrl.planning.suite import Budget, run_planners
from tvwrl.types import InputError

Make = Callable[..., Instance]


def splits(replicas: int, machines: int) -> Iterator[tuple[int, ...]]:
    """All ways to divide replicas among machines."""
    if machines == 1:
        yield (replicas,)
        return
    for here in range(replicas + 1):
        for rest in splits(replicas - here, machines - 1):
            yield here, *rest


def least_price(problem: PlanningProblem, moves_cost: float = 0.0) -> float:
    """By trying all plans; infinite if none places all replicas."""
    instance, fleet = problem.instance, problem.fleet
    machines, best = len(fleet.capacity), np.inf
    runs = np.zeros((len(instance), machines))
    if problem.running is not None:
        np.add.at(runs, (problem.running.application, problem.running.machine), problem.running.replicas)
    for counts in itertools.product(*(splits(int(n), machines) for n in instance.replicas)):
        held = np.array(counts)
        price = float(fleet.costs[held.any(axis=0)].sum()) + moves_cost * np.maximum(runs - held, 0).sum()
        if price >= best or any(held[i, m] for i, m in problem.barred):
            continue
        load = np.einsum("am,ahd->mhd", held, instance.demand)
        arcs = zip(instance.affinity.origin, instance.affinity.to, instance.affinity.limit, strict=True)
        if (load <= fleet.capacity[:, None] * (1 + 1e-9)).all() and all(
            (held[j][held[i] > 0] <= most).all() for i, j, most in arcs
        ):
            best = price
    return best


@st.composite
def problems(draw: st.DrawFn) -> PlanningProblem:
    """A few applications, limits and blacklists, on at most four machines of two kinds at two prices."""
    count = draw(st.integers(1, 3))
    demand = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=count, max_size=count))
    replicas = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), st.integers(0, 2))
    limits = {(i, j): max(most, int(i == j)) for i, j, most in draw(st.lists(pairs, max_size=3))}
    arcs = np.array([(i, j, most) for (i, j), most in limits.items()], np.int64).reshape(-1, 3)
    names = np.array([f"a{i}" for i in range(count)], object)
    sizes = np.array(demand, float)[:, None]
    instance = Instance("drawn", names, np.array(replicas), sizes, ("cpu", "mem"), Affinity.of(count, *arcs.T))
    kinds = draw(st.permutations([(4.0, 4.0, 0.4), (8.0, 8.0, draw(st.sampled_from([0.5, 0.75, 0.9])))]))
    numbers = [draw(st.integers(1, 2)) for _ in kinds]
    fleet = Fleet.of_kinds([one[:2] for one in kinds], numbers, fixed=True, cost=[one[2] for one in kinds])
    place = st.tuples(st.integers(0, count - 1), st.integers(0, sum(numbers) - 1))
    barred = np.array(sorted(draw(st.sets(place, max_size=2))), np.int64).reshape(-1, 2)
    return PlanningProblem(instance, fleet, barred=barred)


@given(problems())
@settings(max_examples=20, deadline=None)
def test_the_least_price_is_found_and_proved(problem: PlanningProblem) -> None:
    least = least_price(problem)
    found = search(problem, 5.0 if np.isfinite(least) else 0.2)
    verdict = validate(problem, found.plan)
    assert not verdict.violations
    if np.isinf(least):
        assert verdict.missing
        return
    assert verdict.missing == 0
    assert verdict.cost == pytest.approx(least)
    assert found.bound <= least + 1e-6
    assert lower_bound(problem).cost <= least + 1e-6
    merged = problem.merged
    solved = solve(merged.instance, merged.fleet, merged.plan_of(found.plan), 20.0)
    assert (solved.status, solved.bound) == ("optimal", pytest.approx(least))
    first = merged.plan_of(make_plan(problem, "FF"))
    if not validate(problem, merged.expanded(first)).missing:
        assert solve(merged.instance, merged.fleet, first, 20.0).bound == pytest.approx(least)


@given(problems(), st.integers(0, 2**20))
@settings(max_examples=20, deadline=None)
def test_moves_have_their_price(problem: PlanningProblem, seed: int) -> None:
    """From where replicas run, at random among what is possible, a move costs 0.03."""
    if np.isinf(least_price(problem)):
        return
    rng = np.random.default_rng(seed)
    start = search(
        replace(problem, fleet=replace(problem.fleet, cost=rng.random(len(problem.fleet.capacity)) + 0.1)), 5
    )
    running = replace(problem, running=start.plan)
    found = search(running, 5.0, moves_cost=0.03)
    verdict = validate(running, found.plan)
    assert verdict.cost + 0.03 * verdict.moved == pytest.approx(least_price(running, 0.03))


def test_the_order_of_kinds_makes_no_difference(make: Make) -> None:
    """3 + 2 replicas, the first apart from one another: three small machines at 3, and not two large ones at 5."""
    instance = make([3, 2], [[1.0, 1.0], [1.0, 1.0]], [(0, 0, 1)])
    kinds = [([4.0, 4.0], 2, 5.0), ([2.0, 2.0], 3, 3.0)]
    for listed in itertools.permutations(kinds):
        capacity, count, cost = zip(*listed, strict=True)
        problem = PlanningProblem(instance, Fleet.of_kinds(capacity, count, fixed=True, cost=cost))
        assert validate(problem, make_plan(problem, "best", seconds=5)).cost == 9


@pytest.mark.parametrize("many", [199, 201, 399])
def test_many_replicas_make_no_difference(make: Make, many: int) -> None:
    """Many a, one on a machine, and a large b: one dear machine for b, cheap ones for the rest."""
    instance = make([many, 1], [[1, 1], [20, 20]], [(0, 0, 1)])
    fleet = Fleet.of_kinds([[32, 128], [16, 64]], [6, 400], fixed=True, cost=[0.73, 0.40])
    found = search(PlanningProblem(instance, fleet), 20.0)
    least = 0.73 + 0.40 * (many - 1)
    assert (found.value, found.bound) == ((0, pytest.approx(least)), pytest.approx(least))


def test_forty_times_a_problem_costs_at_most_forty_times_as_much(make: Make) -> None:
    sizes, arcs, kinds = [[8, 20], [6, 3], [3, 24], [1, 9]], [(0, 0, 1), (1, 0, 1), (2, 3, 0)], [[16, 64], [32, 128]]
    cost = []
    for times in (1, 40):
        instance = make([3 * times, 5 * times, 4 * times, 7 * times], sizes, arcs)
        fleet = Fleet.of_kinds(kinds, [8 * times, 6 * times], fixed=True, cost=[0.40, 0.75])
        found = search(PlanningProblem(instance, fleet), 8.0)
        assert found.value[0] == 0
        cost.append(found.value[1] / times)
    assert cost[1] <= cost[0] + 1e-9


@pytest.mark.parametrize("dearer", [1.001, 1.0001, 1.1])
def test_solved_means_that_nothing_is_cheaper(make: Make, dearer: float) -> None:
    """200 machines that differ little in price, and a start on one dear one: it is exchanged before any proof."""
    instance = make([200], [[4.0, 4.0]], [(0, 0, 1)])
    fleet = Fleet.of_kinds([[4, 4], [4.5, 4]], [201, 201], fixed=True, cost=[1.0, dearer])
    start = Plan.of("start", np.zeros(200, int), np.arange(2, 202), np.ones(200, int))
    solved = solve(instance, fleet, start, 60.0)
    assert (validate(PlanningProblem(instance, fleet), solved.plan).cost, solved.bound) == pytest.approx((200, 200))
    assert solved.status == "optimal"


def test_costs_are_equal_where_no_sum_is_in_between() -> None:
    assert slack(np.array([0.40, 0.75]), 200.0) == pytest.approx(0.025)
    assert slack(np.array([0.40, 0.75]), 200.0, each=0.03) == pytest.approx(0.005)
    assert slack(np.array([1.0, 1.001]), 200.0) == pytest.approx(0.0005)
    assert slack(np.array([1.0, np.pi, np.e]), 200.0) < 1e-5
    assert next_sum(np.array([0.40, 0.75]), 1.12) == pytest.approx(1.15)
    assert next_sum(np.array([0.40, 0.75]), 1.15 + 1e-7) == pytest.approx(1.15)


def test_the_programme_counts_money(make: Make, tmp_path: Path) -> None:
    """a: 3 replicas of 1 x 1, one on a machine. b: one of 16 x 16. One large machine and two small ones cost 1.55."""
    instance = make([3, 1], [[1, 1], [16, 16]], [(0, 0, 1)])
    fleet = Fleet.of_kinds([[32, 128], [16, 64]], [6, 8], cost=[0.75, 0.40])
    results = run_planners(PlanningProblem(instance, fleet), ["FF", "best"], tmp_path / "out", Budget(5, 20.0))
    cost = {row["planner"]: row["cost"] for row in results.rows()}
    assert cost["best"] == cost["MILP"] == pytest.approx(1.55)
    assert cost["FF"] > 1.55
    assert "MILP: solved; no plan that places all replicas costs less than 1.55" in results.summary()
    assert "costs at least 1.55" in results.about_bound
    worse = replace(results.made["FF"], plan=replace(results.made["FF"].plan, algorithm="MILP"))
    results.made["MILP"] = worse  # as if the solver had erred
    assert "is better: please report this" in results.summary()


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e9])
def test_the_currency_makes_no_difference(make: Make, unit: float, tmp_path: Path) -> None:
    instance = make([3, 1], [[1, 1], [16, 16]], [(0, 0, 1)])
    fleet = Fleet.of_kinds([[32, 128], [16, 64]], [6, 8], cost=[0.75 * unit, 0.40 * unit])
    results = run_planners(PlanningProblem(instance, fleet), ["FF", "best"], tmp_path / "out", Budget(5, 20.0))
    cost = {row["planner"]: row["cost"] for row in results.rows()}
    assert cost["best"] == cost["MILP"] == pytest.approx(1.55 * unit)
    assert results.bound is not None
    assert results.bound.cost == pytest.approx(1.55 * unit, rel=1e-4)


def test_on_given_machines_the_programme_makes_a_whole_plan_cheaper(make: Make, tmp_path: Path) -> None:
    instance = make([3, 1], [[1, 1], [16, 16]], [(0, 0, 1), (0, 1, 0)])
    fleet = Fleet.of_kinds([[32, 128], [16, 64]], [6, 8], fixed=True, cost=[0.75, 0.40])
    results = run_planners(PlanningProblem(instance, fleet), ["FF"], tmp_path / "out", Budget(5, 20.0))
    assert {row["planner"]: row["cost"] for row in results.rows()}["MILP"] == pytest.approx(1.6)
    assert "costs less than 1.6" in results.summary()


def test_many_replicas_do_not_hide_the_right_kind(make: Make) -> None:
    """By hand: 200 cheap machines for the replicas that must be apart, and a dear one for the large one and the 201st.

    The search by patterns was once for 200 replicas at most, and beyond found 82.38.
    """
    instance = make([201, 1], [[1, 1], [20, 20]], [(0, 0, 1)])
    fleet = Fleet.of_kinds([(32.0, 128.0), (16.0, 64.0)], [6, 400], fixed=False, cost=[0.73, 0.40])
    problem = PlanningProblem(instance, fleet)
    assert validate(problem, search(problem, 4.0).plan).cost == pytest.approx(200 * 0.40 + 0.73)


def test_machines_that_were_found_in_too_short_a_time_are_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found may be dear; by hand, 12 cores take at least one machine of 8 for 5 and one of 4 for 3."""
    fleet = Fleet.of_kinds([(8.0,), (4.0,)], [5, 5], fixed=True, cost=[5.0, 3.0])
    demand = np.array([12.0])
    assert kinds.Kinds.among(fleet).least_cost(demand) == pytest.approx(8.0)
    for seconds in (0.0, 1e-9):
        monkeypatch.setattr(kinds, "CHEAPEST_SECONDS", seconds)
        assert kinds.Kinds.among(fleet).least_cost(demand) <= 8.0 + 1e-9


def test_nearly_equal_prices_are_told_apart(make: Make) -> None:
    """200 machines at 1.000 cost 200; one of them at 1.001 instead, 200.001, was once called least."""
    instance = make([200], [[1, 1]], [(0, 0, 1)])
    fleet = Fleet.of_kinds([(4.0, 4.0), (8.0, 8.0)], [200, 200], fixed=True, cost=[1.001, 1.0])
    problem = PlanningProblem(instance, fleet)
    first = problem.merged.plan_of(make_plan(problem, "FF"))
    solved = solve(problem.merged.instance, problem.merged.fleet, first, 20.0)
    assert (solved.status, solved.bound) == ("optimal", pytest.approx(200.0, rel=1e-6))
    assert validate(problem, search(problem, 4.0).plan).cost == pytest.approx(200.0, rel=1e-6)


def fewest_left(problem: PlanningProblem, most_moves: int) -> int:
    """Replicas that the best plan leaves over where so few of what runs may move, by trying all plans."""
    instance, fleet = problem.instance, problem.fleet
    machines, best = len(fleet.capacity), int(instance.replicas.sum())
    runs = np.zeros((len(instance), machines))
    assert problem.running is not None
    np.add.at(runs, (problem.running.application, problem.running.machine), problem.running.replicas)
    arcs = list(zip(instance.affinity.origin, instance.affinity.to, instance.affinity.limit, strict=True))
    for counts in itertools.product(*(splits(int(n), machines + 1) for n in instance.replicas)):
        held, left = np.array(counts)[:, :-1], sum(one[-1] for one in counts)
        if left >= best or np.maximum(runs - held, 0).sum() > most_moves:
            continue
        load = np.einsum("am,ahd->mhd", held, instance.demand)
        if (load <= fleet.capacity[:, None] * (1 + 1e-9)).all() and all(
            (held[j][held[i] > 0] <= most).all() for i, j, most in arcs
        ):
            best = left
    return best


@given(problems(), st.integers(0, 2), st.integers(0, 2**20))
@settings(max_examples=30, deadline=None)
def test_what_fits_is_placed_where_few_may_move(problem: PlanningProblem, most: int, seed: int) -> None:
    """Some of first fit's replicas run; the others are new."""
    problem = replace(problem, barred=np.zeros((0, 2), np.int64))
    plan, rng = make_plan(problem, "FF"), np.random.default_rng(seed)
    there = rng.random(len(plan.application)) < 0.6
    problem = replace(
        problem, running=Plan.of("running", plan.application[there], plan.machine[there], plan.replicas[there])
    )
    verdict = validate(problem, search(problem, 2.0, most_moves=most).plan)
    assert not verdict.violations
    assert verdict.moved <= most
    assert verdict.missing == fewest_left(problem, most)


@given(problems(), st.integers(0, 2), st.integers(0, 2**20))
@settings(max_examples=20, deadline=None)
def test_without_patterns_nothing_is_left_that_has_room(problem: PlanningProblem, most: int, seed: int) -> None:
    """As on fleets that are too large for them: no more moves than may be, and no room left for what is left over."""
    plan, rng = make_plan(problem, "FF"), np.random.default_rng(seed)
    there = rng.random(len(plan.application)) < 0.6
    running = Plan.of("running", plan.application[there], plan.machine[there], plan.replicas[there])
    problem = replace(problem, running=running)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PatternSearch, "suits", lambda *_: False)
        found = search(problem, 0.1, most_moves=most).plan
    verdict = validate(problem, found)
    assert (verdict.feasible, verdict.moved <= most) == (True, True)
    left = problem.instance.replicas - np.bincount(found.application, found.replicas, len(problem.instance))
    for i, m in itertools.product(np.flatnonzero(left > 0).tolist(), range(len(problem.fleet.capacity))):
        more = np.append(found.application, i), np.append(found.machine, m), np.append(found.replicas, 1)
        keys, of = np.unique(np.column_stack(more[:2]), axis=0, return_inverse=True)
        one_more = Plan.of("one more", keys[:, 0], keys[:, 1], np.bincount(of.ravel(), more[2]).astype(np.int64))
        assert not validate(problem, one_more).feasible, (i, m)


@pytest.mark.parametrize("patterns", [True, False])
def test_new_replicas_are_placed_beside_what_may_not_move(
    make: Make, patterns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of seven, five run; the machines have room for one a more, and two b are on each."""
    instance = make([3, 4], [[2, 2], [3, 8]], [(1, 1, 2)])
    fleet = Fleet.of_kinds([[8, 16], [16, 32]], [1, 1], fixed=True, cost=[1.0, 2.0])
    running = Plan.of("running", np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([1, 1, 1, 2]))
    problem = PlanningProblem(instance, fleet, running=running)
    if not patterns:
        monkeypatch.setattr(PatternSearch, "suits", lambda *_: False)
    verdict = validate(problem, search(problem, 2.0, most_moves=0).plan)
    assert (verdict.feasible, verdict.moved, verdict.missing) == (True, 0, 1)


@pytest.mark.parametrize("fixed", [True, False])
def test_few_may_move_from_machines_of_several_applications(make: Make, fixed: bool) -> None:
    """What runs can stay as it is: two of a machine's three applications run together there."""
    arcs = [(0, 0, 1), (0, 1, 1), (1, 2, 0), (2, 2, 1)]
    instance = make([3, 1, 4], [[7, 7], [2, 8], [8, 5]], arcs)
    fleet = Fleet(np.tile([16.0, 16.0], (8, 1)), fixed)
    running = Plan.of("running", np.array([0, 0, 1, 2]), np.array([0, 2, 0, 2]), np.ones(4, int))
    for most in (0, 1):
        problem = PlanningProblem(instance, fleet, running=running)
        verdict = validate(problem, search(problem, 5.0, most_moves=most, moves_cost=0.01).plan)
        assert (verdict.missing, verdict.moved) == (0, 0)


def test_what_cannot_keep_moves_few_is_refused(make: Make, tmp_path: Path) -> None:
    problem = PlanningProblem(make([1], [[1, 1]]), Fleet.of([2, 2]))
    problem = replace(problem, running=make_plan(problem, "FF"))
    with pytest.raises(InputError, match="most_moves is 0, but FF places all replicas anew"):
        run_planners(problem, ["best", "FF"], tmp_path / "a", Budget(1, most_moves=0))
    with pytest.raises(InputError, match="most_moves is 0, but MILP places all replicas anew"):
        run_planners(problem, ["best"], tmp_path / "b", Budget(1, 5.0, most_moves=0))
    with pytest.raises(InputError, match=r"moves_cost is 0.1, but MILP places all replicas anew"):
        run_planners(problem, ["best"], tmp_path / "c", Budget(1, 5.0, moves_cost=0.1))


@pytest.mark.parametrize(("option", "value"), [("moves_cost", 1.0), ("most_moves", 0)])
def test_moves_without_anything_that_runs_are_refused(make: Make, tmp_path: Path, option: str, value: float) -> None:
    """They would only weaken the lower bound. A plan to improve is something to move from."""
    problem, budget = PlanningProblem(make([1], [[1, 1]]), Fleet.of([2, 2])), Budget(0.1, **{option: value})
    with pytest.raises(InputError, match=rf"{option} is {value:g}, but nothing is known to run: .*--running FILE"):
        run_planners(problem, ["best"], tmp_path / "a", budget)
    run_planners(problem, ["best"], tmp_path / "b", budget, start=make_plan(problem, "FF"))


def test_what_moves_cost_is_said_beside_the_table(make: Make, tmp_path: Path) -> None:
    """Two replicas on two machines of 1: First-Fit moves one to the other, which with 2 for a move is no gain."""
    problem = PlanningProblem(make([2], [[1, 1]]), Fleet.of_kinds([[4, 4]], [2], fixed=True, cost=[1.0]))
    running = Plan.of("running", np.array([0, 0]), np.array([0, 1]), np.ones(2, int))
    for number, (price, text) in enumerate(((2.0, "0 for best, 2 for FF"), (0.5, "0.5 for best, 0.5 for FF"))):
        results = run_planners(
            replace(problem, running=running), ["best", "FF"], tmp_path / str(number), Budget(0.5, moves_cost=price)
        )
        line = f"a move costs {price:g}, which the table and the bound leave out: {text}"
        assert line in results.summary()


def test_moves_that_rules_need_are_counted(make: Make, tmp_path: Path) -> None:
    """Machine 1: two of a, which is barred there; machine 2: two of b, of which one may be; machine 3: all is well."""
    instance = make([3, 2], [[1, 1], [1, 1]], [(1, 1, 1)])
    running = Plan.of("running", np.array([0, 1, 0]), np.array([0, 1, 2]), np.array([2, 2, 1]))
    for fixed in (True, False):
        problem = PlanningProblem(instance, Fleet(np.tile([4.0, 4.0], (3, 1)), fixed), barred=np.array([[0, 0]]))
        problem = replace(problem, running=running)
        with pytest.raises(InputError) as refused:
            run_planners(problem, ["best"], tmp_path / "few", Budget(1, most_moves=2))
        message = str(refused.value)
        assert "most_moves is 2, but what runs breaks rules, and only moves mend that: must be at least 3" in message
        assert "machine 1: 2 replicas of 'a', whose blacklist names it" in message
        assert "machine 2: 2 replicas of 'b' beside 'b', which allows 1" in message
        results = run_planners(problem, ["best"], tmp_path / f"enough{fixed}", Budget(2, most_moves=3))
        assert (results.best().verdict.moved, results.best().verdict.missing) == (3, 0)


def test_what_is_not_finished_in_time_is_said() -> None:
    """The linear programme of 60 kinds and 24 times takes minutes: past its time, replicas count as one volume."""
    rng = np.random.default_rng(1)
    count = 400
    names = np.array([f"a{i}" for i in range(count)], object)
    demand = rng.random((count, 24, 2)) * [8, 32]
    instance = Instance(
        "wide", names, rng.integers(1, 9, count), demand, ("cpu", "mem"), Affinity.of(count, *np.zeros((3, 0), int))
    )
    kinds = [(16.0 + k, 64.0 + 4 * k) for k in range(60)]
    problem = PlanningProblem(
        instance, Fleet.of_kinds(kinds, [9] * 60, fixed=True, cost=[1 + 0.05 * k for k in range(60)])
    )
    bound = lower_bound(problem, deadline=time.monotonic())
    assert {"volume", "exclusion"} <= set(bound.unfinished)
    assert 0 < bound.cost <= lower_bound(problem, deadline=time.monotonic() + 5).cost + 1e-6


def test_a_plan_to_start_from_is_not_spoilt(make: Make) -> None:
    """From a bad running placement the search finds the optimum, whatever the listing."""
    instance = make([4], [[4.0, 4.0]])
    fleet = Fleet.of_kinds([[4, 4], [16, 16]], [4, 1], fixed=True, cost=[0.4, 1.0])
    running = Plan.of("running", np.zeros(4, int), np.arange(4), np.ones(4, int))
    problem = PlanningProblem(instance, fleet, running=running)
    assert validate(problem, search(problem, 5.0).plan).cost == 1.0
    assert validate(problem, search(problem, 5.0, moves_cost=0.2).plan).moved == 0  # 0.6 saved, 0.8 for the moves
