"""From a figure's name to its files: completes the cells it needs, then writes its rows, table and plots."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, make_dataclass
from functools import partialmethod
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from tvwrl.checks import at_least, different
from tvwrl.experiments.engine import (
    CELLS,
    MANIFEST,
    AnotherRequest,
    Cell,
    CellOptions,
    Rows,
    damaged,
    is_finished,
    refuse_failed,
)
from tvwrl.experiments.evaluation import is_unfinished
from tvwrl.progress import say
from tvwrl.runs import check_new_folder, default_folder, provenance, whole_file, write_csv, write_json
from tvwrl.types import InputError

TABLE = "table.md"
NOT_OURS = {  # what other commands leave in their folders -> what such a folder holds
    "checkpoints": "a training run",
    "study.db": "a hyper-parameter search",
    MANIFEST: "a single cell",
    "run.json": "the result of another command",
}


@dataclass(frozen=True)
class Report:
    """What a figure shows."""

    text: str  # Markdown that begins with a heading; it may show plots where it likes, as ![title](name.png)
    rows: Rows  # of rows.csv
    plots: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)  # name -> writes the PNG
    facts: Mapping[str, Any] = field(default_factory=dict)  # for run.json, beside provenance and options
    tables: Mapping[str, Rows] = field(default_factory=dict)  # further CSV files by name
    files: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)  # HTML file -> function that writes it
    parts: Mapping[str, str] = field(default_factory=dict)  # details: name -> Markdown, to which text links as name.md


class Study(Protocol):
    """What a paper's figures are measured with: a dataclass whose fields are the options of their commands."""

    def cells(self, figure: str) -> Sequence[Cell]:
        """The cells of a figure. Raises InputError for options out of range."""
        ...

    def report(self, figure: str, out: Path, cells: Sequence[Cell]) -> Report:
        """The figure, made of cells that are finished in `out`: all of them, unless `partial`."""
        ...

    @property
    def partial(self) -> bool:
        """Whether a figure can be made of the cells that are finished so far."""
        ...


