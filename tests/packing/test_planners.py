"""What the kernels of all planners share: no rule is broken, nothing is lost, and no plan beats the optimum."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.provisioning.instance import Fleet
from tvwrl.provisioning.measures import SCORES, SIZES, ByInput
from tvwrl.provisioning.packing_problem import PackingProblem
from tvwrl.provisioning.planners import (
    BestFit,
    BinSearch,
    FewestCandidates,
    Filling,
    FirstFit,
    Matching,
    Search,
    Spreading,
    Watch,
)

PLANNERS = [
    FirstFit(ByInput()),
    FewestCandidates(),
    *(BestFit(ByInput(), size, emptiest) for size in SIZES.values() for emptiest in (False, True)),
    *(Filling(score) for score in SCORES.values()),
    *(Search(Spreading(ByInput(), size), BinSearch()) for size in SIZES.values()),
    *(Search(Matching(score), BinSearch()) for score in SCORES.values()),
]


@pytest.mark.parametrize("planner", PLANNERS, ids=str)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_no_rule_is_broken(instances, check, fewest_machines, planner, data):
    instance = data.draw(instances())
    kinds = data.draw(st.lists(st.tuples(st.integers(3, 7), st.integers(3, 7)), max_size=3))
    fixed = data.draw(st.booleans())
    problem = PackingProblem(instance, Fleet.of_kinds([*kinds, (7, 7)], fixed=fixed))
    packing = planner.pack(problem, Watch())
    check(problem, packing)
    assert fixed or not packing.left.any()
    assert packing.left.any() or packing.open[0] >= fewest_machines(instance, Fleet.of([7, 7]))
