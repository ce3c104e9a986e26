"""Entries of a comparison: schedulers or their names, functions, models, training runs, ONNX and Python files.

On a task, whatever is not this project's code plays in a process of its own (`remote`), which cannot touch what others
are measured on and sees what its knowledge group may.
"""

from __future__ import annotations

import math
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl import SUPERSEDED_TASKS
from tvwrl.agents import is_shipped, located
from tvwrl.benchmark.models import (
    DEFINED,
    Function,
    Shown,
    Through,
    checked_action,
    checked_machine,
    checked_workload,
    function_of,
    load,
)
from tvwrl.benchmark.remote import EntryProcess, RemoteScheduler, packed, remote_function, remote_knowledge, what_of
from tvwrl.benchmark.tasks import OBSERVED, TASKS, Task, problem_of, trace_of
from tvwrl.checks import hint
from tvwrl.envs import About, Part, Problem, View, action_masks, observation, observation_space
from tvwrl.experiments import (
    Cell,
    EpisodesCell,
    Player,
    complete,
    origin_of,
    parts_of,
    scheduler_of,
    warn_of_foreign_scores,
)
from tvwrl.progress import Report
from tvwrl.runs import InFolder
from tvwrl.schedulers import (
    Continuation,
    MoveRule,
    Opinion,
    Runner,
    Scheduler,
    UnknownScheduler,
    knowledge_of,
    make_scheduler,
    position_in_queue,
    stated_knowledge,
)
from tvwrl.simulation import MOVE_PHASE, PHASE, SEQUENCE, Cluster, Scenario, Simulation
from tvwrl.types import InputError, Int, Move, Placement, Trace, Workload

NAME = re.compile(r"\w[\w.+()=,/ -]*")
NAME_RULE = "a name has letters, digits, spaces and .+-()=,/ and begins with a letter or digit"
ONNX, PYTHON = ".onnx", ".py"  # files that are entries
HIDDEN = ("HOME", "TVWRL_DATA", "XDG_CACHE_HOME", "XDG_DATA_HOME")  # where it could look for traces and results
OTHER_TRACE = "trained on another trace"  # in the origin of a training run
KINDS = (
    "a function from (observation, mask) to an action, a Scheduler, the name of a scheduler, a training run (what "
    "tvwrl.train returns, its folder or a .pt file), shipped:NAME, a Stable-Baselines3 model, a torch module, an ONNX "
    f"file or a Python file that defines '{DEFINED}'"
)


@dataclass(frozen=True)
class Setting:
    """What entries play on: a task of the benchmark or any problem."""

    scenario: Scenario
    milliseconds: float  # limit of the mean time per decision
    trace: Callable[[], Trace]
    observed: Callable[[dict[str, Any]], Problem]  # the problem where fields of `OBSERVED` have other values
    apart: bool = False  # whether entries that others wrote play in processes of their own
    hidden: tuple[str, ...] = ()  # environment variables that these processes do not get
    unit: float = 1.0  # a penalty of this much is a reward of -1
    most_slots: int | None = None  # after which episodes of agents are cut

    @classmethod
    def of_task(cls, task: Task) -> Setting:
        """A task, whose trace is opened only if an entry needs it."""
        observed = partial(problem_of, task)
        cut = task.scenario.max_slots or None  # where training on the task truncates them
        trace = partial(trace_of, task)
        return cls(task.scenario, task.milliseconds, trace, observed, True, unit=task.penalty_unit, most_slots=cut)

    @classmethod
    def of_submission(cls, task: Task) -> Setting:
        """A task, where entries are shown neither folders with traces nor the current one."""
        return replace(cls.of_task(task), hidden=HIDDEN)

    def about(self, problem: Problem | None) -> About:
        """What parts of an observation may know of it, or of the problem that shows other things."""
        shown = self.observed({}) if problem is None else problem
        machines = shown.machines
        return About(shown.scenario, machines.resources, machines.capacity, shown.classes.k, self.unit)

    @classmethod
    def of_problem(cls, problem: Problem) -> Setting:
        """A problem, without a limit of time, where all entries play in this process."""

        def observed(fields: dict[str, Any]) -> Problem:
            for field in fields:
                if field not in OBSERVED:
                    raise InputError(f"observe: '{field}' changes more than what is observed: {hint(field, OBSERVED)}")
            scenario = replace(problem.scenario, **fields)
            return Problem.build(problem.trace, scenario, problem.classes, problem.sampler.unit, problem.forecaster)

        return cls(problem.scenario, math.inf, lambda: problem.trace, observed)


