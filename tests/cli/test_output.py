"""Places that cannot be written to are refused before anything else."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tvwrl.cli.dispatch import check_contents, check_output, dispatch, line_of, undisturbed
from tvwrl.cli.reproduce import figures
from tvwrl.cli.table import COMMANDS
from tvwrl.runs import locked
from tvwrl.types import InputError


def settings(**values: Any) -> Any:
    """Settings with these fields."""
    return SimpleNamespace(**values)


def test_good_places_pass_and_nothing_is_left_behind(tmp_path: Path) -> None:
    check_output(settings(out=tmp_path / "ä b" / "deep"))
    check_output(settings(file=tmp_path / "deep" / "score.npz"))
    check_output(settings(trace="google"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for group in figures().values() for name in group])
def test_every_figure_can_be_made_without_naming_a_folder(name: str) -> None:
    check_output(line_of(["reproduce", name]).parsed())


def test_a_folder_that_holds_something_is_refused_where_it_has_to_be_new(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    there = settings(out=tmp_path / "run")
    for name in ("train", "provision", "evaluate"):
        check_contents(there, COMMANDS[name])
    (tmp_path / "run" / "rows.csv").touch()
    check_contents(there, COMMANDS["tune"])  # others continue there
    for name in ("train", "provision", "evaluate"):
        with pytest.raises(InputError, match="already exists and is not empty: give another folder"):
            check_contents(there, COMMANDS[name])
    (tmp_path / "run" / "cells").mkdir()
    check_contents(there, COMMANDS["evaluate"])  # it was interrupted there


@pytest.mark.parametrize(("command", "file"), [("train", "last.pt"), ("learn-online", "start.pt")])
def test_how_to_continue_a_run_that_is_in_the_way(command: str, file: str, tmp_path: Path) -> None:
    run = tmp_path / "läufe" / "smoke lang"
    (run / "checkpoints").mkdir(parents=True)
    for name in ("last.pt", file):
        (run / "checkpoints" / name).touch()
    with pytest.raises(InputError, match=rf"continue its training \(tvwrl {command} --resume '{run}'\), give another"):
        check_contents(settings(out=run), COMMANDS["train"])


@pytest.mark.parametrize("name", ["out", "resume"])
def test_a_file_is_no_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "run", tmp_path / "missing" / ".." / "file"):
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


@pytest.mark.parametrize("words", ["train", "learn-online", "evaluate", "place", "provision --instance a.csv", "size"])
def test_a_folder_that_another_command_works_in_is_refused(words: str, tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(InputError, match=r"run is in use by another process: wait for it"):
        dispatch([*words.split(), "--out", str(tmp_path / "run")])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_parent_has_no_room_for_a_lock_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda place, how: False)
    with undisturbed(settings(out=tmp_path / "mounted")):
        assert list(tmp_path.iterdir()) == []


def test_what_only_looks_may_look_meanwhile(tmp_path: Path) -> None:
    with locked(tmp_path / "run"), undisturbed(settings(out=tmp_path / "run", dry_run=True)):
        pass


def test_nothing_is_made_to_keep_others_out(tmp_path: Path) -> None:
    with undisturbed(settings(resume=None, out=tmp_path / "new" / "run")):
        assert list(tmp_path.iterdir()) == []
