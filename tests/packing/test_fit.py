"""The rule for "fits" by hand: at the border, in every unit, compiled and in numpy alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.packing.booking import room_ahead, room_now
from tvwrl.packing.fit import (
    TOLERANCE,
    exceeds,
    first_lack,
    fits,
    has_room,
    lacks,
    most_that_fit,
    needed,
    replicas_that_fit,
)

UNITS = (1e-7, 1e-3, 1.0, 92.0, 1e12)


def test_three_workloads_on_two_machines_by_hand() -> None:
    # The first machine has 5 and 1 left of 8 and 8, the second 1 and 6 of 4 and 16.
    demand = np.array([[5.0, 1.0], [1.0, 6.0], [2.0, 2.0]])
    residual, capacity = np.array([[5.0, 1.0], [1.0, 6.0]]), np.array([[8.0, 8.0], [4.0, 16.0]])
    expected = [[True, False], [False, True], [False, False]]
    assert fits(demand[:, None], residual, capacity).tolist() == expected
    assert [[has_room(needed(demand, capacity), i, residual, m) for m in range(2)] for i in range(3)] == expected


def test_rounding_of_a_sum_is_no_lack_of_room() -> None:
    assert 0.1 + 0.2 > 0.3
    assert not exceeds(0.1 + 0.2, 0.3)
    assert not lacks(0.2, 0.3 - 0.1, 0.3)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("over", "room"), [(0.0, True), (TOLERANCE / 2, True), (3 * TOLERANCE, False)])
def test_the_border_is_a_share_of_the_capacity(unit: float, over: float, room: bool) -> None:
    demand, load, capacity = np.array([[(3.0 + 8 * over) * unit]]), 5.0 * unit, np.array([[8.0 * unit]])
    residual = capacity - load
    assert exceeds(load + demand[0, 0], capacity[0, 0]) != room
    assert has_room(needed(demand, capacity), 0, residual, 0) == room
    assert fits(demand, residual, capacity).tolist() == [room]
    assert room_now(np.array([[load]]), demand[0], capacity).tolist() == [room]
    assert room_ahead(np.full((1, 2, 1), load), 1, demand, capacity).tolist() == [room]


@pytest.mark.parametrize("unit", UNITS)
def test_three_thirds_fill_a_machine(unit: float) -> None:
    demand, capacity = np.array([[unit / 3]]), np.array([[unit]])
    assert most_that_fit(demand, needed(demand, capacity), 0, capacity, 0, 10) == 3
    assert replicas_that_fit(demand, capacity, capacity).tolist() == [3]
    two_thirds = capacity - demand[0] - demand[0]
    assert most_that_fit(demand, needed(demand, capacity), 0, two_thirds, 0, 10) == 1
    assert replicas_that_fit(demand, two_thirds, capacity).tolist() == [1]


def test_a_machine_that_is_switched_off_takes_what_needs_nothing() -> None:
    off = np.zeros((1, 1))
    assert lacks(1e-300, 0.0, 0.0)
    assert not lacks(0.0, 0.0, 0.0)
    assert replicas_that_fit(np.array([[1.0], [0.0]]), off, off).tolist() == [0, np.inf]


def test_the_smallest_machine_sets_the_tolerance_of_planners() -> None:
    demand, full = np.array([[2e-9]]), np.array([[0.0]])  # within the tolerance of 8, not within that of 1e-7
    assert has_room(needed(demand, np.array([[8.0]])), 0, full, 0)
    assert not has_room(needed(demand, np.array([[8.0], [1e-7]])), 0, full, 0)


@pytest.mark.parametrize("lacked", [0, 31, 32, 97])
def test_the_first_dimension_without_room_is_found(lacked: int) -> None:
    demand, residual = np.ones((1, 98)), np.ones((1, 98))
    assert first_lack(demand, 0, residual, 0) == 98
    residual[0, [lacked, 97]] = 0.5
    assert first_lack(demand, 0, residual, 0) == lacked


def test_every_dimension_counts_however_many() -> None:
    demand, capacity = np.full((1, 70), 1.0), np.full((1, 70), 1.0)
    for k in (0, 31, 32, 63, 64, 69):
        residual = np.ones((1, 70))
        residual[0, k] = 0.5
        assert not has_room(needed(demand, capacity), 0, residual, 0)
    assert has_room(needed(demand, capacity), 0, capacity, 0)


@given(st.integers(1, 20), st.integers(0, 200), st.integers(0, 40), st.sampled_from(UNITS))
def test_as_many_as_whole_numbers_say(size: int, room: int, most: int, unit: float) -> None:
    demand, residual, capacity = (np.array([[value * unit]]) for value in (size, room, 200))
    expected = min(room // size, most)
    assert most_that_fit(demand, needed(demand, capacity), 0, residual, 0, most) == expected
    assert min(replicas_that_fit(demand, residual, capacity)[0], most) == expected