@dataclass(frozen=True)
class Entry:
    """A scheduler, and the problem that it plays on if it observes other things than the task shows."""

    scheduler: Guarded
    problem: Problem | None  # None: that of the setting
    origin: str  # where it comes from, in a few words
    local: Scheduler | None  # the same in this process, for what is not a measurement; None: it is a Python file
    process: EntryProcess | None = None  # in which it plays; None: in this one
    agent: bool = False  # whether it is no rule of this package, each of which places everything in the end
    most_slots: int | None = None  # after which its episodes are cut

    @property
    def player(self) -> Player:
        """As it takes part in an evaluation."""
        return Player(self.scheduler, self.origin, self.problem, self.agent, self.most_slots)

    def close(self) -> None:
        """End its process. It cannot play afterwards."""
        if self.process is not None:
            self.process.close()


def entry_of(
    name: str,
    given: Any,
    setting: Setting,
    observe: Mapping[str, Any] | None = None,
    parts: Sequence[Part] = (),
) -> Entry:
    """The entry `name`. `observe`: fields of the setting's scenario that functions and models observe differently;
    `parts`: of their observation, if it is not the standard one.

    `Entry.close` ends the process that it may have begun.

    Raises InputError for an invalid name, for an object of an unsupported type, and if it cannot be loaded.
    """
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise InputError(f"entry {name!r}: {NAME_RULE}")
    if isinstance(given, InFolder) and hasattr(given, "policy"):  # what tvwrl.train returns
        given = given.policy
    if isinstance(given, str | Path) and is_shipped(given):
        given = located(given)
    if isinstance(given, str | Path) and Path(given).suffix not in (ONNX, PYTHON):
        return _ours(name, *_of_text(str(given), setting), setting)
    try:
        if isinstance(given, str | Path):
            if not (given := Path(given)).is_file():
                raise InputError(f"{given}: no such file")
            if given.suffix == ONNX:
                from tvwrl.agents import is_of_export, load_exported

                if is_of_export(given):  # and not somebody else's file
                    exported = load_exported(given)
                    return _ours(name, exported, *_shown_to(exported.facts, str(given), setting), setting)
        elif isinstance(given, Scheduler):
            if (saved := _saved(given)) is not None:
                return _ours(name, given, *_shown_to(saved, given.name, setting), setting)
            if (usual := _registered(given)) is not None:
                return _ours(name, usual, None, f"scheduler {type(given).__name__}", setting)
            stated_knowledge(given)
        elif isinstance(given, type):
            raise InputError(f"it is a class: give an instance, {given.__name__}()")
        elif function_of(given) is None:
            raise InputError(f"it is {given!r}: must be {KINDS}")
        return _others(name, given, setting, dict(observe or {}), parts)
    except InputError as error:
        raise InputError(f"entry '{name}': {error}") from error


def _ours(name: str, scheduler: Scheduler, problem: Problem | None, origin: str, setting: Setting) -> Entry:
    """An entry whose code is this project's, which plays in this process."""
    guarded, learnt = Guarded(name, scheduler, setting.milliseconds), problem is not None
    return Entry(guarded, problem, origin, guarded, None, learnt, setting.most_slots if learnt else None)


def _others(name: str, given: Any, setting: Setting, observe: dict[str, Any], parts: Sequence[Part]) -> Entry:
    """An entry that somebody else wrote, in a process of its own if the setting says so."""
    problem = setting.observed(observe) if observe and not isinstance(given, Scheduler) else None
    python = _is_python(given)
    if parts:
        given = Through(View(parts, setting.about(problem)), given)
    scenario = setting.scenario if problem is None else problem.scenario
    local = None if setting.apart and python else _here(name, given, scenario)
    scheduler, origin, process = (
        _apart(name, given, scenario, setting) if local is None or setting.apart else (*local, None)
    )
    if python:
        given = given.given if parts else given
        origin = f"Python file {given.name}: {origin}"
    guarded = Guarded(name, scheduler, setting.milliseconds)
    here = guarded if process is None else None if local is None else Guarded(name, local[0], math.inf)
    own = problem if isinstance(scheduler, FunctionScheduler) else None
    return Entry(guarded, own, origin, here, process, True, setting.most_slots)


