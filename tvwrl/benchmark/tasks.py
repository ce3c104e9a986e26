"""The named tasks: a trace, a cluster and test sequences that never change; a change makes a new version.

Every field is stated here and none is left to a default, so that changing a default changes no task. Hashes verify
that the trace and the sequences drawn from it are those of the task.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tvwrl import SUPERSEDED_TASKS, TASK_NAMES
from tvwrl.benchmark.frozen import FROZEN, TRACES
from tvwrl.checks import hint
from tvwrl.ec import OwnLabels
from tvwrl.envs import Problem
from tvwrl.forecasting import Forecaster
from tvwrl.progress import say
from tvwrl.simulation import Scenario
from tvwrl.traces import SequenceSampler, Split, data_folder, find_trace, open_trace, synthetic_trace, trace_hash
from tvwrl.types import Float, InputError, SequenceSet, Trace

DIGITS = 9  # decimals of what is hashed
EMBEDDED = "google"  # always the synthetic population of the package, even if a trace was prepared under that name
OBSERVED = (  # fields of the scenario that entrants may choose, since they change only observations and actions
    "observe_request", "observe_demand", "observe_forecast", "observe_peak", "hold_action", "choose_from_queue",
    "history", "relabel_every", "mask",
)  # fmt: skip
_COMMON = Scenario(
    machines=10,
    capacity=(8.0,),
    workloads=None,
    step_seconds=1800,
    sample="mean",
    quantise=True,
    peak_units=6,
    history=20,
    queue=5,
    observe_request=True,
    observe_demand=True,
    observe_forecast=False,
    observe_peak=False,
    hold_action=False,  # waiting is cheap in any single slot, so with discounting an agent learns never to place
    choose_from_queue=False,
    mask="any",
    placements_per_slot=1,
    split="workloads",
    max_slots=1000,  # of training episodes; truncates only those of policies that leave workloads waiting
    classes=6,
    relabel_every=1,
    usage_delay=0,
    burst=1.0,
    background=0,
    perturb=0,
    K_c=0.1,
    K_u=3.0,
    K_o=30000.0,
    K_w=50.0,
    overshoot_per="workload",
)
_VARIANTS: dict[str, dict[str, Any]] = {  # the fields that differ
    "": {},
    "burst": {"burst": 8.0, "placements_per_slot": None},
    "delay": {"burst": 8.0, "placements_per_slot": None, "usage_delay": 1},
    "large": {"machines": 1000, "placements_per_slot": 100, "workloads": 4000},
}
_SHORT = ("burst", "delay")  # since v1 their slots are as short as the trace allows
_SHORT_SECONDS = {"tianchi": 900}  # recorded every 15 minutes; all others every 5


@dataclass(frozen=True)
class Task:
    """What schedulers are compared on; a version never changes."""

    name: str
    trace: str  # as `open_trace` takes it; google: the embedded synthetic population
    trace_hash: str  # SHA-256 of its content (`trace_hash`)
    scenario: Scenario  # cluster, load, penalties; by default an entrant observes what its `OBSERVED` fields say
    sequences: int  # how many test sequences are played
    sequences_hash: str  # of their arrivals, demand and requests (`sequences_hash`)
    penalty_unit: float  # a penalty of this much is a reward of -1 in the Gymnasium environment
    split: Split = "test"
    seed: int = 0  # of the sequences
    milliseconds: float = 1000.0  # limit of the mean time per decision

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as written to run.json and to submissions."""
        return asdict(self)


def _task(name: str) -> Task:
    """The task of a name: TRACE-LOAD-VERSION or TRACE-LOAD-VARIANT-VERSION."""
    trace, load, *variants, version = name.split("-")
    variant = "".join(variants)
    scenario = replace(_COMMON, load=float(load), **_VARIANTS[variant])
    if version != "v0":
        scenario = replace(scenario, mask="room")
        scenario = _in_short_slots(scenario, _SHORT_SECONDS.get(trace, 300)) if variant in _SHORT else scenario
    frozen = FROZEN.get(name, ("", 1.0))
    few = {"sequences": 5, "milliseconds": 100.0} if scenario.machines > 10 else {"sequences": 100}
    return Task(name, trace, TRACES[trace], scenario, sequences_hash=frozen[0], penalty_unit=frozen[1], **few)


