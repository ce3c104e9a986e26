"""Forecasts of the rules that production uses, by hand."""

import numpy as np
import pytest

from tests.forecasting.test_forecaster import windows_of
from tvwrl.forecasting import Beginnings
from tvwrl.forecasting.baselines import LastValue, MeanAndDeviation, Percentiles, SameHourYesterday, at_least

TRAINING = windows_of([6] * 2, [6] * 2, [6] * 10, [1 + i % 6 for i in range(40)])


def running(forecaster, series, seen):
    """(J, V) probabilities of levels while running, for one beginning."""
    forecast = forecaster.fit(TRAINING).predict(Beginnings(windows_of(series), np.array([0]), np.array([seen])))
    most = forecast.most[0, :, 0, 1:]
    return most / most.sum(axis=1, keepdims=True)


def test_survival_by_hand():
    # Of four windows two last 2 slots, one 10 and one 40. After 2 slots all four have lived; 2 of them go on.
    forecaster = LastValue().fit(TRAINING)
    survival = forecaster.survival(np.array([2, 3]))
    assert survival[0, [0, 7, 8]] == pytest.approx([2.5 / 5, 2.5 / 5, 1.5 / 5])
    assert survival[1, [0, 6, 7, 36, 37]] == pytest.approx([2.5 / 3, 2.5 / 3, 1.5 / 3, 1.5 / 3, 0.5 / 3])


def test_the_last_value_stays():
    assert (running(LastValue(), [1, 5, 2, 6], 3)[:, 1] == 1).all()


def test_a_normal_of_the_last_hours():
    # The last 2 hours are 4 slots of 2, 4, 2, 4 units: mean 3, deviation 1.
    chances = running(MeanAndDeviation(), [6, 2, 4, 2, 4], 5)[0]
    assert chances[2] == chances.max()
    assert chances[1] == pytest.approx(chances[3])
    assert running(MeanAndDeviation(), [6, 2, 2, 2, 2], 5)[0, 1] == pytest.approx(1)


def test_percentiles_are_of_stretches_as_long_as_the_segment():
    # Seen 1, 2, 1, 4: single slots are 1, 2, 1, 4; pairs have the largest 2, 2, 4; all four 4.
    chances = running(Percentiles(), [1, 2, 1, 4, 6, 6], 4)
    assert chances[0] == pytest.approx([0.5, 0.25, 0, 0.25, 0, 0])
    assert chances[1] == pytest.approx([0, 2 / 3, 0, 1 / 3, 0, 0], abs=1e-6)
    assert chances[2:, 3] == pytest.approx(1)


def test_the_same_hour_yesterday_or_the_last_slot():
    # Days of 4 slots: with 4 seen the next is as slot 0; with 3 seen it is not known, and the last stays.
    daily = [1, 2, 3, 4, 1]
    assert running(SameHourYesterday(step_seconds=21_600), daily, 4)[0, 0] == 1
    assert running(SameHourYesterday(step_seconds=21_600), daily, 3)[0, 2] == 1


def test_what_is_below_a_level_becomes_that_level():
    assert at_least(np.array([0.2, 0.5, 0.3]), np.array(2)) == pytest.approx([0, 0, 0.7, 0.3])
