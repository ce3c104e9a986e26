"""The named tasks: a trace, a cluster and test sequences that never change; a change makes a new version.

Every field is stated here and none is left to a default, so that changing a default changes no task. Hashes verify
that the trace and the sequences drawn from it are those of the task.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tvwrl import TASK_NAMES
from tvwrl.benchmark.frozen import FROZEN, TRACES
from tvwrl.checks import hint
from tvwrl.ec import OwnLabels
from tvwrl.envs.problem import Problem
from tvwrl.forecasting import Forecaster
from tvwrl.progress import say
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.canonical import trace_hash
from tvwrl.traces.catalogue import data_folder, find_trace, open_trace
from tvwrl.traces.splits import Split
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.types import InputError, SequenceSet, Trace

EMBEDDED = "google"  # always the synthetic population of the package, even if a trace was prepared under that name
OBSERVED = (  # fields of the scenario that entrants may choose, since they change only observations and actions
    "observe_request", "observe_demand", "observe_forecast", "observe_peak", "hold_action", "choose_from_queue",
    "history", "relabel_every",
)  # fmt: skip
_V0 = Scenario(
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
    """The task of a name: TRACE-LOAD-v0 or TRACE-LOAD-VARIANT-v0."""
    trace, load, *variant, _ = name.split("-")
    scenario = replace(_V0, load=float(load), **_VARIANTS["".join(variant)])
    frozen = FROZEN.get(name, ("", 1.0))
    few = {"sequences": 5, "milliseconds": 100.0} if scenario.machines > 10 else {"sequences": 100}
    return Task(name, trace, TRACES[trace], scenario, sequences_hash=frozen[0], penalty_unit=frozen[1], **few)


TASKS: dict[str, Task] = {name: _task(name) for name in TASK_NAMES}


def find_task(task: str | Task) -> Task:
    """The task of that name, which may begin with `tvwrl/`, as `gym.make` needs it.

    Raises InputError with near matches for an unknown name.
    """
    if isinstance(task, Task):
        return task
    task = task.removeprefix("tvwrl/")
    if task not in TASKS:
        raise InputError(f"unknown task '{task}': {hint(task, TASKS)}")
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
        first = _first(task.trace, data) if task.name in TASKS else Problem.build(trace, scenario)
        same = scenario == first.scenario
        forecaster = forecaster_of(task) if scenario.looks_ahead and task.name in TASKS else None
        problem = first if same else Problem.build(trace, scenario, first.classes, first.sampler.unit, forecaster)
        plain = OwnLabels(scenario.classes)  # neither labels nor forecasts, which take long, are part of the hash
        found = sequences_hash(problem.sampler.sequences(task.split, task.sequences, task.seed, plain))
    if found != task.sequences_hash:
        raise InputError(
            f"task {task.name}: the test sequences drawn here have the hash {found}, the task's have "
            f"{task.sequences_hash}: this version of tvwrl or numpy draws other ones, so results cannot be compared"
        )
    return problem


@lru_cache(maxsize=4)
def _first(trace: str, data: str) -> Problem:
    """One of the tasks of a trace, from which the others take units and classes: they have the same training series."""
    task = TASKS[f"{trace}-0.5-v0"]
    return Problem.build(trace_of(task), task.scenario)


def forecaster_of(task: Task) -> Forecaster | None:
    """The forecaster of a task's trace, the same in all of its tasks."""
    return _forecaster(task.trace, str(data_folder()))


@lru_cache(maxsize=1)
def _forecaster(trace: str, data: str) -> Forecaster | None:
    return _first(trace, data).with_forecasts(say).forecaster


def sequences_hash(drawn: SequenceSet) -> str:
    """The first 16 digits of the SHA-256 (hex) of arrivals, demand, requests and what stands in for them."""
    digest = hashlib.sha256()
    factor = np.ones(len(drawn.resources)) if drawn.request_factor is None else drawn.request_factor
    for array in (drawn.arrival, drawn.length, drawn.demand, drawn.request, factor):
        digest.update(np.where(np.isnan(array), np.nan, array + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()[:16]
