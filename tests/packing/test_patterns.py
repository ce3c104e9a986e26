"""The most valuable patterns of a machine, against trying everything."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.packing.fit import enlarged, needed
from tvwrl.packing.patterns import Machine, all_patterns, best_pattern

MANY = 10**9


def machine(room, demand, high, value, limit=(), low=None):
    """Value of each copy, and limits (i, j, most of j beside i)."""
    room, demand, high = np.array(room, float), np.array(demand, float), np.array(high)
    limits = np.full((len(high),) * 2, MANY)
    for i, j, most in limit:
        limits[i, j] = most
    worth = np.array(value, float)[:, None] * np.arange(high.max(initial=0) + 1)
    low = np.zeros_like(high) if low is None else np.array(low)
    return Machine(room, enlarged(room) - room, demand, needed(demand, room[None]), low, high, limits, worth)


def everything(p):
    """All patterns that the machine may hold."""
    for copies in itertools.product(*(range(int(a), int(b) + 1) for a, b in zip(p.low, p.high, strict=True))):
        held = np.array(copies)
        limits = all(held[j] <= p.limit[i, j] for i in range(len(held)) for j in range(len(held)) if held[i] and i != j)
        if limits and (held @ p.demand <= p.room * (1 + 1e-9)).all():
            yield copies


def test_by_hand():
    p = machine([10, 10], [[4, 1], [3, 5], [3, 3]], [3, 2, 1], [4, 5, 3])
    found, value, bound = best_pattern(p, 1000)
    assert (found.tolist(), value, bound) == ([1, 1, 1], 12, 12)  # 10 of 10, and 9 of 10
    apart = machine([10, 10], [[4, 1], [3, 5], [3, 3]], [3, 2, 1], [4, 5, 3], [(0, 1, 0)])
    assert best_pattern(apart, 1000)[1] == 10  # the first cannot be beside the second: two of that, or of 8 and 7
    alone = machine([10, 10], [[4, 1], [3, 5], [3, 3]], [3, 2, 1], [4, 5, 3], low=[2, 0, 0])
    assert best_pattern(alone, 1000)[0].tolist() == [2, 0, 0]


def test_a_search_that_is_cut_off_still_bounds():
    p = machine([50], np.linspace(2.1, 3.9, 12)[:, None], [5] * 12, np.linspace(1, 2, 12))
    _, value, bound = best_pattern(p, 40)
    assert value <= best_pattern(p, MANY)[1] <= bound
    assert value < bound


@st.composite
def machines(draw):
    count = draw(st.integers(1, 4))
    small = st.integers(0, 5)
    demand = draw(st.lists(st.tuples(small, small), min_size=count, max_size=count))
    high = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), st.integers(0, 2))
    limit = [(i, j, most) for i, j, most in draw(st.lists(pair, max_size=3)) if i != j]
    return machine([8, 9], demand, high, draw(st.lists(small, min_size=count, max_size=count)), limit)


@given(machines(), st.integers(0, 12))
@settings(max_examples=150)
def test_nothing_is_worth_more_and_nothing_is_missed(p, least):
    tried = set(everything(p))
    worth = {one: sum(p.value[i, n] for i, n in enumerate(one)) for one in tried}
    found, value, bound = best_pattern(p, MANY)
    assert tuple(found) in tried
    assert value == bound == max(worth.values())
    listed, whole = all_patterns(p, float(least), 5000, MANY)
    maximal = {
        one
        for one in tried
        if not any(tuple(np.add(one, np.eye(len(one), dtype=int)[i])) in tried for i in range(len(one)))
    }
    assert whole
    assert {tuple(one) for one in listed.tolist()} == {one for one in maximal if worth[one] >= least}
