"""Named tasks never change, and say what is wrong where they cannot be opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import tvwrl
from tvwrl.benchmark import tasks
from tvwrl.benchmark.tasks import TASKS, find_task, problem_of, trace_of
from tvwrl.ec import EquivalenceClasses, population_of
from tvwrl.envs.problem import QUICK_INITIALISATIONS
from tvwrl.forecasting import NetworkForecaster, training_windows
from tvwrl.forecasting.beginnings import Beginnings
from tvwrl.traces import write_trace
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.types import InputError

EMBEDDED = [name for name in TASKS if name.startswith("google-")]


@pytest.mark.parametrize("seconds", [300, 1800])
def test_tasks_with_equally_long_slots_share_units_and_training_series(seconds):
    alike = [TASKS[name] for name in EMBEDDED if TASKS[name].scenario.step_seconds == seconds]
    samplers = [SequenceSampler(trace_of(task), task.scenario) for task in alike]
    populations = [population_of(sampler) for sampler in samplers]
    for sampler, population in zip(samplers, populations, strict=True):
        assert np.array_equal(sampler.unit, samplers[0].unit)
        assert population.workload_id.tolist() == populations[0].workload_id.tolist()
        assert all(map(np.array_equal, population.series, populations[0].series))
        assert np.array_equal(population.fold, populations[0].fold)


@pytest.mark.parametrize("name", [name for name in tvwrl.TASK_NAMES if "-move" not in name])
def test_version_1_has_the_mask_room_and_short_slots_where_workloads_burst(name):
    task, before = TASKS[name], TASKS[name.replace("-v1", "-v0")]
    assert (task.scenario.mask, before.scenario.mask) == ("room", "any")
    if task.scenario.burst == 1.0:
        assert replace(task.scenario, mask="any") == before.scenario
        assert (task.sequences_hash, task.penalty_unit) == (before.sequences_hash, before.penalty_unit)
    else:
        seconds = 900 if task.trace == "tianchi" else 300
        times = 1800 // seconds
        assert (task.scenario.step_seconds, task.scenario.placements_per_slot) == (seconds, None)
        assert (task.scenario.K_o, task.scenario.max_slots) == (times * 30_000, times * 1000)
        assert task.scenario.relabel_every * seconds == before.scenario.step_seconds


def test_a_superseded_task_can_be_played_and_says_so(capsys):
    assert find_task("google-0.5-v0") is TASKS["google-0.5-v0"]
    assert "google-0.5-v0 is superseded by google-0.5-v1" in capsys.readouterr().err
    assert gym.spec("tvwrl/google-0.5-v0").kwargs == {"task": "google-0.5-v0"}


def test_a_misspelt_name_lists_near_matches():
    with pytest.raises(InputError, match=r"unknown task 'gogle-0\.5-v1': did you mean google-0\.5-v1"):
        find_task("gogle-0.5-v1")
    with pytest.raises(InputError, match=r"unknown task 'gogle': a task is TRACE-LOAD-v1, its trace google"):
        find_task("gogle")
    with pytest.raises(InputError, match=r"unknown task 'x': tvwrl benchmark --list-tasks lists all"):
        find_task("x")


def test_a_missing_trace_says_how_to_get_it():
    with pytest.raises(InputError, match=r"task tianchi-0\.3-v1 needs the trace tianchi.*tvwrl prepare tianchi"):
        problem_of(TASKS["tianchi-0.3-v1"])


@pytest.fixture
def prepared(google, tmp_path, monkeypatch) -> Iterator[None]:
    """Another trace under the name of google2011."""
    write_trace(google, tmp_path / "google2011")
    monkeypatch.setenv("TVWRL_DATA", str(tmp_path))
    yield
    tasks._opened.cache_clear()


@pytest.mark.usefixtures("prepared")
def test_a_trace_of_another_hash_is_refused_by_name():
    with pytest.raises(InputError, match=r"task google2011-0\.8-v1: the trace google2011 .* has the hash"):
        problem_of(TASKS["google2011-0.8-v1"])


@pytest.mark.usefixtures("prepared")
def test_the_embedded_population_is_not_replaced_by_a_prepared_trace():
    assert trace_of(TASKS["google-0.5-v1"]).source == "synthetic"


def test_sequences_of_another_hash_are_refused(small):
    with pytest.raises(InputError, match=r"task small-v1: the test sequences drawn here have the hash"):
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
    for said in ("preparing task small-v1: classes and test sequences, some seconds\n", ""):
        problem_of(other)
        assert capsys.readouterr() == ("", said)


def test_a_task_may_have_the_name_that_gymnasium_knows():
    assert find_task("tvwrl/google-0.5-v1") is TASKS["google-0.5-v1"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["google-0.5-v1", "google-0.5-burst-v1"])
def test_what_ships_was_fitted_on_the_task_by_todays_settings(name):
    """If not, benchmarks/freeze_tasks.py --prepared writes it again. Fitting itself takes a minute."""
    task = TASKS[name]
    scenario = task.scenario
    problem = tasks.problem_of(task)
    shipped, usual = tasks.forecaster_of(task), NetworkForecaster(scenario.peak_units, scenario.step_seconds)
    assert shipped.get_params() == usual.get_params()
    drawn = Beginnings.draw(training_windows(problem.sampler), np.random.default_rng([usual.random_state, 2]))
    for part in ("demand", "length", "fold"):
        assert np.allclose(getattr(shipped.learnt.windows, part), getattr(drawn.windows, part))
    assert np.array_equal(shipped.learnt.seen, drawn.seen)
    made = EquivalenceClasses("temporal", scenario.classes, QUICK_INITIALISATIONS)
    one, other = (classes.get_params() for classes in (problem.classes, made))
    assert one | {"ks": tuple(one["ks"])} == other
    assert problem.classes.fitted_on_["workloads"] == len(population_of(problem.sampler))
    assert problem.classes.fitted_on_["step_seconds"] == scenario.step_seconds
