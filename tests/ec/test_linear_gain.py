"""What classes gain a linear forecaster: the forecasts by hand, families that need a model each, and random labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ec.conftest import opposite_families
from tvwrl.ec import Population
from tvwrl.ec.linear_gain import RIDGE, LinearForecasts, LinearGain, exchanged, whole_folds
from tvwrl.forecasting import ForecastSettings, correlations
from tvwrl.types import InputError

SETTINGS = ForecastSettings(window=8, horizon=1, folds=2, max_forecasts=100)
Make = Callable[..., Population]


def test_a_forecast_by_hand(make_population: Make) -> None:
    rng = np.random.default_rng(0)
    series = [rng.uniform(1, 3, (40, 1)) for _ in range(6)]
    population = replace(make_population(series), resources=("cpu",))
    found = LinearForecasts(population, SETTINGS)
    for i in range(6):
        rows, changes = [], []
        others = [j for j in range(6) if found.fold[j] != found.fold[i]]
        for j in others:
            usage = series[j][:, 0] / series[j].std()
            last = np.arange(7, 39)
            rows.append(np.array([usage[t - 7 : t] - usage[t] for t in last]) / np.sqrt(len(last)))
            changes.append((usage[last + 1] - usage[last]) / np.sqrt(len(last)))
        x, y = np.concatenate(rows), np.concatenate(changes)
        weights = np.linalg.solve(x.T @ x / len(others) + RIDGE * np.eye(7), x.T @ y / len(others))
        own = series[i][:, 0]
        forecast = [own[t] + weights @ (own[t - 7 : t] - own[t]) for t in range(7, 39)]
        assert found.of_all[i] == pytest.approx(correlations(own[8:40, None], np.array(forecast)[:, None]), abs=1e-5)


def test_families_that_need_a_model_each_gain(make_population: Make) -> None:
    series, labels = opposite_families(24)
    made = LinearForecasts(make_population(series), SETTINGS)
    found = made.gain(labels, 59)
    assert found.gain > 0.03
    assert found.p == 1 / 60  # none of the random divisions gains as much
    assert found.beats_last_value
    assert len(found.permuted) == 59
    assert found == made.gain(labels, 59)
    assert LinearGain.from_dict(found.to_dict()) == found
    # Labels that mean nothing: no better than one model, and like any other random division.
    random = made.gain(np.random.default_rng(3).permutation(labels), 59)
    assert random.gain < 0.01
    assert random.p > 0.05


def test_the_whole_as_one_class_gains_nothing(make_population: Make) -> None:
    series, labels = opposite_families(12)
    found = LinearForecasts(make_population(series), SETTINGS).gain(np.ones_like(labels), 9)
    assert found.gain == 0
    assert found.p == 1


def test_small_classes_are_forecast_by_the_model_of_all(make_population: Make) -> None:
    series, labels = opposite_families(12)
    made = LinearForecasts(make_population(series), replace(SETTINGS, min_class=7))
    assert made.gain(labels, 3).gain == 0


def test_p_counts_what_was_found() -> None:
    def p(by_class: float) -> float:
        return LinearGain(by_class, 0.5, 0.4, (0.4, 0.5, 0.6), 8, 1).p

    assert (p(0.7), p(0.6), p(0.5), p(0.1)) == (0.25, 0.5, 0.75, 1.0)
    assert np.isnan(p(np.nan))


def test_constant_and_short_series(make_population: Make) -> None:
    series, labels = opposite_families(12)
    series[0][:] = 2.0
    found = LinearForecasts(make_population(series), SETTINGS)
    assert np.isnan(found.of_all[0]).all()
    assert np.isfinite(found.gain(labels, 3).by_class)
    with pytest.raises(InputError, match="too short"):
        LinearForecasts(make_population([one[:20] for one in series]), SETTINGS)


def test_replicas_of_an_application_are_held_out_together(make_population: Make) -> None:
    series, labels = opposite_families(24)
    application = np.repeat(np.arange(6), 4)  # of each family two in every application
    made = LinearForecasts(replace(make_population(series), application=application), SETTINGS)
    assert all(len(set(made.fold[application == one])) == 1 for one in range(6))
    assert made.gain(labels, 9).gain > 0.03
    # Labels that tell the application, and no more, leave nothing to learn from when applications are held out.
    assert made.gain(application + 1, 9).gain == 0
    with pytest.raises(InputError, match="one application"):
        LinearForecasts(replace(make_population(series), application=np.zeros(24, np.int64)), SETTINGS)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=40), st.integers(1, 6), st.integers(0, 9))
def test_whole_applications_in_a_fold_and_in_an_exchange(names: list[int], folds: int, seed: int) -> None:
    application = np.array(names)
    own = np.unique(application)
    fold = whole_folds(application, folds, np.random.default_rng(seed))
    assert set(fold) == set(range(min(folds, len(own))))
    assert all(np.ptp(fold[application == one]) == 0 for one in own)
    dealt = exchanged(10 * application + 1, application, np.random.default_rng(seed))
    assert sorted({int(dealt[application == one][0]) for one in own}) == (10 * own + 1).tolist()
    assert all(np.ptp(dealt[application == one]) == 0 for one in own)
    alone = exchanged(application, None, np.random.default_rng(seed))
    assert sorted(alone) == sorted(application)


def test_the_least_p_by_hand() -> None:
    """Four applications in two classes of two: a third of all divisions are any one of them, whatever its labels."""
    assert LinearGain(0.7, 0.5, 0.4, (0.4, 0.6, 0.5, 0.6), 8, 1).least_p == 0.5
    assert LinearGain(0.7, 0.5, 0.4, (), 8, 1).least_p == 1


def test_of_few_applications_no_division_is_rare(make_population: Make) -> None:
    series, _ = opposite_families(24)
    application = np.repeat(np.arange(4), 6)
    made = LinearForecasts(replace(make_population(series), application=application), SETTINGS)
    assert made.gain(1 + application // 2, 60).least_p == pytest.approx(1 / 3, abs=0.2)
