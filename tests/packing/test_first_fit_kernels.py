"""First fit by hand, and Medea's rule of the fewest candidates."""

from __future__ import annotations

import numpy as np

from tvwrl.packing.first_fit_kernels import first_fit, new_row
from tvwrl.planning.base import Watch
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import ByInput, FewestCandidates, FirstFit

FLEET = Fleet(np.array([[8.0, 8.0], [4.0, 8.0]]))


def test_the_first_machine_with_room_takes_as_many_as_fit(make, held, check):
    # a: one of 5 on the first machine, which leaves 3; the second has 4, as all after it: two of b, then c of 1 goes to
    # the first machine again.
    problem = PackingProblem(make([1, 3, 2], [[5, 1], [2, 1], [1, 1]]), FLEET)
    packing = problem.packing(problem.most_machines)
    first_fit(problem.applications, packing, new_row(problem.applications, packing), np.arange(3))
    assert held(packing) == [{0: 1, 1: 1, 2: 1}, {1: 2}, {2: 1}]
    check(problem, packing)


def test_limits_send_replicas_further(make, held):
    problem = PackingProblem(make([1, 2, 2], [[1, 1]] * 3, [(0, 1, 0), (2, 2, 1)]), FLEET)
    packing = FirstFit(ByInput()).pack(problem, Watch())
    assert held(packing) == [{0: 1, 2: 1}, {1: 2, 2: 1}]


def test_the_application_with_the_fewest_candidates_is_next(make, held):
    # b has most neighbours and goes first; it excludes c, which lost its only machine so far: c comes before a.
    problem = PackingProblem(make([1, 1, 1], [[8, 8], [8, 1], [1, 8]], [(1, 2, 0), (1, 0, 5)]), Fleet.of([8, 8]))
    packing = FewestCandidates().pack(problem, Watch())
    assert held(packing) == [{1: 1}, {0: 1}, {2: 1}]
