"""A problem on another number of machines, and what is fitted for it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tvwrl.ec import EquivalenceClasses
from tvwrl.ec.classifier import RuntimeClassifier
from tvwrl.envs.problem import Problem
from tvwrl.forecasting import NetworkForecaster, training_windows
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.types import InputError


def test_a_larger_cluster_is_offered_the_same_load(problem):
    larger = problem.on_machines(10)  # from 4, with 16 workloads and one placement per slot
    assert larger.machines.capacity.shape == (10, 2)
    assert (larger.scenario.workloads, larger.scenario.placements_per_slot) == (40, 2)
    assert larger.sampler.rate["test"] == pytest.approx(2.5 * problem.sampler.rate["test"])
    assert larger.sampler.unit.tolist() == problem.sampler.unit.tolist()
    assert larger.classes is problem.classes
    assert replace(larger.scenario, machines=4, workloads=16, placements_per_slot=1) == problem.scenario


def test_machines_of_several_kinds_keep_their_number(google, problem):
    kinds = Problem.build(google, replace(problem.scenario, machine_types=("3x8", "1x16")), problem.classes)
    with pytest.raises(InputError, match=r"machines is 8.*3x8 1x16"):
        kinds.on_machines(8)


def test_each_step_of_the_preparation_is_reported(problem, google, monkeypatch):
    monkeypatch.setenv("TVWRL_CACHE", "off")
    told = []
    Problem.build(google, problem.scenario, report=told.append)
    assert [line.partition(" ")[0] for line in told] == ["scale:", "fitting"]
    told.clear()
    forecaster = NetworkForecaster(epochs=1)
    forecaster.fit(training_windows(problem.sampler, 50), report=told.append)
    assert told[0] == "fitting forecaster 1 of 4"
    assert told[1:] == [f"fitting forecaster {place} of 4, without fold {place - 2}" for place in (2, 3, 4)]


def test_the_scale_says_which_demand_fills_a_machine(make_trace):
    series = [np.full((800, 2), (0.3, 3.0)) for _ in range(8)]
    series[0][:6, 0] = 30.0  # one slot of the environment's, above the percentile
    with pytest.warns(UserWarning, match=r"600 units \(the 99.5th percentile of its demand counts as 6\); the largest"):
        sampler = SequenceSampler(make_trace(series), Scenario(machines=2, workloads=4))
    assert sampler.scale().startswith("scale: demand of cpu 0.4, mem 4 fills a machine; the 99.5th percentile")


def rewritten(trace, runs):
    """The trace with the rows of some runs in another order, so that each holds something else."""
    usage = trace.usage.copy()
    for run in runs:
        own = slice(run.first, run.first + run.rows)
        usage[own] = usage[own][::-1, ::-1]
    return replace(trace, usage=usage)


@pytest.mark.parametrize("split", ["workloads", "applications", "time"])
def test_nothing_is_fitted_on_validation_or_test_series(monkeypatch, split):
    """What classes, classifier and forecaster learn from is recorded, and does not change with what is held out; nor do
    the sequences that policies learn from."""
    monkeypatch.setenv("TVWRL_CACHE", "off")
    trace = synthetic_trace("google", workloads=40, seed=1, days=3)
    given = []
    series_of = {
        EquivalenceClasses: lambda population: population.series,
        RuntimeClassifier: list,
        NetworkForecaster: lambda windows: list(windows.demand),
    }

    def recorded(fit, series):
        def record(self, first, *others, **options):
            if isinstance(self, RuntimeClassifier):
                self.examples, self.epochs = 200, 2  # how well it learns does not matter here
            given.append((type(self), series(first)))
            return fit(self, first, *others, **options)

        return record

    for kind, series in series_of.items():
        monkeypatch.setattr(kind, "fit", recorded(kind.fit, series))
    monkeypatch.setattr("tvwrl.envs.problem.NetworkForecaster", partial(NetworkForecaster, epochs=1))
    monkeypatch.setattr("tvwrl.envs.problem.training_windows", partial(training_windows, count=50))
    scenario = Scenario(machines=4, workloads=16, split=split, observe_forecast=True, placements_per_slot=None)
    first = Problem.build(trace, scenario)
    runs = first.sampler.runs
    other = rewritten(trace, runs["validation"] + runs["test"])
    assert not np.array_equal(other.usage, trace.usage)
    second = Problem.build(other, scenario, unit=first.sampler.unit)
    half = len(given) // 2
    assert {kind for kind, _ in given[:half]} == set(series_of)
    for (_, one), (_, again) in zip(given[:half], given[half:], strict=True):
        assert len(one) == len(again)
        assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert first.classes.to_dict() == second.classes.to_dict()
    assert first.forecaster.to_dict() == second.forecaster.to_dict()
    train, again = (p.sequences("train", 2, 0) for p in (first, second))
    for part in ("demand", "length", "arrival", "label"):
        assert np.array_equal(getattr(train, part), getattr(again, part))
    assert np.array_equal(train.forecast.values, again.forecast.values)
    for held_out in ("validation", "test"):
        one, changed = (p.sequences(held_out, 1, 0).demand for p in (first, second))
        assert not np.array_equal(one, changed)
