"""The record of moves: a line of JSON for whatever was planned, evicted, refused and replaced.

`evictions_in` reads it again, so that a restart goes on where the last process ended; `tvwrl what-if` computes from it
what the moves were worth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tvwrl.rebalance.eviction_budgets import Eviction, EvictionBudgets, Evictions
from tvwrl.rebalance.execution import BY_BUDGET, FAILED, MISSING, NOT_EVICTED, REFUSALS, RETURNED
from tvwrl.serve import RotatingLines, read_lines
from tvwrl.types import InputError

TEXTS = ("event", "pod", "uid", "owner", "source", "target", "plan")


class MovesRecord:
    """Appends lines to a file of which at most about `size` bytes are kept.

    `failed`: called with why a line could not be written. Raises InputError if the file cannot be opened.
    """

    def __init__(self, file: Path, size: int, failed: Callable[[str], object]) -> None:
        try:
            self._lines = RotatingLines(file, size, failed)
        except OSError as error:
            raise InputError(f"record_of_moves {file}: {error.strerror}") from None

    def __call__(self, time: float, event: str, dry_run: bool, **facts: Any) -> None:
        """Write what happened at a time, in seconds since 1970."""
        line = {"time": round(time, 3), "event": event, "dry_run": dry_run, **facts}
        self._lines.write(json.dumps(line, default=str).encode())

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def read_record(file: Path) -> Iterator[dict[str, Any]]:
    """Lines of a record, the oldest first. Raises InputError, naming file and line, for what it never wrote."""
    try:
        for part, number, text in read_lines(file):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                raise InputError(f"{part}: line {number}: is not JSON") from None
            if not isinstance(line, dict) or not isinstance(line.get("time"), int | float):
                raise InputError(f"{part}: line {number}: time must be a number of seconds since 1970")
            for name in TEXTS[: 1 if "pod" not in line else None]:
                if not isinstance(line.get(name, ""), str):
                    raise InputError(f"{part}: line {number}: {name} must be a text")
            yield line
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"record_of_moves {file}: {getattr(error, 'strerror', None) or error}") from None


def evictions_in(file: Path) -> list[Eviction]:
    """What a record says was evicted, and not in a dry run; none where there is no file. Raises InputError."""
    found = Evictions(EvictionBudgets())
    if not file.exists():
        return []
    for line in read_record(file):
        event, uid = line.get("event"), line.get("uid", "")
        if line.get("dry_run") or not uid:
            continue
        if event == "evicting":
            texts = (line.get(name, "") for name in ("pod", "owner", "controller", "source", "target", "plan"))
            found.add(Eviction(float(line["time"]), uid, *texts))
        elif event == "replaced":
            found.settle(uid, returned=line.get("outcome") == RETURNED)
        elif event in (MISSING, NOT_EVICTED, FAILED):
            found.settle(uid)
        elif event in (BY_BUDGET, REFUSALS):
            found.withdraw(uid)
    return list(found)
