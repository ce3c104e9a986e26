"""`tvwrl.evaluate`: any schedulers on any problem, in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tvwrl.benchmark import KINDS, Setting, complete_own_first, entry_of
from tvwrl.checks import at_least, different, positive
from tvwrl.envs import Problem
from tvwrl.experiments import Evaluation, EvaluationSetup, with_wanted_forecasts
from tvwrl.experiments import evaluate as evaluate_problem
from tvwrl.progress import Report, nothing, say
from tvwrl.runs import InFolder, folder_for
from tvwrl.schedulers import Scheduler, known_by
from tvwrl.simulation import Scenario
from tvwrl.traces import open_trace
from tvwrl.types import InputError, Trace


def evaluate(
    schedulers: Any,
    problem: Problem | Trace | str | Path = "google",
    *,
    scenario: Scenario | None = None,
    loads: Sequence[float] | None = None,
    sequences: int = 30,
    seed: int = 0,
    observe: Mapping[str, Any] | None = None,
    bounds: bool = True,
    reward_bound: bool = False,
    out: str | Path | None = None,
    report: Report | None = say,
) -> Evaluation:
    """Play schedulers and agents on the same test sequences of a trace, to the end; printing the result prints a table.

    Parameters
    ----------
    schedulers : Any
        One, a list, or a dictionary from names to: the name of a scheduler (`tvwrl.list_schedulers`), a training run
        (what `tvwrl.train` returns, its folder or a .pt file), a `Scheduler`, a function from (observation, mask) to an
        action, a Stable-Baselines3 model, a torch module, an ONNX file, or a Python file that defines one of these as
        `entry`; all play in this process.
    problem : Problem | Trace | str | Path, default 'google'
        A `Problem`; or a trace, its name or path, with the classes that `Problem.build` makes.
    scenario : Scenario, optional
        Cluster, load and penalties; for a trace only (default: the paper's).
    loads : Sequence[float], optional
        Offered loads, > 0, as shares of capacity; default: the scenario's.
    sequences : int, default 30
        Test sequences per load, >= 1.
    seed : int, default 0
        Seed of their draw, >= 0.
    observe : Mapping[str, Any], optional
        Fields that change what functions and models observe, such as {"observe_forecast": True}.
    bounds : bool, default True
        Whether to compute lower bounds on machines.
    reward_bound : bool, default False
        Whether to bound the reward too, which takes seconds per sequence.
    out : str | Path, optional
        A new folder for the files (docs/reference/run-files.md); after an interruption the same call continues there.
        Default: a temporary folder, removed with the result; `Evaluation.write` copies it.
    report : Report | None, default say
        Called with a line of progress now and then; default: to stderr; None: silence.

    Returns
    -------
    Evaluation
        The rows of all schedulers; it prints as a table.

    Raises
    ------
    InputError
        For names that are unknown (with those that are near), a trace that cannot be opened, values out of range, a
        folder that is not empty, and an error inside a scheduler, with sequence and slot.

    Examples
    --------
    >>> found = evaluate(["spread", "best-fit"], "google", loads=[0.3, 0.8])  # doctest: +SKIP
    >>> print(found)  # doctest: +SKIP
    >>> found.rows.group_by("scheduler", "load").agg(pl.col("reward").mean())  # doctest: +SKIP
    """
    entries, report = _named(schedulers), report or nothing
    at_least(0, seed=seed)
    whole = not isinstance(sequences, bool) and hasattr(sequences, "__index__")
    if not whole:
        raise InputError(f"sequences is {sequences!r}: must be a whole number")
    at_least(1, sequences=sequences)
    if isinstance(loads, str) or not isinstance(loads, Iterable | None):
        raise InputError(f"loads is {loads!r}: must be numbers, as in loads=[0.3, 0.5]")
    positive(loads=loads)
    if loads is not None:
        different(loads=list(loads))
    folder, kept = folder_for(out, "evaluation")
    problem = _problem_from(problem, scenario, report)
    setting = Setting.of_problem(problem)
    made = {name: entry_of(name, given, setting, observe) for name, given in entries.items()}
    problem = with_wanted_forecasts(problem, [entry.player for entry in made.values()], report)
    knowledge = {
        name: known_by((entry.problem or problem).forecaster, entry.scheduler.knowledge) for name, entry in made.items()
    }
    origins = {name: entry.origin for name, entry in made.items()}
    given = [problem.scenario.load] if loads is None else list(loads)
    try:
        evaluate_problem(
            EvaluationSetup(problem, given, sequences, seed, 0.0 if bounds else None, reward_bound),
            [entry.player for entry in made.values()],
            folder,
            {"schedulers": origins, "policies": _checkpoints(entries)},
            plots=kept is None,  # of a temporary folder, `Evaluation.plots` draws them
            completed=partial(complete_own_first, made, report=report),
            report=report,
        )
    except KeyboardInterrupt:
        kept_in = "the same call continues there" if kept is None else "and nothing is kept: give out=, or sequences=3"
        report(f"stopped, {kept_in}")
        raise
    players = {name: entry.scheduler for name, entry in made.items()}
    return Evaluation(folder, kept, knowledge, origins, schedulers=players)


def _checkpoints(entries: Mapping[str, Any]) -> dict[str, str]:
    """Name -> file of the policies of training runs."""
    folders = {name: getattr(given, "folder", given) for name, given in entries.items()}
    runs = {name: Path(run) for name, run in folders.items() if isinstance(run, str | Path) and Path(run).exists()}
    found = {}
    for name, run in runs.items():
        if run.suffix == ".pt" or (run / "checkpoints").is_dir():
            from tvwrl.agents import find_checkpoint

            found[name] = str(find_checkpoint(run).resolve())
    return found


def _problem_from(given: Any, scenario: Scenario | None, report: Report) -> Problem:
    """The problem that `given` is, or that of a trace, its name or path, under a scenario (default: the paper's).

    Raises InputError for anything else, and for a scenario beside a problem, which has one.
    """
    if not isinstance(scenario, Scenario | None):
        raise InputError(f"scenario is {scenario!r}: must be a tvwrl.Scenario, as in Scenario(load=0.8)")
    if isinstance(given, Problem):
        if scenario is not None:
            raise InputError("scenario cannot be combined with a Problem, which has one: give its trace")
        return given
    if not isinstance(given, Trace | str | Path):
        raise InputError(
            f"problem is {given!r}: must be a Problem, a Trace, a name or a path, as in 'google' or 'usage-folder'"
        )
    trace = given if isinstance(given, Trace) else open_trace(str(given))
    return Problem.build(trace, scenario or Scenario(), report=report)


def _named(schedulers: Any) -> dict[str, Any]:
    """Name -> what plays under it. Raises InputError for none at all, and for things without a name."""
    if isinstance(schedulers, Mapping):
        found = dict(schedulers)
    else:
        one = isinstance(schedulers, str | Path | Scheduler | InFolder | Callable)
        several = [schedulers] if one or not isinstance(schedulers, Iterable) else list(schedulers)
        names = [_name_of(given) for given in several]
        different(schedulers=names)
        found = dict(zip(names, several, strict=True))
    if not found:
        raise InputError("schedulers is empty: give at least one, as in evaluate(['spread', 'best-fit'])")
    return found


def _name_of(given: Any) -> str:
    if isinstance(given, str | Path):
        path = Path(given)
        return (path.stem if path.is_file() else path.name) if path.exists() else str(given)
    name = getattr(given, "name", None) or getattr(given, "__name__", None)
    if not isinstance(name, str) or isinstance(given, type):
        raise InputError(f"scheduler {given!r}: give it a name, as in evaluate({{'mine': it}}), where it is {KINDS}")
    return name