def _apart(name: str, given: Any, scenario: Scenario, setting: Setting) -> tuple[Scheduler, str, EntryProcess]:
    """What plays an entry in a process of its own, its kind, and the process."""
    kind, content = packed(given)
    process = EntryProcess(kind, content, setting.hidden)
    try:
        knowledge = remote_knowledge(process)
        if knowledge is None:
            through = isinstance(given, Through)
            return FunctionScheduler(name, remote_function(process), scenario, through), what_of(process), process
        return RemoteScheduler(name, process, knowledge), what_of(process), process
    except BaseException:
        process.close()
        raise


def _is_python(given: Any) -> bool:
    return isinstance(given, Path) and given.suffix == PYTHON


def _here(name: str, given: Any, scenario: Scenario) -> tuple[Scheduler, str]:
    """What plays an entry in this process, and its kind."""
    found = load(given)
    if isinstance(found, Scheduler):
        stated_knowledge(found)
        return found, f"scheduler {type(found).__name__}"
    if (function := function_of(found)) is None:
        raise InputError(f"it is {found!r}: must be {KINDS}")
    return FunctionScheduler(name, function, scenario, isinstance(given, Through)), function.what


def _saved(given: Scheduler) -> Any:
    """What a policy of this project was saved in; None for other schedulers."""
    kind = type(given)
    module = sys.modules.get(kind.__module__)  # the class itself, not one that says that it is from there
    ours = kind.__module__.startswith("tvwrl.agents.") and getattr(module, kind.__qualname__, None) is kind
    changed = any(callable(getattr(type(given), name, None)) for name in vars(given))  # a method replaced by another
    return (getattr(given, "checkpoint", None) or getattr(given, "facts", None)) if ours and not changed else None


def _registered(given: Scheduler) -> Scheduler | None:
    """What a scheduler's name makes, if the two are the same; None if it is somebody else's."""
    try:
        usual = make_scheduler(given.name)
    except (InputError, AttributeError, TypeError):
        return None
    return usual if _same(given, usual) else None


def _same(given: Any, usual: Any, above: tuple[tuple[Any, Any], ...] = ()) -> bool:
    """Whether two are alike; `above`: the pairs that they are part of, which rules know that know who places."""
    if type(given) is not type(usual):
        return False
    if isinstance(usual, Scheduler | MoveRule):
        if any(usual is one for _, one in above):
            return any(given is mine and usual is one for mine, one in above)
        own = vars(given)  # with the same attributes: what was added could change what it does
        return own.keys() == vars(usual).keys() and all(
            _same(own[name], value, (*above, (given, usual))) for name, value in vars(usual).items()
        )
    try:
        return bool(given == usual)
    except ValueError:  # arrays
        return False


def _of_text(text: str, setting: Setting) -> tuple[Scheduler, Problem | None, str]:
    """The scheduler of that name or training run."""
    path = Path(text)
    if path.is_file() and path.suffix == ".zip":
        raise InputError(f"{text}: a Stable-Baselines3 model? Load it, as with PPO.load, and give the model")
    if path.exists():
        return _of_run(path, setting)
    if "=" not in text and ("/" in text or path.suffix in (".pt", ".zip")):
        raise InputError(f"{text}: no such file or folder")
    try:
        scheduler = scheduler_of(text, "cpu")
        if parts_of(text)[2]:
            warn_of_foreign_scores([text], setting.trace())
        return scheduler, None, origin_of(text, scheduler)
    except UnknownScheduler as error:
        meant, current = error.meant, [name for name in TASKS if name not in SUPERSEDED_TASKS]
        if text in TASKS:
            meant = "it is a task, which is named by `task` (--task)"
        elif get_close_matches(text, current, cutoff=0.8):
            near = hint(text, current, listed_by="tvwrl benchmark --list-tasks lists all")
            meant = f"a task is named by `task` (--task); {near}"
        raise InputError(f"'{text}' is neither a training run nor a scheduler: {meant}") from None


def _of_run(run: Path, setting: Setting) -> tuple[Scheduler, Problem, str]:
    """The policy of a training run, with the observations that it was trained on."""
    from tvwrl.agents import Checkpoint, find_checkpoint, load_policy

    try:
        saved = Checkpoint.load(find_checkpoint(run))
    except InputError as error:
        if not run.is_file():
            raise
        raise InputError(
            f"{error}; are these your own weights? Load them into your module, and give the module"
        ) from error
    problem, origin = _shown_to(saved, str(run), setting)
    return load_policy(run, saved), problem, origin


