"""The working folder beside the output: finished pieces are kept there until the trace is whole."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tvwrl.runs import check_new_folder, locked, write_json


def working_path(out: Path) -> Path:
    """The working folder of the trace `out`."""
    return out.parent / f".{out.name}.work"


@contextlib.contextmanager
def working_folder(out: Path, settings: dict[str, Any]) -> Iterator[Path]:
    """The folder of finished pieces, for this process alone; what was made with other settings is thrown away first.

    It is removed in the end, and after an error too if nothing in it is worth keeping. Raises InputError while another
    process writes `out`, and if `out` holds something.
    """
    work, done = working_path(out), False
    with locked(out):
        try:
            check_new_folder(out)
            note = work / "settings.json"
            if note.exists() and json.loads(note.read_text()) != settings:
                shutil.rmtree(work)
            write_json(note, settings)
            for leftover in work.glob(".*.partial"):  # of a run that was killed while it put the trace together
                shutil.rmtree(leftover, ignore_errors=True)
            yield work
            done = True
        finally:
            if done or not any(work.glob("*-shares-*/*.json")):
                shutil.rmtree(work, ignore_errors=True)
