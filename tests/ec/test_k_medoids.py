"""K-Medoids: by hand, no swap left, backends against one another."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from tvwrl.ec.clustering import k_medoids
from tvwrl.types import InputError

LINE = np.array([[0.0], [1], [2], [10], [11], [13]])


def distances(seed: int, count: int) -> np.ndarray:
    """Among random points of three features."""
    points = np.random.default_rng(seed).normal(size=(count, 3))
    return cdist(points, points)


def loss(apart: np.ndarray, medoids: np.ndarray) -> float:
    """Summed distance of all samples to the nearest medoid."""
    return apart[:, medoids].min(axis=1).sum()


@pytest.mark.parametrize(
    ("k", "samples", "medoids"),
    [(2, LINE, [1, 4]), (1, LINE, [2]), (1, [[3.0, 4.0]], [0]), (6, LINE, [0, 1, 2, 3, 4, 5])],
    ids=["1 is one from 0 and 2, 11 one from 10 and two from 13", "the most central", "of one", "all"],
)
def test_by_hand(k: int, samples: object, medoids: list[int]) -> None:
    assert k_medoids(cdist(samples, samples), k).tolist() == medoids


def test_fewer_distinct_samples_than_groups() -> None:
    samples = np.repeat([[5.0], [0.0], [1.0]], 4, axis=0)
    for seed in range(20):
        with pytest.warns(UserWarning, match="3 groups instead of 7"):
            medoids = k_medoids(cdist(samples, samples), 7, seed)
        assert samples[medoids].ravel().tolist() == [5, 0, 1]


def test_no_end_within_the_passes_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="no end after 1 passes"):
        k_medoids(distances(0, 200), 9, passes=1)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 9), data=st.data())
def test_no_single_swap_lowers_the_loss(seed: int, count: int, data: st.DataObject) -> None:
    apart, k = distances(seed, count), data.draw(st.integers(1, count))
    medoids = k_medoids(apart, k, seed)
    assert medoids.tolist() == k_medoids(apart, k, seed).tolist()
    for leaving, coming in itertools.product(range(k), range(count)):
        swapped = medoids.copy()
        swapped[leaving] = coming
        assert loss(apart, swapped) >= loss(apart, medoids) - 1e-9


def test_the_kmedoids_package_finds_the_same() -> None:
    pytest.importorskip("kmedoids")
    same = 0
    for seed in range(20):
        apart = distances(seed, 60 + seed)
        ours, theirs = (k_medoids(apart, 2 + seed // 2, seed, backend) for backend in ("tvwrl", "kmedoids"))
        assert loss(apart, ours) == pytest.approx(loss(apart, theirs))
        same += ours.tolist() == theirs.tolist()
    assert same >= 15  # of a group of two either may be the medoid, which rounding decides


def test_scikit_learn_extra_is_as_good() -> None:
    pytest.importorskip("sklearn_extra.cluster", exc_type=(ImportError, ValueError))
    apart = distances(0, 120)
    best = [
        min((k_medoids(apart, 5, seed, backend) for seed in range(20)), key=lambda found: loss(apart, found)).tolist()
        for backend in ("tvwrl", "sklearn-extra")
    ]
    assert best[0] == best[1]


@pytest.mark.parametrize(
    ("backend", "module", "command"),
    [("sklearn-extra", "sklearn_extra.cluster", r"tvwrl\[sklx\]"), ("kmedoids", "kmedoids", r"tvwrl\[kmedoids\]")],
)
def test_missing_backends_say_how_to_get_them(
    backend: str, module: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=command):
        k_medoids(cdist(LINE, LINE), 2, backend=backend)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(InputError, match="backend is 'pam'"):
        k_medoids(cdist(LINE, LINE), 2, backend="pam")
