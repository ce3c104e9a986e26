"""Planners place all replicas, break nothing, and do what their names say."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.provisioning.instance import Affinity, Fleet, Instance
from tvwrl.provisioning.plan import Plan
from tvwrl.provisioning.planners import Watch
from tvwrl.provisioning.referee import validate
from tvwrl.provisioning.registry import ALGORITHMS, plan, planner
from tvwrl.provisioning.results import family_of
from tvwrl.provisioning.workspace import Workspace
from tvwrl.types import InputError

Arc = tuple[int, int, int]
# All but those in two phases, which place an application whole or not at all on a fixed fleet.
REPLICA_BY_REPLICA = [name for name in ALGORITHMS if family_of(name) != "in two phases"]


def make_instance(replicas: Sequence[int], demand: Sequence[object], arcs: Sequence[Arc] = ()) -> Instance:
    """Applications a, b, c, ...; demand of one resource and time, or (A, H, D)."""
    series = np.asarray(demand, np.float64)
    if series.ndim == 1:
        series = series[:, None, None]
    i, j, limit = np.array(arcs, np.int64).reshape(-1, 3).T
    names = np.array([chr(ord("a") + n) for n in range(len(replicas))], dtype=object)
    resources = ("cpu", "mem")[: series.shape[2]]
    return Instance("hand", names, np.array(replicas), series, resources, Affinity.of(len(names), i, j, limit))


def rows(instance: Instance, made: Plan) -> dict[tuple[str, int], int]:
    """Replicas by application and machine."""
    where = zip(made.application, made.machine, made.replicas, strict=True)
    return {(instance.application[i], int(m)): int(count) for i, m, count in where}


# Machines of 4. a: 2 replicas of 1, b: 3 of 1, c: 1 of 2. Beside a at most one b (a limits what comes), beside c no a.
HAND = make_instance([2, 3, 1], [1, 1, 2], [(0, 1, 1), (2, 0, 0)])
A_FIRST = {("a", 0): 2, ("b", 0): 1, ("b", 1): 2, ("c", 1): 1}  # c does not go where two a are already
C_FIRST = {("c", 0): 1, ("a", 1): 2, ("b", 0): 2, ("b", 1): 1}  # a does not go where c is already


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("FF", A_FIRST),
        ("Medea-TP", A_FIRST),
        ("Medea-NC", A_FIRST),
        ("FFD-Avg-Hybrid0", A_FIRST),
        ("FFD-Avg-Hybrid1", C_FIRST),
        ("FFD-Avg", C_FIRST),
        ("BFD-Max", C_FIRST),
        ("WFD-Avg", C_FIRST),
        ("WFD-AvgExp", C_FIRST),
        ("NCD-DotProduct", C_FIRST),
        ("NCD-TightFill", C_FIRST),
        ("LRASched-Fitness", C_FIRST),
        ("SpreadWFD-Avg-BinSearch", C_FIRST),
        ("SpreadWFD-Surrogate-Decr2", C_FIRST),
        ("Matching-DotProduct-BinSearch", C_FIRST),
    ],
)
def test_limits_bind_in_both_directions(name, expected):
    made = plan(HAND, Fleet.of([4]), name)
    assert rows(HAND, made) == expected
    assert (made.machines, made.algorithm) == (2, name)


@pytest.mark.parametrize(
    ("name", "machine"), [("FFD-Avg", 0), ("BFD-Avg", 1), ("BFD-Surrogate", 1), ("WFD-Avg", 2), ("WFD-ExtendedSum", 2)]
)
def test_machine_rules_differ_in_where_the_last_one_goes(name, machine):
    # Machines of 10: a, b and c exclude one another, w may only join b. Then a leaves 3, b and w 2, c 5.
    apart = [(0, 1, 0), (0, 2, 0), (1, 2, 0), (3, 0, 0), (3, 2, 0)]
    instance = make_instance([1] * 5, [7, 6, 5, 2, 1], apart)
    assert rows(instance, plan(instance, Fleet.of([10]), name)).get(("e", machine)) == 1


def test_spreading_puts_one_replica_on_every_machine_first():
    instance = make_instance([4, 2], [1, 2])
    spread = plan(instance, Fleet.of([4]), "SpreadWF-Avg-BinSearch")
    assert rows(instance, spread) == {("a", 0): 2, ("a", 1): 2, ("b", 0): 1, ("b", 1): 1}
    assert rows(instance, plan(instance, Fleet.of([4]), "FF")) == {("a", 0): 4, ("b", 1): 2}


def test_an_application_can_limit_itself():
    instance = make_instance([5], [1], [(0, 0, 2)])
    for name in ("FF", "WFD-Avg", "NCD-DotProduct", "SpreadWFD-Avg-BinSearch", "Matching-L2Norm-Decr2", "Medea-NC"):
        assert sorted(plan(instance, Fleet.of([10]), name).replicas) == [1, 2, 2]


def test_demand_over_time_lets_peaks_interlock():
    instance = make_instance([1, 1], [[[3], [1]], [[1], [3]]])
    assert plan(instance, Fleet.of([4]), "FF").machines == 1
    assert plan(make_instance([1, 1], [3, 3]), Fleet.of([4]), "FF").machines == 2


def test_machines_may_differ():
    instance = make_instance([1, 3], [1, 3])
    made = plan(instance, Fleet(np.array([[2.0], [6.0], [3.0]])), "FF")
    assert rows(instance, made) == {("a", 0): 1, ("b", 1): 2, ("b", 2): 1}


def test_names_with_numbers_are_made_to_order():
    assert plan(HAND, Fleet.of([4]), "SpreadWFD-Max-Hybrid0.25-Decr17").machines == 2
    for wrong in ("FFD", "SpreadWFD-Avg", "SpreadWFD-Avg-Decr0", "FFD-Avg-Hybrid1.5", "ffd-avg"):
        with pytest.raises(InputError, match=f"no algorithm '{wrong}'"):
            plan(HAND, Fleet.of([4]), wrong)


def test_applications_that_no_free_machine_can_hold_are_named():
    with pytest.raises(InputError, match="application 'a' needs 5"):
        plan(make_instance([1], [5]), Fleet.of([4]), "FF")
    with pytest.raises(InputError, match="application 'a': 1 replicas are left over"):
        plan(make_instance([2], [3]), Fleet(np.array([[4.0], [2.0]])), "NCD-L2Norm")


def test_progress_rises_to_the_end():
    shares: list[float] = []
    assert plan(HAND, Fleet.of([4]), "SpreadWFD-Avg-BinSearch", shares.append, time.monotonic() + 60).machines == 2
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


class SlowTrial:
    """Spreads by Avg, but for tries after the first: the deadline passes in them."""

    def __init__(self, trial):
        self.trial, self.tries = trial, 0

    def attempt(self, *arguments):
        self.tries += 1
        if self.tries > 1:
            raise TimeoutError
        return self.trial.attempt(*arguments)


def test_searches_keep_their_best_at_the_deadline_and_others_say_that_it_passed():
    instance = make_instance(
        [8, 8], [1, 3]
    )  # First-Fit: 2 machines full of a, 8 with a b each; b and a together need 8
    search = planner("SpreadWFD-Avg-BinSearch")
    slow = SlowTrial(search.trial)
    work = Workspace(instance, Fleet.of([4]))
    stopped = replace(search, trial=slow).pack(work, Watch())
    assert slow.tries == 2
    assert not stopped.left.any()
    assert stopped.open[0] == plan(instance, Fleet.of([4]), "FF").machines
    assert stopped.open[0] > plan(instance, Fleet.of([4]), "SpreadWFD-Avg-BinSearch").machines
    with pytest.raises(TimeoutError, match="no plan was found"):
        plan(HAND, Fleet.of([4]), "FF", deadline=time.monotonic() - 1)


# ---- any small instance


@st.composite
def problems(draw: st.DrawFn) -> tuple[Instance, Fleet]:
    """Up to 7 applications at 1 or 3 times; demand in tenths, up to a whole machine; limits on each other or itself."""
    count, times = draw(st.integers(1, 7)), draw(st.sampled_from([1, 3]))
    replicas = draw(st.lists(st.integers(1, 6), min_size=count, max_size=count))
    tenths = st.lists(st.integers(0, 60), min_size=count * times * 2, max_size=count * times * 2)
    demand = np.array(draw(tenths)).reshape(count, times, 2) / 10
    pairs = list(product(range(count), range(count)))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12))
    arcs = [(i, j, draw(st.integers(1 if i == j else 0, 3))) for i, j in chosen]
    kinds = draw(st.lists(st.sampled_from([6.0, 8.0]), min_size=1, max_size=3))
    return make_instance(replicas, demand, arcs), Fleet(np.array([[kind, 6.0] for kind in kinds]))


def counts_of(instance: Instance, fleet: Fleet, made: Plan) -> npt.NDArray[np.int64]:
    """(M, A) replicas by machine and application."""
    counts = np.zeros((max(made.machines, len(fleet.capacity)), len(instance)), np.int64)
    counts[made.machine, made.application] = made.replicas
    return counts


@settings(max_examples=200, deadline=None)
@given(problem=problems(), name=st.sampled_from(ALGORITHMS))
def test_every_replica_is_placed_and_nothing_is_broken(problem, name):
    instance, fleet = problem
    fleet = Fleet(np.array([*fleet.capacity, [8.0, 6.0]]))  # the endless ones hold anything
    verdict = validate(instance, fleet, plan(instance, fleet, name))
    assert verdict.feasible, verdict.examples
    assert verdict.missing == 0


@settings(max_examples=200, deadline=None)
@given(problem=problems(), name=st.sampled_from(REPLICA_BY_REPLICA))
def test_a_fixed_fleet_takes_replicas_until_none_fits(fits, problem, name):
    instance, fleet = problem
    fleet = Fleet(np.array([*fleet.capacity, [8.0, 6.0]]), fixed=True)
    made = plan(instance, fleet, name)
    verdict = validate(instance, fleet, made)
    assert verdict.feasible, verdict.examples
    counts = counts_of(instance, fleet, made)
    left = np.flatnonzero(instance.replicas - counts.sum(axis=0))
    for i, (held, capacity) in product(left, zip(counts, fleet.capacity, strict=True)):
        assert not fits(instance, held + (np.arange(len(held)) == i), capacity + 1e-6)


@settings(max_examples=30, deadline=None)
@given(problem=problems(), name=st.sampled_from(ALGORITHMS))
def test_plans_do_not_change_from_call_to_call(problem, name):
    instance, fleet = problem[0], Fleet.of([8, 6])
    first, second = plan(instance, fleet, name), plan(instance, fleet, name)
    for field in ("application", "machine", "replicas"):
        assert (getattr(first, field) == getattr(second, field)).all()
