"""The number of classes: silhouettes by hand and against scikit-learn, the best k, and too few workloads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

from tvwrl.ec import Population
from tvwrl.ec.clustering import search_k, silhouette
from tvwrl.ec.representations import REPRESENTATIONS, make_representation
from tvwrl.types import InputError


def test_silhouette_by_hand() -> None:
    # Points 0, 1 and 10, 11 on a line. Of 0: own group 1 away, the other (10 + 11) / 2; of 1: 1 and (9 + 10) / 2.
    points = np.array([0.0, 1.0, 10.0, 11.0])
    distances = np.abs(points[:, None] - points)
    expected = np.mean([1 - 1 / 10.5, 1 - 1 / 9.5] * 2)
    assert silhouette(distances, np.array([0, 0, 1, 1])) == pytest.approx(expected)
    # A group of one counts 0: 0 stands at 1 from the middle of ... its own 1, and at 10 from the single one.
    assert silhouette(distances[:3, :3], np.array([0, 0, 1])) == pytest.approx(np.mean([0.9, 1 - 1 / 9, 0.0]))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_silhouette_is_that_of_scikit_learn(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(30, 3))
    groups = np.append(np.arange(k), rng.integers(0, k, 30 - k))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    assert silhouette(distances, groups) == pytest.approx(silhouette_score(distances, groups, metric="precomputed"))


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_the_kinds_are_found(name: str, four_kinds: Population) -> None:
    found = make_representation(name).fit(four_kinds)
    search = search_k(found, range(3, 8), 10)
    assert search.silhouettes.shape == (5, 10)
    assert search.k == search.ks[int(search.silhouettes.mean(axis=1).argmax())]
    # Whatever k is best, a class never mixes low with high ones.
    low, high = set(search.groups[:8]), set(search.groups[8:16])
    assert not low & high
    again = search_k(make_representation(name).fit(four_kinds), range(3, 8), 10)
    assert np.array_equal(search.groups, again.groups)
    assert np.array_equal(search.silhouettes, again.silhouettes)


def test_temporal_features_tell_daily_from_restless(four_kinds: Population) -> None:
    search = search_k(make_representation("temporal").fit(four_kinds), [4], 20)
    assert [len(set(search.groups[8 * i : 8 * i + 8])) for i in range(4)] == [1] * 4
    assert len(set(search.groups)) == 4


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_too_few_workloads_to_choose_from(name: str, four_kinds: Population) -> None:
    three = four_kinds.select([0, 8, 16])
    with pytest.raises(InputError, match="3 workloads, 3 of them distinct, cannot be divided into 3 to 15 classes"):
        search_k(make_representation(name).fit(three), range(3, 16), 2)
    copies = four_kinds.select([0, 0, 0, 0, 8, 8, 16])
    with pytest.raises(InputError, match="7 workloads, 3 of them distinct"):
        search_k(make_representation(name).fit(copies), [5], 2)


def test_unknown_representation() -> None:
    with pytest.raises(InputError, match="representation is 'shape': must be one of aggregate, temporal, dtw"):
        make_representation("shape")
