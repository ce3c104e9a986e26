"""The bookkeeping of planners by hand: limits by machine in both directions, placing, opening machines."""

from __future__ import annotations

import numpy as np

from tvwrl.packing.affinity import (
    UNLIMITED,
    degrees,
    forget_limits,
    limit_machines,
    open_next,
    own_limits,
    put,
    settle,
)
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem


def place(problem, packing, rows):
    for i, m, count in rows:
        put(problem.applications, packing, i, m, count)
        settle(packing, i)


def test_placing_books_demand_and_counts_replicas(make, held, check):
    fleet = Fleet.of_kinds([[8, 8], [4, 4]], fixed=True)
    problem = PackingProblem(make([3, 1, 1], [[2, 1], [1, 3], [1, 1]]), fleet)
    packing = problem.packing(2, opened=True)
    place(problem, packing, [(0, 0, 2), (1, 0, 1), (2, 1, 1)])
    assert held(packing) == [{0: 2, 1: 1}, {2: 1}]
    assert packing.residual.tolist() == [[3, 3], [3, 3]]
    assert packing.left.tolist() == [1, 0, 0]
    assert packing.most.tolist() == [2, 1, 1]
    check(problem, packing)


def test_limits_bind_in_both_directions(make):
    # Two replicas of a on the first machine, one of c on the second. b beside a: at most 1; a beside b: at most 1, so
    # none of b may join two of a. c allows 2 of b.
    arcs = [(0, 1, 1), (1, 0, 1), (2, 1, 2)]
    problem = PackingProblem(make([2, 4, 1], [[1, 1]] * 3, arcs), Fleet.of([8, 8]))
    packing = problem.packing(3, opened=True)
    place(problem, packing, [(0, 0, 2), (2, 1, 1)])
    looked = limit_machines(problem.applications, packing, 1, 4)
    assert packing.cap.tolist() == [0, 2, UNLIMITED]
    forget_limits(problem.applications, packing, 1, looked)
    assert (packing.cap == UNLIMITED).all()
    limit_machines(problem.applications, packing, 1, 2)  # who wants but two is not limited by 2
    assert packing.cap.tolist() == [0, UNLIMITED, UNLIMITED]


def test_machines_open_in_order_until_none_is_large_enough(make):
    problem = PackingProblem(make([1, 1], [[6, 1], [3, 1]]), Fleet(np.array([[8.0, 8.0], [4.0, 4.0]])))
    packing = problem.packing(3)
    opened = [open_next(problem.applications, packing, 0) for _ in range(2)]
    assert opened == [True, False]  # all machines from the second on are too small for 6
    assert [open_next(problem.applications, packing, 1) for _ in range(3)] == [True, True, False]  # there are three
    assert packing.residual.tolist() == [[8, 8], [4, 4], [4, 4]]


def test_own_limits_and_degrees(make):
    arcs = [(0, 0, 2), (0, 1, 1), (1, 0, 3), (2, 1, 0)]
    problem = PackingProblem(make([1, 1, 1], [[1, 1]] * 3, arcs), Fleet.of([8, 8]))
    a = problem.applications
    assert own_limits(a.start, a.to, a.limit).tolist() == [2, UNLIMITED, UNLIMITED]
    assert degrees(a).tolist() == [1, 2, 1]  # arcs both ways count once, those to itself not at all
