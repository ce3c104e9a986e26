"""Spreading by hand: replicas of an application one by one over all machines, the emptiest first."""

from __future__ import annotations

import numpy as np

from tvwrl.packing.spreading import spread
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import SIZES


def attempt(problem, machines, size="Avg", partly=False):
    """A packing of `machines` machines, and whether everything was placed (or `partly` allows leftovers)."""
    packing = problem.packing(machines, opened=True)
    orders, taken = problem.ordering(packing, SIZES[size], True), np.empty(machines, np.int32)
    return packing, spread(problem.applications, packing, orders, np.arange(len(problem.replicas)), taken, partly)


def test_replicas_go_round_from_the_emptiest_machine_on(make, held, check):
    # a goes to the first; b to the second, then the first; of c two fit the emptier second machine, in two rounds.
    problem = PackingProblem(make([1, 2, 3], [[3, 3], [2, 2], [1, 1]]), Fleet.of([8, 8]))
    packing, _ = attempt(problem, 2)
    assert held(packing) == [{0: 1, 1: 1, 2: 1}, {1: 1, 2: 2}]
    check(problem, packing)


def test_self_limits_end_the_rounds(make):
    problem = PackingProblem(make([3], [[1, 1]], [(0, 0, 1)]), Fleet.of([8, 8]))
    assert not attempt(problem, 2)[1]
    assert attempt(problem, 2, partly=True)[0].left.tolist() == [1]
    assert attempt(problem, 3)[1]
