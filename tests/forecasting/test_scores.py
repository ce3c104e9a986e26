"""Scores of forecasts, by hand and by their properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.forecasting import (
    SEGMENTS,
    Beginnings,
    Distribution,
    Outcomes,
    judged_beginnings,
    make_forecaster,
    score,
    training_windows,
)
from tvwrl.forecasting.scores import (
    SHARES,
    probability_integral,
    ranked_probability,
    score_distributions,
    share_below,
    skill,
)
from tvwrl.types import InputError

LEVELS = 4


def forecasts(most, peak, count):
    """The same forecast of one resource for many beginnings and all segments."""
    chances = np.broadcast_to(np.asarray(most, np.float32), (count, len(SEGMENTS), 1, LEVELS + 1))
    rest = np.broadcast_to(np.asarray(peak, np.float32), (count, 1, LEVELS + 1))
    zero = np.zeros((count, len(SEGMENTS), 1), np.float32)
    return Distribution(chances, rest, zero, np.arange(LEVELS + 1, dtype=np.float32) / LEVELS)


def outcomes(units):
    """The same demand in all segments: `units` (m,) of a peak of 4."""
    most = np.repeat(np.asarray(units, np.float64)[:, None, None], len(SEGMENTS), axis=1)
    return Outcomes(most, most, np.maximum(most[:, 0], 1), most[..., 0] > 0)


def test_ranked_probability_by_hand():
    # Levels 0 to 4, one fourth of the peak each. Sure of 2 and 3 came: off by one level.
    assert ranked_probability(np.array([0, 0, 1.0, 0, 0]), np.array(3)) == 1 / 4
    # Half on 1, half on 3, and 2 came: the distribution function is off by a half at levels 1 and 2.
    assert ranked_probability(np.array([0, 0.5, 0, 0.5, 0]), np.array(2)) == (0.25 + 0.25) / 4


def test_the_step_of_what_came_by_hand():
    low, high = probability_integral(np.array([0.2, 0.5, 0.3, 0, 0]), np.array(1))
    assert (low, high) == pytest.approx((0.2, 0.7))
    step = np.array(low), np.array(high)
    assert share_below(step, 0.45) == pytest.approx(0.5)  # half of the step from 0.2 to 0.7
    assert share_below(step, 0.1) == 0
    assert share_below(step, 0.9) == 1
    sure = np.array(1.0), np.array(1.0)  # what was thought impossible, above all that was possible
    assert share_below(sure, 0.95) == 0


def test_scores_by_hand():
    # It ends with probability 0.5, else needs 2 of 4 units; one ends, one needs 3.
    scores = score_distributions([(forecasts([0.5, 0, 0.5, 0, 0], [0, 0, 1, 0, 0], 2), outcomes([0, 3]))], LEVELS)
    assert scores.brier == pytest.approx(0.25)
    ended = (0.25 + 0.25) / 4  # the distribution function is too low by a half at levels 0 and 1
    needs = (0.25 + 0.25 + 1) / 4
    assert scores.crps == pytest.approx((ended + needs) / 2)
    assert scores.running_crps == pytest.approx(1 / 4)
    assert scores.peak_crps == pytest.approx((1 + 1) / 2 / 4)  # 1 and 3 came, 2 was forecast
    # The one that ended lies in the step 0 to 0.5, of which half is within 0.25 to 0.75; the other is above all.
    assert scores.within_50 == pytest.approx(0.25)
    assert scores.within_90 == pytest.approx(0.45)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.01, 1), min_size=LEVELS + 1, max_size=LEVELS + 1), st.integers(0, 2**32))
def test_who_knows_the_chances_is_calibrated_and_best(weights, seed):
    chances = np.array(weights) / sum(weights)
    came = np.random.default_rng(seed).choice(LEVELS + 1, 3000, p=chances).astype(float)
    peak = np.append(0, chances[0] + chances[1])
    honest = score_distributions(
        [(forecasts(chances, np.append(peak, chances[2:]), len(came)), outcomes(came))], LEVELS
    )
    even = np.full(LEVELS + 1, 1 / (LEVELS + 1))
    other = score_distributions(
        [(forecasts(even, np.append(0, np.full(LEVELS, 1 / LEVELS)), len(came)), outcomes(came))], LEVELS
    )
    assert honest.crps.mean() <= other.crps.mean() + 0.01
    assert honest.running_crps.mean() <= other.running_crps.mean() + 0.01
    assert honest.brier.mean() <= other.brier.mean() + 0.01
    for measure, wanted in (("within_50", 0.5), ("within_90", 0.9), ("peak_within_50", 0.5), ("calibration", SHARES)):
        assert np.abs(getattr(honest, measure) - wanted).max() < 0.05


def test_skill_is_a_share_of_the_reference():
    assert skill(1.0, 4.0) == 0.75
    assert np.isnan(skill(np.array([0.0]), np.array([0.0]))).all()


def test_a_forecaster_is_judged_on_the_same_unseen_beginnings(problem):
    beginnings = judged_beginnings(problem.sampler, "validation", 0, count=20)
    again = judged_beginnings(problem.sampler, "validation", 0, count=20)
    assert len(beginnings.windows) == 20
    assert (beginnings.seen == again.seen).all()
    forecaster = make_forecaster("last-value", problem.scenario.peak_units, problem.scenario.step_seconds)
    with pytest.raises(InputError, match=r"LastValue.* is not fitted"):
        score(forecaster, beginnings)
    forecaster.fit(training_windows(problem.sampler, 100))
    own = score(forecaster, beginnings)
    by_hand = score_distributions([(forecaster.predict(beginnings), Outcomes.of(beginnings))], forecaster.peak_units)
    assert (own.crps == by_hand.crps).all()


def test_what_cannot_be_judged_is_refused(problem):
    with pytest.raises(InputError, match="split is 'holdout': must be one of train, validation, test"):
        judged_beginnings(problem.sampler, "holdout", 0)
    with pytest.raises(InputError, match="seed is -1: must be at least 0"):
        judged_beginnings(problem.sampler, "test", -1)
    with pytest.raises(InputError, match="count is 0: must be at least 1"):
        judged_beginnings(problem.sampler, "test", 0, count=0)
    some = judged_beginnings(problem.sampler, "test", 0, count=1)
    with pytest.raises(InputError, match="beginnings has 0 of them"):
        score(make_forecaster("last-value", 6, 1800), Beginnings(some.windows, some.row[:0], some.seen[:0]))
