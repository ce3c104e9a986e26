"""Tasks draw the sequences that they were frozen with, on every machine and with every version of numpy 2.

`make test-sklx` runs this file with numpy < 2, with which the population `google` is another one: that is refused.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tvwrl
from tvwrl.benchmark.tasks import FROZEN, OBSERVED, TASKS, sequences_hash, trace_of
from tvwrl.ec import OwnLabels
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.types import InputError, SequenceSet

DIFFERENT = {TASKS[name].sequences_hash: name for name in reversed(TASKS)}.values()  # both versions draw many alike
EMBEDDED = [name for name in DIFFERENT if name.startswith("google-")]
RECORDED = [name for name in DIFFERENT if name not in EMBEDDED]
USUAL = {"google2011-0.5-v1", "google2019-0.3-v1", "bitbrains-0.5-burst-v1", "tianchi-0.5-v1"}  # one of each trace
REAL_TRACES = Path(os.environ.get("TVWRL_DATA") or "none")  # before the tests' own folder hides it


needs_numpy_2 = pytest.mark.skipif(np.__version__ < "2", reason="numpy 1 draws the population otherwise")


def hash_of(name: str) -> str:
    """Of the test sequences, drawn without classes, which nobody looks at."""
    task = TASKS[name]
    sampler = SequenceSampler(trace_of(task), task.scenario)
    labels = OwnLabels(task.scenario.classes)
    return sequences_hash(sampler.sequences(task.split, task.sequences, task.seed, labels), sampler)


@needs_numpy_2
@pytest.mark.parametrize("name", EMBEDDED)
def test_a_task_draws_the_sequences_that_it_was_frozen_with(name):
    assert hash_of(name) == TASKS[name].sequences_hash


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in USUAL else pytest.mark.outside) for name in RECORDED]
)
def test_a_task_of_a_recorded_trace_too(name, monkeypatch):
    if not (REAL_TRACES / TASKS[name].trace / "trace.json").is_file():
        pytest.skip(f"no trace {TASKS[name].trace} in TVWRL_DATA")
    monkeypatch.setenv("TVWRL_DATA", str(REAL_TRACES))
    assert hash_of(name) == TASKS[name].sequences_hash


@pytest.mark.skipif(np.__version__ >= "2", reason="numpy 2 draws the population as it was frozen")
def test_numpy_1_is_refused():
    with pytest.raises(InputError, match=r"task google-0.5-v1: numpy 1\.\S+ draws the population google otherwise"):
        trace_of(TASKS["google-0.5-v1"])


def test_another_population_is_refused(monkeypatch):
    monkeypatch.setattr("tvwrl.benchmark.tasks._embedded", lambda: (None, "0" * 64))
    with pytest.raises(
        InputError, match=r"draws the population google otherwise than the task: its tasks need numpy 2"
    ):
        trace_of(TASKS["google-0.5-v1"])


def test_every_name_is_frozen():
    assert set(tvwrl.TASK_NAMES) <= set(FROZEN) <= {*tvwrl.TASK_NAMES, *tvwrl.SUPERSEDED_TASKS} <= set(TASKS)
    assert all(task.sequences_hash for task in TASKS.values())
    assert {task.split for task in TASKS.values()} == {"test"}


def drawn_with(**changes: object) -> tuple[SequenceSet, SequenceSampler]:
    """Two short sequences of a task, some fields of whose scenario are changed."""
    task = TASKS["google-0.5-v1"]
    scenario = replace(task.scenario, machines=4, workloads=6, **changes)  # type: ignore[arg-type]
    sampler = SequenceSampler(trace_of(task), scenario)
    return sampler.sequences("test", 2, 0, OwnLabels(scenario.classes)), sampler


@needs_numpy_2
def test_the_hash_sees_everything_that_was_drawn():
    drawn, sampler = drawn_with(background=2)
    assert drawn.background is not None
    assert drawn.request_factor is not None
    changed = [
        replace(drawn, arrival=drawn.arrival + np.eye(*drawn.arrival.shape, dtype=np.int64)),
        replace(drawn, length=drawn.length - np.eye(*drawn.length.shape, dtype=np.int64)),
        replace(drawn, demand=drawn.demand * 2),
        replace(drawn, request=np.full_like(drawn.request, np.nan)),
        replace(drawn, request_factor=drawn.request_factor * 1.1),
        replace(drawn, background=drawn.background + np.uint8(1)),
        replace(drawn, source_slot=drawn.source_slot + 1),
        replace(drawn, workload_id=drawn.workload_id[:, ::-1]),
    ]
    assert len({sequences_hash(one, sampler) for one in (drawn, *changed)}) == 1 + len(changed)


@needs_numpy_2
def test_the_hash_sees_every_choice_but_what_agents_see():
    other = {  # field of the scenario -> another value than the task's
        "load": 0.4, "burst": 2.0, "usage_delay": 1, "placements_per_slot": 2, "overshoot_per": "machine", "K_c": 1.0,
        "K_u": 2.0, "K_o": 1.0, "K_w": 1.0, "background": 1, "perturb": 1, "max_slots": 900, "queue": 4, "classes": 5,
        "sample": "max", "quantise": False, "peak_units": 5, "capacity": (7.0,), "step_seconds": 3600,
        "moves_per_slot": 1,
    }  # fmt: skip
    plain = sequences_hash(*drawn_with())
    found = {name: sequences_hash(*drawn_with(**{name: value})) for name, value in other.items()}
    assert len({plain, *found.values()}) == 1 + len(found)
    for name, value in {
        "history": 5,
        "hold_action": True,
        "observe_demand": False,
        "mask": "any",
        "own_past": True,
    }.items():
        assert sequences_hash(*drawn_with(**{name: value})) == plain
    unseen = {"machines", "workloads", "machine_types", "split"}  # set above, or with no other value here
    unseen |= {"own_past"}  # only forecasts differ
    moving = {"K_m": 1.0, "move_slots": 2, "move_overlap": 1, "move_rest": 1, "immovable": 0.5}
    may_move = {name: sequences_hash(*drawn_with(moves_per_slot=1, **{name: moving[name]})) for name in moving}
    assert len({found["moves_per_slot"], *may_move.values()}) == 1 + len(moving)
    assert {sequences_hash(*drawn_with(**{name: value})) for name, value in moving.items()} == {plain}
    assert set(other) | set(OBSERVED) | unseen | set(moving) == set(vars(Scenario()))
