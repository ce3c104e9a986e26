"""What an evaluation found, as `tvwrl.evaluate` and `tvwrl.compare` return it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tvwrl.checks import one_of
from tvwrl.experiments.episode_rows import read_rows
from tvwrl.experiments.evaluation import EPISODES, PAGE
from tvwrl.experiments.plots import plot_comparison
from tvwrl.experiments.tables import terminal_table
from tvwrl.progress import Report, nothing, say
from tvwrl.runs import InFolder
from tvwrl.schedulers import KNOWLEDGE, Knowledge, Scheduler
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(InFolder):
    """Schedulers on the same test sequences; printing it prints the table. Its files are those of
    docs/reference/run-files.md, and `write(folder)` copies them to a folder."""

    knowledge: Mapping[str, Knowledge]  # entry -> what it knows
    origins: Mapping[str, str]  # entry -> what it was made of
    schedulers: Mapping[str, Scheduler] = field(default_factory=dict, kw_only=True)  # entry -> what played

    @property
    def rows(self) -> pl.DataFrame:
        """A row per scheduler, load and sequence: the columns of `tvwrl.metrics.score_episode`, and gaps to the bounds.

        An episode that left workloads unplaced has no reward and no other measure: they are NaN, so that a mean over
        them is NaN too."""
        return read_rows(self.folder)

    @property
    def episodes(self) -> pl.DataFrame:
        """A row per scheduler, load, sequence and workload: what was placed where and when, in slots."""
        import polars as pl

        return pl.read_parquet(self.folder / EPISODES)

    @property
    def plots(self) -> tuple[Path, ...]:
        """Files of the pictures, PNG, which are drawn now if they are not there."""
        folder = self.folder / "plots"
        if not folder.is_dir():
            plot_comparison(self.rows, folder, knowledge={**KNOWLEDGE, **self.knowledge})
        return tuple(sorted(folder.glob("*.png")))

    def explore(
        self,
        file: str | Path = PAGE,
        sequences: int | None = None,
        schedulers: Sequence[str] = (),
        what_if: bool = True,
        report: Report | None = say,
    ) -> Path:
        """Write an HTML file that shows every decision, and what each alternative would have cost; returns it.

        `file`: an .html file; default: explorer.html in the current folder
        `sequences`: per load, the first ones; default: all that were kept (30; fewer on large clusters)
        `schedulers`: those to show; default: all
        `what_if`: False leaves out the costs of alternatives, which take a tenth of a second to ten seconds per episode
        `report`: called with a line of progress now and then; default: to stderr; None: silence

        Raises InputError for more sequences than were kept, unknown schedulers, and a file of another kind.

        >>> tvwrl.evaluate(["spread", "best-fit"], "google").explore("explorer.html")  # doctest: +SKIP
        """
        from tvwrl.experiments.exploring.explored import open_explored
        from tvwrl.experiments.exploring.explorer_file import sequences_of, write_at_once

        path = Path(file).expanduser()
        if path.suffix not in (".html", ".htm"):
            raise InputError(f"file is {file}: its name must end in .html; tvwrl explore writes other formats")
        explored = open_explored(self.folder, self.schedulers)
        chosen, left_out = sequences_of(explored, explored.loads, sequences)
        for name in schedulers:
            one_of(explored.schedulers, schedulers=name)
        write_at_once(
            explored, path, chosen, what_if, report=report or nothing, left_out=left_out, schedulers=schedulers
        )
        return path

    def write(self, folder: str | Path) -> Path:
        """Copy all files to a new `folder`; returns it. Raises InputError if it is a file or not empty."""
        _ = self.plots
        return super().write(folder)

    def table(self) -> str:
        """Markdown, grouped by knowledge: means with 95 % intervals, the gap closed to `clairvoyant`, the excess over
        lower bounds, overshoot, machines, waits, time per decision, and differences paired by sequence."""
        return (self.folder / "table.md").read_text()

    def __str__(self) -> str:
        known = {**KNOWLEDGE, **self.knowledge}
        return terminal_table(self.rows, known, shown=("decision_ms", "wait_mean", "unplaced")).rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"  # in notebooks
