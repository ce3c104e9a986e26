"""What `tvwrl benchmark` does: plays schedulers on the tasks, lists the tasks, checks a submission."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvwrl.benchmark.study import BenchmarkStudy
from tvwrl.benchmark.submission import check_submission, read_submission
from tvwrl.benchmark.tasks import EMBEDDED, TASKS, is_here, trace_of
from tvwrl.checks import at_least
from tvwrl.experiments.reproduce import RunOptions, reproduce
from tvwrl.experiments.tables import terminal_table
from tvwrl.markdown import markdown_table

NAME = "benchmark"  # of the folder in --out with the tables


@dataclass(frozen=True)
class BenchmarkSettings(BenchmarkStudy, RunOptions):
    """Compare schedulers and training runs on tasks (docs/reference/tasks.md), list the tasks, or check a submission.

    Writes OUT/benchmark: tables, a page and a picture per task, rows.csv, and benchmark.html, which a browser can sort.
    After Ctrl-C or a crash, run the same command with the same --out to continue.
    """

    list_tasks: bool = False
    """Only list the tasks, and whether their traces are on this machine."""
    check: Path | None = None
    """Only check a submission: replay every episode in its folder, and print its table."""


def run_benchmark(settings: BenchmarkSettings) -> None:
    """Do what the options ask for. Raises InputError as `reproduce`, `trace_of` and `check_submission` do."""
    if settings.list_tasks:
        print(_listing())
    elif settings.check is not None:
        rows = check_submission(settings.check)
        print(terminal_table(rows, read_submission(settings.check).knowledge))
        print(f"{settings.check}: all {len(rows)} episodes replay to the submitted rows")
    else:
        settings.check_run()
        at_least(1, sequences=settings.sequences)
        for trace in {task.trace: task for task in settings.tasks()}.values():
            trace_of(trace)  # refuse a missing or different trace before anything slow starts
        reproduce(settings, (NAME,), NAME, settings)


def _listing() -> str:
    """Markdown: every task, its definition in short, and whether its trace is on this machine."""
    head = ["task", "load", "machines", "test sequences", "arrive together", "usage delay", "ms per decision", "trace"]
    body = []
    for task in TASKS.values():
        s = task.scenario
        numbers = (s.load, s.machines, task.sequences, s.burst, s.usage_delay, task.milliseconds)
        trace = "comes with the package" if task.trace == EMBEDDED else "is here" if is_here(task) else "not here"
        body.append([task.name, *(f"{number:g}" for number in numbers), trace])
    return markdown_table(head, body)
