"""The loop that completes cells: nothing finished is lost or used for another request, nothing is left out."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tvwrl.experiments import engine
from tvwrl.experiments.engine import Cell, RowsCell, complete, is_finished, overview, read_cell_rows
from tvwrl.runs import locked
from tvwrl.types import InputError


@dataclass(frozen=True)
class Squared(RowsCell):
    """Rows that count how often they were measured, in a file beside the cells."""

    number: int
    log: str
    setting: float = 0.5

    @property
    def name(self) -> str:
        return f"square-{self.number}"

    @property
    def group(self) -> str:
        return f"parity-{self.number % 2}"

    def measure(self) -> list[dict[str, object]]:
        if self.number == 13:
            raise ValueError("no luck")
        if self.number == 14:
            raise InputError("machines is 14: must be below 14")
        if self.number == 15:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.number == 16:
            raise KeyboardInterrupt
        if self.number == 17:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with Path(self.log).open("a") as file:
            file.write(f"{self.number}\n")
        return [{"number": self.number, "square": self.number**2, "root": math.nan, "name": "x", "even": None}]


def cells(tmp_path, *numbers, setting=0.5):
    return [Squared(number, str(tmp_path / "log"), setting) for number in numbers]


def measured(tmp_path):
    return sorted(map(int, (tmp_path / "log").read_text().split()))


@pytest.mark.parametrize("workers", [1, 2])
def test_missing_cells_run_once_and_rows_keep_their_types(tmp_path, workers):
    asked = cells(tmp_path, 3, 1, 2, 3)
    assert complete(tmp_path / "out", asked, workers, report=print) == {}
    assert complete(tmp_path / "out", asked, workers, report=print) == {}
    assert measured(tmp_path) == [1, 2, 3]
    row = read_cell_rows(tmp_path / "out", asked[:1])[0]
    assert (row["number"], row["square"], row["name"], row["even"]) == (3, 9, "x", None)
    assert math.isnan(row["root"])


@pytest.mark.parametrize("file", ["rows.json", "cell.json"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_cut_off_anywhere_is_refused_by_name_and_the_others_go_on(tmp_path, file, share):
    out, asked = tmp_path / "out", cells(tmp_path, 1, 2)
    complete(out, asked, report=print)
    damaged = out / "cells" / "square-1" / file
    damaged.write_bytes(damaged.read_bytes()[: int(share * damaged.stat().st_size)])
    failed = complete(out, cells(tmp_path, 1, 2, 3), report=print)
    assert list(failed) == ["square-1"]
    assert file in failed["square-1"]
    assert "remove" in failed["square-1"]
    assert measured(tmp_path) == [1, 2, 3]
    with pytest.raises(InputError, match=file):
        read_cell_rows(out, asked)


def test_leftovers_of_an_interrupted_attempt_are_made_anew(tmp_path):
    out, asked = tmp_path / "out", cells(tmp_path, 1)
    folder = out / "cells" / "square-1"
    folder.mkdir(parents=True)
    (folder / "rows.json").write_text("[{")
    assert not is_finished(out, asked[0])
    assert complete(out, asked, report=print) == {}
    assert read_cell_rows(out, asked)[0]["square"] == 1


@pytest.mark.parametrize("finished", [True, False])
def test_another_request_is_refused_before_anything_runs(tmp_path, finished):
    out = tmp_path / "out"
    complete(out, cells(tmp_path, 1), report=print)
    if not finished:  # interrupted: what it left must not be taken up for another request either
        manifest = out / "cells" / "square-1" / "cell.json"
        manifest.write_text(json.dumps({"request": json.loads(manifest.read_text())["request"]}))
    with pytest.raises(InputError, match=r"square-1 .*setting is 0\.5 there, 0\.7 here.*--out"):
        complete(out, cells(tmp_path, 2, 1, setting=0.7), report=print)
    assert measured(tmp_path) == [1]


@pytest.mark.parametrize("workers", [1, 2])
def test_failing_cells_are_named_and_the_others_finish(tmp_path, workers):
    out, lines = tmp_path / "out", []
    failed = complete(out, cells(tmp_path, 13, 14, 3, 4), workers, report=lines.append)
    assert failed == {"square-13": "ValueError: no luck", "square-14": "machines is 14: must be below 14"}
    assert measured(tmp_path) == [3, 4]
    assert "no luck" in (out / "cells" / "square-13" / "error.txt").read_text()
    assert sum(": failed: " in line for line in lines) == 2
    assert lines[0].startswith("measuring 4 cells")
    ended = [line for line in lines if line.startswith("4 of 4 cells ended")]
    assert len(ended) == 1
    assert ", 2 failed: square-" in ended[0]


@pytest.mark.parametrize(
    ("ends", "failed", "said"),
    [
        ([(1, 60.0)], 1, "1 of 9 cells ended in 01:00, 1 failed"),
        ([(1, 60.0), (2, 61.0)], 0, "2 of 9 cells ended in 01:01"),
        ([(1, 60.0), (2, 61.0), (4, 66.0)], 0, "4 of 9 cells ended in 01:06, about 00:10 left"),
        ([(1, 60.0), (2, 61.0), (9, 66.0)], 0, "9 of 9 cells ended in 01:06"),
    ],
)
def test_what_is_left_is_estimated_without_the_first_end(ends, failed, said):
    assert engine._so_far([(0, 0.0), *ends], 9, failed) == said


def test_a_worker_that_dies_is_named_and_what_it_had_finished_stays(tmp_path):
    failed = complete(tmp_path / "out", cells(tmp_path, 1, 15, 3, 2), 2, report=print)
    assert set(failed) == {"square-15", "square-3"}  # 1 was finished before, 3 would have come next
    assert "died" in failed["square-15"]
    assert measured(tmp_path) == [1, 2]


def test_ctrl_c_ends_the_loop_and_keeps_what_is_finished(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        complete(tmp_path / "out", cells(tmp_path, 1, 16, 2), report=print)
    assert is_finished(tmp_path / "out", cells(tmp_path, 1)[0])


def test_two_runs_in_one_folder(tmp_path):
    out = tmp_path / "out"
    with locked(out / "cells" / "parity-1"):
        failed = complete(out, cells(tmp_path, 1, 2), report=print)
    assert list(failed) == ["square-1"]
    assert "another process" in failed["square-1"]
    assert not (out / "cells" / "square-1").exists()  # nothing is written where the other one works
    assert is_finished(out, cells(tmp_path, 2)[0])


def test_a_cell_that_another_run_finishes_meanwhile_has_not_failed(tmp_path, monkeypatch):
    out, begun = tmp_path / "out", []

    def in_use(folder):
        monkeypatch.undo()
        begun.append(folder.name)
        assert complete(out, cells(tmp_path, 1), report=print) == {}  # the other run
        raise InputError(f"{folder} is in use by another process")

    monkeypatch.setattr(engine, "locked", in_use)
    assert complete(out, cells(tmp_path, 1, 2), report=print) == {}
    assert begun == ["parity-1"]
    assert measured(tmp_path) == [1, 2]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_disk_that_fills_ends_the_run_with_what_was_finished(tmp_path, workers):
    with pytest.raises(OSError, match="No space left on device"):
        complete(tmp_path / "out", cells(tmp_path, 1, 17, 3), workers, report=print)
    assert is_finished(tmp_path / "out", cells(tmp_path, 1)[0])
    assert measured(tmp_path) == [1]
    assert not list(tmp_path.rglob("error.txt"))


def test_the_overview_says_what_is_finished(tmp_path):
    out = tmp_path / "out"
    complete(out, cells(tmp_path, 1, 2), report=print)
    (out / "cells" / "square-1" / "rows.json").unlink()
    text = overview(out, cells(tmp_path, 1, 2, 3))
    assert "rows.json is missing" in text
    assert "1 of 3 cells are finished" in text


def test_a_cell_can_refuse_what_it_left(tmp_path):
    @dataclass(frozen=True)
    class Picky(Cell):
        name = "picky"

        def run(self, folder):
            (folder / "a.txt").write_text("short")

        def check(self, folder):
            raise InputError("a.txt is too short")

    assert complete(tmp_path, [Picky()], report=print) == {"picky": "a.txt is too short"}
    assert not is_finished(tmp_path, Picky())


def test_different_cells_of_one_name_are_refused(tmp_path):
    with pytest.raises(InputError, match="two different cells have the name square-1"):
        complete(tmp_path / "out", [*cells(tmp_path, 1), *cells(tmp_path, 1, setting=0.7)], report=print)


@pytest.mark.parametrize("manifest", ['{"request": []}', '{"request": 3}', '{"request": {}, "files": "x"}', "[]", "7"])
def test_a_manifest_of_another_shape_is_refused_by_name(tmp_path, manifest):
    complete(tmp_path / "out", cells(tmp_path, 1), report=print)
    (tmp_path / "out" / "cells" / "square-1" / "cell.json").write_text(manifest)
    try:
        failed = complete(tmp_path / "out", cells(tmp_path, 1), report=print)
    except InputError as error:
        failed = {"square-1": str(error)}
    assert "square-1" in failed["square-1"]


def test_a_file_counts_by_its_content_not_by_its_path(tmp_path):
    @dataclass(frozen=True)
    class Reading(RowsCell):
        source: Path
        name = "reading"

        def measure(self):
            return [{"text": self.source.read_text()}]

    first, copy = tmp_path / "a.txt", tmp_path / "copy" / "b.txt"
    copy.parent.mkdir()
    first.write_text("1")
    copy.write_text("1")
    assert complete(tmp_path / "out", [Reading(first)], report=print) == {}
    assert complete(tmp_path / "out", [Reading(copy)], report=print) == {}
    first.write_text("2")
    with pytest.raises(InputError, match="source is"):
        complete(tmp_path / "out", [Reading(first)], report=print)
