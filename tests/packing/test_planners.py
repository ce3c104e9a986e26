"""What every planner promises, on small generated problems, checked from the definition of the problem."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.packing.affinity import entries
from tvwrl.planning.base import Watch
from tvwrl.planning.instance import Fleet
from tvwrl.planning.lrasched import TwoPhase
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import (
    SCORES,
    SIZES,
    BestFit,
    BinSearch,
    ByInput,
    FewestCandidates,
    Filling,
    FirstFit,
    Matching,
    Search,
    Spreading,
)

FIRST_FIT = FirstFit(ByInput())
OPENING = [  # planners that open a machine when no open one can take a replica
    FIRST_FIT,
    FewestCandidates(),
    *(BestFit(ByInput(), size, emptiest) for size in SIZES.values() for emptiest in (False, True)),
    *(Filling(score) for score in SCORES.values()),
]
SEARCHING = [  # planners that start with as many machines as first fit
    *(Search(Spreading(ByInput(), size), BinSearch()) for size in SIZES.values()),
    *(Search(Matching(score), BinSearch()) for score in SCORES.values()),
]
IN_TWO_PHASES = [TwoPhase(), TwoPhase(batch=2, fragment=0.5, search=True), TwoPhase(first_fit=True)]
LARGEST = [7, 7]


def counts_of(packing, applications):
    """(open machines, A) replicas of each application on each machine."""
    application, machine, replicas = entries(packing)
    counts = np.zeros((packing.open[0], applications), np.int64)
    np.add.at(counts, (machine, application), replicas)
    return counts


@pytest.mark.parametrize("planner", [*OPENING, *SEARCHING, *IN_TWO_PHASES], ids=str)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_packings_of_generated_problems(instances, check, fits, fewest_machines, planner, data):
    instance = data.draw(instances())
    kinds = data.draw(st.lists(st.tuples(st.integers(3, 7), st.integers(3, 7)), max_size=3))
    fleet = Fleet.of_kinds([*kinds, LARGEST], fixed=data.draw(st.booleans()))
    problem = PackingProblem(instance, fleet)
    packing = planner.pack(problem, Watch())

    counts, capacity = counts_of(packing, len(instance)), fleet.rows(int(packing.open[0]))
    assert all(fits(instance, *machine) for machine in zip(counts, capacity, strict=True))
    assert (counts.sum(axis=0) + packing.left == instance.replicas).all()
    assert fleet.fixed or not packing.left.any()
    assert packing.left.any() or len(counts) >= fewest_machines(instance, Fleet.of(LARGEST))
    check(problem, packing)

    again = planner.pack(problem, Watch())
    np.testing.assert_array_equal(counts_of(again, len(instance)), counts)
    np.testing.assert_array_equal(again.residual[: len(counts)], packing.residual[: len(counts)])

    if planner in OPENING and (fleet.capacity >= instance.peak.max(axis=0)).all():
        pairs = combinations(range(len(counts)), 2)
        assert not [
            (m, n) for m, n in pairs if fits(instance, counts[m] + counts[n], capacity[m])
        ]  # n could be emptied
    if planner in SEARCHING:
        first = FIRST_FIT.pack(problem, Watch())
        assert packing.open[0] <= first.open[0]
        assert packing.left.sum() <= first.left.sum()
