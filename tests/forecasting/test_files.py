"""Forecaster files: they come back as they were, and are used for nothing that they were not made for."""

import base64
import hashlib
import json
import zlib
from dataclasses import replace

import numpy as np
import pytest

from tvwrl.forecasting import Beginnings, NetworkForecaster, training_windows
from tvwrl.forecasting.baselines import LastValue
from tvwrl.forecasting.files import FILE, read_forecaster, write_forecaster
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.types import InputError

SCENARIO = Scenario(machines=4)


@pytest.fixture(scope="module")
def trace():
    return synthetic_trace("google", workloads=40, seed=0, days=3)


@pytest.fixture(scope="module")
def sampler(trace):
    return SequenceSampler(trace, SCENARIO)


@pytest.fixture(scope="module")
def fitted(sampler):
    return NetworkForecaster(epochs=1, hidden=4).fit(training_windows(sampler, 60))


@pytest.fixture
def file(fitted, sampler, tmp_path):
    write_forecaster(tmp_path / FILE, fitted, sampler)
    return tmp_path / FILE


def test_it_comes_back_from_the_file_or_its_folder(file, fitted, sampler):
    beginnings = Beginnings.every(training_windows(sampler, 3, random_state=7))
    for path in (file, file.parent):
        again = read_forecaster(path, sampler)
        assert np.array_equal(again.predict(beginnings).most, fitted.predict(beginnings).most)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step_seconds": 3600}, "for step_seconds 1800, but here it is 3600"),
        ({"peak_units": 4}, "for peak_units 6, but here it is 4"),
        ({"quantise": False}, "for quantise True, but here it is False"),
        ({"sample": "max"}, "for sample mean, but here it is max"),
        ({"split": "time"}, "for split workloads, but here it is time"),
    ],
)
def test_another_scenario_is_refused(file, trace, changed, message):
    with pytest.raises(InputError, match=message):
        read_forecaster(file, SequenceSampler(trace, replace(SCENARIO, **changed)))


def test_another_trace_unit_or_order_of_resources_is_refused(file, trace):
    other = synthetic_trace("google", workloads=40, seed=1, days=3)
    with pytest.raises(InputError, match=r"for trace 'google' \(content \w+\), but here it is 'google' \(content"):
        read_forecaster(file, SequenceSampler(other, SCENARIO))
    with pytest.raises(InputError, match=r"for unit 0\.\d+, 0\.\d+, but here it is 0.5, 0.5"):
        read_forecaster(file, SequenceSampler(trace, SCENARIO, np.array([0.5, 0.5])))
    content = json.loads(file.read_text())
    content["made_for"]["resources"] = ["mem", "cpu"]
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match="for resources mem, cpu, but here it is cpu, mem"):
        read_forecaster(file, SequenceSampler(trace, SCENARIO))


def without(*names):
    def change(content):
        inner = content
        for name in names[:-1]:
            inner = inner[name]
        del inner[names[-1]]

    return change


def with_(value, *names):
    def change(content):
        inner = content
        for name in names[:-1]:
            inner = inner[name]
        inner[names[-1]] = value

    return change


def one_input_less(content):
    """As if it had been made by another version, with an input less."""
    for one in (content["forecaster"], *content["forecaster"]["without"].values()):
        one["shift"].pop()
        one["width"].pop()
        for network in one["networks"]:
            network[0][0].pop()


def one_fold_less(content):
    learnt = content["forecaster"]["learnt"]
    learnt["fold"] = [[1], base64.b64encode(zlib.compress(np.zeros(1, "<i8").tobytes())).decode()]


@pytest.mark.parametrize(
    "change",
    [
        without("made_for"),
        without("made_for", "unit"),
        without("forecaster", "networks"),
        with_([], "forecaster", "networks"),
        with_("x", "forecaster"),
        with_([0.5], "forecaster", "values"),
        with_({"os": "system"}, "forecaster", "parameters"),
        with_(9, "forecaster", "parameters", "peak_units"),
        with_(900, "forecaster", "parameters", "step_seconds"),
        with_([[1], "not base64"], "forecaster", "learnt", "demand"),
        with_(float("nan"), "forecaster", "networks", 0, 0, 1, 0),
        with_(float("nan"), "forecaster", "shift", 0),
        one_input_less,
        one_fold_less,
    ],
)
def test_a_damaged_file_is_named(file, sampler, change):
    content = json.loads(file.read_text())
    change(content)
    content["sha256"] = hashlib.sha256(json.dumps(content["forecaster"], sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"forecaster.json is damaged: .*tvwrl forecast"):
        read_forecaster(file, sampler)


def test_a_changed_number_is_noticed(file, sampler):
    text = file.read_text()
    content = json.loads(text)
    content["forecaster"]["networks"][0][0][1][0] += 1e-3
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"forecaster.json is damaged: .*not what was written"):
        read_forecaster(file, sampler)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', "PK\x03\x04", "null"])
def test_what_is_no_forecaster_file_is_named(file, sampler, text):
    file.write_text(text)
    with pytest.raises(InputError, match="is not a forecaster file"):
        read_forecaster(file, sampler)


def test_a_cut_off_or_missing_file_is_named(file, sampler):
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(InputError, match="is not JSON, or was cut off"):
        read_forecaster(file, sampler)
    with pytest.raises(InputError, match="no forecaster file"):
        read_forecaster(file.parent / "nothing", sampler)
    file.write_bytes(b"\xff\xfe\x80")
    with pytest.raises(InputError, match="is not a forecaster file"):
        read_forecaster(file, sampler)


def test_one_that_cannot_be_saved_says_so(sampler, tmp_path):
    with pytest.raises(InputError, match="LastValue cannot be saved"):
        write_forecaster(tmp_path / FILE, LastValue().fit(training_windows(sampler, 20)), sampler)
    assert not (tmp_path / FILE).exists()
