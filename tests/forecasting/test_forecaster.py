"""Forecasts of demand: what they are taught, what they may know, and how they add up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.envs.problem import Problem
from tvwrl.forecasting import Beginnings, NetworkForecaster, Outcomes, training_windows
from tvwrl.forecasting.segments import SEGMENTS, Forecast, columns, steps
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import MACHINE, RUNNING, RUNS, SLOT, START
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.splits import FOLDS, UNSEEN
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.traces.windows import Windows, stack_windows
from tvwrl.types import InputError, take


def shown(train):
    """What is known of the workloads of sequences, without metadata."""
    shape = train.length.shape
    metadata, zero = np.full((*shape, 4), np.nan), np.zeros(shape, np.int64)
    return Windows(train.demand, train.length, metadata, zero + 0.0, zero + UNSEEN, zero)


def windows_of(*series):
    """Windows of one resource, without metadata."""
    length = np.array([len(one) for one in series])
    demand = np.zeros((len(series), length.max(), 1))
    for row, one in zip(demand, series, strict=True):
        row[: len(one), 0] = one
    zero = np.zeros(len(series), np.int64)
    return Windows(demand, length, np.full((len(series), 3), np.nan), zero + 0.0, zero + UNSEEN, zero)


def test_columns_are_named_once_each():
    everything = Forecast(np.arange(columns(2), dtype=float), 2)
    parts = ("most", "spread", "mean", "peak", "peak_spread", "alive")
    named = np.concatenate([getattr(everything, part).ravel() for part in parts])
    assert sorted(named.tolist()) == list(range(columns(2)))
    assert everything.most.shape == (len(SEGMENTS), 2)


def test_outcomes_by_hand():
    # One resource, a life of 4 slots, two seen: what is to come is 5, 1 and then nothing.
    outcome = Outcomes.of(Beginnings(windows_of([2, 3, 5, 1]), np.array([0]), np.array([2])))
    assert outcome.most[0, :, 0].tolist() == [5, 1, 0, 0, 0, 0]  # the next slot; the two after it; none is left later
    assert outcome.mean[0, :, 0].tolist() == [5, 0.5, 0, 0, 0, 0]
    assert outcome.peak.tolist() == [[5]]  # of the slot seen last and all to come: 3, 5, 1
    assert outcome.alive[0].tolist() == [True, True, False, False, False, False]


def test_yesterday_by_hand():
    # Days of 4 slots, 6 slots seen: the next 2 are compared with slots 2 and 3, the 4 after those with 2, 3, 4, 5 ...
    beginnings = Beginnings(windows_of([1, 2, 3, 4, 5, 6]), np.zeros(2, np.int64), np.array([6, 3]))
    most, mean, known = np.split(beginnings.yesterday(4), [len(SEGMENTS), 2 * len(SEGMENTS)], axis=1)
    assert known.tolist() == [[1] * 6, [0, 1, 0, 0, 0, 0]]  # of 3 slots seen, the first two are a day before 2 and 3
    assert most[0, :3].tolist() == [3, 5, 6]  # slots 2; 3 and 4 (of 0 to 5); 5, 2, 3 and 4
    assert mean[0, :3].tolist() == [3, 4.5, 4.5]
    assert most[1].tolist() == [0, 2, 0, 0, 0, 0]


def test_a_workload_that_needs_nothing_has_not_ended():
    outcome = Outcomes.of(Beginnings(windows_of([1, 0, 0, 0]), np.array([0]), np.array([2])))
    most, peak = outcome.levels(6, 6)
    assert most[0, :3, 0].tolist() == [1, 1, 0]  # slots 2 and 3 are left
    assert peak.tolist() == [[1]]


def test_nothing_is_known_of_later_slots(problem, train):
    forecaster, seen = problem.forecaster, 5
    other = train.demand.copy()
    other[:, :, seen:] = np.where(other[:, :, seen:] > 0, 7 - other[:, :, seen:], 0)
    before, after = (forecaster.table(replace(shown(train), demand=d)).values for d in (train.demand, other))
    known = (slice(None), slice(None), slice(seen + 1), slice(columns(2)))
    assert np.array_equal(before[known], after[known])
    assert not np.array_equal(before[:, :, seen + 1 :], after[:, :, seen + 1 :])


def test_the_table_ends_with_the_life_and_begins_with_the_first_slot(train):
    values = train.forecast.values
    assert np.array_equal(values[:, :, 0], values[:, :, 1])
    runs = np.arange(values.shape[2]) <= train.length[..., None]
    assert values[runs].any(axis=1).all()
    assert not values[~runs].any()


def test_known_peaks_are_those_of_the_whole_life(train):
    table = train.forecast
    known = Forecast(take(table.values * table.steps, table.told(forecasts=False)), 2)
    peak = train.demand.max(axis=2)
    assert np.allclose(known.peak[:, :, 0] * 6, peak, atol=0.03)
    assert np.allclose(known.peak[0, 0, train.length[0, 0]] * 6, peak[0, 0], atol=0.03)
    assert not np.delete(known.values, table.peaks[0], axis=-1).any()


def test_known_peaks_replace_forecasts_of_them(train):
    table = train.forecast
    values = table.values * table.steps
    forecast, both = (Forecast(take(values, table.told(peaks=peaks)), 2) for peaks in (False, True))
    assert np.array_equal(both.peak, values[..., -2:])
    assert not both.peak_spread.any()
    assert not np.array_equal(forecast.peak, both.peak)
    same = np.delete(np.arange(columns(2)), table.peaks[:2].ravel())
    assert np.array_equal(forecast.values[..., same], both.values[..., same])


def test_on_unseen_series_it_is_better_than_the_mean_of_all():
    trace = synthetic_trace("google", workloads=150, seed=0, days=3)
    sampler = SequenceSampler(trace, Scenario(machines=4, workloads=16))
    forecaster = NetworkForecaster().fit(training_windows(sampler, 1500))
    drawn = sampler.windows("validation", 300, np.random.default_rng(5))
    windows = stack_windows(drawn, trace, sampler.unit)
    beginnings = Beginnings(windows, np.arange(300), np.minimum(windows.length, 6))
    forecast, outcome = forecaster.predict(beginnings).forecast(), Outcomes.of(beginnings)
    for expected, true in ((forecast.most[:, 0], outcome.most[:, 0]), (forecast.peak, outcome.peak)):
        assert ((expected - true / 6) ** 2).mean() < 0.6 * (true / 6).var(axis=0).mean()


def test_a_fold_is_forecast_by_what_learnt_without_it(problem):
    sampler = problem.sampler
    windows = training_windows(sampler, 60)
    forecaster = problem.forecaster
    every = Beginnings.every(windows)
    unseen = Beginnings.every(replace(windows, fold=np.full(60, UNSEEN)))
    each = [forecaster.without_[f].predict(unseen).most for f in range(FOLDS)]
    own = np.choose(every.fold[:, None, None, None], each)
    assert np.allclose(forecaster.predict(every).most, own, atol=1e-5)  # rounding depends on how many are predicted
    assert not np.allclose(forecaster.predict(unseen).most, own, atol=1e-3)


def test_without_folds_networks_learn_from_all(problem):
    sampler = problem.sampler
    windows = training_windows(sampler, 60)
    none = replace(windows, fold=np.full(60, UNSEEN))
    forecaster = NetworkForecaster(epochs=100).fit(none)
    assert not forecaster.without_
    every = Beginnings.every(none)
    error = (forecaster.predict(every).forecast().peak - Outcomes.of(every).peak / 6) ** 2
    assert error.mean() < 0.5 * (Outcomes.of(every).peak / 6).var()


def test_a_fold_without_windows_is_forecast_by_what_learnt_from_all():
    windows = windows_of(*[[level] * 10 for level in (1.0, 2, 3, 4)])
    forecaster = NetworkForecaster(epochs=1).fit(replace(windows, fold=np.array([0, 2, 0, 2])))
    assert sorted(forecaster.without_) == [0, 2]
    of_fold = [
        forecaster.predict(Beginnings.every(replace(windows, fold=np.full(4, f)))).most for f in (UNSEEN, 0, 1, 2)
    ]
    assert np.array_equal(of_fold[0], of_fold[2])
    assert not np.array_equal(of_fold[0], of_fold[3])
    alone = NetworkForecaster(epochs=1).fit(replace(windows, fold=np.full(4, 1)))
    assert not alone.without_  # where there are no others, nothing can be held out


def test_probabilities_add_up(problem, train):
    forecast = problem.forecaster.predict(Beginnings.every(shown(train)[0]))
    assert np.allclose(forecast.most.sum(axis=-1), 1, atol=1e-5)
    assert np.allclose(forecast.peak.sum(axis=-1), 1, atol=1e-5)
    assert not forecast.peak[..., 0].any()
    assert (forecast.quantile(0.9) >= forecast.quantile(0.5)).all()


def test_futures_begin_where_the_workload_is_and_end(problem, train):
    windows = shown(train)[0]
    beginnings = Beginnings(windows, np.arange(4), np.ones(4, np.int64))
    futures = problem.forecaster.sample(beginnings, 200, np.random.default_rng(0))
    again = problem.forecaster.sample(beginnings, 200, np.random.default_rng(0))
    assert futures.shape[:2] == (4, 200)
    assert np.array_equal(futures, again)
    runs = futures.any(axis=3)
    assert not (runs[:, :, 1:] & ~runs[:, :, :-1]).any()  # what has ended does not begin again
    expected = problem.forecaster.predict(beginnings).forecast()
    assert np.abs(futures[:, :, 0].mean(axis=1) / 6 - expected.most[:, 0]).mean() < 0.12


def test_futures_of_a_training_series_are_of_other_folds(problem):
    # Every series has a level of its own, so a future tells whose continuation it is.
    level = np.array([1.0, 2, 3, 4, 5, 6])
    windows = windows_of(*[[one] * 10 for one in level])
    windows = replace(windows, fold=np.array([0, 1, 2, 0, 1, 2]))
    forecaster = NetworkForecaster(epochs=1).fit(windows)
    beginnings = Beginnings(windows, np.arange(6), np.full(6, 2))
    futures = forecaster.sample(beginnings, 500, np.random.default_rng(0))
    for fold, of_one in zip(windows.fold, futures, strict=True):
        drawn = set(np.unique(of_one[of_one > 0]).tolist())
        assert drawn
        assert drawn <= set(level[windows.fold != fold].tolist())


def test_a_copy_forecasts_the_same(problem, train):
    again = NetworkForecaster.from_dict(problem.forecaster.to_dict())
    both = [f.table(shown(train)).values for f in (problem.forecaster, again)]
    assert np.array_equal(*both)
    start = Beginnings(shown(train)[0], np.arange(2), np.ones(2, np.int64))
    futures = [f.sample(start, 5, np.random.default_rng(1)) for f in (problem.forecaster, again)]
    assert np.array_equal(*futures)
    damaged = problem.forecaster.to_dict()
    bias = damaged["without"]["0"]["networks"][0][0]
    bias[1] = bias[1][:-1]
    with pytest.raises(ValueError, match="do not fit together"):
        NetworkForecaster.from_dict(damaged)
    cut = problem.forecaster.to_dict()
    cut["learnt"]["demand"][1] = cut["learnt"]["demand"][1][:400]
    with pytest.raises(ValueError, match="demand cannot be unpacked"):
        NetworkForecaster.from_dict(cut)


@settings(max_examples=10, deadline=None)
@given(actions=st.lists(st.integers(0, 3), min_size=30, max_size=30))
def test_machines_show_the_sum_of_what_runs_on_them(problem, train, actions):
    scenario = replace(problem.scenario, observe_forecast=True)
    simulation = Simulation(train, problem.machines, scenario, 1, max_slots=0)
    simulation.reset(2)
    state = simulation.state
    for action in actions:
        if simulation.is_over():
            break
        expected = np.zeros((4, len(train.forecast.steps)))
        slot = state.counters[0, SLOT]
        for w in state.workloads[0, : state.counters[0, RUNNING], RUNS]:
            machine, start = state.workloads[0, w, [MACHINE, START]]
            expected[machine] += train.forecast.values[2, w, slot - start + 1] * train.forecast.steps
        shown = take(expected, train.forecast.told(peaks=False))
        assert np.allclose(simulation.observation()["forecast"][0], shown, atol=1e-5)
        simulation.step(np.array([action]))


def test_peaks_alone_are_shown_without_forecasts(problem):
    scenario = replace(problem.scenario, observe_forecast=False, observe_peak=True)
    peaks = Problem.build(problem.trace, scenario, problem.classes, forecaster=problem.forecaster)
    train = peaks.sequences("train", 2, 0)
    simulation = Simulation(train, peaks.machines, scenario, 1, max_slots=0)
    simulation.reset(0)
    first = simulation.peak[0, 0]
    while not simulation.waiting().size:
        simulation.step(np.array([0]))
    head = Forecast(simulation.observation()["queue"][0, 0, -columns(2) :].astype(float), 2)
    assert np.allclose(head.peak * scenario.peak_units, first, atol=0.03)
    others = np.delete(head.values, train.forecast.peaks[0])
    assert not others.any()
    simulation.step(np.array([1]))
    seen = Forecast(simulation.observation()["forecast"][0].astype(float), 2)
    assert np.allclose(seen.peak[1] * scenario.peak_units, first, atol=0.03)
    assert not np.delete(seen.values, train.forecast.peaks[0], axis=1).any()


def test_sequences_without_forecasts_are_refused(problem, train):
    scenario = replace(problem.scenario, observe_forecast=True)
    with pytest.raises(InputError, match="drawn without forecasts"):
        Simulation(replace(train, forecast=None), problem.machines, scenario)


def test_steps_hold_what_has_to_be_written():
    assert steps(2).max() * 255 > 1.2  # a share of the peak
    assert steps(2).min() * 255 >= 0.25  # a variance of shares
