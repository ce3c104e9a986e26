"""`tvwrl compare`: `tvwrl.compare` for entries that have a name or a file, and for which no code has to be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from tvwrl.checks import at_least
from tvwrl.names import name_and_source
from tvwrl.runs import check_new_folder, default_folder
from tvwrl.types import InputError


@dataclass(frozen=True)
class TaskComparison:
    """Compare schedulers, training runs, ONNX and Python files with ours on the test sequences of a benchmark task.

    Prints the table, and writes rows.csv, episodes.parquet, run.json, table.md and plots/ to --out.
    """

    entries: tyro.conf.Positional[tuple[str, ...]]
    """NAME=ENTRY: the name in the table, and a scheduler's name, a training run (its folder or a .pt file), an ONNX
    file, shipped:NAME (an agent that comes with the package, as shipped:google), or a Python file that defines `entry`.
    ENTRY alone takes the name of the scheduler or file."""
    task: str = "google-0.5-v1"
    """Benchmark task; `tvwrl benchmark --list-tasks` shows all."""
    sequences: int | None = None
    """Number of test sequences to play, starting with the first; default: all of the task's."""
    against: tuple[str, ...] | None = None
    """Schedulers to compare with; default: six rules, from spread to clairvoyant, and expected-cost beside entries that
    use forecasts; where workloads may move, best-fit-peak, clairvoyant, and expected-cost alone and with three rules
    that move."""
    observe: tuple[str, ...] = ()
    """What functions and models observe differently, as FIELD=VALUE,...: history=5,hold_action=true,mask=any."""
    bounds: bool = True
    """Compute lower bounds on the number of machines needed, and the gaps to them."""
    out: Path | None = None
    """Output folder; default: runs/compare-<task>-<timestamp>."""

    def observed(self) -> dict[str, Any]:
        """Field -> value. Raises InputError as `observed_of` does."""
        return observed_of(self.observe)

    def named(self) -> dict[str, str]:
        """Name -> entry. Raises InputError for a name given twice, and if there are no entries."""
        from tvwrl.experiments import is_of_file

        found: dict[str, str] = {}
        for text in self.entries:
            name, entry = name_and_source(text)
            if "=" not in text[len(name) :] or is_of_file(name):
                name, entry = Path(text).stem if Path(text).exists() else text.removeprefix("shipped:"), text
            if not name or not entry:
                raise InputError(f"{text!r}: must be NAME=ENTRY, as in mine=runs/mine")
            if name in found:
                raise InputError(f"{text}: there is already an entry '{name}': give each entry its own name")
            found[name] = entry
        if not found:
            raise InputError("nothing to compare: give NAME=ENTRY, as in mine=runs/mine or waiting=expected-cost")
        return found


def observed_of(fields: Sequence[str]) -> dict[str, Any]:
    """Field -> value. Raises InputError for what is not FIELD=VALUE, and for a value of the wrong kind."""
    from tvwrl.simulation import Scenario

    plain, found = Scenario(), dict[str, Any]()
    for text in fields:
        name, _, value = text.partition("=")
        if not name or not value:
            raise InputError(f"--observe {text}: must be FIELD=VALUE, as in history=5")
        found[name] = _value(text, value, getattr(plain, name, None))
    return found


def _value(text: str, value: str, usual: Any) -> Any:
    """The value of a field, of the kind that it usually has; text for unknown fields, which are refused by name."""
    if isinstance(usual, bool):
        if value.lower() not in ("true", "false"):
            raise InputError(f"--observe {text}: must be true or false")
        return value.lower() == "true"
    if isinstance(usual, int):
        try:
            return int(value)
        except ValueError:
            raise InputError(f"--observe {text}: must be a whole number") from None
    return value


def compare_on_task(settings: TaskComparison) -> None:
    """Play the entries, print the table and write the folder. Raises InputError as `tvwrl.compare` does."""
    named = settings.named()
    at_least(1, sequences=settings.sequences)
    out = settings.out or default_folder(f"compare-{settings.task}")
    check_new_folder(out)
    from tvwrl.benchmark import compare, find_task, usual_against

    against, usual = settings.against, usual_against(find_task(settings.task))
    if against is None and set(usual) & set(named):  # it may be asked how another version of a rule does
        against = tuple(name for name in usual if name not in named)
    found = compare(named, settings.task, settings.sequences, against, settings.observed(), settings.bounds)
    print(found)
    print(f"written to {found.write(out)}")
