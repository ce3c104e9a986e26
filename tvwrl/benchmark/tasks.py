"""The named tasks: a trace, a cluster and test sequences that never change; a change makes a new version.

Every field is stated here and none is left to a default, so that changing a default changes no task. Hashes verify
that the trace and the sequences drawn from it are those of the task.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeVar

import numpy as np

from tvwrl import SUPERSEDED_TASKS, TASK_NAMES
from tvwrl.checks import either, hint
from tvwrl.ec import OWN_LABELS, OwnLabels, classes_from
from tvwrl.envs import Problem
from tvwrl.forecasting import Forecaster, NetworkForecaster
from tvwrl.progress import say
from tvwrl.simulation import Scenario
from tvwrl.traces import SequenceSampler, Split, data_folder, find_trace, open_trace, synthetic_trace, trace_hash
from tvwrl.types import Float, InputError, SequenceSet, Trace

T = TypeVar("T")
TRACES = {  # `trace_hash` of each
    "google": "cee8f975c484dcca01f1be5e1c42ad63182ac9293e1b424200e802fb7d91fc55",
    "google2011": "f092aa43b2cb757f8b286381ce7b88faffd1cba5507226da0e5475936e59841f",
    "google2019": "322d4fe9f2f7cfcd2d1104098010a46dd67881f50895da921f5ac775ce512eca",
    "tianchi": "dc67e813dd6e369851d90761ede7cd70d9476b68d2fec6a9e9d2dbe8894f9f5c",
    "bitbrains": "92ec726726d937e43ed5bb63da6d13a86ab5d22b8f1803045ff113438f785ebf",
}

# Task -> hash of its test sequences, and the mean penalty per decision of best-fit-peak on training sequences, rounded
# to two digits; benchmarks/freeze_tasks.py prints both. A v0 that is not here has those of v1
FROZEN: dict[str, tuple[str, float]] = {
    "google-0.3-v1": ("8b7c20b26c638bfc", 7_300.0),
    "google-0.5-v1": ("e9639039081acbbb", 6_400.0),
    "google-0.8-v1": ("6f8ac42d85fd3916", 6_000.0),
    "google-0.5-burst-v1": ("aa97b4e46a9ee531", 54_000.0),
    "google-0.5-delay-v1": ("4f592b308c4d5805", 54_000.0),
    "google-0.5-large-v1": ("61b359f042e8520a", 4_600.0),
    "google2011-0.3-v1": ("aa4702ab428d1c55", 7_500.0),
    "google2011-0.5-v1": ("41d6d78f7fe223a3", 6_700.0),
    "google2011-0.8-v1": ("fee90bbc04f7ad59", 5_800.0),
    "google2011-0.5-burst-v1": ("e0aeb95245718727", 55_000.0),
    "google2011-0.5-delay-v1": ("2e11489b25b98a8f", 55_000.0),
    "google2011-0.5-large-v1": ("11555a78c0be63a5", 4_200.0),
    "google2019-0.3-v1": ("3415762aff3856f2", 9_000.0),
    "google2019-0.5-v1": ("61fdabcdd5fe0fb1", 7_800.0),
    "google2019-0.8-v1": ("e449ceeb68e6000f", 7_800.0),
    "google2019-0.5-burst-v1": ("9c1b82bac07df39b", 62_000.0),
    "google2019-0.5-delay-v1": ("3781e33e14fc079d", 62_000.0),
    "google2019-0.5-large-v1": ("2f4b54799e7c4554", 5_600.0),
    "tianchi-0.3-v1": ("f7dbe0ce1cea4f08", 5_700.0),
    "tianchi-0.5-v1": ("8b84daaab8f3314e", 5_100.0),
    "tianchi-0.8-v1": ("6d5ecea7cce02a7c", 4_200.0),
    "tianchi-0.5-burst-v1": ("f57c90fbd5503bf7", 12_000.0),
    "tianchi-0.5-delay-v1": ("b87ec20a894be1f9", 12_000.0),
    "tianchi-0.5-large-v1": ("64d6802a43d1e419", 3_500.0),
    "bitbrains-0.3-v1": ("b5b9aa1899341ce4", 19_000.0),
    "bitbrains-0.5-v1": ("eaf8dee60a186ccc", 18_000.0),
    "bitbrains-0.8-v1": ("71281ae52a04b3da", 21_000.0),
    "bitbrains-0.5-burst-v1": ("53108c87751afa67", 110_000.0),
    "bitbrains-0.5-delay-v1": ("8921b3ba0aaf3d88", 110_000.0),
    "bitbrains-0.5-large-v1": ("7915a90e8f75d8c3", 15_000.0),
    "google-0.3-move-v1": ("67f99627835ad8b7", 7_300.0),
    "google-0.5-move-v1": ("fad81350f7ccffc9", 6_400.0),
    "google-0.8-move-v1": ("d6ed8ee49218c5e6", 6_000.0),
    "google2011-0.3-move-v1": ("744752621979485a", 7_500.0),
    "google2011-0.5-move-v1": ("0a878bdb11109f0a", 6_700.0),
    "google2011-0.8-move-v1": ("3d682cc77a992d8f", 5_800.0),
    "google2019-0.3-move-v1": ("511a10e0074d2914", 9_000.0),
    "google2019-0.5-move-v1": ("38930769c2ea85e0", 7_800.0),
    "google2019-0.8-move-v1": ("fbf00dcc1d8c4674", 7_800.0),
    "tianchi-0.3-move-v1": ("d19094b7ab1a52f3", 5_700.0),
    "tianchi-0.5-move-v1": ("e6cb0a3d98160a43", 5_100.0),
    "tianchi-0.8-move-v1": ("f395241f6f37273b", 4_200.0),
    "bitbrains-0.3-move-v1": ("ab0e052be012cf72", 19_000.0),
    "bitbrains-0.5-move-v1": ("ae201d83f3dc2b2e", 18_000.0),
    "bitbrains-0.8-move-v1": ("c4d193e2a5496c8e", 21_000.0),
    "google2011-0.5-move300-v1": ("f1d010d13becb73b", 6_700.0),
    "google2011-0.5-move3000-v1": ("9c90ae301771d020", 6_700.0),
    "google-0.5-burst-v0": ("5eb503034ab8ca14", 7_400.0),
    "google-0.5-delay-v0": ("0611c16cc1c3c6b9", 7_400.0),
    "google2011-0.5-burst-v0": ("c9c7e8c10b791dec", 7_100.0),
    "google2011-0.5-delay-v0": ("748bc171173721cd", 7_100.0),
    "google2019-0.5-burst-v0": ("e77e35222232f054", 8_500.0),
    "google2019-0.5-delay-v0": ("12ede876bc3e44db", 8_500.0),
    "tianchi-0.5-burst-v0": ("e1e9e2ec9ff40fe5", 5_500.0),
    "tianchi-0.5-delay-v0": ("6601de418f9d68e4", 5_500.0),
    "bitbrains-0.5-burst-v0": ("8a653594b13a18e7", 19_000.0),
    "bitbrains-0.5-delay-v0": ("d5cf454b8085ac0c", 19_000.0),
}

# Fields of a scenario that say nothing where nothing may move
OF_MOVES = ("moves_per_slot", "K_m", "move_slots", "move_overlap", "move_rest", "immovable")
CLASSES = "temporal"  # of all tasks, whatever the default for other problems
DIGITS = 9  # decimals of what is hashed
PREPARED = "prepared/{kind}-{trace}-{seconds}.json.gz"
EMBEDDED = "google"  # always the synthetic population of the package, even if a trace was prepared under that name
OF_FORECASTS = ("own_past",)  # fields that change forecasts alone
OBSERVED = (  # fields of the scenario that entrants may choose, since they change only observations and actions
    "observe_request", "observe_demand", "observe_forecast", "observe_peak", "hold_action", "choose_from_queue",
    "history", "relabel_every", "mask", "shown_running",
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
    moves_per_slot=0,
    shown_running=40,
    K_m=1000.0,
    move_slots=1,
    move_overlap=0,
    move_rest=0,
    immovable=0.0,
)
_VARIANTS: dict[str, dict[str, Any]] = {  # the fields that differ
    "": {},
    "burst": {"burst": 8.0, "placements_per_slot": None},
    "delay": {"burst": 8.0, "placements_per_slot": None, "usage_delay": 1},
    "large": {"machines": 1000, "placements_per_slot": 100, "workloads": 4000},
    "move": {"moves_per_slot": 2},
    "move300": {"moves_per_slot": 2, "K_m": 300.0},
    "move3000": {"moves_per_slot": 2, "K_m": 3000.0},
}
_SHORT = ("burst", "delay")  # since v1 their slots are as short as the trace allows
_SHORT_SECONDS = {"tianchi": 900}  # recorded every 15 minutes; all others every 5


@dataclass(frozen=True)
class Task:
    """What schedulers are compared on; a version never changes.

    Parameters
    ----------
    name : str
        Trace, load, variant and version, such as google-0.5-burst-v1.
    trace : str
        Its name, as `open_trace` takes it; google: the embedded synthetic population.
    trace_hash : str
        SHA-256 of its content (`trace_hash`).
    scenario : Scenario
        Cluster, load, penalties; by default an entrant observes what its `OBSERVED` fields say.
    sequences : int
        How many test sequences are played.
    sequences_hash : str
        SHA-256, cut short, of what an episode on them depends on (`sequences_hash`).
    penalty_unit : float
        A penalty of this much is a reward of -1 in the Gymnasium environment.
    split : Split, default 'test'
        Series that its arrivals are cut from.
    seed : int, default 0
        Seed of the draw of its sequences.
    milliseconds : float, default 1000.0
        Limit of the mean time per decision.
    """

    name: str
    trace: str
    trace_hash: str
    scenario: Scenario
    sequences: int
    sequences_hash: str
    penalty_unit: float
    split: Split = "test"
    seed: int = 0
    milliseconds: float = 1000.0

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
    if version != "v0" and variant in _SHORT:
        # Penalties by slot accrue `times` as often, so an overshoot, which is charged once, costs `times` as much: the
        # four weigh against one another as in slots of half an hour
        seconds = _SHORT_SECONDS.get(trace, 300)
        times = scenario.step_seconds // seconds
        assert isinstance(scenario.K_o, float)
        scenario = replace(
            scenario,
            step_seconds=seconds,
            relabel_every=times * scenario.relabel_every,
            max_slots=times * scenario.max_slots,
            K_o=times * scenario.K_o,
        )
    frozen = FROZEN.get(name) or FROZEN.get(f"{name.removesuffix(version)}v1", ("", 1.0))
    few = {"sequences": 5, "milliseconds": 100.0} if scenario.machines > 10 else {"sequences": 100}
    return Task(name, trace, TRACES[trace], scenario, sequences_hash=frozen[0], penalty_unit=frozen[1], **few)


TASKS: dict[str, Task] = {name: _task(name) for name in (*TASK_NAMES, *SUPERSEDED_TASKS)}


def find_task(task: str | Task) -> Task:
    """The task of that name, which may begin with `tvwrl/`, as `gym.make` needs it.

    Parameters
    ----------
    task : str | Task
        A named task, or its name as in `tvwrl.TASK_NAMES`.

    Returns
    -------
    Task
        The task.

    Raises
    ------
    InputError
        With near matches for an unknown name.
    """
    if isinstance(task, Task):
        return task
    task = task.removeprefix("tvwrl/")
    if task not in TASKS:
        current = [name for name in TASKS if name not in SUPERSEDED_TASKS]
        listed_by = "tvwrl benchmark --list-tasks lists all"
        meant = hint(task, current, listed_by=listed_by)
        if meant == listed_by and (near := get_close_matches(task.partition("-")[0], TRACES)):
            meant = f"a task is TRACE-LOAD-v1, its trace {either(near)}; {listed_by}"
        raise InputError(f"unknown task '{task}': {meant}")
    if task in SUPERSEDED_TASKS:
        say(f"task {task} is superseded by {task.removesuffix('v0')}v1: docs/reference/tasks.md says what changed")
    return TASKS[task]


def is_named(task: Task) -> bool:
    """Whether the named task of that name has the same trace and scenario."""
    named = TASKS.get(task.name)
    return named is not None and (named.trace, named.scenario) == (task.trace, task.scenario)


def is_here(task: Task) -> bool:
    """Whether a trace with the name of the task's is on this machine; `trace_of` checks its hash."""
    try:
        return task.trace == EMBEDDED or find_trace(task.trace) is not None
    except InputError:
        return False


