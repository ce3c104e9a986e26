"""Best and worst fit by hand: the fullest or emptiest machine with room, by constant and by changing weights."""

from __future__ import annotations

import numpy as np
import pytest

from tvwrl.packing.best_fit_kernels import fit_by_passes, fit_by_sorting
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import SIZES


def fitted(problem, size, emptiest):
    """A packing of all applications, in the order of input."""
    packing, constant = problem.packing(problem.most_machines), size in ("Avg", "Max")
    orders = problem.ordering(packing, SIZES[size], emptiest, full_last=not constant)
    fit = fit_by_passes if constant else fit_by_sorting
    fit(problem.applications, packing, orders, problem.probes(packing), np.arange(len(problem.replicas)))
    return packing


@pytest.mark.parametrize("size", ["Avg", "AvgExp"])  # kept in order by passes, and by sorting
@pytest.mark.parametrize(("emptiest", "expected"), [(False, [{0: 1}, {1: 1, 2: 1}]), (True, [{0: 1, 2: 1}, {1: 1}])])
def test_the_third_goes_to_the_fullest_or_the_emptiest(make, held, check, size, emptiest, expected):
    # 5 of 8 leaves 3, 6 of 8 leaves 2: both have room for 1.
    problem = PackingProblem(make([1, 1, 1], [[5, 5], [6, 6], [1, 1]]), Fleet.of([8, 8]))
    packing = fitted(problem, size, emptiest)
    assert held(packing) == expected
    check(problem, packing)


def test_a_new_machine_opens_only_where_no_open_one_has_room(make, held):
    problem = PackingProblem(make([2, 2, 1], [[5, 1], [3, 1], [4, 4]], [(0, 2, 0)]), Fleet.of([8, 8]))
    packing = fitted(problem, "Avg", True)
    assert held(packing) == [{0: 1, 1: 1}, {0: 1, 1: 1}, {2: 1}]
