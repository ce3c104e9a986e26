"""All schedulers on all tasks: the cells that play them, and the page that compares them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl import TASK_NAMES
from tvwrl.benchmark import page, ranking
from tvwrl.benchmark.comparison import AGAINST_MOVES
from tvwrl.benchmark.entries import OTHER_TRACE, Entry, Setting, entry_of
from tvwrl.benchmark.fresh import LEVEL, REFERENCE, run_entries, scores
from tvwrl.benchmark.submission import check_submission, read_submission
from tvwrl.benchmark.tasks import (
    EMBEDDED,
    TASKS,
    Task,
    check_drawn,
    find_task,
    forecaster_of,
    is_here,
    problem_of,
    trace_of,
)
from tvwrl.checks import at_least, different
from tvwrl.envs import Problem
from tvwrl.experiments import (
    Cell,
    Report,
    Rows,
    RowsCell,
    RunOptions,
    as_folder,
    parts_of,
    read_cell_rows,
    reproduce,
    terminal_table,
    tuned_settings,
)
from tvwrl.markdown import markdown_table
from tvwrl.names import name_and_source, written
from tvwrl.schedulers import (
    BACKFILL,
    MOVE_RULES,
    PRODUCTION,
    SCHEDULERS,
    SEARCHING,
    Runner,
    is_ours,
    moves_of,
    parted,
    plus,
    rule_that_moves,
    tunable,
)
from tvwrl.traces import Split
from tvwrl.types import InputError

FEW = 10  # machines of the tasks on which a rule is tuned
VALIDATION = 20  # sequences on which a rule is tuned; fewer if the task has fewer
TRACE = "{trace}"  # stands for the task's trace in the folder of a training run


@dataclass(frozen=True)
class Played(RowsCell):
    """One scheduler on the test sequences of a task, with its defaults or tuned on validation sequences."""

    task: Task
    scheduler: str  # its name in the tables
    entry: str  # a scheduler's name or a training run, as `tvwrl.compare` takes it
    tuned: bool
    sequences: int

    @property
    def name(self) -> str:
        """`<task>/<scheduler>`, `<task>/<scheduler>-tuned`."""
        return f"{self.task.name}/{as_folder(self.scheduler)}{'-tuned' * self.tuned}"

    @property
    def group(self) -> str:
        """The trace and the slot: its cells share a process, in which a forecaster is fitted only once."""
        return _group(self.task)

    @property
    def ours(self) -> bool:
        """Whether it is this project's: a training run, or one of our own rules."""
        return Path(self.entry).exists() or is_ours(self.scheduler)

    def request(self) -> dict[str, Any]:
        """What the result depends on; a training run and the file of a rule that moves count by their content."""
        run, file = Path(self.entry), name_and_source(rule_that_moves(self.entry))[1].strip()
        return asdict(self) | ({"entry": run} if run.exists() else {}) | ({"file": Path(file)} if file else {})

    def measure(self) -> Rows:
        """A row per sequence: the referee's scores, `decision_ms`, and the entry that was played."""
        entry = self._best_form() if self.tuned else self.entry
        made = entry_of(self.scheduler, entry, Setting.of_task(self.task))
        facts = {"scheduler": self.scheduler, "tuned": self.tuned, "played": entry}
        facts["knowledge"] = made.scheduler.knowledge.group
        facts["note"] = made.origin.partition(", ")[2] if OTHER_TRACE in made.origin else ""
        with closing(made):
            return [row | facts for row in played(made, self.task, self.task.split, self.sequences)]

    def _best_form(self) -> str:
        """The rule's name with the margin that has the highest mean reward on validation sequences, and with
        backfilling if that is better there; of a rule that moves, with the best settings.

        Rules are tuned on 10 machines even for 1,000, since playing many thousand workloads takes too long.
        """
        task = self.task
        if both := parted(self.entry):
            placing, rule = both
            runner = _runner(task, "validation", min(VALIDATION, task.sequences), True)
            return plus(placing, written(rule, options=tuned_settings(*runner, placing, rule)[0]))
        if task.scenario.machines > FEW:
            task = TASKS[f"{task.trace}-{task.scenario.load}-v1"]
        found = {name: self._on_validation(name, task) for name in margins(self.entry)}
        best = max(found, key=found.__getitem__)
        return best + BACKFILL if self._on_validation(best + BACKFILL, task) > found[best] else best

    def _on_validation(self, name: str, task: Task) -> tuple[float, float]:
        """Minus the number of unplaced workloads, then the mean reward, NaN if there are any: larger is better."""
        rows = played(
            entry_of(self.scheduler, name, Setting.of_task(task)), task, "validation", min(VALIDATION, task.sequences)
        )
        return -sum(row["unplaced"] for row in rows), float(np.mean([row["reward"] for row in rows]))