def files_of(task: Task) -> list[tuple[str, int, int]]:
    """Name, size and time of change of the files of the task's trace on this machine; none for the embedded one.

    Raises InputError as `trace_of` does if they are not here. As long as they are the same, so is the trace.
    """
    if task.trace == EMBEDDED:
        return []
    folder = find_trace(task.trace) if is_here(task) else None
    if folder is None:
        trace_of(task)  # says how to get it
        return []
    about = [(file, file.stat()) for file in (sorted(folder.iterdir()) if folder.is_dir() else (folder,))]
    return [(str(file), stat.st_size, stat.st_mtime_ns) for file, stat in about]


def trace_of(task: Task) -> Trace:
    """The trace of a task.

    Raises InputError that says how to get the trace if it is not on this machine, or that names both hashes if it is
    another one.
    """
    if task.trace == EMBEDDED:
        trace, found = _embedded()
        if found != task.trace_hash:
            raise InputError(
                f"task {task.name}: numpy {np.__version__} draws the population {EMBEDDED} otherwise than the task: "
                "its tasks need numpy 2 (2.0, 2.2 and 2.4 were tried)"
            )
    elif is_here(task):
        trace, found = _opened(task.trace, str(data_folder()))
    else:
        raise InputError(
            f"task {task.name} needs the trace {task.trace}, which is not in TVWRL_DATA ({data_folder()}): get the "
            f"part of it that docs/reference/tasks.md names, then run tvwrl prepare "
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
        known = is_named(task)  # somebody's own task has units and classes of its own
        first = _first(task.trace, seconds, data) if known else Problem.build(trace, scenario, CLASSES)
        same = scenario == first.scenario
        forecaster = forecaster_of(task) if scenario.looks_ahead and known else None
        problem = first if same else Problem.build(trace, scenario, first.classes, first.sampler.unit, forecaster)
        plain = OwnLabels(
            scenario.classes or OWN_LABELS
        )  # neither labels nor forecasts, which take long, are part of the hash
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
    opened, classes = trace_of(task), prepared(trace, seconds, "classes", classes_from)
    return Problem.build(opened, task.scenario, CLASSES if classes is None else classes)


def forecaster_of(task: Task) -> Forecaster | None:
    """The forecaster of a task's trace, the same in all of its tasks with slots of that length."""
    return _forecaster(task.trace, task.scenario.step_seconds, str(data_folder()))


@lru_cache(maxsize=2)
def _forecaster(trace: str, seconds: int, data: str) -> Forecaster | None:
    found = prepared(trace, seconds, "forecaster", NetworkForecaster.from_dict)
    return found or _first(trace, seconds, data).with_forecasts(say).forecaster


def prepared(trace: str, seconds: int, kind: str, from_dict: Callable[[Any], T]) -> T | None:
    """Classes or forecaster of a trace in slots of `seconds` as they ship with the package; None if they do not.

    benchmarks/freeze_tasks.py writes them, for the embedded trace alone.
    """
    file = files("tvwrl.benchmark").joinpath(PREPARED.format(kind=kind, trace=trace, seconds=seconds))
    if not file.is_file():
        return None
    return from_dict(json.loads(gzip.decompress(file.read_bytes())))


def sequences_hash(drawn: SequenceSet, sampler: SequenceSampler) -> str:
    """The first 16 digits of the SHA-256 (hex) of all that an episode depends on but the scheduler.

    These are the arrays that were drawn, what stands in for undeclared requests, the unit, the background load, which
    part of which workload each one is, and every field of the scenario that entrants may not choose. Classes and
    forecasts are not part of it: only agents see them. Numbers count to `DIGITS` decimals, beyond which versions of
    numpy differ.
    """
    digest = hashlib.sha256()
    left_out = (*OBSERVED, *OF_FORECASTS) if sampler.scenario.moves_per_slot else (*OBSERVED, *OF_FORECASTS, *OF_MOVES)
    fixed = {name: value for name, value in asdict(sampler.scenario).items() if name not in left_out}
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
