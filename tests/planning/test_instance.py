"""Instances and their affinity, by hand and against a plain dictionary."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.planning.instance import NO_LIMIT, Affinity, Fleet, Instance, check_fits
from tvwrl.types import InputError

Make = Callable[..., Instance]


def test_arcs_in_both_directions_and_self_limits(make: Make) -> None:
    affinity = make([1, 1, 1], np.ones((3, 2)), [(2, 0, 4), (0, 1, 0), (2, 2, 3), (1, 0, 2)]).affinity
    assert affinity.start.tolist() == [0, 1, 2, 4]
    assert affinity.to.tolist() == [1, 0, 0, 2]
    assert affinity.limit.tolist() == [0, 2, 4, 3]
    assert affinity.into_start.tolist() == [0, 2, 3, 4]
    assert affinity.into.tolist() == [1, 2, 0, 2]
    assert affinity.into_limit.tolist() == [2, 4, 0, 3]
    assert affinity.own.tolist() == [NO_LIMIT, NO_LIMIT, 3]
    assert len(affinity) == 4
    assert affinity.to.dtype == np.int32


def test_some_applications_alone_keep_the_limits_between_them(make: Make) -> None:
    instance = make([1, 2, 3], np.ones((3, 2)), [(0, 2, 5), (2, 2, 1), (1, 2, 7)])
    part = instance.only(np.array([0, 2]))
    assert part.replicas.tolist() == [1, 3]
    assert part.affinity.to.tolist() == [1, 1]
    assert part.affinity.limit.tolist() == [5, 1]


@given(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.data())))
def test_every_arc_is_found_both_ways(given_: tuple[int, st.DataObject]) -> None:
    applications, data = given_
    end = st.integers(0, applications - 1)
    arcs = data.draw(st.dictionaries(st.tuples(end, end), st.integers(1, 9)))
    i, j = (np.array([pair[n] for pair in arcs], np.int64) for n in range(2))
    affinity = Affinity.of(applications, i, j, np.array(list(arcs.values()), np.int64))
    for start, ends, limits, turned in (
        (affinity.start, affinity.to, affinity.limit, False),
        (affinity.into_start, affinity.into, affinity.into_limit, True),
    ):
        rows = np.repeat(np.arange(applications), np.diff(start)).tolist()
        found = zip(rows, ends.tolist(), limits.tolist(), strict=True)
        assert {((b, a) if turned else (a, b)): limit for a, b, limit in found} == arcs


@pytest.mark.parametrize(
    ("arcs", "message"),
    [
        ([(0, 1, 1), (0, 3, 1)], "affinity 1: j is 3: must be 0 to 2"),
        ([(-1, 1, 1)], "affinity 0: i is -1"),
        ([(0, 1, -2)], "affinity 0: limit is -2: must be at least 0"),
        ([(1, 1, 0)], "limit is 0: must be at least 1 for an application and itself"),
        ([(0, 1, 1), (1, 0, 1), (0, 1, 2)], "affinity 2: the limit of these two applications is given a second time"),
    ],
)
def test_impossible_affinity_is_refused(make: Make, arcs: list[tuple[int, int, int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make([1, 1, 1], np.ones((3, 2)), arcs)


def test_impossible_applications_are_refused(make: Make) -> None:
    with pytest.raises(InputError, match="replicas of application 'b' is 0: must be at least 1"):
        make([1, 0], [[1, 1], [1, 1]])
    with pytest.raises(InputError, match=r"mem of application 'a' is -1.0"):
        make([1], [[1, -1]])
    with pytest.raises(InputError, match=r"'b' needs 3, 9 \(cpu, mem\) per replica: larger than every machine"):
        check_fits(make([1, 1], [[1, 1], [3, 9]]), Fleet.of([4, 8]))
