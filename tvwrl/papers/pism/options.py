"""Checks of options that several of the paper's commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvwrl.checks import different, one_of
from tvwrl.interference.testbed.laws import LAWS
from tvwrl.types import InputError


def check_laws(laws: Sequence[str]) -> None:
    """Raise InputError unless the laws are known and different, at least one."""
    different(laws=laws)
    one_of(LAWS, laws=laws)


def folder_with(data: Path | None, *files: str) -> Path:
    """The folder of data. Raises InputError if none is given or a file is missing."""
    if data is None:
        raise InputError(f"data is not given: must be the folder with {', '.join(files)}")
    if missing := [file for file in files if not (data / file).exists()]:
        raise InputError(f"{data / missing[0]}: no such file")
    return data
