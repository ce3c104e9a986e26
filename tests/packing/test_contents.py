"""What is on each machine, by hand: entries come and go, residuals follow, a packing is taken over whole."""

from __future__ import annotations

import numpy as np
import pytest

from tvwrl.packing.affinity import UNLIMITED, entries
from tvwrl.packing.contents import add, clear_limits, contents_of, drop_empty_entries, remove, set_limits, unplace
from tvwrl.planning.base import Watch
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import ByInput, FirstFit


@pytest.fixture
def packed(make):
    """Machines of 8 that hold two of a and one of b, and two of c; the third c is unplaced."""
    problem = PackingProblem(
        make([2, 1, 3], [[3, 1], [1, 2], [4, 1]], [(0, 1, 2), (2, 0, 1)]), Fleet.of_kinds([[8, 8]], [2], fixed=True)
    )
    packing = FirstFit(ByInput()).pack(problem, Watch())
    kind, number = np.zeros(3, np.int64), np.arange(2)
    return problem.applications, contents_of(
        problem.applications, problem.kinds[:1], kind, number, entries(packing), spare=1
    )


def listed(s):
    """Application -> replicas, by machine."""
    return [{int(s.application[m, w]): int(s.count[m, w]) for w in range(s.kinds[m])} for m in range(s.open[0])]


def test_a_packing_is_taken_over(packed):
    _, s = packed
    assert listed(s) == [{0: 2, 1: 1}, {2: 2}]
    assert s.pool[: s.unplaced[0]].tolist() == [2]
    assert sorted(map(sorted, s.residual.tolist())) == [[0, 6], [1, 4], [8, 8]]


def test_entries_come_and_go(packed):
    a, s = packed
    before = s.residual.copy()
    unplace(a, s, 0, 0, 2)
    drop_empty_entries(s, 0)
    assert listed(s)[0] == {1: 1}
    assert s.pool[: s.unplaced[0]].tolist() == [2, 0, 0]
    assert add(a, s, 0, 0, 1)
    assert add(a, s, 0, 0, 1)
    assert listed(s)[0] == {1: 1, 0: 2}
    np.testing.assert_allclose(s.residual, before)
    remove(a, s, 1, 0, 1)
    assert listed(s)[1] == {2: 1}


def test_a_machine_without_a_free_entry_takes_no_further_application(packed):
    a, s = packed
    assert add(a, s, 2, 0, 1)  # the one that is spare
    before = s.residual.copy()
    s.application[0, 2] = 9
    assert not add(a, s, 2, 0, 1)
    assert (s.residual == before).all()


def test_limits_are_set_and_cleared(packed):
    a, s = packed
    set_limits(a, s, 0)
    assert s.allows.tolist() == [UNLIMITED, UNLIMITED, 1]  # c allows one of a
    assert s.bears.tolist() == [UNLIMITED, 2, UNLIMITED]  # a allows two of b
    clear_limits(a, s, 0)
    assert (s.allows == UNLIMITED).all()
    assert (s.bears == UNLIMITED).all()
