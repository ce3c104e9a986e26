"""Entries of a comparison: schedulers or their names, functions, models, training runs, ONNX files."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.benchmark.functions import FunctionScheduler, of_onnx, of_stable_baselines, of_torch
from tvwrl.benchmark.guard import Guarded
from tvwrl.benchmark.tasks import OBSERVED, TASKS, Task, problem_of, trace_of
from tvwrl.checks import hint
from tvwrl.envs.problem import Problem
from tvwrl.experiments.engine import Cell, complete
from tvwrl.experiments.evaluation import EpisodesCell
from tvwrl.experiments.scheduler_names import scheduler_of
from tvwrl.progress import Report
from tvwrl.runs import InFolder
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.knowledge import GROUPS, Knowledge
from tvwrl.schedulers.registry import UnknownScheduler
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError, Trace

if TYPE_CHECKING:
    from tvwrl.agents.exporting.exported import ExportedPolicy

NAME = re.compile(r"\w[\w.+()=, -]*")  # an entry's name is also the name of a folder
NAME_RULE = "a name has letters, digits, spaces and .+-()=, and begins with a letter or digit"
OTHER_TRACE = "trained on another trace"  # in the origin of a training run
KINDS = (
    "a function from (observation, mask) to an action, a Scheduler, the name of a scheduler, a training run (what "
    "tvwrl.train returns, its folder or a .pt file), a Stable-Baselines3 model, a torch module or an ONNX file"
)


@dataclass(frozen=True)
class Setting:
    """What entries play on: a task of the benchmark or any problem."""

    scenario: Scenario
    milliseconds: float  # limit of the mean time per decision
    trace: Callable[[], Trace]
    observed: Callable[[dict[str, Any]], Problem]  # the problem where fields of `OBSERVED` have other values

    @classmethod
    def of_task(cls, task: Task) -> Setting:
        """A task, whose trace is opened only if an entry needs it."""
        return cls(task.scenario, task.milliseconds, lambda: trace_of(task), lambda fields: problem_of(task, fields))

    @classmethod
    def of_problem(cls, problem: Problem) -> Setting:
        """A problem, without a limit of time."""

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


def entry_of(name: str, given: Any, setting: Setting, observe: Mapping[str, Any] | None = None) -> Entry:
    """The entry `name`. `observe`: fields of the setting's scenario that functions and models observe differently.

    Raises InputError for an invalid name, and for an object of an unsupported type.
    """
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise InputError(f"entry {name!r}: {NAME_RULE}")
    scheduler, problem, origin = _made(name, given, setting, dict(observe or {}))
    knowledge = getattr(scheduler, "knowledge", None)
    if not isinstance(knowledge, Knowledge) or knowledge.group not in GROUPS:
        said = "does not say what it knows" if knowledge is None else f"has the knowledge {knowledge!r}"
        raise InputError(f"entry '{name}' {said}: set knowledge = CURRENT_LOAD (tvwrl.schedulers.knowledge)")
    return Entry(Guarded(name, scheduler, setting.milliseconds), problem, origin)


def _made(name: str, given: Any, setting: Setting, observe: dict[str, Any]) -> tuple[Scheduler, Problem | None, str]:
    """Scheduler, its own problem if it needs one, and its origin."""
    if isinstance(given, InFolder) and hasattr(given, "policy"):  # what tvwrl.train returns
        given = given.policy
    if isinstance(given, Scheduler):
        saved = getattr(given, "checkpoint", None) or getattr(given, "facts", None)  # of a policy
        if saved is not None:
            return given, *_shown_to(saved, given.name, setting)
        return given, None, f"scheduler {type(given).__name__}"
    if isinstance(given, str | Path) and Path(given).suffix != ".onnx":
        return _of_text(str(given), setting)
    fits = None
    if isinstance(given, str | Path):
        if not Path(given).is_file():
            raise InputError(f"entry '{name}': {given}: no such file")
        try:
            if (exported := _exported(Path(given))) is not None:
                return exported, *_shown_to(exported.facts, str(given), setting)
            act, fits = of_onnx(Path(given))
        except InputError as error:
            raise InputError(f"entry '{name}': {error}") from error
        origin = f"ONNX file {Path(given).name}"
    elif hasattr(given, "predict") and hasattr(given, "observation_space"):
        act, fits = of_stable_baselines(given)
        origin = f"model {type(given).__name__}"
    elif "torch" in sys.modules and isinstance(given, sys.modules["torch"].nn.Module):
        act, origin = of_torch(given), f"torch module {type(given).__name__}"
    elif isinstance(given, type):
        raise InputError(f"entry '{name}' is a class: give an instance, {given.__name__}()")
    elif callable(given):
        act, origin = given, f"function {getattr(given, '__name__', type(given).__name__)}"
    else:
        raise InputError(f"entry '{name}' is {given!r}: must be {KINDS}")
    problem = setting.observed(observe) if observe else None
    scenario = replace(setting.scenario, **observe)
    return FunctionScheduler(name, act, scenario, fits), problem, origin


def _exported(file: Path) -> ExportedPolicy | None:
    """The policy in a file of tvwrl export, or None if somebody else made the file."""
    from tvwrl.agents.exporting.exported import load_exported
    from tvwrl.agents.exporting.onnx_file import is_of_export

    return load_exported(file) if is_of_export(file) else None


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
        return scheduler_of(text, "cpu"), None, text
    except UnknownScheduler as error:
        meant = str(error).partition(": ")[2]
        if get_close_matches(text, TASKS, cutoff=0.8):
            meant = f"a task is named by `task` (--task); {hint(text, TASKS)}"
        raise InputError(f"'{text}' is neither a training run nor a scheduler: {meant}") from None


def _of_run(run: Path, setting: Setting) -> tuple[Scheduler, Problem, str]:
    """The policy of a training run, with the observations that it was trained on."""
    from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
    from tvwrl.agents.policy_scheduler import load_policy

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
    unit = np.array(saved.unit) if saved.knows(trace) else None
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
            if entry.scheduler.failure is not None:
                raise entry.scheduler.failure
        if failed:
            raise InputError("; ".join(failed.values()))
    return {}
