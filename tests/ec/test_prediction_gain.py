"""What classes gain a forecaster: worked out by hand, for populations where the answer is known, and bad input."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from tests.ec.conftest import opposite_families
from tvwrl.ec.prediction_gain import (
    agnostic_forecast,
    effective_gain,
    gaining_fraction,
    percentage_gain,
    prediction_gain,
)
from tvwrl.forecasting.lstnet import ForecastSettings, LSTNet, correlations
from tvwrl.types import InputError

TINY = ForecastSettings(
    window=12,
    horizon=1,
    steps=60,
    batch=64,
    filters=8,
    kernel=4,
    stride=2,
    recurrent=8,
    skip_recurrent=2,
    dropout=0.0,
    folds=2,
    max_forecasts=100,
    seed=3,
)


def daily(count: int, slots: int, day: int, seed: int = 0) -> list[np.ndarray]:
    """A sine of one day with noise of half its amplitude; phase and size differ between workloads."""
    rng = np.random.default_rng(seed)
    hours = 2 * np.pi * np.arange(slots)[:, None] / day
    return [
        rng.uniform(1, 5) * (3 + np.sin(hours + rng.uniform(0, 6, 2)) + rng.normal(0, 0.4, (slots, 2)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def families():
    """Labels and agnostic forecast of the opposite families."""
    series, labels = opposite_families(24)
    return labels, agnostic_forecast(series, 12, TINY)


@pytest.fixture(scope="module")
def true_gain(families):
    """The report on the families' own labels."""
    labels, agnostic = families
    return prediction_gain(agnostic, labels)


QUICK = dataclasses.replace(TINY, steps=5)


def gain(series, labels, day=12, settings=QUICK):
    """The report on labels of a few workloads; trains little."""
    return prediction_gain(agnostic_forecast(series, day, settings), labels)


# By hand


def test_gain_is_the_percentage_of_the_agnostic_correlation():
    assert percentage_gain(0.6, 0.5) == pytest.approx(20)
    assert percentage_gain(0.4, 0.5) == pytest.approx(-20)
    assert percentage_gain(0.1, -0.4) == pytest.approx(125)
    assert percentage_gain(0.1, 0.0) == pytest.approx(200)  # bounded near 0


def test_effective_gain_counts_only_what_is_gained():
    gains = [percentage_gain(0.6, 0.5), percentage_gain(0.4, 0.5), percentage_gain(0.44, 0.4)]
    assert effective_gain(gains, [5, 3, 2]) == pytest.approx((20 * 5 + 0 * 3 + 10 * 2) / 10)
    assert gaining_fraction(gains, [5, 3, 2]) == pytest.approx(0.7)
    assert gaining_fraction([0.0, -1.0], [1, 1]) == 0


def test_correlations_of_each_resource():
    actual = np.array([[1.0, 5.0, 1.0, 1.0], [2.0, 5.0, 2.0, 2.0], [3.0, 5.0, 3.0, 4.0]])
    forecast = np.array([[2.0, 1.0, 7.0, 0.0], [4.0, 2.0, 7.0, 0.0], [6.0, 3.0, 7.0, 1.0]])
    found = correlations(actual, forecast)
    assert found[0] == pytest.approx(1)
    assert np.isnan(found[1])  # constant usage cannot be forecast
    assert found[2] == 0  # a constant forecast knows nothing
    assert found[3] == pytest.approx(np.corrcoef(actual[:, 3], forecast[:, 3])[0, 1])


def test_plain_rules_are_what_their_names_say():
    rng = np.random.default_rng(0)
    series = [rng.uniform(1, 2, (60, 1)) for _ in range(4)]
    found = agnostic_forecast(series, 10, dataclasses.replace(TINY, steps=1, horizon=2))
    for i, one in enumerate(series):
        target = np.arange(TINY.window + 1, 60)
        usage = one[:, 0]
        assert found.last_value[i, 0] == pytest.approx(np.corrcoef(usage[target], usage[target - 2])[0, 1], abs=1e-5)
        assert found.seasonal[i, 0] == pytest.approx(np.corrcoef(usage[target], usage[target - 10])[0, 1], abs=1e-5)


# Populations where the answer is known


def test_classes_of_opposite_dynamics_gain(true_gain):
    assert true_gain.effective_gain > 5
    assert true_gain.fraction == 1
    assert [row.size for row in true_gain.classes] == [12, 12]
    assert true_gain.correlation > true_gain.agnostic + 0.03


def test_random_classes_gain_little(families, true_gain):
    labels, agnostic = families
    report = prediction_gain(agnostic, np.random.default_rng(5).permutation(labels))
    assert report.effective_gain < true_gain.effective_gain / 4
    assert report.agnostic == true_gain.agnostic


def test_report_is_consistent_and_writes_json(true_gain):
    gains, sizes = [row.gain for row in true_gain.classes], [row.size for row in true_gain.classes]
    assert true_gain.effective_gain == effective_gain(gains, sizes)
    for row in true_gain.classes:
        assert row.gain == percentage_gain(row.correlation, row.agnostic)
    content = json.loads(json.dumps(true_gain.to_dict(), allow_nan=False))
    assert content["effective_gain"] == true_gain.effective_gain
    assert content["classes"][0]["evaluated"] == 12