def _shown_to(saved: Any, run: str, setting: Setting) -> tuple[Problem, str]:
    """The setting as the policy of a checkpoint observes it, and the policy's origin."""
    trace = setting.trace()
    if list(trace.resources) != list(saved.resources):
        raise InputError(f"{run} was trained on the resources {', '.join(saved.resources)}, not {trace.resources}")
    shown = {field: getattr(saved.scenario, field) for field in OBSERVED}
    unit = setting.observed({}).sampler.unit  # not that of the training, which draws other sequences
    problem = Problem.build(trace, replace(setting.scenario, **shown), saved.classes, unit, saved.forecaster)
    trained = "" if saved.knows(trace) else f", {OTHER_TRACE} ({saved.trace['name']})"
    return problem, f"training run {Path(run).name}{trained}"


def complete_own_first(
    entries: Mapping[str, Entry], out: Path, cells: Sequence[Cell], report: Report
) -> dict[str, str]:
    """Complete the cells, those of `entries` first, and raise their errors before the other schedulers take time."""
    own = [cell for cell in cells if isinstance(cell, EpisodesCell) and cell.scheduler.name in entries]
    for part in (own, [cell for cell in cells if cell not in own]):
        failed = complete(out, part, report=report)
        for entry in entries.values():
            entry.close()  # nothing of theirs runs while the others play
            if entry.scheduler.failure is not None:
                raise entry.scheduler.failure
        if failed:
            raise InputError("; ".join(failed.values()))
    return {}


class FunctionScheduler(Scheduler):
    """Takes the actions of a function of observation and mask, as `tvwrl/Placement-v0` would.

    As in that environment, an action that names an empty place of the queue, or holds, places nothing, and one that
    names no possible move moves nothing more in the slot.
    """

    looks_at_grid = True

    def __init__(self, name: str, function: Function, scenario: Scenario, knows_now: bool = False) -> None:
        self.name, self._function, self._knows_now = name, function, knows_now
        self.knowledge = knowledge_of(scenario)
        self.needs_forecasts = scenario.observe_forecast

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare for a new episode. Raises InputError if the function was made for another observation."""
        if self._function.fits is not None:
            self._function.fits(_shown(cluster.simulation, self._knows_now))

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """One placement or none; the runner calls again. Raises InputError for an invalid action."""
        action, _ = self._decided(cluster)
        place, machine = divmod(action, len(cluster.machines))
        if action < cluster.simulation.placements and place < len(pending):
            yield Placement(pending[place], machine)

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """One move after the other, until the function stops. Raises InputError for an invalid action."""
        simulation = cluster.simulation
        simulation.state.counters[cluster.b, PHASE] = MOVE_PHASE
        simulation.look()
        while cluster.moves_left and (running := cluster.running).movable.any():
            action, may = self._decided(cluster)
            row, machine = divmod(
                action - simulation.placements - simulation.scenario.hold_action, len(cluster.machines)
            )
            if not may or row >= simulation.shown_running:
                return
            yield Move(int(running.workload[row]), machine)

    def _decided(self, cluster: Cluster) -> tuple[int, bool]:
        """The function's action, and whether the mask allows it."""
        simulation = cluster.simulation
        seen = observation(simulation) | (simulation.known_now() if self._knows_now else {})
        shown = {name: of[cluster.b].copy() for name, of in seen.items()}
        mask = action_masks(simulation)[cluster.b]
        action = checked_action(self._function.act(shown, mask.copy()), simulation.actions)
        return action, bool(mask[action])


def _shown(simulation: Simulation, knows_now: bool) -> Shown:
    shapes = {name: tuple(space.shape or ()) for name, space in observation_space(simulation).spaces.items()}
    if knows_now:
        shapes |= {name: of.shape[1:] for name, of in simulation.known_now().items()}
    return Shown(shapes, simulation.actions, simulation.scenario.hold_action)


FIRST = 10  # decisions that do not count, since they compile and load code
JUDGED = 20  # while fewer were timed, together they may take as long as this many
TERMINATED = 128 + signal.SIGTERM  # exit code of a program that was terminated from outside (`tvwrl.cli.door`)