@dataclass(frozen=True)
class Submitted(RowsCell):
    """One entry of a submission on its task: replayed, run again, and run on fresh sequences."""

    task: Task
    scheduler: str  # the entry's name
    submission: str  # its folder
    sequences: int

    ours = False

    @property
    def name(self) -> str:
        """`<task>/<entry>`."""
        return f"{self.task.name}/{as_folder(self.scheduler)}"

    @property
    def group(self) -> str:
        """See `Played.group`."""
        return _group(self.task)

    def request(self) -> dict[str, Any]:
        """What the result depends on; the submission counts by the content of its files."""
        return asdict(self) | {"submission": Path(self.submission)}

    def measure(self) -> Rows:
        """A row per sequence, as in `Played`: what was measured here, not what was submitted, and `Checked.counted`.

        Raises InputError if the replay of an episode differs from its row, if the entry cannot be run, and if its cost
        here is not what was submitted, or is dearer on fresh sequences, by more than chance explains.
        """
        about, replayed = read_submission(self.submission), check_submission(self.submission)
        (found,) = run_entries(self.submission, about, replayed, secrets.randbits(63), only=self.scheduler)
        if found.refusal is not None:
            raise InputError(f"{self.submission}: {found.refusal}")
        facts = {"tuned": False, "scheduler": self.scheduler, "played": self.scheduler}
        facts["knowledge"] = found.knowledge.group
        facts["note"] = f"{found.dearer.percent(LEVEL)} dearer on fresh sequences"
        return [row | facts for row in found.counted[: self.sequences]]


def _group(task: Task) -> str:
    return f"{task.trace}-{task.scenario.step_seconds}"


def margins(rule: str) -> list[str]:
    """The rule's names with every combination of its options' values."""
    options = {option: values for option, values in tunable(rule).items() if values}
    values = product(*options.values())
    every = (",".join(f"{option}={v:g}" for option, v in zip(options, one, strict=True)) for one in values)
    return [f"{rule}({margin})" for margin in every] if options else [rule]


def played(entry: Entry, task: Task, split: Split, count: int) -> Rows:
    """A row per sequence of a split: the referee's scores (`tvwrl.metrics.score_episode`)."""
    scheduler = entry.scheduler
    drawn = task.sequences if split == task.split else count
    if entry.problem is None:
        problem, runner = _runner(task, split, drawn, scheduler.needs_forecasts)
    else:
        problem, runner = _runner_on(entry.problem, task, split, drawn)
        if split == task.split:
            check_drawn(task, problem, runner.sequences)
    return scores(scheduler, problem, runner, count)


@lru_cache(maxsize=4)
def _runner(task: Task, split: Split, count: int, forecasts: bool) -> tuple[Problem, Runner]:
    """The task's own problem and a runner on it, shared by all cells of a process."""
    problem = problem_of(task)
    return _runner_on(replace(problem, forecaster=forecaster_of(task)) if forecasts else problem, task, split, count)


def _runner_on(problem: Problem, task: Task, split: Split, count: int) -> tuple[Problem, Runner]:
    return problem, Runner(problem.sequences(split, count, task.seed), problem.machines, problem.scenario, task.seed)


