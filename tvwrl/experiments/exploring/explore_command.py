"""Makes the explorer of an evaluation or a plan, or its episodes in other formats, for `tvwrl explore`."""

from __future__ import annotations

import shutil
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import tyro

from tvwrl.checks import at_least, different, one_of
from tvwrl.experiments.engine import CELLS, AnotherRequest, complete, folder_of, refuse_failed
from tvwrl.experiments.evaluation import PAGE
from tvwrl.experiments.exploring.explored import Explored, cells_of, open_explored, sequences_of, write_page
from tvwrl.experiments.exploring.plan_explorer import explore_plans
from tvwrl.explorer import Recording, draw_report
from tvwrl.progress import say
from tvwrl.types import InputError

Format = Literal["html", "png", "svg", "pdf"]
SUFFIXES = {"html": (".html", ".htm"), "png": (".png",), "svg": (".svg",), "pdf": (".pdf",)}
WORK = ".explorer"  # folder beside the evaluation's files that holds finished episodes until the page is written


@dataclass(frozen=True)
class ExploreSettings:
    """Make one HTML file that shows plans, or an evaluation with what each alternative would have cost.

    It needs no server and no network. RUN is a folder of tvwrl evaluate, train, provision or place. After Ctrl-C, run
    the same command again to continue.
    """

    run: tyro.conf.Positional[Path]
    """Folder of the evaluation, the training run or the plan."""
    file: Path | None = None
    """File to write; default: in the folder, explorer.html or report.FORMAT."""
    format: Format | None = None
    """What to write; default: what the name of --file ends with, or html. html: the explorer. png, svg, pdf: a
    report of one sequence and one or two schedulers, for papers."""
    schedulers: tuple[str, ...] | None = None
    """Schedulers to show; default: all, or in a report the first two."""
    loads: tuple[float, ...] | None = None
    """Offered loads; default: all for html, otherwise the first."""
    sequences: int | None = None
    """Number of sequences per load; default: all that the evaluation kept (30; fewer on large clusters) for html,
    otherwise 1."""
    what_if: bool = True
    """Simulate every alternative to the end of the episode, to find its cost."""
    workers: int = 1
    """How many episodes are simulated at the same time, each in its own process."""
    open: bool = False
    """Open the file in the browser."""

    def check(self) -> None:
        """Raise InputError for values out of range."""
        at_least(1, workers=self.workers, sequences=self.sequences)


def explore(settings: ExploreSettings) -> None:
    """Make the file, and say where it is. Raises InputError for a folder that cannot be explored."""
    settings.check()
    format = _format_of(settings)
    if (settings.run / "plan.parquet").is_file():
        _explore_plans(settings, format)
        return
    explored = open_explored(settings.run)
    schedulers, chosen, left_out = _selected(explored, settings, format)
    file = settings.file or explored.folder / (PAGE if format == "html" else f"report.{format}")
    cells = list(cells_of(explored, schedulers, chosen, settings.what_if))
    work = explored.folder / WORK
    say(f"playing {len(cells)} episode{'s' * (len(cells) > 1)}" + " and simulating the alternatives" * settings.what_if)
    try:
        failed = complete(work, cells, settings.workers)
    except AnotherRequest:  # left by an interruption, before this evaluation was made or the options changed
        shutil.rmtree(work / CELLS)
        failed = complete(work, cells, settings.workers)
    except (KeyboardInterrupt, SystemExit):
        say("stopped; the same command continues")
        raise
    refuse_failed(failed)
    found = {(cell.scheduler, cell.load, cell.sequence): cell for cell in cells}

    def read(scheduler: str, load: float, sequence: int) -> tuple[Recording, str]:
        cell = found[scheduler, load, sequence]
        return cell.read(folder_of(work, cell), explored)

    if format == "html":
        write_page(file, explored, schedulers, chosen, read, left_out=left_out)
    else:
        part = explored.parts[0]
        machines = part.scenario.cluster(part.sequences.resources)
        draw_report([read(*episode)[0] for episode in found], machines, file)
    shutil.rmtree(work)  # nobody else knows of it
    _say_where(file, settings)


def _explore_plans(settings: ExploreSettings, format: Format) -> None:
    usual = ExploreSettings(settings.run)
    for name in ("schedulers", "loads", "sequences", "what_if", "workers"):
        if getattr(settings, name) != getattr(usual, name):
            raise InputError(f"{name} does not apply to plans, which {settings.run} holds: leave it out")
    if format != "html":
        raise InputError(f"format is {format}: {settings.run} holds plans, which can only be explored as html")
    file = settings.file or settings.run / PAGE
    explore_plans(settings.run, file)
    _say_where(file, settings)


def _say_where(file: Path, settings: ExploreSettings) -> None:
    print(f"written to {file}")
    if file.name.endswith(SUFFIXES["html"]):
        print(f"open {file.absolute().as_uri()}")
    if settings.open:
        webbrowser.open(file.absolute().as_uri())


def _selected(
    explored: Explored, settings: ExploreSettings, format: Format
) -> tuple[tuple[str, ...], dict[float, list[int]], list[str]]:
    """Schedulers, load -> sequences, and sentences on what is left out."""
    report = format != "html"
    schedulers = settings.schedulers or (explored.schedulers[:2] if report else explored.schedulers)
    different(schedulers=schedulers)
    for name in schedulers:
        one_of(explored.schedulers, schedulers=name)
    if report and (settings.sequences or 1) > 1:
        raise InputError(f"sequences is {settings.sequences}: a report shows one sequence")
    if report and len(settings.loads or ()) > 1:
        raise InputError("loads: a report shows one sequence, of one load")
    if report and len(schedulers) > 2:
        raise InputError(f"schedulers: a report shows one or two, not {len(schedulers)}")
    loads = settings.loads or (explored.loads[:1] if format != "html" else explored.loads)
    for load in loads:
        one_of(explored.loads, loads=load)
    count = settings.sequences or (None if format == "html" else 1)
    return tuple(schedulers), *sequences_of(explored, loads, count)


def _format_of(settings: ExploreSettings) -> Format:
    """The format asked for, or that of the file's name. Raises InputError if they differ, or there is none."""
    file, format = settings.file, settings.format
    if file is None:
        return format or "html"
    named: list[Format] = [one for one in get_args(Format) if file.name.endswith(SUFFIXES[one])]
    if not named or format not in (None, *named):
        ends = SUFFIXES[format] if format else [suffix for every in SUFFIXES.values() for suffix in every]
        said = f"with --format {format} " if format else ""
        raise InputError(f"file is {file}: {said}its name must end in {' or '.join(ends)}")
    return named[0]
