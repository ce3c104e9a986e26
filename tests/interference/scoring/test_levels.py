"""Response times to levels, and what services weigh."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tvwrl.interference.observations import Levels
from tvwrl.interference.score import WEIGHTINGS, service_weights
from tvwrl.types import InputError


def test_levels_by_hand(make_observations):
    """Of 1, 2, ..., 10 ms in 2 levels the median 5.5 parts them; in 5 the quintiles 2.8, 4.6, 6.4, 8.2 do."""
    seen = make_observations([0] * 10, np.arange(1.0, 11.0))
    two = Levels.of(seen, 2)
    assert two.bounds.tolist() == [[5.5]]
    assert two.level(np.zeros(4, int), np.array([0.1, 5.4, 5.5, 99.0])).tolist() == [1, 1, 2, 2]
    assert Levels.of(seen, 5).level(np.zeros(5, int), np.array([2.7, 2.8, 5, 8, 9])).tolist() == [1, 2, 3, 4, 5]


def test_too_few_response_times_are_refused_or_left_out(make_observations):
    seen = make_observations([0] * 9 + [1], np.arange(1.0, 11.0))
    with pytest.raises(InputError, match=r"service 'b' has 1 response times: 5 levels need at least 5"):
        Levels.of(seen, 5)
    left_out = Levels.of(seen, 5, skip_rare=True)
    assert left_out.level(np.array([1, 0, 7, -1]), np.array([10.0, np.nan, 1.0, 1.0])).tolist() == [0, 0, 0, 0]
    with pytest.raises(InputError, match="k is 1: must be at least 2"):
        Levels.of(seen, 1)


def test_a_service_that_never_changes_is_neither_busy_nor_idle(make_observations):
    levels = Levels.of(make_observations([0] * 20, np.full(20, 7.0)), 10)
    assert levels.level(np.zeros(1, int), np.array([7.0])).tolist() == [6]


@given(arrays(np.float64, 20, elements=st.floats(0.1, 1e4), unique=True), st.sampled_from([2, 5, 10, 20]))
def test_levels_share_the_records_evenly_and_rise(make_observations, ms, k):
    levels = Levels.of(make_observations([0] * 20, ms), k)
    found = levels.level(np.zeros(20, int), ms)
    assert np.ptp(np.bincount(found, minlength=k + 1)[1:]) <= 1
    assert (np.diff(found[np.argsort(ms)]) >= 0).all()


def test_weights_by_hand(make_observations):
    """a follows the CPU (correlation 1, deviation 1 of mean 2); b runs against it (none) and varies half as much."""
    seen = make_observations([0, 0, 1, 1], [1.0, 3.0, 5.0, 3.0], cpu=[0.0, 1.0, 0.0, 1.0])
    assert service_weights("fair", seen).tolist() == [1, 1]
    assert service_weights("cpu-quota", seen).tolist() == [1, 1]
    assert service_weights("cv", seen) == pytest.approx([0.5 / 0.375, 0.25 / 0.375])
    corr = service_weights("corr", seen)
    assert corr[0] > 100 * corr[1] > 0
    with pytest.raises(InputError, match="weighting is 'age': must be one of fair, cpu-quota, corr, cv"):
        service_weights("age", seen)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_weights_are_positive_with_mean_1_whatever_was_seen(make_observations, name):
    nothing_moves = make_observations([0, 0, 2], [1.0, 1.0, 1.0])
    weights = service_weights(name, nothing_moves)
    assert (weights > 0).all()
    assert weights.mean() == pytest.approx(1)
