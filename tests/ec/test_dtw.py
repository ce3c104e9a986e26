"""Dynamic time warping: by hand, against tslearn, and the nearest medoid against the full matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.ec.dtw import distance_scale, dtw_distances, mean_distance, nearest
from tvwrl.types import InputError

RADII = st.none() | st.integers(0, 25)


def one(*values: float) -> np.ndarray:
    """A series of one resource."""
    return np.array(values, dtype=np.float64)[:, None]


def walks(seed: int, count: int, longest: int, resources: int = 2) -> list[np.ndarray]:
    """Random walks of 1 to `longest` slots."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(rng.integers(1, longest + 1), resources)).cumsum(axis=0) for _ in range(count)]


def test_distances_by_hand() -> None:
    # Repeated points cost nothing; then 4 is paired with 3; then 0 with 1 and 0 with 3.
    assert dtw_distances([one(1, 2, 3)], [one(1, 2, 2, 3), one(1, 2, 2, 3, 4)]).tolist() == [[[0, 1]]]
    assert dtw_distances([one(0, 0)], [one(1, 3)])[0, 0, 0] == pytest.approx(np.sqrt(10))
    assert dtw_distances([one(2)], [one(1, 0, 5)])[0, 0, 0] == pytest.approx(np.sqrt(1 + 4 + 9))


@pytest.mark.parametrize(("radius", "expected"), [(0, np.sqrt(50)), (1, 5.0), (2, 0.0), (None, 0.0)])
def test_band_by_hand(radius: int | None, expected: float) -> None:
    # The rise from 0 to 5 comes two slots later; a band of one can make up for one of them, of none for none.
    late, early = one(0, 0, 0, 5), one(0, 5, 5, 5)
    assert dtw_distances([late], [early], radius=radius)[0, 0, 0] == pytest.approx(expected)


def test_band_leaves_the_longer_series_its_extra_slots() -> None:
    short, long = one(0, 5), one(0, 0, 0, 5)
    assert dtw_distances([short, long], [short, long], radius=0).tolist() == [[[0, 0], [0, 0]]]


def test_each_resource_is_warped_by_itself() -> None:
    x, y = np.array([[0.0, 0], [1, 0], [1, 1]]), np.array([[0.0, 0], [0, 1], [1, 1]])
    assert dtw_distances([x], [y]).tolist() == [[[0]], [[0]]]


def test_mean_distance_by_hand() -> None:
    per_resource = np.array([[[0.0, 6.0], [6.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    scale = distance_scale(per_resource, [4, 5])
    assert scale.tolist() == [2, 1]  # 6 by the root of 9 pairs; nothing apart in the second resource
    assert mean_distance(per_resource, [4, 5], [4, 5], scale).tolist() == [[0, 0.5], [0.5, 0]]
    # Twice as long and the same distance per pair is as far.
    assert mean_distance(per_resource * 2, [16, 20], [16, 20], scale)[0, 1] == 0.5 * 2 / 2


@pytest.mark.slow
@pytest.mark.outside  # tslearn compiles its kernels in every process
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), longest=st.sampled_from([1, 3, 12, 30]), radius=RADII)
def test_equals_tslearn(seed: int, longest: int, radius: int | None) -> None:
    pytest.importorskip("tslearn")
    series, others = walks(seed, 4, longest), walks(seed + 1, 3, longest)
    for second in (None, others):
        ours = dtw_distances(series, second, radius=radius)
        theirs = dtw_distances(series, second, radius=radius, backend="tslearn", threads=1)
        assert ours.shape == theirs.shape == (2, 4, 4 if second is None else 3)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), longest=st.integers(1, 60), radius=st.integers(0, 40))
def test_properties(seed: int, longest: int, radius: int) -> None:
    series = walks(seed, 5, longest)
    banded = dtw_distances(series, radius=radius)
    assert np.array_equal(banded, dtw_distances(series, series, radius=radius))
    assert np.array_equal(banded, banded.transpose(0, 2, 1))
    assert (np.diagonal(banded, axis1=1, axis2=2) == 0).all()
    wider = dtw_distances(series, radius=radius + 1)
    free = dtw_distances(series)
    assert (banded >= wider * (1 - 1e-12)).all()
    assert (wider >= free * (1 - 1e-12)).all()
    assert np.array_equal(dtw_distances(series, radius=longest), free)
    backwards = dtw_distances([s[::-1] for s in series], radius=radius)
    np.testing.assert_allclose(backwards, banded, rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), longest=st.sampled_from([1, 4, 30, 90]), radius=RADII, rounded=st.booleans())
def test_nearest_equals_the_full_matrix(seed: int, longest: int, radius: int | None, rounded: bool) -> None:
    series, medoids = walks(seed, 12, longest), walks(seed + 1, 5, longest)
    if rounded:  # many equal distances
        series, medoids = [s.round() for s in series], [s.round() for s in medoids]
    medoids += [medoids[1], series[0]]
    scale = np.random.default_rng(seed).uniform(0.1, 3, 2)
    index, distance = nearest(series, medoids, scale, radius)
    lengths = [[len(s) for s in group] for group in (series, medoids)]
    full = mean_distance(dtw_distances(series, medoids, radius=radius), *lengths, scale)
    assert index.tolist() == full.argmin(axis=1).tolist()
    np.testing.assert_allclose(distance, full.min(axis=1), rtol=1e-12, atol=0)
    assert distance[0] == 0


def test_number_of_threads_changes_nothing() -> None:
    series = walks(0, 80, 40)
    for radius in (None, 3):
        by_one, by_four = (dtw_distances(series, radius=radius, threads=threads) for threads in (1, 4))
        assert np.array_equal(by_one, by_four)
        found = [nearest(series, series[:5], np.ones(2), radius, threads=threads) for threads in (1, 4)]
        assert np.array_equal(found[0][0], found[1][0])
        assert np.array_equal(found[0][1], found[1][1])


def spoilt(value: float) -> np.ndarray:
    """Four slots of two resources with `value` in slot 2 of the second."""
    series = np.ones((4, 2))
    series[2, 1] = value
    return series


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda good: dtw_distances([]), "at least one workload"),
        (lambda good: dtw_distances([good], []), "at least one other workload"),
        (lambda good: dtw_distances([good, np.empty((0, 2))]), r"workload 1: its series has shape \(0, 2\)"),
        (lambda good: dtw_distances([good, spoilt(np.nan)]), "workload 1, slot 2, resource 1"),
        (lambda good: dtw_distances([good], [spoilt(-np.inf)]), "other workload 0, slot 2, resource 1: usage is -inf"),
        (lambda good: dtw_distances([good], [good[:, :1]]), r"other workload 0: .*\(4, 1\), must be \(length, 2\)"),
        (lambda good: dtw_distances([good], radius=-1), "radius of the band is -1"),
        (lambda good: dtw_distances([good], radius=1.5), "radius of the band is 1.5"),
        (lambda good: dtw_distances([good], backend="other"), "backend is 'other': must be one of tvwrl, tslearn"),
        (lambda good: nearest([good], [], np.ones(2)), "at least one medoid"),
        (lambda good: nearest([good, spoilt(np.nan)], [good], np.ones(2)), "workload 1, slot 2, resource 1"),
        (lambda good: nearest([good], [good], np.array([1.0, 0.0])), "must be 2 finite numbers > 0"),
    ],
)
def test_bad_input(call: Callable[[np.ndarray], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(np.ones((4, 2)))
