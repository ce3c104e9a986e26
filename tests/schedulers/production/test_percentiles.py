"""Percentiles of usage against numpy, and by hand."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.schedulers.production.predicted_peak import percentiles, weighted_percentiles


@settings(deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=30), st.sampled_from([0, 10, 50, 65, 90, 95, 99, 100]))
def test_as_numpy(values, percent):
    padded = np.array([*values, 9.0, 9.0])[None, :, None]
    found = percentiles(padded, np.array([len(values)]), percent)
    assert np.isclose(found[0, 0], np.percentile(values, percent))


def test_of_nothing():
    for percent in (0.0, 50.0, 100.0):
        assert percentiles(np.ones((1, 2, 1)), np.array([0]), percent).tolist() == [[0]]
    assert weighted_percentiles(np.ones((1, 2, 1)), np.array([0]), np.ones(1), np.ones((2, 1))).tolist() == [[0]]


def test_weighted_by_hand():
    # A 4 of twelve hours ago weighs .5, a 2 of now 1: 95 % of 1.5 are 1.425, which only both have.
    value, weight = np.array([[[2.0], [4.0]]]), np.array([[1.0], [0.5]])
    assert weighted_percentiles(value, np.array([2]), np.array([0.95]), weight).tolist() == [[4]]
    # A 4 of 48 hours ago weighs .0625, two 2s 1 each: 1.959 of 2.0625.
    value, weight = np.array([[[2.0], [2.0], [4.0]]]), np.array([[1.0], [1.0], [0.0625]])
    assert weighted_percentiles(value, np.array([3]), np.array([0.95]), weight).tolist() == [[2]]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 4)), min_size=1, max_size=20), st.integers(1, 100))
def test_weights_are_repetitions(pairs, percent):
    values, counts = np.array(pairs).T
    found = weighted_percentiles(
        values[None, :, None].astype(float), np.array([len(values)]), np.array([percent / 100]), counts[:, None] * 1.0
    )
    repeated = np.sort(np.repeat(values, counts))
    assert found[0, 0] == repeated[int(np.ceil(percent / 100 * len(repeated) - 1e-9)) - 1]
