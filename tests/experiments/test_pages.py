"""Pages made of reports: what lies on which page, what links and pictures lead to, and what is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tvwrl.experiments.engine import Cell, RowsCell
from tvwrl.experiments.reproducing import MARK, Report, RunOptions, reproduce

TEXT = "# Results\n\nSee [the detail](detail.md) and [all of it](all.html).\n\n## More\n\n![shown](here.png)"


@dataclass(frozen=True)
class One(RowsCell):
    """Something to complete."""

    name: str = "one"
    group: str = ""

    def measure(self) -> list[dict[str, object]]:
        return [{"number": 1}]


def holding(content: str) -> Callable[[Path], None]:
    """Writes a file."""
    return partial(Path.write_text, data=content)


@dataclass(frozen=True)
class Figures:
    """`large` has details and pictures, `small` a picture alone."""

    partial = True

    def cells(self, figure: str) -> list[Cell]:
        return [One(figure)]

    def report(self, figure: str, out: Path, cells: Sequence[Cell]) -> Report:
        if figure == "small":
            return Report("# Small\n\n1\n", [], {"plot": holding("of small")})
        plots = {name: holding(name) for name in ("here", "below", "nowhere")}
        parts = {"detail": "# Detail\n\n![of it](below.png)\n\n2"}
        return Report(TEXT, [], plots, files={"all.html": holding("html")}, parts=parts)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Makes figures, and their page."""

    def made(*figures: str) -> Path:
        page = tmp_path / "docs" / "page.md"
        reproduce(Figures(), figures, "both-figures", RunOptions(tmp_path / "out", page=page))
        return page

    return made


def dead_links(page: Path) -> list[str]:
    """Links and pictures of a page that lead nowhere."""
    return [link for link in re.findall(r"\]\((.*?)\)", page.read_text()) if not (page.parent / link).exists()]


def test_details_are_on_pages_of_their_own(write: Callable[..., Path], tmp_path: Path) -> None:
    page = write("large")
    text = page.read_text()
    assert text.startswith(f"# Results\n\n{MARK}\n\n![Results](page/nowhere.png)\n\nSee [the detail](page/detail.md)")
    assert text.endswith("```{toctree}\n:hidden:\n\npage/detail\n```\n")
    detail = page.with_suffix("") / "detail.md"
    assert detail.read_text() == f"# Detail\n\n{MARK}\n\n![of it](below.png)\n\n2\n"
    assert (page.with_suffix("") / "here.png").read_text() == "here"
    assert [dead_links(one) for one in (page, detail, tmp_path / "out" / "large" / "table.md")] == [[], [], []]
    assert (tmp_path / "out" / "large" / "detail.md").exists()


def test_each_of_several_figures_has_a_page(write: Callable[..., Path]) -> None:
    page = write("large", "small")
    links = "- [Results](page/large.md)\n- [Small](page/small.md)"
    assert page.read_text().startswith(f"# Both figures\n\n{MARK}\n\n{links}\n\n```{{toctree}}")
    below = page.with_suffix("")
    assert (below / "small.md").read_text() == f"# Small\n\n{MARK}\n\n![Small](small.png)\n\n1\n"
    assert (below / "small.png").read_text() == "of small"
    pages = [page, below / "small.md", below / "large.md", below / "large" / "detail.md"]
    assert [dead_links(one) for one in pages] == [[], [], [], []]


def test_what_was_written_by_hand_is_kept_on_every_page(write: Callable[..., Path]) -> None:
    page = write("large")
    pages = {page: "More", page.with_suffix("") / "detail.md": "2"}
    for one in pages:
        one.write_text(one.read_text().replace(MARK, f"By hand.\n\n{MARK}\n\nold"))
    write("large")
    for one, generated in pages.items():
        text = one.read_text()
        assert text.index("By hand.") < text.index(MARK) < text.index(generated)
        assert "old" not in text
