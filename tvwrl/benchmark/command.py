"""What `scripts/benchmark.py` does: lists the tasks, compares named schedulers on them, checks a submission."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from tvwrl.benchmark.comparison import play
from tvwrl.benchmark.entries import entry_of
from tvwrl.benchmark.guard import stopping_hangs
from tvwrl.benchmark.submission import check_submission
from tvwrl.benchmark.tasks import EMBEDDED, TASKS, Task, find_task
from tvwrl.checks import different, within
from tvwrl.command_line import Names
from tvwrl.experiments.cell_options import CellOptions
from tvwrl.experiments.evaluation import DEFAULT_SCHEDULERS
from tvwrl.experiments.tables import terminal_table
from tvwrl.markdown import markdown_table
from tvwrl.runs import default_folder
from tvwrl.schedulers import KNOWLEDGE
from tvwrl.traces import find_trace
from tvwrl.types import InputError

HELP = (
    "Schedulers to compare: names as of scripts/evaluate.py, and training runs, by their folders, whose policies "
    "observe what they were trained to observe."
)


@dataclass(frozen=True)
class BenchmarkSettings(CellOptions):
    """Compare schedulers on named tasks (docs/benchmark.md), list the tasks, or check a submission.

    Writes a folder per task to --out, as scripts/evaluate.py does, and prints its table. After Ctrl-C or a crash the
    same command with the same --out continues.
    """

    named_tasks: Names = ("google-0.5-v0",)
    """Tasks of the benchmark (docs/benchmark.md)."""
    schedulers: Annotated[Names, tyro.conf.arg(help=HELP)] = DEFAULT_SCHEDULERS
    sequences: int | None = None
    """Test sequences per task; default: all of the task's."""
    list_tasks: bool = False
    """Only list the tasks, and whether their traces are on this machine."""
    check: Path | None = None
    """Only check a submission: replay every episode in its folder, and print its table."""


def run_benchmark(settings: BenchmarkSettings) -> None:
    """Do what the options ask for. Raises InputError for bad options, and what `evaluate` and `check_submission` do."""
    settings.check_run()
    if settings.list_tasks:
        print(_listing())
    elif settings.check is not None:
        rows = check_submission(settings.check)
        print(terminal_table(rows))
        print(f"{settings.check}: all {len(rows)} episodes replay to the submitted rows")
    else:
        _compare(settings)


def _compare(settings: BenchmarkSettings) -> None:
    """Play the schedulers on every task, and print its table."""
    different(named_tasks=settings.named_tasks, schedulers=settings.schedulers)
    tasks = [find_task(name) for name in settings.named_tasks]
    for task in tasks:
        within(1, task.sequences, sequences=settings.sequences)
    out = settings.out or default_folder("benchmark")
    settings = replace(settings, out=out)  # so that all tasks go on in one folder
    for task in tasks:
        folder = out / task.name
        if (folder / "table.md").is_file() and not (folder / "cells").exists():
            print(f"{task.name}: finished in {folder}")
            continue
        with stopping_hangs(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what the trace cannot give is in run.json
            made = [(Path(given).name if Path(given).is_dir() else given, given) for given in settings.schedulers]
            different(schedulers=[name for name, _ in made])
            entries = {name: entry_of(name, given, task) for name, given in made}
            sequences = settings.sequences or task.sequences
            rows = play(task, entries, sequences, folder, plots=False, completed=settings.complete)
        if rows is not None:
            known = {name: entry.scheduler.knowledge for name, entry in entries.items()}
            print(f"{task.name}\n{terminal_table(rows, KNOWLEDGE | known)}\nwritten to {folder}")


def _listing() -> str:
    """Markdown: every task, what it is, and whether it can be played here."""
    head = ["task", "load", "machines", "test sequences", "arrive together", "ms per decision", "trace"]
    body = []
    for task in TASKS.values():
        scenario = task.scenario
        numbers = (scenario.load, scenario.machines, task.sequences, scenario.burst, task.milliseconds)
        body.append([task.name, *(f"{number:g}" for number in numbers), _whether_here(task)])
    return markdown_table(head, body)


def _whether_here(task: Task) -> str:
    """Whether the trace can be found; its hash is compared when the task is opened."""
    if task.trace == EMBEDDED:
        return "comes with the package"
    try:
        return str(find_trace(task.trace))
    except InputError:
        return "not here"
