"""Whether classes are found again: the index by hand, clear kinds, and kinds that are none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tvwrl.ec import REPRESENTATIONS, Population
from tvwrl.ec.clustering import search_k
from tvwrl.ec.representations import make_representation
from tvwrl.ec.stability import KEPT, RESAMPLES, SEEDS, STABLE, Stability, adjusted_rand, stability


def test_the_index_by_hand() -> None:
    # Of 6 pairs 2 are together in either, none in both; by chance 2 * 2 / 6 would be, of (2 + 2) / 2 at most.
    assert adjusted_rand(np.array([1, 1, 2, 2]), np.array([1, 2, 1, 2])) == pytest.approx((0 - 2 / 3) / (2 - 2 / 3))
    assert adjusted_rand(np.array([1, 1, 2, 2]), np.array([7, 7, 0, 0])) == 1
    assert adjusted_rand(np.array([1, 1, 2, 2]), np.array([1, 1, 1, 1])) == 0


@pytest.mark.parametrize("name", ["temporal", "dtw"])  # aggregate features tell durations too
def test_clear_kinds_are_found_again(name: str, four_kinds: Population) -> None:
    found = make_representation(name).fit(four_kinds)
    labels = search_k(found, [4], 5).groups + 1
    judged = stability(found, labels, 5)
    assert len(judged.seeds) == SEEDS
    assert len(judged.resamples) == RESAMPLES
    assert judged.stable
    assert judged.least == 1
    assert judged == stability(found, labels, 5)
    assert Stability.from_dict(judged.to_dict()) == judged


def test_random_labels_are_not_found_again(four_kinds: Population) -> None:
    found = make_representation("aggregate").fit(four_kinds)
    judged = stability(found, np.random.default_rng(0).permutation(np.repeat([1, 2, 3, 4], 8)), 5)
    assert not judged.stable
    assert abs(judged.over_seeds) < 0.3
    assert max(judged.over_seeds, judged.over_resamples) < STABLE


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_a_sample_is_represented_as_if_it_were_all(name: str, four_kinds: Population) -> None:
    chosen = np.sort(np.random.default_rng(1).permutation(32)[: round(KEPT * 32)])
    one = make_representation(name).fit(four_kinds).select(chosen)
    other = make_representation(name).fit(four_kinds.select(chosen))
    every = np.arange(len(chosen))
    assert np.allclose(one.distances(every), other.distances(every))
    assert np.array_equal(one.rows_, other.rows_)


def test_as_many_classes_as_distinct_workloads(make_population: Callable[..., Population]) -> None:
    series = [np.full((60, 2), level) + 0.1 * np.arange(60)[:, None] % 0.3 for level in (1.0, 2.0, 3.0, 1.0)]
    found = make_representation("aggregate").fit(make_population(series))
    assert stability(found, np.array([1, 2, 3, 1]), 2).seeds == (1.0,) * SEEDS