@dataclass(frozen=True)
class BenchmarkStudy:
    """Play every scheduler, rules with tuned margins too, on the test sequences of every task, and add submissions."""

    named_tasks: tuple[str, ...] = ()
    """Names of tasks, see --list-tasks; default: all tasks whose traces are on this machine."""
    schedulers: tuple[str, ...] = ()
    """Schedulers by name, each perhaps with +pism=FILE, an interference score; default: all but those that search, and
    on tasks with moves the few that tvwrl compare plays there. Rules of production clusters and rules that move are
    played twice: with their defaults, and as they are best on validation sequences (with another margin, backfilling,
    or other settings). Tasks without moves skip those that move."""
    runs: tuple[str, ...] = ()
    """Training runs as NAME=FOLDER. {trace} in FOLDER, or in the FILE of a scheduler, stands for the task's trace;
    tasks for which that does not exist are skipped."""
    submissions: tuple[str, ...] = ()
    """Folders written by tvwrl.submit. Every episode is replayed, and the entries are run again, also on fresh
    sequences; the tables have what was measured here."""
    sequences: int | None = None
    """Largest number of test sequences to play per task; default: all."""

    partial = True

    def tasks(self) -> list[Task]:
        """The tasks that are played. Raises InputError for unknown names."""
        return [find_task(name) for name in self.named_tasks] or [
            TASKS[name] for name in TASK_NAMES if is_here(TASKS[name])
        ]

    def cells(self, figure: str) -> list[Cell]:
        """Task by task."""
        for option in ("named_tasks", "schedulers", "runs", "submissions"):
            if names := getattr(self, option):
                different(**{option: [_label(name) for name in names] if option == "schedulers" else names})
        at_least(1, sequences=self.sequences)
        for name in self.schedulers:
            if Path(name).exists():
                raise InputError(f"--schedulers {name} is a training run: write --runs NAME={name}")
            # Refuses a bad name before anything slow starts
            tasks = [task for task in self.tasks() if _exists(name, task)] or [TASKS[TASK_NAMES[0]]]
            for task in {task.trace: task for task in tasks}.values():
                entry_of(_label(name), name.replace(TRACE, task.trace), Setting.of_task(task))
        return [*(cell for task in self.tasks() for cell in self._played_on(task)), *self._submitted()]

    def _submitted(self) -> list[Submitted]:
        """The entries of the submissions. Raises InputError for a name that is already taken."""
        tasks = self.tasks()
        names = [_label(name) for task in tasks for name in self._schedulers_on(task)]
        owner = dict.fromkeys(names, "--schedulers") | {name_and_source(run)[0]: "--runs" for run in self.runs}
        cells: list[Submitted] = []
        for folder in self.submissions:
            about = read_submission(folder)
            if about.task not in tasks:
                raise InputError(
                    f"--submissions {folder}: its task {about.task.name} is not played: add it to --named-tasks"
                )
            for entry in about.knowledge:
                cell = Submitted(about.task, entry, folder, self._count(about.task))
                if owner.setdefault(entry, about.name) != about.name or cell.name in (other.name for other in cells):
                    raise InputError(
                        f"--submissions {folder}: its entry '{entry}' has the name of one of {owner[entry]}"
                    )
                cells.append(cell)
        return cells

    def _count(self, task: Task) -> int:
        """How many of the task's sequences are played."""
        return min(self.sequences or task.sequences, task.sequences)

    def _schedulers_on(self, task: Task) -> list[str]:
        """Names of the schedulers that are played on a task."""
        if task.scenario.moves_per_slot:
            return list(self.schedulers or AGAINST_MOVES)
        names = self.schedulers or [name for name in SCHEDULERS if name not in SEARCHING]
        return [name for name in names if not moves_of(name)]

    def _played_on(self, task: Task) -> list[Played]:
        """The schedulers and training runs on a task. Raises InputError for a training run that does not exist."""
        count = self._count(task)
        cells = []
        for name in self._schedulers_on(task):
            if not _exists(name, task):
                continue
            cells.append(Played(task, _label(name), name.replace(TRACE, task.trace), False, count))
            both = parted(name)
            is_tunable = both is not None and both[1] in MOVE_RULES and not name_and_source(both[0])[1]  # of no run
            if name in PRODUCTION or is_tunable:
                cells.append(Played(task, name, name, True, count))
        for run in self.runs:
            name, folder = name_and_source(run)
            if not folder:
                raise InputError(f"--runs {run}: write NAME=FOLDER")
            found = folder.replace(TRACE, task.trace)
            if TRACE not in folder and not Path(found).exists():
                raise InputError(f"--runs {run}: no such folder")
            if Path(found).exists():
                cells.append(Played(task, name, found, False, count))
        return cells

    def report(self, figure: str, out: Path, cells: Sequence[Cell]) -> Report:
        """The page, of few tasks with all tables and pictures, and all rows as CSV and as a sortable HTML table."""
        rows: Rows = []
        for cell in cells:
            assert isinstance(cell, Played | Submitted)
            facts = {"task": cell.task.name, "ours": cell.ours, "note": ""}
            rows += [facts | row for row in read_cell_rows(out, [cell])]
        found = ranking.summaries(rows, [task.name for task in self.tasks()])
        few = found if len(found) <= page.FEW else {}
        plots = {task: page.picture(task, own) for task, own in few.items()}
        files = {"benchmark.html": page.browser_table(found), "benchmark.csv": page.csv_table(found)}
        missing = len(self.cells(figure)) - len(cells)
        return Report(page.text(found, missing), rows, plots, files=files)