def _in_short_slots(scenario: Scenario, seconds: int) -> Scenario:
    """The scenario in slots of `seconds`. Penalties by slot accrue `times` as often, so an overshoot, which is charged
    once, costs `times` as much: the four weigh against one another as in slots of half an hour."""
    times = scenario.step_seconds // seconds
    assert isinstance(scenario.K_o, float)
    return replace(
        scenario,
        step_seconds=seconds,
        relabel_every=times * scenario.relabel_every,
        max_slots=times * scenario.max_slots,
        K_o=times * scenario.K_o,
    )


TASKS: dict[str, Task] = {name: _task(name) for name in (*TASK_NAMES, *SUPERSEDED_TASKS)}


def find_task(task: str | Task) -> Task:
    """The task of that name, which may begin with `tvwrl/`, as `gym.make` needs it.

    Raises InputError with near matches for an unknown name.
    """
    if isinstance(task, Task):
        return task
    task = task.removeprefix("tvwrl/")
    if task not in TASKS:
        current = [name for name in TASKS if name not in SUPERSEDED_TASKS]
        raise InputError(f"unknown task '{task}': {hint(task, current)}")
    if task in SUPERSEDED_TASKS:
        say(f"task {task} is superseded by {task.removesuffix('v0')}v1: docs/reference/tasks.md says what changed")
    return TASKS[task]


def is_here(task: Task) -> bool:
    """Whether a trace with the name of the task's is on this machine; `trace_of` checks its hash."""
    try:
        return task.trace == EMBEDDED or find_trace(task.trace) is not None
    except InputError:
        return False


def trace_of(task: Task) -> Trace:
    """The trace of a task.

    Raises InputError that says how to get the trace if it is not on this machine, or that names both hashes if it is
    another one.
    """
    if task.trace == EMBEDDED:
        trace, found = _embedded()
    elif is_here(task):
        trace, found = _opened(task.trace, str(data_folder()))
    else:
        raise InputError(
            f"task {task.name} needs the trace {task.trace}, which is not in TVWRL_DATA ({data_folder()}): get the "
            f"part of it that docs/reference/tasks.md names (tvwrl fetch {task.trace}), then run tvwrl prepare "
            f"{task.trace} --source FOLDER; tasks whose names begin with {EMBEDDED}- need none"
        )
    if found != task.trace_hash:
        raise InputError(
            f"task {task.name}: the trace {task.trace} in TVWRL_DATA ({data_folder()}) has the hash {found[:12]}, the "
            f"task's has {task.trace_hash[:12]}: it was prepared from other files or by other rules "
            "(docs/reference/tasks.md)"
        )
    return trace


@lru_cache(maxsize=1)
def _embedded() -> tuple[Trace, str]:
    trace = synthetic_trace(EMBEDDED, workloads=400, seed=0)
    return trace, trace_hash(trace)


@lru_cache(maxsize=2)
def _opened(name: str, data: str) -> tuple[Trace, str]:
    """A prepared trace and its hash; `data`: the folder to look in, as part of the cache's key."""
    trace = open_trace(name)
    return trace, trace_hash(trace)


def check_observed(chosen: Iterable[str], others: Sequence[str] = ()) -> None:
    """Raise InputError for a field that entrants may not choose; `others`: options beside fields, for the hint."""
    known = {one.name for one in fields(Scenario)}
    for name in chosen:
        if name not in known:
            raise InputError(f"there is no option '{name}': {hint(name, (*OBSERVED, *others))}")
        if name not in OBSERVED:
            raise InputError(f"observe: '{name}' is fixed by the task; entrants may choose {', '.join(OBSERVED)}")


