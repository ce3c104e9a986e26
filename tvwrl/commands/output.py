"""Whether the place for results can be written to: found out before anything else takes time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tvwrl.commands.table import Command
from tvwrl.runs import check_new_folder, locked
from tvwrl.types import InputError

FOLDERS = ("out", "resume")  # fields of settings that name a folder to write to
FILES = ("file", "page")  # and a file
WITHOUT_OUTPUT = (
    "dry_run",
    "advise",
    "verify",
    "explain",
    "list_tasks",
    "list_schedulers",
    "check",
)  # nothing is written with these
DEFAULT = Path("runs")  # where commands write that have no --out


def check_output(settings: Any) -> None:
    """Raise InputError unless the folder or file that the settings name can be made and written to."""
    given: dict[str, Any] = {name: getattr(settings, name, None) for name in (*FOLDERS, *FILES)}
    if _writes_nothing(settings):
        return
    for name in FOLDERS:
        if given[name] is not None:
            check_folder(Path(given[name]), f"--{name}")
    for name in FILES:
        if given[name] is not None:
            path = Path(given[name])
            if path.is_dir():
                raise InputError(f"--{name} {path} is a folder: give the name of a file")
            check_folder(path.parent, f"--{name}")
    if hasattr(settings, "out") and not any(given[name] for name in FOLDERS):
        check_folder(getattr(settings, "folder", DEFAULT), "the output folder")


def check_contents(settings: Any, command: Command) -> None:
    """Raise InputError if --out holds something, where the command can neither begin nor continue."""
    out = getattr(settings, "out", None)
    if out is None or _writes_nothing(settings):
        return
    if command.fresh or (command.continues and not (Path(out) / command.continues).is_dir()):
        check_new_folder(Path(out))


@contextmanager
def undisturbed(settings: Any) -> Iterator[None]:
    """No other command works in the folder that the settings name. Raises InputError if one does."""
    named = next((Path(one) for name in FOLDERS if (one := getattr(settings, name, None)) is not None), None)
    unmade = named is not None and not named.absolute().parent.is_dir()  # nobody has made even what it is in
    if named is None or unmade or _writes_nothing(settings):
        yield
        return
    with locked(named.absolute()):
        yield


def _writes_nothing(settings: Any) -> bool:
    given = (getattr(settings, name, None) for name in WITHOUT_OUTPUT)
    return any(one for one in given if not callable(one))


def check_folder(folder: Path, option: str) -> None:
    """Raise InputError unless `folder` is one that can be written to, or can be made; it leaves nothing behind."""
    whole = Path(os.path.normpath(folder.absolute()))  # "missing/../file" is "file"
    there = next(path for path in (whole, *whole.parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        raise InputError(f"{option} {folder}: {there} is a file: give a folder")
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(bytes(1))
            file.flush()
    except OSError as error:
        raise InputError(f"{option} {folder}: nothing can be written to {there}: {error.strerror}") from error
