"""Changes of a plan that runs, by hand: who stays, who is away, who comes."""

from __future__ import annotations

import numpy as np
import pytest

from tvwrl.packing.contents import contents_of
from tvwrl.packing.running import admit, put_back, replicas_away, replicas_on, return_home
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem

NOTHING = (np.zeros(0, np.int64),) * 3


@pytest.fixture
def running(make):
    """Machines of 4 for three of a (2 each) and one of b (3), with homes: two of a on 0, one on 1, b on 2."""
    problem = PackingProblem(make([3, 1], [[2.0], [3.0]]), Fleet.of_kinds([[4.0]], [3], fixed=True))
    homes = np.array([0, 0, 1]), np.array([0, 1, 2]), np.array([2, 1, 1])
    kind, number = np.zeros(3, np.int64), np.arange(3)
    return problem.applications, contents_of(problem.applications, problem.kinds[:1], kind, number, NOTHING, 4, homes)


def held(s):
    """Replicas of a and b by machine."""
    return [(int(replicas_on(s, 0, m)), int(replicas_on(s, 1, m))) for m in range(3)]


def test_what_runs_is_put_back_as_far_as_it_fits(running):
    a, s = running
    assert put_back(a, s, np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([2, 1, 1])).tolist() == [0, 1]
    assert held(s) == [(2, 0), (1, 0), (0, 0)]
    assert s.pool[: s.unplaced[0]].tolist() == [1]


def test_replicas_are_away_and_return_to_machines_in_use(running):
    a, s = running
    put_back(a, s, np.array([0, 0]), np.array([0, 2]), np.array([1, 2]))
    size = np.array([1, 5])
    assert replicas_away(s, size) == 2 + 5  # one of a each from 0 and 1, and b with the five of a copy
    while return_home(a, s):
        pass
    assert held(s) == [(2, 0), (0, 0), (1, 0)]  # nobody opens the empty machine again
    assert replicas_away(s, size) == 1 + 5


def test_arrivals_go_to_the_fullest_machine(running):
    a, s = running
    put_back(a, s, np.array([0, 1]), np.array([0, 2]), np.array([1, 1]))
    assert admit(a, s, 0, 1, 9) == 0  # 2 of 4 is fuller than nothing
    assert admit(a, s, 0, 1, 9) == 1
    assert admit(a, s, 1, 0, 9) == -1
    assert held(s) == [(2, 0), (1, 0), (0, 1)]
