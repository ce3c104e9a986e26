"""K-Medoids: by hand, scikit-learn's checks, backends against one another, bad input."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from tvwrl.ec.k_medoids import KMedoids
from tvwrl.types import InputError

LINE = np.array([[0.0], [1], [2], [10], [11], [13]])


def points(seed: int, count: int) -> np.ndarray:
    """Random points of three features."""
    return np.random.default_rng(seed).normal(size=(count, 3))


def test_by_hand() -> None:
    model = KMedoids(2, random_state=0).fit(LINE)
    # 1 is one from 0 and 2, 11 is one from 10 and two from 13.
    assert model.medoid_indices_.tolist() == [1, 4]
    assert model.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    assert model.cluster_centers_.tolist() == [[1], [11]]
    assert model.inertia_ == 5
    assert model.predict([[5.0], [7.0], [6.0]]).tolist() == [0, 1, 0]  # the first of equals


def test_precomputed_by_hand() -> None:
    model = KMedoids(2, metric="precomputed", random_state=0).fit(cdist(LINE, LINE))
    assert (model.medoid_indices_.tolist(), model.inertia_, model.cluster_centers_) == ([1, 4], 5, None)
    assert model.predict(cdist([[5.0], [7.0]], LINE)).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("k", "samples", "medoids", "loss"),
    [(1, LINE, [2], 2 + 1 + 8 + 9 + 11), (1, [[3.0, 4.0]], [0], 0), (6, LINE, [0, 1, 2, 3, 4, 5], 0)],
    ids=["the most central", "of one", "all"],
)
def test_one_cluster_and_as_many_as_samples(k: int, samples: object, medoids: list[int], loss: float) -> None:
    model = KMedoids(k, random_state=0).fit(samples)
    assert (model.medoid_indices_.tolist(), model.inertia_) == (medoids, loss)
    assert model.labels_[medoids].tolist() == list(range(k))


def test_fewer_distinct_samples_than_clusters() -> None:
    samples = np.repeat([[5.0], [0.0], [1.0]], 4, axis=0)
    for seed in range(20):
        with pytest.warns(ConvergenceWarning, match="3 distinct clusters for n_clusters=7"):
            model = KMedoids(7, random_state=seed).fit(samples)
        assert model.labels_.tolist() == [0] * 4 + [1] * 4 + [2] * 4
        assert model.predict([[0.9], [4.0]]).tolist() == [2, 0]
        assert model.inertia_ == 0


def test_no_end_within_the_passes_is_warned_of() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = KMedoids(9, max_iter=1, random_state=0).fit(points(0, 200))
    assert model.n_iter_ == 1


def test_more_starts_do_not_lose() -> None:
    samples = points(1, 150)
    losses = [KMedoids(8, n_init=n, random_state=3).fit(samples).inertia_ for n in (1, 5, 20)]
    assert losses == sorted(losses, reverse=True)
    first, again = (KMedoids(8, n_init=5, random_state=3).fit(samples) for _ in range(2))
    assert first.medoid_indices_.tolist() == again.medoid_indices_.tolist()


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 9), data=st.data())
def test_no_single_swap_lowers_the_loss(seed: int, count: int, data: st.DataObject) -> None:
    samples, k = points(seed, count), data.draw(st.integers(1, count))
    apart = cdist(samples, samples)
    model = KMedoids(k, random_state=seed).fit(samples)
    assert model.inertia_ == pytest.approx(apart[:, model.medoid_indices_].min(axis=1).sum())
    assert (model.labels_ == apart[:, model.medoid_indices_].argmin(axis=1)).all()
    for leaving, coming in itertools.product(range(k), range(count)):
        swapped = model.medoid_indices_.copy()
        swapped[leaving] = coming
        assert apart[:, swapped].min(axis=1).sum() >= model.inertia_ - 1e-9


def test_the_kmedoids_package_finds_the_same() -> None:
    pytest.importorskip("kmedoids")
    same = 0
    for seed in range(20):
        samples = points(seed, 60 + seed)
        both = [KMedoids(2 + seed // 2, backend=b, random_state=seed).fit(samples) for b in ("tvwrl", "kmedoids")]
        assert both[0].inertia_ == pytest.approx(both[1].inertia_)
        same += both[0].medoid_indices_.tolist() == both[1].medoid_indices_.tolist()
    assert same >= 15  # of a cluster of two either may be the medoid, which rounding decides


def test_scikit_learn_extra_is_as_good() -> None:
    pytest.importorskip("sklearn_extra.cluster", exc_type=(ImportError, ValueError))
    samples = points(0, 120)
    ours, theirs = (KMedoids(5, n_init=20, backend=b, random_state=0).fit(samples) for b in ("tvwrl", "sklearn-extra"))
    assert ours.inertia_ == pytest.approx(theirs.inertia_)
    assert ours.medoid_indices_.tolist() == theirs.medoid_indices_.tolist()


@pytest.mark.parametrize(
    ("backend", "module", "command"),
    [("sklearn-extra", "sklearn_extra.cluster", r"tvwrl\[sklx\]"), ("kmedoids", "kmedoids", "pip install kmedoids")],
)
def test_missing_backends_say_how_to_get_them(
    backend: str, module: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=command):
        KMedoids(2, backend=backend).fit(LINE)


def test_scikit_learn_checks() -> None:
    check_estimator(KMedoids(), on_skip=None)
    # That check passes features whatever the metric.
    expected = {"check_clustering": "needs square input"}
    check_estimator(KMedoids(metric="precomputed"), expected_failed_checks=expected, on_skip=None)


@pytest.mark.parametrize(
    ("parameters", "samples", "message"),
    [
        ({"n_clusters": 7}, LINE, "n_clusters=7 is more than n_samples=6"),
        ({"n_clusters": 0}, LINE, "n_clusters is 0: must be at least 1"),
        ({"metric": "cosine"}, LINE, "metric is 'cosine': must be one of euclidean, precomputed"),
        ({"backend": "pam"}, LINE, "backend is 'pam'"),
        ({"metric": "precomputed"}, LINE, r"shape \(6, 1\): must be square"),
        ({"metric": "precomputed"}, [[0.0, -1.0], [-1.0, 0.0]], "distance 0, 1 is -1.0, must be >= 0"),
        ({"metric": "precomputed"}, [[0.0, 1.0], [2.0, 0.0]], "distance 0, 1 is 1.0 and 1, 0 is 2.0"),
    ],
)
def test_bad_input(parameters: dict[str, object], samples: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        KMedoids(**{"n_clusters": 2, **parameters}).fit(samples)
