"""Forecasts of demand: what they are taught, what they may know, and how they add up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.ec import DemandForecaster
from tvwrl.forecasting.segments import SEGMENTS, Forecast, _outcomes, columns, steps
from tvwrl.envs.problem import Problem
from tvwrl.simulation.simulation import Simulation
from tvwrl.simulation.state import MACHINE, RUNNING, RUNS, SLOT, START
from tvwrl.traces.splits import UNSEEN
from tvwrl.traces.windows import Windows, stack_windows
from tvwrl.types import InputError


def shown(train):
    """What is known of the workloads of sequences, without metadata."""
    shape = train.length.shape
    metadata, zero = np.full((*shape, 4), np.nan), np.zeros(shape, np.int64)
    return Windows(train.demand, train.length, metadata, zero + 0.0, zero + UNSEEN, zero)


def test_columns_are_named_once_each():
    everything = Forecast(np.arange(columns(2), dtype=float), 2)
    parts = ("most", "spread", "mean", "peak", "peak_spread", "alive")
    named = np.concatenate([getattr(everything, part).ravel() for part in parts])
    assert sorted(named.tolist()) == list(range(columns(2)))
    assert everything.most.shape == (len(SEGMENTS), 2)


def test_outcomes_by_hand():
    # One resource, a life of 4 slots, two seen: what is to come is 5, 1 and then nothing.
    demand = np.zeros((1, 4 + SEGMENTS[-1][1], 1))
    demand[0, :4, 0] = 2, 3, 5, 1
    outcome = _outcomes(demand, np.array([4]), np.array([[2]]))[0]
    wide = len(SEGMENTS)
    most, mean, peak, alive = np.split(outcome, [wide, 2 * wide, 2 * wide + 1])
    assert most.tolist() == [5, 1, 0, 0, 0, 0]  # the next slot; the two after it; none is left later
    assert mean.tolist() == [5, 0.5, 0, 0, 0, 0]
    assert peak.tolist() == [5]  # of the slot seen last and all to come: 3, 5, 1
    assert alive.tolist() == [1, 1, 0, 0, 0, 0]


def test_nothing_is_known_of_later_slots(problem, train):
    forecaster, seen = problem.forecaster, 5
    other = train.demand.copy()
    other[:, :, seen:] = np.where(other[:, :, seen:] > 0, 7 - other[:, :, seen:], 0)
    before, after = (forecaster.table(replace(shown(train), demand=d)).values for d in (train.demand, other))
    assert np.array_equal(before[:, :, : seen + 1], after[:, :, : seen + 1])
    assert not np.array_equal(before[:, :, seen + 1 :], after[:, :, seen + 1 :])


def test_the_table_ends_with_the_life_and_begins_with_the_first_slot(train):
    values = train.forecast.values
    assert np.array_equal(values[:, :, 0], values[:, :, 1])
    runs = np.arange(values.shape[2]) <= train.length[..., None]
    assert values[runs].any(axis=1).all()
    assert not values[~runs].any()


def test_known_peaks_are_those_of_the_whole_life(problem, train):
    table = problem.forecaster.table(shown(train), known_peaks=True)
    known = Forecast(table.values * table.steps, 2)
    peak = train.demand.max(axis=2)
    assert np.allclose(known.peak[:, :, 0] * 6, peak, atol=0.03)
    assert np.allclose(known.peak[0, 0, train.length[0, 0]] * 6, peak[0, 0], atol=0.03)
    assert not known.peak_spread.any()


def test_on_series_that_it_has_seen_it_is_better_than_the_mean_of_all(problem):
    sampler = problem.sampler
    drawn = sampler.windows("train", 200, np.random.default_rng(5))
    windows = stack_windows(drawn, problem.trace, sampler.unit)
    forecaster = DemandForecaster(windows=1000, epochs=6).fit(sampler, problem.classes)
    table = forecaster.table(windows.reshape(1, 200))
    seen = np.minimum(windows.length, 6)
    forecast = Forecast(table.values[0, np.arange(200), seen] * table.steps, 2)
    demand = np.pad(windows.demand, ((0, 0), (0, SEGMENTS[-1][1]), (0, 0)))
    outcome = _outcomes(demand, windows.length, seen[:, None]) / 6
    wide = len(SEGMENTS) * 2
    for expected, true in ((forecast.most[:, 0], outcome[:, :2]), (forecast.peak, outcome[:, 2 * wide : 2 * wide + 2])):
        assert ((expected - true) ** 2).mean() < 0.6 * true.var(axis=0).mean()


def test_a_copy_forecasts_the_same(problem, train):
    again = DemandForecaster.from_dict(problem.forecaster.to_dict(), problem.classes)
    both = [f.table(shown(train)).values for f in (problem.forecaster, again)]
    assert np.array_equal(*both)
    damaged = problem.forecaster.to_dict()
    damaged["error_"][0][1] = damaged["error_"][0][1][:-1]
    with pytest.raises(ValueError, match="do not fit together"):
        DemandForecaster.from_dict(damaged, problem.classes)


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
        expected = np.zeros((4, columns(2)))
        slot = state.counters[0, SLOT]
        for w in state.workloads[0, : state.counters[0, RUNNING], RUNS]:
            machine, start = state.workloads[0, w, [MACHINE, START]]
            expected[machine] += train.forecast.values[2, w, slot - start + 1] * train.forecast.steps
        assert np.allclose(simulation.observation()["forecast"][0], expected, atol=1e-5)
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
    others = np.delete(head.values, np.flatnonzero(train.forecast.declared))
    assert not others.any()
    simulation.step(np.array([1]))
    seen = Forecast(simulation.observation()["forecast"][0].astype(float), 2)
    assert np.allclose(seen.peak[1] * scenario.peak_units, first, atol=0.03)
    assert not np.delete(seen.values, np.flatnonzero(train.forecast.declared), axis=1).any()


def test_sequences_without_forecasts_are_refused(problem, train):
    scenario = replace(problem.scenario, observe_forecast=True)
    with pytest.raises(InputError, match="drawn without forecasts"):
        Simulation(replace(train, forecast=None), problem.machines, scenario)


def test_steps_hold_what_has_to_be_written():
    assert steps(2).max() * 255 > 1.2  # a share of the peak
    assert steps(2).min() * 255 >= 0.25  # a variance of shares
