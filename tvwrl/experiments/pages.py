"""Pages for the documentation, made of reports: details have pages of their own, and what is written by hand stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tvwrl.runs import whole_file

if TYPE_CHECKING:
    from tvwrl.experiments.reproducing import Report

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
    _write(page, title, "\n".join(links), list(reports))


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
        _write(below / f"{name}.md", heading_of(part), _body(part), [])
    everything = "".join([text, *report.parts.values()])
    shown = [f"![{heading_of(report.text)}]({n}.png)" for n in report.plots if f"]({n}.png)" not in everything]
    text = "\n\n".join([*shown, text])
    targets = beside | {f"{name}.md": below / f"{name}.md" for name in report.parts}
    for name, target in targets.items():
        text = text.replace(f"]({name})", f"]({target.relative_to(page.parent)})")
    _write(page, heading_of(report.text), text, list(report.parts))


def _body(text: str) -> str:
    """Markdown without its heading."""
    return text.strip().partition("\n")[2].strip()


def _write(page: Path, title: str, text: str, parts: list[str]) -> None:
    """The introduction that the page has, the text, and, for the site, which pages are below this one."""
    sections = [preserved_introduction(page, title), text]
    if parts:
        lines = "\n".join(f"{page.stem}/{name}" for name in parts)
        sections.append(f"```{{toctree}}\n:hidden:\n\n{lines}\n```")
    with whole_file(page) as partial:
        partial.write_text("\n\n".join(sections) + "\n", encoding="utf-8")


def preserved_introduction(page: Path, title: str) -> str:
    """What stands in a page above `MARK`, written by hand, and the mark; all of a page without it is taken to be so.

    Without a page it is the title.
    """
    opening = page.read_text(encoding="utf-8").partition(MARK)[0].rstrip() if page.exists() else f"# {title}"
    return f"{opening}\n\n{MARK}"
