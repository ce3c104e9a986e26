"""What `tvwrl benchmark` does: plays schedulers on the tasks, lists the tasks, checks a submission."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvwrl import TASK_NAMES
from tvwrl.benchmark.fresh import LEVEL, REFERENCE, Checked, run_entries
from tvwrl.benchmark.study import BenchmarkStudy
from tvwrl.benchmark.submission import check_submission, read_submission
from tvwrl.benchmark.tasks import EMBEDDED, TASKS, is_here, trace_of
from tvwrl.checks import at_least
from tvwrl.experiments import RunOptions, reproduce, terminal_table
from tvwrl.markdown import markdown_table
from tvwrl.types import InputError

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
    """Only check a submission: replay every episode in its folder, run its entries again, also on fresh sequences, and
    print its table."""
    fresh_seed: int | None = None
    """Seed of the fresh sequences of --check, to repeat a check; default: one that nobody knows before."""


def run_benchmark(settings: BenchmarkSettings) -> None:
    """Do what the options ask for. Raises InputError as `reproduce`, `trace_of` and `check` do."""
    at_least(0, fresh_seed=settings.fresh_seed)
    if settings.list_tasks:
        print(_listing())
    elif settings.check is not None:
        check(settings.check, settings.fresh_seed)
    else:
        settings.check_run()
        at_least(1, sequences=settings.sequences)
        for trace in {task.trace: task for task in settings.tasks()}.values():
            trace_of(trace)  # refuse a missing or different trace before anything slow starts
        reproduce(settings, (NAME,), NAME, settings)


def check(folder: Path, seed: int | None = None) -> None:
    """Print what the check of a submission finds. Raises InputError for the first thing that is wrong, and for entries
    that do otherwise here than was submitted, or worse on fresh sequences, by more than chance explains."""
    rows, about = check_submission(folder), read_submission(folder)
    print("As submitted; knowledge and times are the entrant's word:\n")
    print(terminal_table(rows, about.knowledge))
    print(f"{folder}: all {len(rows)} episodes replay to the submitted rows\n")
    seed = secrets.randbits(63) if seed is None else seed
    found = run_entries(folder, about, rows, seed)
    print(_run_again(found))
    print(f"fresh sequences: --fresh-seed {seed} draws them again")
    if refusals := [one.refusal for one in found if one.refusal is not None]:
        raise InputError("; ".join(refusals))
    print(f"{folder}: its entries do as well as submitted, and no worse on fresh sequences than chance allows")


def _run_again(found: Sequence[Checked]) -> str:
    """A table of entries that were run again."""
    head = ["entry", "knows", "reward submitted", "run again", "fresh", f"cost by that of {REFERENCE}", "fresh"]
    head += ["dearer on fresh [95 %]", "decision, ms"]
    body = []
    for one in found:
        ratios = [f"{ratio:.3f}" for ratio in one.ratio]
        rewards = [f"{reward:,.0f}" for reward in (one.submitted, one.again, one.fresh)]
        time = f"{np.mean([row['decision_ms'] for row in one.rows]):.3f}"
        body.append([one.name, one.knowledge.group, *rewards, *ratios, one.dearer.percent(LEVEL), time])
    return markdown_table(head, body)


def _listing() -> str:
    """Markdown: every task, its definition in short, and whether its trace is on this machine."""
    head = ["task", "load", "machines", "test sequences", "arrive together", "slot, s", "usage delay"]
    head += ["ms per decision", "trace"]
    body = []
    for task in (TASKS[name] for name in TASK_NAMES):
        s = task.scenario
        numbers = (s.load, s.machines, task.sequences, s.burst, s.step_seconds, s.usage_delay, task.milliseconds)
        trace = "comes with the package" if task.trace == EMBEDDED else "is here" if is_here(task) else "not here"
        body.append([task.name, *(f"{number:g}" for number in numbers), trace])
    return markdown_table(head, body)