def problem_of(task: Task, observe: dict[str, Any] | None = None) -> Problem:
    """The task as a problem. `observe`: fields of `OBSERVED` whose values replace those of the task's scenario.

    Raises InputError as `trace_of` does, for a field that entrants may not choose, and if the test sequences drawn here
    are not the task's.
    """
    check_observed(observe or {})
    return _problem(task, tuple(sorted((observe or {}).items())), str(data_folder()))


@lru_cache(maxsize=4)
def _problem(task: Task, observe: tuple[tuple[str, Any], ...], data: str) -> Problem:
    say(f"preparing task {task.name}: classes and test sequences, some seconds")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # run.json says what the trace cannot provide
        trace, scenario = trace_of(task), replace(task.scenario, **dict(observe))
        seconds = task.scenario.step_seconds
        first = _first(task.trace, seconds, data) if task.name in TASKS else Problem.build(trace, scenario)
        same = scenario == first.scenario
        forecaster = forecaster_of(task) if scenario.looks_ahead and task.name in TASKS else None
        problem = first if same else Problem.build(trace, scenario, first.classes, first.sampler.unit, forecaster)
        plain = OwnLabels(scenario.classes)  # neither labels nor forecasts, which take long, are part of the hash
        found = sequences_hash(problem.sampler.sequences(task.split, task.sequences, task.seed, plain), problem.sampler)
    _check_hash(task, found)
    return problem


def check_drawn(task: Task, problem: Problem, drawn: SequenceSet) -> None:
    """Raise InputError unless `drawn` are the task's test sequences. `problem`: on which they are played."""
    _check_hash(task, sequences_hash(drawn, problem.sampler))


def _check_hash(task: Task, found: str) -> None:
    if found != task.sequences_hash:
        raise InputError(
            f"task {task.name}: the test sequences drawn here have the hash {found}, the task's have "
            f"{task.sequences_hash}: this version of tvwrl or numpy draws other ones, so results cannot be compared"
        )


@lru_cache(maxsize=4)
def _first(trace: str, seconds: int, data: str) -> Problem:
    """One of the tasks of a trace in slots of `seconds`, from which the others take units and classes: they have the
    same training series."""
    load = "0.5-burst" if seconds < _COMMON.step_seconds else "0.5"
    task = TASKS[f"{trace}-{load}-v1"]
    return Problem.build(trace_of(task), task.scenario)


def forecaster_of(task: Task) -> Forecaster | None:
    """The forecaster of a task's trace, the same in all of its tasks with slots of that length."""
    return _forecaster(task.trace, task.scenario.step_seconds, str(data_folder()))


@lru_cache(maxsize=2)
def _forecaster(trace: str, seconds: int, data: str) -> Forecaster | None:
    return _first(trace, seconds, data).with_forecasts(say).forecaster


def sequences_hash(drawn: SequenceSet, sampler: SequenceSampler) -> str:
    """The first 16 digits of the SHA-256 (hex) of all that an episode depends on but the scheduler.

    These are the arrays that were drawn, what stands in for undeclared requests, the unit, the background load, which
    part of which workload each one is, and every field of the scenario that entrants may not choose. Classes and
    forecasts are not part of it: only agents see them. Numbers count to `DIGITS` decimals, beyond which versions of
    numpy differ.
    """
    digest = hashlib.sha256()
    fixed = {name: value for name, value in asdict(sampler.scenario).items() if name not in OBSERVED}
    for text in (json.dumps(fixed, sort_keys=True), *drawn.workload_id.flat):
        digest.update(f"{text}\n".encode())
    ones: Float = np.ones(len(drawn.resources))
    factor = ones if drawn.request_factor is None else drawn.request_factor
    background = np.zeros(0) if drawn.background is None else drawn.background
    for array in (
        *(sampler.unit, sampler.machines.capacity, factor, background),
        *(drawn.source_slot, drawn.arrival, drawn.length, drawn.demand, drawn.request),
    ):
        digest.update(f"{array.shape}\n".encode())
        rounded = np.round(np.asarray(array, np.float64), DIGITS) + 0.0  # no negative zeros
        digest.update(np.where(np.isnan(rounded), np.nan, rounded).astype("<f8").tobytes())
    return digest.hexdigest()[:16]
