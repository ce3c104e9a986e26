"""The working folder next to the output: its lock, the reuse of finished pieces, and its removal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tvwrl.runs import check_new_folder, write_json
from tvwrl.types import InputError

LOCK = "lock"


def working_path(out: Path) -> Path:
    """The working folder of the trace `out`."""
    return out.parent / f".{out.name}.work"


@contextlib.contextmanager
def working_folder(out: Path, settings: dict[str, Any]) -> Iterator[Path]:
    """The folder of finished pieces, for this process alone; what was made with other settings is thrown away first.

    It is removed in the end, and after an error too if nothing in it is worth keeping. Raises InputError while another
    process has it, and if `out` holds something.
    """
    work = working_path(out)
    with _locked(work, out):
        try:
            check_new_folder(out)
            note = work / "settings.json"
            if note.exists() and json.loads(note.read_text()) != settings:
                _empty(work)
            write_json(note, settings)
            yield work
        except BaseException:
            if not any(work.glob("*-shares-*/*.json")):
                _remove(work)
            raise
        _remove(work)


@contextlib.contextmanager
def assembled(work: Path, out: Path) -> Iterator[Path]:
    """A folder in `work` that becomes `out` if the block succeeds; removes leftovers of a killed run."""
    partial = work / "assembled"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        check_new_folder(out)
        if out.exists():
            out.rmdir()
        os.replace(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def _locked(work: Path, out: Path) -> Iterator[None]:
    """Create and lock the folder; the system releases the lock however the process ends."""
    while True:
        work.mkdir(parents=True, exist_ok=True)
        try:
            file = (work / LOCK).open("w")
        except FileNotFoundError:  # its last owner has just removed it
            continue
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                other = f"another preparation is writing {out}"
                raise InputError(f"{other}: wait until it ends, or give --out another folder") from None
            except OSError:  # a file system without locks
                pass
            if _is_at(work / LOCK, file.fileno()):
                yield
                return


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file still lies at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _empty(work: Path) -> None:
    """All but the lock."""
    for found in work.iterdir():
        if found.is_dir() and not found.is_symlink():
            shutil.rmtree(found)
        elif found.name != LOCK:
            found.unlink()


def _remove(work: Path) -> None:
    """Remove the folder, the lock last: until then no other process writes here."""
    _empty(work)
    (work / LOCK).unlink()
    with contextlib.suppress(OSError):  # another process has come
        work.rmdir()
