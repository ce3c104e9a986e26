"""The shipped forecaster: who may start from it, and what comes of that."""

import json
import tomllib
from dataclasses import replace
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from tvwrl.forecasting import Beginnings, NetworkForecaster, training_windows
from tvwrl.forecasting import pretrained as shipped
from tvwrl.forecasting.pretrained import FEW_SERIES, digest, fit_or_adapt, prior_for, start_for
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import trace_hash
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.splits import UNSEEN
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.types import InputError


@pytest.fixture(scope="module")
def trace():
    return synthetic_trace("alibaba", workloads=20, seed=3, days=3)


@pytest.fixture(scope="module")
def windows(trace):
    return training_windows(SequenceSampler(trace, Scenario(machines=4, workloads=16)), 200)


def chances(forecaster, windows):
    """What it says of some of the windows as if it had never seen them."""
    unseen = replace(windows, fold=np.full(len(windows), UNSEEN))[:20]
    return forecaster.predict(Beginnings.every(unseen)).most


def test_a_start_gives_the_same_result_twice_and_changes_it(trace, windows):
    start = start_for(trace, NetworkForecaster())
    adapted = [chances(NetworkForecaster().fit(windows, start=start), windows) for _ in range(2)]
    assert np.array_equal(*adapted)
    alone = NetworkForecaster(adapt_rate=1e-9).fit(windows, start=start)
    alone.trust_ = None  # its networks, unmixed
    assert np.allclose(chances(alone, windows), chances(start, windows), atol=1e-4)  # it begins where `start` ended
    assert not np.allclose(adapted[0], chances(start, windows), atol=1e-4)
    again = start_for(trace, NetworkForecaster())
    assert np.array_equal(chances(start, windows), chances(again, windows))  # which is as it was


@pytest.mark.parametrize(
    ("name", "value"), [("peak_units", 8), ("step_seconds", 900), ("hidden", 32)], ids=lambda value: str(value)
)
def test_a_start_that_does_not_match_is_named_and_refused(trace, windows, name, value):
    forecaster = NetworkForecaster(**{name: value})
    start = start_for(trace, NetworkForecaster())
    assert start_for(trace, forecaster) is None
    with pytest.raises(InputError, match=rf"{name} is {value}, but the forecaster to start from has"):
        forecaster.fit(windows, start=start)


def test_other_resources_do_not_start_from_it(trace):
    assert start_for(replace(trace, resources=("mem", "cpu")), NetworkForecaster()) is None


def test_a_trace_that_it_learnt_from_does_not_start_from_it(trace, monkeypatch):
    assert start_for(trace, NetworkForecaster()) is not None
    seen = shipped._content(shipped.FILE) | {"traces": {trace_hash(trace): trace.name}, "workloads": []}
    monkeypatch.setattr(shipped, "_content", lambda name: seen)
    assert start_for(trace, NetworkForecaster()) is None
    assert start_for(synthetic_trace("alibaba", workloads=20, seed=4, days=3), NetworkForecaster()) is not None


def test_recorded_workloads_are_known_however_they_were_prepared(trace, monkeypatch):
    real = replace(trace, source="real")
    seen = shipped._content(shipped.FILE) | {"traces": {}, "workloads": [digest(name) for name in real.workload_id]}
    monkeypatch.setattr(shipped, "_content", lambda name: seen)
    part = real.select(np.arange(4))
    assert start_for(replace(part, name="other", usage=part.usage * 2), NetworkForecaster()) is None
    others = np.array([f"another-{i}" for i in range(4)], dtype=object)
    assert start_for(replace(part, workload_id=others), NetworkForecaster()) is not None


def test_the_synthetic_trace_of_every_run_is_unseen():
    assert start_for(synthetic_trace("google", workloads=20, seed=0), NetworkForecaster()) is not None


def test_the_better_one_on_unseen_folds_is_kept(trace, windows):
    start = start_for(trace, NetworkForecaster())
    prior = prior_for(trace, NetworkForecaster())
    errors = [NetworkForecaster().fit(windows, start=begin, prior=prior).unseen_error() for begin in (None, start)]
    assert fit_or_adapt(NetworkForecaster(), windows, trace).unseen_error() == min(errors)


def test_a_trace_without_folds_adapts_and_one_of_many_series_does_not(trace, windows):
    start = start_for(trace, NetworkForecaster())
    one = replace(windows, fold=np.full(len(windows), UNSEEN))
    prior = prior_for(trace, NetworkForecaster())
    adapted = NetworkForecaster().fit(one, start=start, prior=prior)
    assert np.array_equal(chances(fit_or_adapt(NetworkForecaster(), one, trace), one), chances(adapted, one))
    many = replace(one, series=np.arange(len(one)))
    assert len(many) > FEW_SERIES
    fitted = NetworkForecaster().fit(many, prior=prior)
    assert np.array_equal(chances(fit_or_adapt(NetworkForecaster(), many, trace), one), chances(fitted, one))


def test_drift_elsewhere_is_for_traces_that_it_was_not_counted_on(trace, monkeypatch):
    assert prior_for(trace, NetworkForecaster()) is not None
    assert prior_for(trace, NetworkForecaster(step_seconds=900)) is None
    known = shipped._content(shipped.DRIFT_FILE) | {"workloads": [digest(trace.workload_id[0])]}
    monkeypatch.setattr(shipped, "_content", lambda name: known)
    assert prior_for(trace, NetworkForecaster()) is not None  # a synthetic one may have the names of a recorded one
    assert prior_for(replace(trace, source="real"), NetworkForecaster()) is None


def test_it_holds_weights_alone_and_says_whose_data_it_learnt_from(trace):
    text = files("tvwrl.forecasting").joinpath(shipped.FILE).read_text("utf-8")
    content = json.loads(text)
    assert len(text) < 400_000
    assert "CC-BY 4.0" in content["about"]
    assert content["forecaster"]["learnt"] is None
    assert {"google2011", "google2019"} <= set(content["traces"].values())
    with pytest.raises(InputError, match="cannot sample"):
        start_for(trace, NetworkForecaster()).sample(None, 1, np.random.default_rng(0))


def test_it_is_part_of_the_package():
    root = Path(__file__).parents[2]
    data = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["tvwrl"]
    for name in (shipped.FILE, shipped.DRIFT_FILE):
        assert any(fnmatch(f"forecasting/{name}", pattern) for pattern in data)
