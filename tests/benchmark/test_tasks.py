"""Named tasks never change, and say what is wrong where they cannot be opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tvwrl
from tvwrl.benchmark import tasks
from tvwrl.benchmark.frozen import FROZEN
from tvwrl.benchmark.tasks import TASKS, find_task, problem_of, sequences_hash, trace_of
from tvwrl.ec import OwnLabels, population_of
from tvwrl.forecasting import NetworkForecaster
from tvwrl.traces import write_trace
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.types import InputError

EMBEDDED = [name for name in TASKS if name.startswith("google-")]
RECORDED = [name for name in TASKS if name not in EMBEDDED]
REAL_TRACES = Path(os.environ.get("TVWRL_DATA") or "none")  # before the tests' own folder hides it


def hash_of(name: str) -> str:
    """Of the test sequences, drawn without classes, which nobody looks at."""
    task = TASKS[name]
    sampler = SequenceSampler(trace_of(task), task.scenario)
    labels = OwnLabels(task.scenario.classes)
    return sequences_hash(sampler.sequences(task.split, task.sequences, task.seed, labels))


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_task_draws_the_sequences_that_it_was_frozen_with(name):
    assert hash_of(name) == TASKS[name].sequences_hash


def test_tasks_of_a_trace_share_units_and_training_series():
    samplers = [SequenceSampler(trace_of(TASKS[name]), TASKS[name].scenario) for name in EMBEDDED]
    populations = [population_of(sampler) for sampler in samplers]
    for sampler, population in zip(samplers, populations, strict=True):
        assert np.array_equal(sampler.unit, samplers[0].unit)
        assert population.workload_id.tolist() == populations[0].workload_id.tolist()
        assert all(map(np.array_equal, population.series, populations[0].series))
        assert np.array_equal(population.fold, populations[0].fold)


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", RECORDED)
def test_a_task_of_a_recorded_trace_too(name, monkeypatch):
    if not (REAL_TRACES / TASKS[name].trace / "trace.json").is_file():
        pytest.skip(f"no trace {TASKS[name].trace} in TVWRL_DATA")
    monkeypatch.setenv("TVWRL_DATA", str(REAL_TRACES))
    assert hash_of(name) == TASKS[name].sequences_hash


def test_every_name_is_frozen_and_registered():
    assert tuple(FROZEN) == tvwrl.TASK_NAMES == tuple(TASKS)[: len(FROZEN)]
    assert {task.split for task in TASKS.values()} == {"test"}


def test_the_hash_sees_arrivals_demand_and_requests(train):
    changed = [
        replace(train, arrival=train.arrival + np.eye(*train.arrival.shape, dtype=np.int64)),
        replace(train, demand=train.demand * 2),
        replace(train, request=np.full_like(train.request, np.nan)),
    ]
    assert len({sequences_hash(one) for one in (train, *changed)}) == 4
    assert sequences_hash(replace(train, label=train.label + 1)) == sequences_hash(train)  # only what agents see


def test_a_misspelt_name_lists_near_matches():
    with pytest.raises(InputError, match=r"unknown task 'gogle-0\.5-v0': did you mean google-0\.5-v0"):
        find_task("gogle-0.5-v0")
    with pytest.raises(InputError, match=r"unknown task 'x': must be one of google-0\.3-v0, "):
        find_task("x")


def test_a_missing_trace_says_how_to_get_it():
    with pytest.raises(InputError, match=r"task tianchi-0\.3-v0 needs the trace tianchi.*tvwrl prepare tianchi"):
        problem_of(TASKS["tianchi-0.3-v0"])


@pytest.fixture
def prepared(google, tmp_path, monkeypatch) -> Iterator[None]:
    """Another trace under the name of google2011."""
    write_trace(google, tmp_path / "google2011")
    monkeypatch.setenv("TVWRL_DATA", str(tmp_path))
    yield
    tasks._opened.cache_clear()


@pytest.mark.usefixtures("prepared")
def test_a_trace_of_another_hash_is_refused_by_name():
    with pytest.raises(InputError, match=r"task google2011-0\.8-v0: the trace google2011 .* has the hash"):
        problem_of(TASKS["google2011-0.8-v0"])


@pytest.mark.usefixtures("prepared")
def test_the_embedded_population_is_not_replaced_by_a_prepared_trace():
    assert trace_of(TASKS["google-0.5-v0"]).source == "synthetic"


def test_sequences_of_another_hash_are_refused(small):
    with pytest.raises(InputError, match=r"task small-v0: the test sequences drawn here have the hash"):
        problem_of(replace(small, sequences_hash="0" * 16))


def test_only_what_is_seen_can_be_chosen(small):
    with pytest.raises(InputError, match="observe: 'machines' is fixed by the task"):
        problem_of(small, {"machines": 20})
    with pytest.raises(InputError, match=r"there is no option 'histroy': did you mean history\?"):
        problem_of(small, {"histroy": 5})
    shown = problem_of(small, {"observe_demand": False})
    assert shown.scenario == replace(small.scenario, observe_demand=False)


def test_what_is_seen_differently_shares_classes_and_forecaster(small, monkeypatch):
    fitted = NetworkForecaster()
    monkeypatch.setattr(tasks, "forecaster_of", lambda task: fitted)
    other = replace(small, milliseconds=2.0)  # nobody has prepared it
    problems = [problem_of(other, {"history": rows, "observe_forecast": True}) for rows in (5, 6)]
    assert problems[0].classes is problems[1].classes is problem_of(small).classes
    assert problems[0].forecaster is problems[1].forecaster is fitted


def test_a_preparation_is_announced_once(small, capsys):
    other = replace(small, milliseconds=3.0)
    for said in ("preparing task small-v0: classes and test sequences, some seconds\n", ""):
        problem_of(other)
        assert capsys.readouterr() == ("", said)


def test_a_task_may_have_the_name_that_gymnasium_knows():
    assert find_task("tvwrl/google-0.5-v0") is TASKS["google-0.5-v0"]
