"""Booked load by hand and against brute force: what the ring holds, and where there is room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.packing.booking import book, residual_ahead, room_ahead, room_now

CAPACITY = np.array([[8.0, 8.0], [8.0, 8.0], [4.0, 16.0]])


def test_book_wraps_round_the_ring() -> None:
    ring = np.zeros((4, 2))
    book(ring, 6, np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 3)
    # Slots 6, 7, 8 are rows 2, 3, 0; row 1 (slot 9) stays free.
    assert ring.tolist() == [[5, 6], [0, 0], [1, 2], [3, 4]]
    book(ring, 7, np.array([[10.0, 10.0], [20.0, 20.0], [99.0, 99.0]]), 2)
    # Adds to rows 3 and 0 only: the third row of demand is beyond the length.
    assert ring.tolist() == [[25, 26], [0, 0], [1, 2], [13, 14]]


def test_room_now_by_hand() -> None:
    load = np.array([[5.0, 1.0], [6.0, 7.0], [1.0, 1.0]])
    # (3, 1): m0 reaches 8 of 8, m1 reaches 9 of 8, m2 reaches 4 of 4.
    assert room_now(load, np.array([3.0, 1.0]), CAPACITY).tolist() == [True, False, True]
    # (3, 8): m0 would need 9 of mem; m2 has 16.
    assert room_now(load, np.array([3.0, 8.0]), CAPACITY).tolist() == [False, False, True]
    assert room_now(load, np.array([4.0, 1.0]), CAPACITY).tolist() == [False, False, False]


def test_room_ahead_by_hand() -> None:
    load = np.zeros((3, 3, 2))
    load[0, 4 % 3] = 6, 0  # m0 is busy in slot 4
    load[1, 5 % 3] = 6, 0  # m1 in slot 5
    demand = np.array([[1.0, 1.0], [3.0, 1.0]])
    # From slot 4 on: m0 6 + 1 then 0 + 3; m1 0 + 1 then 6 + 3 = 9; m2 has 4 of cpu.
    assert room_ahead(load, 4, demand, CAPACITY).tolist() == [True, False, True]
    # From slot 3 on: m0 needs 6 + 3 = 9 in slot 4; m1 is busy only later.
    assert room_ahead(load, 3, demand, CAPACITY).tolist() == [False, True, True]
    # From slot 6 on the ring shows slot 3 + 3 = 6 in row 0, then slot 7 in row 1, which is m0's busy one.
    assert room_ahead(load, 6, demand, CAPACITY).tolist() == [False, True, True]


def test_residual_ahead_by_hand() -> None:
    load = np.zeros((3, 2, 2))
    load[0, 1] = 6, 8
    load[0, 0] = 9, 0  # above capacity: nothing is left, not less than nothing
    load[2, 0] = 1, 4
    # Slots 3 and 4 are rows 1 and 0. m0: 2/8 + 0 and 0 + 1; m1: 4 x 1; m2: 1 + 1 and 3/4 + 12/16.
    assert residual_ahead(load, 3, 2, CAPACITY) == pytest.approx([1.25, 4.0, 3.5])
    assert residual_ahead(load, 3, 1, CAPACITY) == pytest.approx([0.25, 2.0, 2.0])


@st.composite
def bookings(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, np.ndarray]], int, np.ndarray, np.ndarray]:
    """Horizon, bookings (machine, slot, demand) that lie in the ring from `now` on, now, a newcomer, capacities."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    horizon, machines, resources = (draw(st.integers(1, n)) for n in (6, 3, 3))
    now = draw(st.integers(0, 20))

    def life(first: int) -> np.ndarray:
        length = int(rng.integers(1, now + horizon - first + 1))
        return rng.integers(1, 5, (length, resources)).astype(float)

    booked = [(int(rng.integers(machines)), first, life(first)) for first in rng.integers(now, now + horizon, 4)]
    return horizon, booked, now, life(now), rng.integers(4, 12, (machines, resources)).astype(float)


@settings(max_examples=150, deadline=None)
@given(bookings())
def test_room_and_residual_ahead_against_brute_force(case: tuple) -> None:
    horizon, booked, now, newcomer, capacity = case
    machines, resources = capacity.shape
    ring = np.zeros((machines, horizon, resources))
    plain = np.zeros((machines, now + 2 * horizon, resources))  # the same load by slot, without a ring
    for machine, first, demand in booked:
        book(ring[machine], first, demand, len(demand))
        plain[machine, first : first + len(demand)] += demand
    life = slice(now, now + len(newcomer))
    room = [bool((plain[m, life] + newcomer <= capacity[m]).all()) for m in range(machines)]
    assert room_ahead(ring, now, newcomer, capacity).tolist() == room
    free = np.maximum(capacity[:, None] - plain[:, life], 0) / capacity[:, None]
    assert residual_ahead(ring, now, len(newcomer), capacity) == pytest.approx(free.sum(axis=(1, 2)))