@dataclass(frozen=True)
class RunOptions(CellOptions):
    """The options that every figure has."""

    report_only: bool = False
    """Only rewrite tables, plots and page from the finished cells in --out."""
    page: Path | None = None
    """Also write the tables to this Markdown page, with details on pages in a folder of the same name; text above the
    generated part is kept."""

    def check_run(self) -> None:
        """Raise InputError for values out of range."""
        super().check_run()
        if self.report_only and self.out is None:
            raise InputError("--report-only needs --out, the folder with the finished cells")


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise InputError unless the seeds are different numbers >= 0, at least one."""
    different(seeds=seeds)
    at_least(0, seeds=seeds)


def reproduce(study: Study, figures: Sequence[str], label: str, options: RunOptions) -> None:
    """Complete the cells of the figures, then write and print each figure whose cells are finished.

    Files of a figure: `OUT/<figure>/` with rows.csv, table.md and its parts, run.json and a PNG per plot. Raises
    InputError for options out of range or a folder that holds something else, and at the end if cells failed, naming
    each; KeyboardInterrupt and SystemExit pass through. A figure of an earlier run that could not be written again
    stays, and is named.
    """
    options.check_run()
    cells = {figure: list(study.cells(figure)) for figure in figures}
    out = options.out or default_folder(label)
    check_folder(out)
    every, written, refused = list(chain.from_iterable(cells.values())), dict[str, Report](), False
    if options.dry_run:
        options.complete(out, every)
        return
    try:
        failed = damaged(out, every) if options.report_only else options.complete(out, every) or {}
        for figure, own in cells.items():
            finished = [cell for cell in own if cell.name not in failed and is_finished(out, cell)]
            if not finished or (len(finished) < len(own) and not study.partial):  # none: the options leave it out
                continue
            report = study.report(figure, out, finished)
            _write(out / figure, report, study)
            written[figure] = report
            print("\n\n".join(text.strip() for text in (report.text, *report.parts.values())) + "\n")
            print(f"written to {out / figure}")
    except AnotherRequest:
        refused = True  # before anything ran, so figures and cells still belong together
        raise
    finally:
        for figure in cells:
            if not refused and figure not in written and (out / figure / TABLE).exists():
                say(f"{out / figure} is outdated: it was not written again, and shows the results of an earlier run")
    if options.page is not None and written:
        write_page(options.page, out, written, label.replace("-", " ").capitalize() if len(cells) > 1 else "")
        print(f"written to {options.page}")
    refuse_failed(failed)
    if not written:
        raise InputError(f"{out} holds too few finished cells for {', '.join(figures)}")


def check_folder(out: Path) -> None:
    """Raise InputError unless a folder is new or empty, or holds the cells of figures."""
    for path in (out, *out.parents):
        if path.exists() and not path.is_dir():
            raise InputError(f"--out {out}: {path} is a file: give --out a folder")
    held = next((content for name, content in NOT_OURS.items() if (out / name).exists()), "")
    if held or is_unfinished(out):
        raise InputError(f"{out} holds {held or 'an unfinished evaluation'}: give --out another folder")
    if not (out / CELLS).is_dir():
        check_new_folder(out)


def _write(folder: Path, report: Report, study: Study) -> None:
    """The files of a figure: none of them is replaced before all are drawn."""
    drawn = {f"{name}.png": plot for name, plot in report.plots.items()} | dict(report.files)
    texts = {TABLE: report.text, **{f"{part}.md": text for part, text in report.parts.items()}}
    with tempfile.TemporaryDirectory() as apart:
        for name, draw in drawn.items():
            draw(Path(apart) / name)
        for name, rows in {"rows": report.rows, **report.tables}.items():
            write_csv(folder / f"{name}.csv", rows)
        for name, text in texts.items():
            with whole_file(folder / name) as partial:
                partial.write_text(f"{text.strip()}\n", encoding="utf-8")
        for name in drawn:
            with whole_file(folder / name) as partial:
                shutil.copyfile(Path(apart) / name, partial)
    options = asdict(study)  # type: ignore[call-overload]
    write_json(folder / "run.json", provenance() | {"options": options} | dict(report.facts))


def commands(prefix: str, paper: str, figures: Mapping[str, str], study: type, all_of: str = "") -> dict[str, type]:
    """Command name -> dataclass with the options of the study, `RunOptions` and a method `run`.

    `figures`: name -> title. Commands are called `<prefix>-<figure>`, or by the figure alone without a prefix; `all_of`
    is the help of one more, `<prefix>-all`, that makes all figures in one folder.
    """
    names: dict[str, tuple[tuple[str, ...], str]]
    names = {name: ((name,), f"{paper}, {title}.") for name, title in figures.items()}
    names |= {"all": (tuple(figures), all_of)} if all_of else {}
    made = {}
    for name, (own, summary) in names.items():
        command = f"{prefix}-{name}".lstrip("-")
        run = partialmethod(_run, own, command)
        content = {"run": run, "__doc__": summary, "__module__": __name__}
        bases = (study, RunOptions)
        made[command] = make_dataclass(command.replace("-", "_"), [], bases=bases, frozen=True, namespace=content)
    return made


def _run(options: Any, figures: Sequence[str], command: str) -> None:
    reproduce(options, figures, command, options)


MARK = "<!-- What follows is generated; what stands above this line is kept. -->"
PLOT = "plot"  # the name of a figure's only picture


def write_page(page: Path, out: Path, reports: Mapping[str, Report], title: str = "") -> None:
    """A page of figures that were written to `out`, each in a folder of its name.

    Without `title` it is the page of the only figure. Otherwise each figure has a page of its own, and this one, called
    `title` if it is new, links to them. Such pages, those of the parts of a report, and pictures lie in a folder of the
    page's name beside it; but the only picture of a figure is beside its page, and has its name.
    """
    if not title:
        ((figure, report),) = reports.items()
        _write_figure(page, out / figure, report)
        return
    below = page.with_suffix("")
    for figure, report in reports.items():
        _write_figure(below / f"{figure}.md", out / figure, report)
    links = [f"- [{heading_of(report.text)}]({below.name}/{figure}.md)" for figure, report in reports.items()]
    _write_page(page, title, "\n".join(links), list(reports))


def heading_of(text: str) -> str:
    """What the first line of Markdown says."""
    return text.strip().partition("\n")[0].lstrip("# ")


def _write_figure(page: Path, made: Path, report: Report) -> None:
    """The page of one report, with its parts; pictures that no text shows follow the introduction. `made`: the folder
    that has the files of the report."""
    below, text = page.with_suffix(""), _body(report.text)
    beside = {f"{name}.png": below / f"{name}.png" for name in report.plots}
    beside |= {f"{PLOT}.png": page.with_suffix(".png")} if PLOT in report.plots else {}
    beside |= {name: below / name for name in report.files}
    for name, copy in beside.items():
        with whole_file(copy) as partial:
            partial.write_bytes((made / name).read_bytes())
    for name, part in report.parts.items():
        _write_page(below / f"{name}.md", heading_of(part), _body(part), [])
    everything = "".join([text, *report.parts.values()])
    shown = [f"![{heading_of(report.text)}]({n}.png)" for n in report.plots if f"]({n}.png)" not in everything]
    text = "\n\n".join([*shown, text])
    targets = beside | {f"{name}.md": below / f"{name}.md" for name in report.parts}
    for name, target in targets.items():
        text = text.replace(f"]({name})", f"]({target.relative_to(page.parent)})")
    _write_page(page, heading_of(report.text), text, list(report.parts))


def _body(text: str) -> str:
    """Markdown without its heading."""
    return text.strip().partition("\n")[2].strip()


def _write_page(page: Path, title: str, text: str, parts: list[str]) -> None:
    """The introduction that the page has, the text, and, for the site, which pages are below this one.

    The introduction was written by hand: what stands above `MARK`, or all of a page without it. A new page has `title`.
    """
    opening = page.read_text(encoding="utf-8").partition(MARK)[0].rstrip() if page.exists() else f"# {title}"
    sections = [f"{opening}\n\n{MARK}", text]
    if parts:
        lines = "\n".join(f"{page.stem}/{name}" for name in parts)
        sections.append(f"```{{toctree}}\n:hidden:\n\n{lines}\n```")
    with whole_file(page) as partial:
        partial.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
