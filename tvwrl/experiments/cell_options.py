"""The options of every command that completes cells: where results are kept, where and how many cells run at once."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvwrl.checks import at_least
from tvwrl.experiments.engine import Cell, complete, distinct, overview
from tvwrl.progress import say


@dataclass(frozen=True)
class CellOptions:
    """Where results are kept, and how many cells run at once."""

    out: Path | None = None
    """Output folder; default: runs/<name>-<timestamp>. Give the same folder again to continue an interrupted command
    there, or to let figures share cells."""
    workers: int = 1
    """Number of cells (training runs, evaluations, trials and other measurements) that run in parallel, one process
    each."""
    ray: str | None = None
    """Ray cluster to run on: HOST:PORT, auto or local; all its machines must share --out."""
    dry_run: bool = False
    """Only list the cells, and show which of them are finished in --out."""

    def check_run(self) -> None:
        """Raise InputError for values out of range."""
        at_least(1, workers=self.workers)

    def complete(self, out: Path, cells: Sequence[Cell], deadline: float = math.inf) -> dict[str, str] | None:
        """Complete the cells and print how to continue; returns name -> error of those that failed (`engine.complete`).

        With `dry_run` it only prints which are finished, and returns None.
        """
        cells = distinct(cells)
        if self.dry_run:
            print(overview(out, cells))
            return None
        again = command_to_continue(out)
        say(f"{len(cells)} cells in {out}; if stopped, continue with:\n  {again}")
        try:
            return complete(out, cells, self.workers, self.ray, deadline=deadline)
        except (KeyboardInterrupt, SystemExit):
            say(f"stopped; continue with:\n  {again}")
            raise


def command_to_continue(out: Path) -> str:
    """The command line of this process, with `--out` if it names no folder to continue in."""
    given = list(sys.argv)
    if not any(word.partition("=")[0] in ("--out", "--resume") for word in given):
        given += ["--out", str(out)]
    return shlex.join(given)