def _exists(scheduler: str, task: Task) -> bool:
    """Whether a scheduler can be played on a task: not if its file is to be the trace's own, and is missing."""
    file = parts_of(scheduler)[2]
    return TRACE not in file or Path(file.replace(TRACE, task.trace)).exists()


def _label(scheduler: str) -> str:
    """What a scheduler is called in the tables: without its file if that differs from trace to trace."""
    return parts_of(scheduler)[0] if TRACE in scheduler else scheduler


NAME = "benchmark"  # of the folder in --out with the tables


@dataclass(frozen=True)
class BenchmarkSettings(BenchmarkStudy, RunOptions):
    """Compare schedulers and training runs on tasks (docs/reference/tasks.md), list the tasks, or check a submission.

    Writes OUT/benchmark: tables, rows.csv, and all means in benchmark.csv and in benchmark.html, which a browser sorts.
    After Ctrl-C or a crash, run the same command with the same --out to continue.
    """

    list_tasks: bool = False
    """Only list the tasks, and whether their traces are on this machine."""
    check: Path | None = None
    """Only check a submission: replay every episode in its folder, run its entries again, also on fresh sequences, and
    print its table."""
    fresh_seed: int | None = None
    """Seed of the fresh sequences of --check, to repeat a check; default: a new random one."""


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
    head = ["entry", "knows", "reward submitted", "run again", "fresh", f"cost by that of {REFERENCE}", "fresh"]
    head += ["dearer on fresh [95 %]", "decision, ms"]
    body = []
    for one in found:
        ratios = [f"{ratio:.3f}" for ratio in one.ratio]
        rewards = [f"{reward:,.0f}" for reward in (one.submitted, one.again, one.fresh)]
        time = f"{np.mean([row['decision_ms'] for row in one.rows]):.3f}"
        body.append([one.name, one.knowledge.group, *rewards, *ratios, one.dearer.percent(LEVEL), time])
    print(markdown_table(head, body))
    print(f"fresh sequences: --fresh-seed {seed} draws them again")
    if refusals := [one.refusal for one in found if one.refusal is not None]:
        raise InputError("; ".join(refusals))
    print(f"{folder}: its entries do as well as submitted, and no worse on fresh sequences than chance allows")


def _listing() -> str:
    """Markdown: every task, its definition in short, and whether its trace is on this machine."""
    head = ["task", "load", "machines", "test sequences", "arrive together", "slot, s", "usage delay"]
    head += ["price of a move", "ms per decision", "trace"]
    body = []
    for task in (TASKS[name] for name in TASK_NAMES):
        s = task.scenario
        numbers = [f"{n:g}" for n in (s.load, s.machines, task.sequences, s.burst, s.step_seconds, s.usage_delay)]
        numbers += [f"{s.K_m:g}" if s.moves_per_slot else "-", f"{task.milliseconds:g}"]
        trace = "comes with the package" if task.trace == EMBEDDED else "is here" if is_here(task) else "not here"
        body.append([task.name, *numbers, trace])
    return markdown_table(head, body)
