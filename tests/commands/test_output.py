"""Places that cannot be written to are refused before anything else."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tvwrl.commands.output import check_output
from tvwrl.types import InputError


def settings(**values: Any) -> Any:
    """Settings with these fields."""
    return SimpleNamespace(**values)


def test_good_places_pass_and_nothing_is_left_behind(tmp_path: Path) -> None:
    check_output(settings(out=tmp_path / "ä b" / "deep"))
    check_output(settings(file=tmp_path / "deep" / "score.npz"))
    check_output(settings(trace="google"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_refused_where_it_has_to_be_new(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    check_output(settings(out=tmp_path / "run"), fresh=True)
    (tmp_path / "run" / "rows.csv").touch()
    check_output(settings(out=tmp_path / "run"))  # others continue there
    with pytest.raises(InputError, match="already exists and is not empty: give another folder"):
        check_output(settings(out=tmp_path / "run"), fresh=True)


@pytest.mark.parametrize("name", ["out", "resume"])
def test_a_file_is_no_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(InputError, match=rf"--{name} .*file is a file: give a folder"):
            check_output(settings(**{name: place}))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--file .* is a folder: give the name of a file"):
        check_output(settings(file=tmp_path))


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_what_the_system_refuses_is_named(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(dir: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refusing)
    with pytest.raises(InputError, match=f"nothing can be written to {tmp_path}: {os.strerror(number)}"):
        check_output(settings(out=tmp_path / "run"))
    with pytest.raises(InputError, match="the output folder runs: nothing can be written"):
        check_output(settings(out=None))
    check_output(settings(out=tmp_path / "run", dry_run=True))  # which writes nothing