class Guarded(Scheduler):
    """Decides as `inner` does, under another name.

    Raises an InputError that names sequence and slot if `inner` raises an exception (which becomes the cause), tries
    to exit the program, or takes more than `milliseconds` per decision on average. `failure` is the last such error.
    """

    def __init__(self, name: str, inner: Scheduler, milliseconds: float) -> None:
        self.name, self._inner, self._limit = name, inner, milliseconds
        self.knowledge = inner.knowledge
        self.failure: InputError | None = None
        self.looks_at_grid, self.needs_forecasts = inner.looks_at_grid, inner.needs_forecasts
        self.leader = inner.leader
        self._calls, self._seconds = 0, 0.0

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """See `Scheduler.reset`."""
        with self._named(cluster):
            self._inner.reset(cluster, rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        placements: Iterator[Placement] | None = None
        placed = 0
        while True:
            started = time.perf_counter()
            with self._named(cluster):
                placements = iter(self._inner.schedule(cluster, pending)) if placements is None else placements
                placement = next(placements, None)
            seconds = time.perf_counter() - started
            with self._named(cluster):
                # The call that ends the slot after a placement takes no time: counting it would halve the mean
                if placement is not None or not placed or 1000.0 * seconds > self._limit:
                    self._judge(seconds)
                if placement is not None:
                    placement = Placement(placement.workload, checked_machine(placement.machine, len(cluster.machines)))
                    # Refuses an impossible choice, so that the error names sequence and slot
                    position_in_queue(cluster.simulation, placement.workload, placement.machine, self.name)
            if placement is None:
                return
            placed += 1
            yield placement

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `Scheduler.moves`. All moves of a slot are one decision."""
        moves: Iterator[Move] | None = None
        simulation, spent = cluster.simulation, 0.0
        while True:
            started = time.perf_counter()
            with self._named(cluster):
                moves = iter(self._inner.moves(cluster)) if moves is None else moves
                move = next(moves, None)
            spent += time.perf_counter() - started
            with self._named(cluster):
                if move is None:
                    self._judge(spent)
                    if reason := simulation.crowded():
                        raise InputError(reason)
                    return
                workload, machine = move
                move = Move(checked_workload(workload), checked_machine(machine, len(cluster.machines)))
                simulation.check_move(*move)
            yield move

    def alternatives(self, cluster: Cluster, waiting: Sequence[Workload], choice: Placement, count: int) -> Int:
        """See `Scheduler.alternatives`."""
        return self._inner.alternatives(cluster, waiting, choice, count)

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion | None:
        """See `Scheduler.opinion`."""
        return self._inner.opinion(cluster, workload)

    def fork(self) -> Scheduler:
        """See `Scheduler.fork`: a fork is not timed."""
        return self._inner.fork()

    def continuation(self, runner: Runner, actions: int) -> Continuation:
        """See `Scheduler.continuation`."""
        return self._inner.continuation(runner, actions)

    def _judge(self, seconds: float) -> None:
        """Count a decision. Raises InputError if the mean time per decision is too long."""
        self._calls += 1
        self._seconds += seconds if self._calls > FIRST else 0.0
        judged = self._calls - FIRST
        if 1000.0 * self._seconds > max(judged, JUDGED) * self._limit:
            raise InputError(
                f"a decision took {_plain(1000.0 * self._seconds / judged)} ms on average of {judged}, the task allows "
                f"{_plain(self._limit)} ms: the scheduler was stopped"
            )

    @contextmanager
    def _named(self, cluster: Cluster) -> Iterator[None]:
        """Turn an exception in the block into an InputError that names sequence and slot."""
        try:
            yield
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and error.code == TERMINATED:
                raise
            sequence = int(cluster.simulation.state.counters[cluster.b, SEQUENCE])
            what = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            self.failure = InputError(f"'{self.name}', sequence {sequence}, slot {cluster.slot}: {what}")
            for note in getattr(error, "__notes__", ()):
                self.failure.add_note(note)  # where in its own process an entry failed
            raise self.failure from error


def _plain(number: float) -> str:
    """Three digits, without an exponent.

    >>> _plain(1098.6), _plain(8.1)
    ('1,100', '8.1')
    """
    return f"{float(f'{number:.3g}'):,.12g}"
