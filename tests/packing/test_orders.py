"""Orders of machines stay what a stable sort after every change would give."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.packing.orders import FULL, fall, refresh
from tvwrl.planning.instance import Fleet
from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.planning.planners import SIZES


def opened(make, machines, size="Avg"):
    """A packing of empty machines of 9 x 9 and their order, emptiest first. Applications need 1 of either at least."""
    problem = PackingProblem(make([1], [[1, 1]]), Fleet.of([9, 9]))
    packing = problem.packing(machines, opened=True)
    return packing, problem.ordering(packing, SIZES[size], True)


def positions(ordering):
    """All positions as they are read: two lists as if merged, the first of equals from the first list."""
    middle, count = int(ordering.middle[0]), int(ordering.count[0])
    lists = [*range(middle)], [*range(middle, count)]
    assert all(ordering.key[a] >= ordering.key[b] for part in lists for a, b in pairwise(part))
    return sorted([*lists[0], *lists[1]], key=lambda at: -ordering.key[at])


def fill(packing, ordering, chosen, demand):
    """Take `demand` from the machines at places `chosen`, as they are read."""
    at = np.array([place for n, place in enumerate(positions(ordering)) if n in chosen], np.int32)
    packing.residual[ordering.order[at]] -= demand
    fall(ordering, packing, at)


def machines_in_order(ordering):
    return [int(ordering.order[at]) for at in positions(ordering)]


def test_machines_fall_behind_fuller_ones_and_before_their_equals(make):
    packing, ordering = opened(make, 40)
    fill(packing, ordering, {0, 1}, [1, 1])
    assert machines_in_order(ordering) == [*range(2, 40), 0, 1]
    fill(packing, ordering, {0}, [1, 1])  # machine 2 has as much as 0 and 1 now, and was before them
    assert machines_in_order(ordering) == [*range(3, 40), 2, 0, 1]
    fill(packing, ordering, {37, 39}, [0, 2])
    assert machines_in_order(ordering) == [*range(3, 40), 0, 2, 1]


def test_machines_that_can_take_nothing_come_last(make):
    packing, ordering = opened(make, 3)
    fill(packing, ordering, {0}, [9, 0])
    fill(packing, ordering, {0}, [8, 8])
    assert machines_in_order(ordering) == [2, 1, 0]  # 9 of one resource are left on machine 0, but none of the other
    assert ordering.key[positions(ordering)[2]] == FULL


@pytest.mark.parametrize("size", ["Avg", "Max", "ExtendedSum"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_order_is_that_of_a_stable_sort_after_every_change(make, size, data):
    machines = data.draw(st.integers(1, 60))
    packing, ordering = opened(make, machines, size)
    expected = list(range(machines))
    for _ in range(data.draw(st.integers(1, 12))):
        chosen = data.draw(st.sets(st.integers(0, machines - 1), max_size=20))
        demand = np.array([data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))])
        room = {n for n in chosen if (packing.residual[expected[n]] >= demand).all()}
        fill(packing, ordering, room, demand)
        if data.draw(st.booleans()):
            ordering.total[:] = packing.residual.sum(axis=0)
            refresh(ordering, packing, 0, False)
        shares = packing.residual * ordering.weight
        key = shares.max(axis=1) if size == "Max" else shares[:, 0] + shares[:, 1]
        key[(packing.residual < 1).any(axis=1)] = FULL
        expected.sort(key=lambda m: -key[m])
        assert machines_in_order(ordering) == expected
