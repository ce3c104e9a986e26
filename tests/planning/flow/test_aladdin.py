"""Aladdin+H by hand, against brute force, and on problems of every kind."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.flow.conftest import Make, constrained_problems, make_problem, replicas_of
from tvwrl.planning.flow.aladdin import place_by_flow
from tvwrl.planning.flow.network import FlowSettings
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate


@pytest.mark.parametrize("order", ["LRF", "SRF"])
def test_figure_1_is_placed_without_a_violation(make: Make, order: str) -> None:
    # two T1 together, T0 and T2 apart: T0 (ratio 2) to the machine of ratio 2, all else to the other
    problem = make([1, 2, 1], [[4, 8], [2.5, 2.5], [3, 2]], [[10, 10], [7, 14]], [(0, 2, 0)], [{1: 2}])
    plan = place_by_flow(problem, FlowSettings(groups=2, order=order))  # type: ignore[arg-type]
    assert replicas_of(problem, plan) == [1, 0, 0, 0]
    verdict = validate(problem, plan)
    assert (verdict.placed, verdict.violations, verdict.over_capacity, verdict.machines) == (4, 0, 0, 2)
    assert not plan.reasons


def test_unplaceable_applications_get_reasons_and_the_rest_is_placed(make: Make) -> None:
    problem = make(
        [2, 4, 3, 1, 1, 1, 1],
        [[20, 1], [1, 1], [1, 1], [1, 1], [2, 2], [6, 6], [6, 6]],
        [[10, 10], [10, 10]],
        [(1, 1, 1), (3, 4, 0)],
        [{3: 1, 4: 1}, {5: 1, 6: 1}],
    )
    plan = place_by_flow(problem)
    assert "it needs 20, 1 (cpu, mem): larger than every machine (10, 10 at most)" in plan.reasons[0]
    assert "4 replicas, 1 at most on a machine, and 2 machines are large enough" in plan.reasons[1]
    assert "affinity and anti-affinity contradict each other: 't3' and 't4'" in plan.reasons[3]
    assert plan.reasons[4] == plan.reasons[3]
    assert "the affinity group needs 12, 12" in plan.reasons[5]
    assert set(plan.reasons) == {0, 1, 3, 4, 5, 6}
    placed = np.bincount(plan.application, plan.replicas, 7)
    assert placed.tolist() == [0, 2, 3, 0, 0, 0, 0]
    assert validate(problem, plan).violations == 0


def test_reasons_tell_full_machines_from_blocked_replicas(make: Make) -> None:
    blocked = make([1, 1, 1], [[999, 1], [1, 1], [1, 1]], [[10, 10]], [(1, 2, 0)])
    assert "no machine with room allows it" in place_by_flow(blocked).reasons[2]
    full = make([12], [[1, 1]], [[10, 20]])
    assert "the machines are full: 12 cpu are asked for, they have 10" in place_by_flow(full).reasons[0]


def test_machines_are_emptied_at_the_end(make: Make) -> None:
    # largest first, by ratio: 4 and 4 go to different groups' machines, though one holds both
    problem = make([1, 1], [[4, 8], [4, 4]], [[16, 16], [16, 32]])
    spread = place_by_flow(problem, FlowSettings(groups=2, consolidate=False))
    assert validate(problem, spread).machines == 2
    closed = place_by_flow(problem, FlowSettings(groups=2))
    assert validate(problem, closed).machines == 1
    assert closed.migrations == 1


@settings(max_examples=150, deadline=None)
@given(
    problem=constrained_problems(),
    repack=st.sampled_from(["none", "blocked", "cheapest"]),
    order=st.sampled_from(["LRF", "SRF"]),
    every=st.sampled_from([0, 1, 3]),
)
def test_no_constraint_is_ever_broken(problem: PlanningProblem, repack: str, order: str, every: int) -> None:
    how = FlowSettings(groups=3, repack=repack, order=order, regroup_every=every)  # type: ignore[arg-type]
    plan = place_by_flow(problem, how)
    assert validate(problem, plan).feasible
    placed = np.bincount(plan.application, plan.replicas, len(problem.instance))
    assert set(np.flatnonzero(placed < problem.instance.replicas)) == set(plan.reasons)
    assert replicas_of(problem, plan) == replicas_of(problem, place_by_flow(problem, how))


def tight_problem(seed: int) -> PlanningProblem:
    """Three machines that six replicas nearly fill, with two limits."""
    rng = np.random.default_rng(seed)
    machines = rng.integers(5, 9, (3, 2))
    sizes = rng.integers(1, 6, (6, 2))
    pairs = rng.permutation(list(itertools.combinations(range(6), 2)))[:2]
    return make_problem([1] * 6, sizes.tolist(), machines.tolist(), [(int(i), int(j), 0) for i, j in pairs])


def can_all_be_placed(problem: PlanningProblem) -> bool:
    """Whether any of the 3^6 assignments is feasible."""
    machine = np.array(list(itertools.product(range(3), repeat=6)))
    load = (machine[:, None] == np.arange(3)[:, None]) @ problem.instance.demand[:, 0]
    good = (load <= problem.fleet.capacity).all(axis=(1, 2))
    arcs = problem.instance.affinity
    for i, j in zip(np.repeat(np.arange(6), np.diff(arcs.start)), arcs.to, strict=True):
        good &= machine[:, i] != machine[:, j]
    return bool(good.any())


def test_repacking_finds_what_brute_force_finds() -> None:
    problems = {seed: tight_problem(seed) for seed in range(60)}
    feasible = {seed for seed, problem in problems.items() if can_all_be_placed(problem)}
    assert 10 < len(feasible) < 50
    complete = {
        repack: {seed for seed, one in problems.items() if not place_by_flow(one, FlowSettings(repack=repack)).reasons}
        for repack in ("none", "blocked")
    }
    assert complete["blocked"] <= feasible
    assert len(complete["blocked"]) >= 0.95 * len(feasible)
    assert len(complete["none"]) < len(complete["blocked"])
