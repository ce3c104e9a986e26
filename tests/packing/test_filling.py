"""Filling one machine after another by hand: scores, limits of what is on the machine, when it is full."""

from __future__ import annotations

import numpy as np
import pytest

from tvwrl.packing.affinity import UNLIMITED
from tvwrl.packing.filling import limit_neighbours, pull
from tvwrl.planning.instance import Fleet
from tvwrl.planning.measures import SCORES
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import Filling, Watch


def test_pull_by_hand(make):
    problem = PackingProblem(make([1], [[2, 1]]), Fleet.of([4, 8]))
    residual, total, f = np.array([[2.0, 8.0]]), np.array([10.0, 16.0]), np.empty(2)
    expected = {"DotProduct": [2 / 16, 8 / 64], "Fitness": [2 / 2 / 10, 8 / 1 / 16], "TightFill": [1 / 2, 1 / 8]}
    for name, values in expected.items():
        pull(SCORES[name].score(problem), residual, 0, total, f)
        assert f == pytest.approx(values), name


def test_the_best_score_goes_first_and_as_often_as_it_fits(make, held, check):
    # Dot product on an empty machine of 8, 8: a 4 + 4, b 3 + 3, c 1 + 1 (times 8). Two of a fill it; then two of b and
    # c, twice.
    problem = PackingProblem(make([2, 2, 3], [[4, 4], [3, 3], [1, 1]]), Fleet.of([8, 8]))
    packing = Filling(SCORES["DotProduct"]).pack(problem, Watch())
    assert held(packing) == [{0: 2}, {1: 2, 2: 2}, {2: 1}]
    check(problem, packing)


def test_what_is_there_limits_what_comes_and_must_allow_it(make):
    # Two of a are there: b may come once by a -> b; c allows one of a, so it may not come.
    problem = PackingProblem(make([2, 2, 1], [[1, 1]] * 3, [(0, 1, 1), (2, 0, 1)]), Fleet.of([8, 8]))
    cap, touched = np.full(3, UNLIMITED, np.int32), np.empty(3, np.int32)
    count = limit_neighbours(problem.applications, 0, 2, cap, touched, np.int64(0))
    assert cap.tolist() == [UNLIMITED, 1, 0]
    assert sorted(touched[:count].tolist()) == [1, 2]
