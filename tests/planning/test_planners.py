"""What every name of the registry promises: all replicas are placed, nothing is broken, the rule is the one named."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.hand_plans import plan
from tvwrl.planning.base import RULE, Watch, make_planner
from tvwrl.planning.bounds_on_machines import lower_bound
from tvwrl.planning.instance import Fleet
from tvwrl.planning.lrasched import TwoPhase
from tvwrl.planning.milp import solve
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.planning.registry import PLANNERS, abilities, family_of, make_plan
from tvwrl.types import InputError

FOUR = Fleet.of([4])
FOUR_OF_TWO = Fleet.of([4, 4])
RULES = [name for name in PLANNERS if abilities(name) == RULE]
# All but those in two phases, which place an application whole or not at all on a fixed fleet.
REPLICA_BY_REPLICA = [name for name in RULES if family_of(name) != "in two phases"]


@pytest.fixture(scope="module")
def hand(make):
    """a: 2 replicas of 1, b: 3 of 1, c: 1 of 2. Beside a at most one b (a limits what comes), beside c no a."""
    return make([2, 3, 1], [[1], [1], [2]], [(0, 1, 1), (2, 0, 0)])


A_FIRST = {("a", 0): 2, ("b", 0): 1, ("b", 1): 2, ("c", 1): 1}  # c does not go where two a are already
C_FIRST = {("c", 0): 1, ("a", 1): 2, ("b", 0): 2, ("b", 1): 1}  # a does not go where c is already


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, A_FIRST) for name in ("FF", "Medea-TP", "Medea-NC", "FFD-Avg-Hybrid0")),
        *((name, C_FIRST) for name in ("FFD-Avg-Hybrid1", "FFD-Avg", "BFD-Max", "WFD-Avg", "WFD-AvgExp")),
        *((name, C_FIRST) for name in ("NCD-DotProduct", "NCD-TightFill", "LRASched-Fitness")),
        *((name, C_FIRST) for name in ("SpreadWFD-Avg-BinSearch", "SpreadWFD-Surrogate-Decr2")),
        ("Matching-DotProduct-BinSearch", C_FIRST),
    ],
)
def test_limits_bind_in_both_directions(hand, rows, name, expected):
    made = plan(hand, FOUR, name)
    assert rows(hand, made) == expected
    assert (made.machines, made.algorithm) == (2, name)


@pytest.mark.parametrize(
    ("name", "machine"), [("FFD-Avg", 0), ("BFD-Avg", 1), ("BFD-Surrogate", 1), ("WFD-Avg", 2), ("WFD-ExtendedSum", 2)]
)
def test_machine_rules_differ_in_where_the_last_one_goes(make, rows, name, machine):
    # Machines of 10: a, b and c exclude one another, w may only join b. Then a leaves 3, b and w 2, c 5.
    apart = [(0, 1, 0), (0, 2, 0), (1, 2, 0), (3, 0, 0), (3, 2, 0)]
    instance = make([1] * 5, [[7], [6], [5], [2], [1]], apart)
    assert rows(instance, plan(instance, Fleet.of([10]), name)).get(("e", machine)) == 1


def test_demand_over_time_lets_peaks_interlock(make):
    assert plan(make([1, 1], [[[3], [1]], [[1], [3]]]), FOUR, "FF").machines == 1
    assert plan(make([1, 1], [[3], [3]]), FOUR, "FF").machines == 2


def test_names_with_numbers_are_made_to_order(hand):
    assert plan(hand, FOUR, "SpreadWFD-Max-Hybrid0.25-Decr17").machines == 2
    assert make_planner("LRASched-Fragment0.5-Batch50-Search") == TwoPhase(batch=50, fragment=0.5, search=True)
    for wrong in ("FFD", "SpreadWFD-Avg", "SpreadWFD-Avg-Decr0", "FFD-Avg-Hybrid1.5", "ffd-avg"):
        with pytest.raises(InputError, match=f"no planner '{wrong}'"):
            make_planner(wrong)


def test_applications_that_no_free_machine_can_hold_are_named(make):
    with pytest.raises(InputError, match="'a': it needs 5"):
        plan(make([1], [[5]]), FOUR, "FF")
    with pytest.raises(InputError, match="application 'a': 1 replica left over"):
        plan(make([2], [[3]]), Fleet(np.array([[4.0], [2.0]])), "NCD-L2Norm")


def test_progress_rises_to_the_end(hand):
    shares: list[float] = []
    assert (
        plan(hand, FOUR, "SpreadWFD-Avg-BinSearch", progress=shares.append, deadline=time.monotonic() + 60).machines
        == 2
    )
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


class SlowTrial:
    """A trial in which the deadline passes after the first try."""

    def __init__(self, trial):
        self.trial, self.tries = trial, 0

    def attempt(self, *arguments):
        self.tries += 1
        if self.tries > 1:
            raise TimeoutError
        return self.trial.attempt(*arguments)


def test_searches_keep_their_best_at_the_deadline_and_others_say_that_it_passed(make, hand):
    # First-Fit: 2 machines full of a, 8 with a b each; b and a together need 8.
    instance, search = make([8, 8], [[1], [3]]), make_planner("SpreadWFD-Avg-BinSearch")
    slow = SlowTrial(search.trial)
    stopped = replace(search, trial=slow).pack(PackingProblem(instance, FOUR), Watch())
    assert slow.tries == 2
    assert not stopped.left.any()
    assert stopped.open[0] == plan(instance, FOUR, "FF").machines
    assert stopped.open[0] > plan(instance, FOUR, "SpreadWFD-Avg-BinSearch").machines
    with pytest.raises(TimeoutError, match="no plan was found"):
        plan(hand, FOUR, "FF", deadline=time.monotonic() - 1)


@pytest.fixture(scope="module")
def problems(instances):
    """Up to 7 applications at up to 3 times; demand in tenths, which do not add up exactly; machines of 6 and 8."""
    kinds = st.lists(st.sampled_from([6.0, 8.0]), max_size=3).map(lambda sizes: [[size, 6.0] for size in [*sizes, 8.0]])
    drawn = instances(applications=7, replicas=6, most=60, times=3).map(lambda i: replace(i, demand=i.demand / 10))
    return st.tuples(drawn, kinds)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), name=st.sampled_from(RULES))
def test_every_replica_is_placed_nothing_is_broken_and_the_next_call_does_the_same(problems, data, name):
    instance, kinds = data.draw(problems)
    made = plan(instance, Fleet(np.array(kinds)), name)
    verdict = validate(PlanningProblem(instance, Fleet(np.array(kinds))), made)
    assert verdict.feasible, verdict.examples
    assert verdict.missing == 0
    again = plan(instance, Fleet(np.array(kinds)), name)
    for field in ("application", "machine", "replicas"):
        np.testing.assert_array_equal(getattr(made, field), getattr(again, field))


@settings(max_examples=100, deadline=None)
@given(data=st.data(), name=st.sampled_from(REPLICA_BY_REPLICA))
def test_a_fixed_fleet_takes_replicas_until_none_fits(fits, problems, data, name):
    instance, kinds = data.draw(problems)
    fleet = Fleet(np.array(kinds), fixed=True)
    made = plan(instance, fleet, name)
    verdict = validate(PlanningProblem(instance, fleet), made)
    assert verdict.feasible, verdict.examples
    counts = np.zeros((len(kinds), len(instance)), np.int64)
    counts[made.machine, made.application] = made.replicas
    for i in np.flatnonzero(instance.replicas - counts.sum(axis=0)):
        for held, capacity in zip(counts, fleet.capacity, strict=True):
            assert not fits(instance, held + (np.arange(len(held)) == i), capacity + 1e-6)


@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "FFD-AntiAffinity"])
@pytest.mark.parametrize("fixed", [True, False])
def test_replicas_that_request_nothing_fit_where_nothing_is_left(make, name, fixed):
    """Two machines are filled by a and b, which exclude each other. Of c, one may share a machine; d only with a."""
    limits = [(0, 1, 0), (2, 2, 1), (1, 3, 0)]
    instance = make([1, 1, 2, 5], [[4, 4], [4, 4], [0, 0], [0, 0]], limits)
    problem = PlanningProblem(instance, Fleet.of_kinds([[4, 4]], [2 if fixed else 1], fixed))
    can = abilities(name)
    if not fixed and not can.open_fleet:
        return
    made = make_plan(problem, name, seconds=0.1)
    verdict = validate(problem, made)
    placed = np.bincount(made.application, weights=made.replicas, minlength=4)
    assert placed[2:].tolist() == [2, 5]
    assert placed[:2].tolist() == [1, 1] or "Medea(" in name  # to which two whole machines are worth more
    assert (verdict.misplaced, verdict.over_capacity) == (0, 0)
    assert verdict.feasible or not can.keeps_constraints
    if name in ("FF", "best"):
        assert verdict.machines == lower_bound(problem, 0.0).machines == 2


@pytest.mark.parametrize("limits", [(), [(0, 0, 2)]])
def test_a_batch_that_requests_nothing_at_all(make, limits):
    """Five replicas on one machine, or two on each; the bound and the integer programme agree."""
    problem = PlanningProblem(make([5], [[0, 0]], list(limits)), FOUR_OF_TWO)
    machines = 3 if limits else 1
    assert make_plan(problem, "best", seconds=0.1).machines == machines
    assert lower_bound(problem, 1.0).machines == machines
    solved = solve(problem.instance, problem.fleet, make_plan(problem, "WF"), 5.0)
    assert (solved.status, solved.bound, solved.plan.machines) == ("optimal", machines, machines)
