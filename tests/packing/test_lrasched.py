"""Placing whole applications by hand: all replicas or none, fragments shunned, residuals restored."""

from __future__ import annotations

import numpy as np
import pytest

from tvwrl.packing.lrasched import Fitness, improve, place_whole, scratch_for
from tvwrl.provisioning.instance import Fleet
from tvwrl.provisioning.workspace import Workspace


def opened(instance, *machines):
    """Workspace, empty open packing, and the fitness of a batch of all applications."""
    work = Workspace(instance, Fleet(np.array(machines, np.float64), fixed=True))
    packing = work.packing(len(machines), opened=True)
    return work, packing, Fitness(work.total.copy(), packing.residual.sum(axis=0), work.demand.min(axis=0), 0.0)


def place(work, packing, fitness, *order):
    return place_whole(work.applications, packing, np.array(order), fitness, scratch_for(packing, work.replicas))


def test_all_replicas_or_none(make, held, check):
    work, packing, fitness = opened(make([2, 1, 2], [[5, 1], [2, 1], [3, 1]]), (8, 8), (4, 8))
    free = fitness.free.copy()
    assert place(work, packing, fitness, 0) == 0  # two of 5 do not fit 8 and 4, so the first is taken back
    assert (fitness.free == free).all()
    assert (packing.residual == work.kinds).all()
    assert place(work, packing, fitness, 1, 2) == 2
    assert held(packing) == [{1: 1, 2: 1}, {2: 1}]  # beside b and c the first machine has less left than the second
    check(work, packing)


@pytest.mark.parametrize(
    ("sign", "fragment", "machine"), [(1, 0.0, 0), (1, 1.0, 1), (-1, 0.0, 1), (-1, 1.0, 1)], ids=str
)
def test_a_machine_that_would_be_a_fragment_loses_fitness(make, sign, fragment, machine):
    # The first machine keeps 6, 1 beside a: a fragment for b's 1, 2. With negated demand the least fit is taken.
    work, packing, fitness = opened(make([1, 1], [[4, 2], [1, 2]]), (10, 3), (6, 6))
    assert place(work, packing, fitness._replace(demand=sign * work.total, fragment=fragment), 0) == 1
    assert packing.machine[0] == machine


def test_improving_places_more_and_never_less(make, held, check):
    work, packing, fitness = opened(make([1, 1, 1], [[6, 6], [5, 5], [5, 5]]), (10, 10))
    assert place(work, packing, fitness, 0, 1, 2) == 1
    size, batch, spare = np.array([6.0, 5.0, 5.0]), np.arange(3), work.packing(1, opened=True)
    scratch, rng = scratch_for(packing, work.replicas), np.random.default_rng(0)
    assert improve(work.applications, packing, spare, batch, size, fitness, scratch, 20, 3, rng)
    assert held(packing) == [{1: 1, 2: 1}]
    check(work, packing)
    assert not improve(work.applications, packing, spare, batch, size, fitness, scratch, 20, 3, rng)
    assert held(packing) == [{1: 1, 2: 1}]
