"""What a newcomer will use: like its replicas, or by its request, or like everyone."""

from dataclasses import replace

import numpy as np
import pytest

from tests.serve.clusters import GIB, observed
from tvwrl.serve.snapshot import ASSUMED, ExpectedDemand

NONE = np.full(2, np.nan)


def test_by_hand():
    """Two replicas of shop use 1 and 3 cores, 2 and 4 GiB; a third pod uses 0.5 and 1. Requests: 4, 4, 1 cores."""
    rows = [("p", "a", "shop", [1], [2]), ("q", "a", "shop", [3], [4]), ("r", "a", "log", [0.5], [1])]
    request = np.array([[4, 8 * GIB], [4, 8 * GIB], [1, np.nan]])
    expected = ExpectedDemand(replace(observed({"a": (8, 32)}, rows), request=request))
    np.testing.assert_allclose(expected.of("shop", NONE), [2, 3 * GIB])
    # Used of what was requested: 0.25, 0.75, 0.5 of the cores; 0.25 and 0.5 of the memory.
    np.testing.assert_allclose(expected.of("other", np.array([2, 2 * GIB])), [1, 0.375 * 2 * GIB])
    np.testing.assert_allclose(expected.of("other", np.array([2, np.nan])), [1, 2 * GIB])
    np.testing.assert_allclose(expected.of("", NONE), [1, 2 * GIB])


def test_replicas_without_samples_say_nothing():
    rows = [("p", "a", "shop", [np.nan], [1]), ("q", "a", "log", [2], [2])]
    expected = ExpectedDemand(observed({"a": (8, 32)}, rows))
    np.testing.assert_allclose(expected.of("shop", NONE), [2, GIB])


def test_never_more_than_the_request_by_the_share_of_others():
    rows = [("p", "a", "", [4], [4])]
    expected = ExpectedDemand(replace(observed({"a": (8, 32)}, rows), request=np.array([[1, GIB]])))
    np.testing.assert_allclose(expected.of("", np.array([2, 2 * GIB])), [2, 2 * GIB])


def test_in_an_empty_cluster():
    expected = ExpectedDemand(observed({"a": (8, 32)}, []))
    np.testing.assert_allclose(expected.of("", NONE), ASSUMED)
    np.testing.assert_allclose(expected.of("", np.array([1, GIB])), [1, GIB])


@pytest.mark.parametrize("request_", [[0.0, 0.0], [np.nan, 0.0]])
def test_requests_of_nothing_are_no_divisor(request_):
    rows = [("p", "a", "", [4], [4])]
    expected = ExpectedDemand(replace(observed({"a": (8, 32)}, rows), request=np.array([request_])))
    assert np.isfinite(expected.of("", np.array([1, GIB]))).all()
