"""Placing whole applications by hand: all replicas or none, fragments shunned, residuals restored."""

from __future__ import annotations

import numpy as np
import pytest

from tvwrl.packing.lrasched_kernels import Fitness, improve, place_whole, scratch_for
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem


def opened(instance, *machines):
    """The problem, an empty open packing, and the fitness of a batch of all applications."""
    problem = PackingProblem(instance, Fleet.of_kinds(machines, fixed=True))
    packing = problem.packing(len(machines), opened=True)
    fitness = Fitness(problem.total.copy(), packing.residual.sum(axis=0), problem.demand.min(axis=0), 0.0)
    return problem, packing, fitness


def place(problem, packing, fitness, *order):
    return place_whole(problem.applications, packing, np.array(order), fitness, scratch_for(packing, problem.replicas))


def test_all_replicas_or_none(make, held, check):
    problem, packing, fitness = opened(make([2, 1, 2], [[5, 1], [2, 1], [3, 1]]), (8, 8), (4, 8))
    free = fitness.free.copy()
    assert place(problem, packing, fitness, 0) == 0  # two of 5 do not fit 8 and 4, so the first is taken back
    assert (fitness.free == free).all()
    assert (packing.residual == problem.kinds).all()
    assert place(problem, packing, fitness, 1, 2) == 2
    assert held(packing) == [{1: 1, 2: 1}, {2: 1}]  # beside b and c the first machine has less left than the second
    check(problem, packing)


@pytest.mark.parametrize(
    ("sign", "fragment", "machine"), [(1, 0.0, 0), (1, 1.0, 1), (-1, 0.0, 1), (-1, 1.0, 1)], ids=str
)
def test_a_machine_that_would_be_a_fragment_loses_fitness(make, sign, fragment, machine):
    # The first machine keeps 6, 1 beside a: a fragment for b's 1, 2. With negated demand the least fit is taken.
    problem, packing, fitness = opened(make([1, 1], [[4, 2], [1, 2]]), (10, 3), (6, 6))
    assert place(problem, packing, fitness._replace(demand=sign * problem.total, fragment=fragment), 0) == 1
    assert packing.machine[0] == machine


def test_improving_places_more_and_never_less(make, held, check):
    problem, packing, fitness = opened(make([1, 1, 1], [[6, 6], [5, 5], [5, 5]]), (10, 10))
    assert place(problem, packing, fitness, 0, 1, 2) == 1
    size, batch, spare = np.array([6.0, 5.0, 5.0]), np.arange(3), problem.packing(1, opened=True)
    scratch, rng = scratch_for(packing, problem.replicas), np.random.default_rng(0)
    assert improve(problem.applications, packing, spare, batch, size, fitness, scratch, 20, 3, rng)
    assert held(packing) == [{1: 1, 2: 1}]
    check(problem, packing)
    assert not improve(problem.applications, packing, spare, batch, size, fitness, scratch, 20, 3, rng)
    assert held(packing) == [{1: 1, 2: 1}]
