"""The folder of finished pieces: one process at a time, and nothing stays of one that was killed."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tvwrl.runs import whole_folder
from tvwrl.traces.preparation.prepare import working_folder, working_path
from tvwrl.types import InputError

SETTINGS = {"source": "x"}
KILLED = """
    import os, signal, sys
    from pathlib import Path
    from tvwrl.runs import whole_folder
    from tvwrl.traces.preparation.prepare import working_folder
    out = Path(sys.argv[1])
    with working_folder(out, {"source": "x"}) as work, whole_folder(out, work) as partial:
        (work / "1-shares-x").mkdir()
        (work / "1-shares-x" / "a.json").touch()
        (partial / "half").touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def piece(tmp_path: Path) -> Path:
    """A finished piece of an earlier run."""
    path = working_path(tmp_path / "out") / "1-shares-x" / "a.json"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_second_preparation_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with working_folder(out, SETTINGS) as work:
        (work / "piece").touch()
        for other in (SETTINGS, {"source": "y"}):
            with (
                pytest.raises(InputError, match=r"/out is in use by another process: wait for it, or stop it"),
                working_folder(out, other),
            ):
                pass
        assert (work / "piece").exists()
        with working_folder(tmp_path / "elsewhere", SETTINGS):
            pass
    assert names(tmp_path) == []


def test_nothing_stays_of_a_run_that_was_killed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(out)]
    assert subprocess.run(command, timeout=600).returncode < 0
    assert names(tmp_path) == [".out.lock", ".out.work"]
    assert [name.endswith(".partial") for name in names(working_path(out))] == [True, False, False]
    with working_folder(out, SETTINGS) as work, whole_folder(out, work) as partial:
        assert names(partial) == []
        assert (work / "1-shares-x" / "a.json").exists()
        (partial / "whole").touch()
    assert names(tmp_path) == ["out"]
    assert names(out) == ["whole"]


def test_other_settings_begin_anew(piece: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (working_path(out) / "link").symlink_to(tmp_path)
    with pytest.raises(KeyboardInterrupt), working_folder(out, SETTINGS):
        raise KeyboardInterrupt
    assert piece.exists()
    with working_folder(out, {"source": "y"}) as work:
        assert names(work) == ["settings.json"]


def test_a_folder_that_is_taken_is_refused_and_the_pieces_stay(piece: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").touch()
    with pytest.raises(InputError, match="already exists and is not empty"), working_folder(out, SETTINGS):
        pass
    assert piece.exists()


def test_a_lock_that_was_removed_meanwhile_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the first process ends between opening and locking of the second."""
    file, lock, calls = tmp_path / ".out.lock", fcntl.flock, []

    def late(descriptor: object, operation: int) -> None:
        if not calls:
            file.unlink()
        calls.append(operation)
        lock(descriptor, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", late)
    with working_folder(tmp_path / "out", SETTINGS):
        assert file.exists()
    assert len(calls) == 2
