"""From cells to a figure's files: what --out may hold, and what is said of cells and figures that are not finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tvwrl.experiments.engine import Cell, RowsCell, read_cell_rows
from tvwrl.experiments.reproducing import Report, RunOptions, reproduce
from tvwrl.types import InputError

FIGURES = ("left", "right")


@dataclass(frozen=True)
class Number(RowsCell):
    """A row with a number; there is none above 8."""

    figure: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.figure}-{self.number}"

    def measure(self) -> list[dict[str, object]]:
        if self.number == 9:
            raise KeyboardInterrupt
        if self.number > 8:
            raise InputError("number is too large")
        return [{"number": self.number}]


@dataclass(frozen=True)
class Numbers:
    """Figures of their numbers."""

    numbers: tuple[int, ...] = (1, 2)
    partial = False

    def cells(self, figure: str) -> list[Number]:
        return [Number(figure, number) for number in self.numbers]

    def report(self, figure: str, out: Path, cells: Sequence[Cell]) -> Report:
        rows = read_cell_rows(out, cells)
        return Report(f"# {figure}\n\n{[row['number'] for row in rows]}", rows)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with both figures."""
    reproduce(Numbers(), FIGURES, "numbers", RunOptions(tmp_path / "out"))
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ("checkpoints/last.pt", "holds a training run"),
        ("study.db", "holds a hyper-parameter search"),
        ("cell.json", "holds a single cell"),
        ("run.json", "holds the result of another command"),
        ("cells/evaluation/random/cell.json", "holds an unfinished evaluation"),
        ("notes.txt", "is not empty"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_folder_that_holds_something_else_is_refused(held: str, message: str, dry_run: bool, tmp_path: Path) -> None:
    file = tmp_path / "mine" / held
    file.parent.mkdir(parents=True)
    file.write_text("x")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=f"mine .*{message}.* another folder"):
        reproduce(Numbers(), FIGURES, "numbers", RunOptions(tmp_path / "mine", dry_run=dry_run))
    assert sorted(tmp_path.rglob("*")) == before


def test_what_others_leave_in_a_folder_of_cells_is_refused_too(made: Path) -> None:
    (made / "study.db").touch()
    with pytest.raises(InputError, match="hyper-parameter search"):
        reproduce(Numbers(), FIGURES, "numbers", RunOptions(made))


@pytest.mark.parametrize("below", ["", "new"])
def test_a_file_is_refused_as_a_folder(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is a file: give --out a folder"):
        reproduce(Numbers(), FIGURES, "numbers", RunOptions(tmp_path / "file" / below))


def test_report_only_names_all_damaged_cells_and_writes_the_other_figures(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        (made / "cells" / f"left-{number}" / "rows.json").write_text("")
    (made / "right" / "table.md").unlink()
    with pytest.raises(InputError, match=r"(?s)left-1.*rows\.json is damaged.*remove.*left-2.*rows\.json is damaged"):
        reproduce(Numbers(), FIGURES, "numbers", RunOptions(made, report_only=True))
    assert (made / "right" / "table.md").exists()
    printed = capsys.readouterr().err
    assert f"{made / 'left'} is outdated" in printed
    assert f"{made / 'right'} is outdated" not in printed


def test_a_figure_is_not_called_outdated_where_another_request_is_refused(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = made / "cells" / "left-1" / "cell.json"
    manifest.write_text(manifest.read_text().replace('"number": 1', '"number": 7'))
    with pytest.raises(InputError, match="made for another request: number is 7 there, 1 here"):
        reproduce(Numbers(), FIGURES, "numbers", RunOptions(made))
    assert "outdated" not in capsys.readouterr().err


@dataclass(frozen=True)
class Undrawable(Numbers):
    """Figures with a plot that cannot be drawn."""

    def report(self, figure: str, out: Path, cells: Sequence[Cell]) -> Report:
        def draw(file: Path) -> None:
            file.touch()
            raise InputError("no rows: nothing to draw")

        return replace(super().report(figure, out, cells), plots={"plot": draw})


def test_a_figure_that_cannot_be_drawn_leaves_nothing_that_looks_like_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="nothing to draw"):
        reproduce(Undrawable(), ["left"], "numbers", RunOptions(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["cells"]
    assert "outdated" not in capsys.readouterr().err


def test_a_figure_that_cannot_be_drawn_again_stays_as_it_was(made: Path) -> None:
    before = {path: path.read_bytes() for path in (made / "left").iterdir()}
    with pytest.raises(InputError, match="nothing to draw"):
        reproduce(Undrawable((1, 2, 3)), ["left"], "numbers", RunOptions(made))
    assert {path: path.read_bytes() for path in (made / "left").iterdir()} == before


@pytest.mark.parametrize(("number", "error"), [(9, KeyboardInterrupt), (10, InputError)])
def test_an_older_figure_is_called_outdated_where_a_run_is_stopped_or_fails(
    made: Path, number: int, error: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    with pytest.raises(error):
        reproduce(replace(Numbers(), numbers=(1, number)), ["left"], "numbers", RunOptions(made))
    assert f"{made / 'left'} is outdated: it was not written again" in capsys.readouterr().err
    assert "[1, 2]" in (made / "left" / "table.md").read_text()
