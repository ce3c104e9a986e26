"""`tvwrl compare`: `tvwrl.compare` for entries that have a name or a file, and for which no code has to be written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from tvwrl.checks import at_least
from tvwrl.command_line import Names
from tvwrl.runs import check_new_folder, default_folder
from tvwrl.types import InputError


@dataclass(frozen=True)
class TaskComparison:
    """Compare schedulers, training runs, ONNX and Python files with ours on the test sequences of a benchmark task.

    Prints the table, and writes rows.csv, episodes.parquet, run.json, table.md and plots/ to --out.
    """

    entries: tyro.conf.Positional[tuple[str, ...]]
    """NAME=ENTRY: the name in the table, and a scheduler's name, a training run (its folder or a .pt file), an ONNX
    file, or a Python file that defines `entry`. ENTRY alone takes the name of the scheduler or file."""
    task: str = "google-0.5-v1"
    """Benchmark task; `tvwrl benchmark --list-tasks` shows all."""
    sequences: int | None = None
    """Number of test sequences to play, starting with the first; default: all of the task's."""
    against: Names | None = None
    """Schedulers to compare with; default: six rules, from spread to clairvoyant."""
    bounds: bool = True
    """Compute lower bounds on the number of machines needed, and the gaps to them."""
    out: Path | None = None
    """Output folder; default: runs/compare-<task>-<timestamp>."""

    def named(self) -> dict[str, str]:
        """Name -> entry. Raises InputError for a name given twice, and if there are no entries."""
        found: dict[str, str] = {}
        for text in self.entries:
            name, equal, entry = text.partition("=")
            if not equal or "(" in name:  # an equals sign in brackets is an option of the scheduler
                name, entry = Path(text).stem if Path(text).exists() else text, text
            if not name or not entry:
                raise InputError(f"{text!r}: must be NAME=ENTRY, as in mine=runs/mine")
            if name in found:
                raise InputError(f"{text}: there is already an entry '{name}': give each entry its own name")
            found[name] = entry
        if not found:
            raise InputError("nothing to compare: give NAME=ENTRY, as in mine=runs/mine or waiting=expected-cost")
        return found


def compare_on_task(settings: TaskComparison) -> None:
    """Play the entries, print the table and write the folder. Raises InputError as `tvwrl.compare` does."""
    named = settings.named()
    at_least(1, sequences=settings.sequences)
    out = settings.out or default_folder(f"compare-{settings.task}")
    check_new_folder(out)
    from tvwrl.benchmark.comparison import AGAINST, compare

    against = [name for name in AGAINST if name not in named] if settings.against is None else settings.against
    found = compare(named, settings.task, settings.sequences, against, bounds=settings.bounds)
    print(found)
    print(f"written to {found.write(out)}")