def test_one_class_is_the_model_of_all():
    report = gain(opposite_families(12)[0], np.ones(12, int))
    assert report.effective_gain == 0
    assert report.correlation == report.agnostic


def test_a_daily_pattern_is_forecast_better_than_by_plain_rules():
    settings = dataclasses.replace(TINY, window=24, horizon=4, steps=80)
    found = agnostic_forecast(daily(12, slots=120, day=24), 24, settings)
    assert found.correlation.mean() > found.last_value.mean() + 0.1
    assert found.correlation.mean() > found.seasonal.mean() + 0.03


def test_every_workload_is_held_out_once_and_folds_know_no_labels(families):
    agnostic = families[1]
    assert sorted(np.bincount(agnostic.fold)) == [12, 12]
    assert np.isfinite(agnostic.correlation).all()


# Seeds


def test_same_seed_same_numbers_whatever_torch_was_set_to():
    import torch

    series, labels = opposite_families(12)
    drops = dataclasses.replace(QUICK, dropout=0.2)
    once = gain(series, labels, settings=drops)
    torch.manual_seed(99)
    before, state = torch.get_num_threads(), torch.get_rng_state()
    assert gain(series, labels, settings=drops).classes == once.classes
    assert torch.get_num_threads() == before
    assert torch.equal(torch.get_rng_state(), state)
    assert gain(series, labels, settings=dataclasses.replace(drops, seed=4)).agnostic != once.agnostic


def test_progress_names_every_model():
    series, labels = opposite_families(12)
    seen: list[tuple[int, int]] = []
    made = agnostic_forecast(series, 12, QUICK, lambda *done: seen.append(done))
    prediction_gain(made, labels, lambda *done: seen.append(done))
    assert seen == [(1, 2), (2, 2)] * 2


# Small, short and constant


def test_a_small_class_has_no_gain_and_is_named():
    series, labels = opposite_families(12)
    labels[:3] = 7
    report = gain(series, labels, settings=dataclasses.replace(QUICK, min_class=4))
    small = report.classes[-1]
    assert (small.label, small.size, small.gain) == (7, 3, 0.0)
    assert "3 of 3 workloads are long enough; a model needs 4" in small.note
    assert small.correlation == small.agnostic
    assert [row.note for row in report.classes[:-1]] == ["", ""]


def test_short_series_count_in_the_size_of_their_class_only():
    series, labels = opposite_families(12)
    series[0] = series[0][:10]  # shorter than window + horizon
    series[1] = series[1][:1]
    report = gain(series, labels)
    assert [(row.size, row.evaluated) for row in report.classes] == [(6, 5), (6, 5)]
    assert report.window == TINY.window


def test_the_window_shrinks_to_what_half_of_the_workloads_allow():
    series, labels = opposite_families(12, slots=26)
    report = gain(series, labels, 24)
    assert report.window == 26 - TINY.horizon - 16 + 1
    assert np.isnan(report.seasonal)  # a day before lies in no series often enough
    assert report.to_dict()["seasonal"] is None


def test_too_short_for_any_forecast():
    series, _ = opposite_families(12, slots=20)
    with pytest.raises(
        InputError, match=r"too short to compare classes by forecasts: half of the 12 .* at least 24 slots"
    ):
        agnostic_forecast(series, 12, TINY)


def test_constant_series_have_no_correlation():
    series, labels = opposite_families(12)
    for i in range(0, 12, 2):
        series[i] = np.full_like(series[i], 0.1 * i)
    series[1][:, 1] = 3.0
    report = gain(series, labels)
    assert (report.classes[0].gain, report.classes[0].note) == (0.0, "usage is constant")
    assert np.isnan(report.classes[0].correlation)
    assert np.isfinite([report.classes[1].correlation, report.agnostic, report.last_value, report.seasonal]).all()


# The network


@pytest.mark.parametrize(("window", "period", "resources"), [(48, 48, 2), (48, 24, 3), (13, 12, 1), (8, 1, 2)])
def test_network_shapes_and_what_it_begins_with(window, period, resources):
    import torch

    seen = torch.rand(5, window, resources)
    found = LSTNet(resources, window, period, ForecastSettings()).eval()(seen)
    assert torch.allclose(found, seen.mean(dim=1))


# Bad input


def test_refuses_usage_below_zero_and_a_day_without_slots():
    series, _ = opposite_families(6)
    with pytest.raises(InputError, match="slots_per_day is 0"):
        agnostic_forecast(series, 0, TINY)
    series[4][17, 1] = -0.5
    with pytest.raises(InputError, match=r"workload 4, slot 17, resource 1: usage is -0\.5"):
        agnostic_forecast(series, 12, TINY)


@pytest.mark.parametrize(
    ("name", "value"),
    [("window", 4), ("horizon", 0), ("steps", 0), ("folds", 1), ("seed", -1), ("dropout", 1.0), ("learning_rate", 0.0)],
)
def test_refuses_settings_out_of_range(name, value):
    with pytest.raises(InputError, match=f"{name} is {value}"):
        ForecastSettings(**{name: value})
