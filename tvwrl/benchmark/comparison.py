"""`tvwrl.compare`: any scheduler and ours on the test sequences of a task, in one table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from textwrap import fill
from typing import Any

from tvwrl.benchmark.entries import ONNX, PYTHON, Entry, Setting, complete_own_first, entry_of
from tvwrl.benchmark.tasks import Task, find_task, forecaster_of, is_named, problem_of
from tvwrl.checks import within
from tvwrl.envs import Part, check_parts, with_needs
from tvwrl.experiments import Evaluation, EvaluationSetup, evaluate
from tvwrl.progress import say
from tvwrl.runs import folder_for
from tvwrl.schedulers import MAX_IDLE_SLOTS
from tvwrl.types import InputError

# Compared with by default
AGAINST = ("spread", "target-load-packing", "kube-default", "n-sigma", "best-fit-peak", "clairvoyant")
# The same where workloads may move. A rule that only places does what it does on the task without moves, so few are
# here: the two ends of "gap closed", `expected-cost`, and that with rules that move, ours and a production cluster's
AGAINST_MOVES = (
    "best-fit-peak",
    "expected-cost",
    "expected-cost + karpenter",
    "expected-cost + evacuate",
    "expected-cost + greedy-evacuate",
    "clairvoyant",
)


BY_FORECASTS = "expected-cost"  # beside entries that use forecasts: the rule to beat


def usual_against(task: Task) -> tuple[str, ...]:
    """Names of the schedulers that entries are compared with by default."""
    return AGAINST_MOVES if task.scenario.moves_per_slot else AGAINST


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Evaluation):
    """Entries and schedulers on the same test sequences of a task; printing it prints its table.

    Parameters
    ----------
    task : Task
        The task.
    sequences : int
        How many of the task's sequences were played.
    files : Mapping[str, Path]
        Of the entries that were Python or ONNX files.
    observe : Mapping[str, Any]
        What functions and models observed differently.
    parts : tuple of str
        Names of the parts of their observation; empty: it was the standard one.
    """

    task: Task
    sequences: int
    files: Mapping[str, Path] = field(default_factory=dict)
    observe: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        unit = f"its environment pays -1 for a penalty of {self.task.penalty_unit:,g}"
        return f"Task {self.task.name}: {unit}\n{super().__str__()}{self._cut}"

    @property
    def _cut(self) -> str:
        """Why entries left workloads unplaced, if any did."""
        rows = self.rows
        left = set(rows.filter(rows["unplaced"] > 0)["scheduler"]) & set(self.origins)
        if not left:
            return ""
        limit = self.task.scenario.max_slots
        cut = f"An agent's episode is cut after {limit:,} slots, as in training" if limit else "An episode is cut"
        often = f"after {MAX_IDLE_SLOTS:,} slots in which it places nothing of what waits"
        return "\n\n" + fill(f"{cut}, or {often}." if limit else f"{cut} {often}.", 110)


def compare(
    entries: Mapping[str, Any],
    task: str | Task = "google-0.5-v1",
    sequences: int | None = None,
    against: Sequence[str] | None = None,
    observe: Mapping[str, Any] | None = None,
    bounds: bool = True,
    observation: Sequence[Part] | Part | None = None,
) -> Comparison:
    """Play `entries` and the schedulers named in `against` on the test sequences of a task.

    Parameters
    ----------
    entries : Mapping[str, Any]
        Name -> a function from (observation, mask) to an action, a `Scheduler`, the name of a scheduler, a training run
        (what `tvwrl.train` returns, its folder or a .pt file), a Stable-Baselines3 model, a torch module from the
        observation to logits, an ONNX file (`tvwrl.benchmark.models` describes the inputs of the last three), or a
        Python file that defines one of these as `entry`. What is not this package's own plays in a process of its own
        and sees only what its knowledge group may (docs/how-to/enter-the-benchmark.md).
    task : str | Task, default 'google-0.5-v1'
        Its name, as in `tvwrl.TASK_NAMES`.
    sequences : int, optional
        How many of the task's sequences to play, from the first; default: all, as a submission requires.
    against : Sequence[str], optional
        Names of the schedulers to compare with; default: `AGAINST`, or `AGAINST_MOVES` where workloads may move, and
        expected-cost beside entries that use forecasts.
    observe : Mapping[str, Any], optional
        Fields that change what functions and models observe, such as {"observe_forecast": True}; the same as in
        `gym.make("tvwrl/<task>", **observe)`.
    bounds : bool, default True
        Whether to compute lower bounds on machines too.
    observation : sequence of Part, optional
        What functions and models observe in place of the standard observation, as in `tvwrl.make`.

    Returns
    -------
    Comparison
        What was measured; it prints as a table.

    Raises
    ------
    InputError
        For an unknown task, a trace that is missing or not the task's, an entry of an unsupported type, an action
        outside the space, NaN from a model, a model made for another observation, an exception inside an entry (the
        message names sequence and slot, a note has the traceback), an entry that ends its process, hangs, or asks for
        what its knowledge group may not see, and one that exceeds the task's time limit.

    Examples
    --------
    >>> print(tvwrl.compare({"mine": lambda observation, mask: mask.argmax()}, sequences=3))  # doctest: +SKIP
    """
    _check_kinds(entries, task, sequences, against, observe)
    task = find_task(task)
    within(1, task.sequences, sequences=sequences)
    usual = against is None
    against = usual_against(task) if against is None else against
    if twice := sorted(set(entries) & set(against)):
        raise InputError(f"entry '{twice[0]}' has the name of a scheduler that it is compared with: rename it")
    setting = Setting.of_task(task)
    parts = () if observation is None else check_parts(observation)
    observe = with_needs(parts, dict(observe or {}))
    with ExitStack() as processes:
        made = {}
        for name, given in entries.items():
            made[name] = entry_of(name, given, setting, observe, parts)
            processes.callback(made[name].close)
        forecasts = any(entry.scheduler.needs_forecasts for entry in made.values()) or observe.get("observe_forecast")
        if usual and forecasts and BY_FORECASTS not in {*against, *entries}:
            against = [*against, BY_FORECASTS]
        found = _compared(made, task, sequences or task.sequences, against, bounds)
    paths = {name: Path(given) for name, given in entries.items() if isinstance(given, str | Path)}
    files = {name: path for name, path in paths.items() if path.suffix in (ONNX, PYTHON)}
    return replace(found, files=files, observe=observe, parts=tuple(part.name for part in parts))


def _compared(made: Mapping[str, Entry], task: Task, count: int, against: Sequence[str], bounds: bool) -> Comparison:
    """Play the entries, then those that they are compared with, which run in this process."""
    everybody = {**made, **{name: entry_of(name, name, Setting.of_task(task)) for name in against}}
    folder, kept = folder_for(None, "comparison")
    origins = {name: entry.origin for name, entry in everybody.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # run.json says what the trace cannot provide
        problem = problem_of(task)
        if is_named(task) and any(entry.scheduler.needs_forecasts for entry in everybody.values()):
            problem = replace(problem, forecaster=forecaster_of(task))
        _evaluate(
            EvaluationSetup(problem, [task.scenario.load], count, task.seed, 0.0 if bounds else None),
            [entry.player for entry in everybody.values()],
            folder,
            {"task": task.as_dict(), "schedulers": origins},
            reference=next(iter(made)),
            plots=False,  # `Comparison.plots` draws them
            completed=partial(complete_own_first, made, report=say),
            report=say,
        )
    knowledge = {name: entry.scheduler.knowledge for name, entry in made.items()}
    players = {name: entry.local for name, entry in everybody.items() if entry.local is not None}
    return Comparison(folder, kept, knowledge, {name: origins[name] for name in made}, task, count, schedulers=players)


def _evaluate(*given: Any, **options: Any) -> None:
    """`evaluate`, which says what to do where Ctrl-C ends it."""
    try:
        evaluate(*given, **options)
    except KeyboardInterrupt:
        say("stopped, and nothing is kept: for a first look play a few sequences (sequences=3, or --sequences 3)")
        raise


def _check_kinds(entries: Any, task: Any, sequences: Any, against: Any, observe: Any) -> None:
    """Raise InputError for an argument of `compare` of the wrong type."""
    if not isinstance(entries, Mapping) or not entries:
        raise InputError(f"entries is {entries!r}: must map names to schedulers, as in compare({{'mine': act}})")
    if not isinstance(task, str | Task):
        raise InputError(f"task is {task!r}: must be a name, as in compare(entries, 'google-0.5-v1')")
    if not isinstance(sequences, Integral | None):
        raise InputError(f"sequences is {sequences!r}: must be a whole number, or None for all of the task's")
    if isinstance(against, str) or not isinstance(against, Sequence | None):
        raise InputError(f"against is {against!r}: must be names of schedulers, as in against=('spread', 'best-fit')")
    if not isinstance(observe, Mapping | None):
        raise InputError(f"observe is {observe!r}: must map fields to values, as in observe={{'hold_action': True}}")
