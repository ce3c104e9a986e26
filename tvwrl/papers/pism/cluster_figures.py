"""Figures 12, 13 and 15 and Table 3, simulated: what PISM does to services, by law of response times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from tvwrl.checks import at_least, below, positive
from tvwrl.command_line import Names, Numbers
from tvwrl.experiments.engine import read_rows
from tvwrl.experiments.reproduce import Report, check_seeds
from tvwrl.interference.batch_tasks import ARRIVALS_FILE, USAGE_FILE
from tvwrl.interference.score import STALE_AFTER
from tvwrl.interference.testbed.deployment import LEAST_SERVICES
from tvwrl.interference.testbed.laws import LAWS
from tvwrl.papers.pism.cells import ClusterCell
from tvwrl.papers.pism.cluster_tables import FIG15_SCHEDULERS, describe_setting, fig12, fig13, fig15, table3
from tvwrl.papers.pism.clusters import (
    AGAIN,
    ALONE,
    COUNTS,
    EVERY,
    KINDS,
    NO_MOVES,
    ONCE,
    SHUFFLED,
    UTILISATION,
    WARM_UP,
    SimulatedCluster,
)
from tvwrl.papers.pism.options import check_laws
from tvwrl.types import InputError

FIGURES = {
    "fig12": "Figure 12, interference scores of machines with and without PISM",
    "table3": "Table 3, throughput of services",
    "fig13": "Figure 13, schedulers with and without PISM",
    "fig15": "Figure 15, response times of two services on 14 machines",
}
FIG15_MACHINES = 14
FIG15_LONGER = 4  # times as many minutes, for so few machines say little in one


class Preset(NamedTuple):
    """How much is simulated."""

    machines: int
    services: int
    learns: int  # minutes of the first period, under the default scheduler
    minutes: int  # of each later period; the first 20 of each are left out
    rounds: int  # of learning again
    seeds: tuple[int, ...]


PRESETS = {
    "smoke": Preset(6, 24, 180, 32, 1, (0,)),
    "medium": Preset(40, 60, 240, 45, 2, tuple(range(10))),
    "paper": Preset(600, 150, 240, 60, 3, tuple(range(10))),
}


@dataclass(frozen=True)
class ClusterStudy:
    """A simulated cluster under several laws of response times, none of which the score sees."""

    data: Path | None = None
    """Folder with spar_sample_tasks.csv.gz and ali18_usage_tasks.csv.gz, whose tasks are replayed; default: synthetic
    batch tasks."""
    preset: Literal["smoke", "medium", "paper"] = "medium"
    """smoke: a trial, a minute; medium: 40 machines, 10 seeds, minutes per seed; paper: 600 machines, 150 services,
    hours."""
    laws: Names = tuple(LAWS)
    """Laws by which batch work slows services: memory (bandwidth and cache), queue (run queue and bandwidth), control
    (total CPU alone)."""
    seeds: Numbers | None = None
    """Seeds of the simulation; means and intervals are over them. Default: the preset's."""
    machines: int | None = None
    """Simulated machines; default: the preset's, 14 for Figure 15."""
    services: int | None = None
    """Number of services; default: the preset's."""
    learns: int | None = None
    """Minutes of the first period, under the default scheduler, from which PISM learns; default: the preset's."""
    minutes: int | None = None
    """Minutes of each later period; the first 20 are not measured. Default: the preset's."""
    rounds: int | None = None
    """Further periods, scheduled with PISM, from which it learns again; default: the preset's."""
    pressure: float = 1.0
    """Pressure of batch work, relative to the law's assumption that the mean is at the knee of the curve."""
    truth: bool = False
    """Give schedulers the true categories of tasks instead of classified ones."""
    silent: float = 0.0
    """Share of machines whose reports are missing, each for half an hour on average; at least 0 and below 1."""
    stale_after: float = STALE_AFTER
    """Seconds without a report after which PISM avoids a machine if it knows any other."""
    alike: bool = False
    """Make all services equally sensitive, so that knowing which of them suffer has no value."""

    partial = False

    def cells(self, figure: str) -> list[ClusterCell]:
        """The figure's schedulers on the cluster of every seed and law."""
        preset = PRESETS[self.preset]
        size = _size(preset, figure, self.preset != "smoke")
        size |= {name: given for name in size if (given := getattr(self, name)) is not None}
        seeds = preset.seeds if self.seeds is None else self.seeds
        self._check(size, seeds)
        clusters = [
            SimulatedCluster(
                law=law,
                seed=seed,
                factor=self.pressure,
                data=str(self.data) if self.data else "",
                truth=self.truth,
                silent=self.silent,
                stale_after=self.stale_after,
                alike=self.alike,
                **size,
            )
            for seed in seeds
            for law in self.laws
        ]
        ways = (ONCE, COUNTS, SHUFFLED, *((AGAIN,) if size["rounds"] else ()))
        return [ClusterCell(one, *tried) for one in clusters for tried in _tried(figure, ways)]

    def report(self, figure: str, out: Path, cells: Sequence[ClusterCell]) -> Report:
        """The figure's table and plots."""
        rows = read_rows(out, cells)
        text, plots = {"fig12": fig12, "table3": table3, "fig13": fig13, "fig15": fig15}[figure](rows)
        return Report(f"# {FIGURES[figure]} (simulated)\n\n{describe_setting(rows)}\n\n{text}", rows, plots)

    def _check(self, size: dict[str, int], seeds: Sequence[int]) -> None:
        """Raise InputError for values out of range, and for files that are not there."""
        check_seeds(seeds)
        check_laws(self.laws)
        if self.data and (missing := [file for file in (USAGE_FILE, ARRIVALS_FILE) if not (self.data / file).exists()]):
            raise InputError(f"{self.data / missing[0]}: no such file")
        shortest = WARM_UP + 2 * EVERY
        least = {"machines": 3, "services": LEAST_SERVICES, "learns": shortest, "minutes": shortest, "rounds": 0}
        for name, limit in least.items():
            at_least(limit, **{name: size[name]})
        positive(pressure=self.pressure)
        below(1, silent=self.silent)
        at_least(0, stale_after=self.stale_after)


def _size(preset: Preset, figure: str, full: bool) -> dict[str, int]:
    """How large the clusters of a figure are by default, and how long they run."""
    size = {name: getattr(preset, name) for name in ("machines", "services", "learns", "minutes", "rounds")}
    if figure == "fig15":
        size |= {"machines": FIG15_MACHINES, "minutes": preset.minutes * (FIG15_LONGER if full else 1)}
    return size


def _tried(figure: str, ways: Sequence[str]) -> list[tuple[str, str]]:
    """Schedulers that a figure shows, each with how its score was learnt."""
    if figure in ("fig12", "table3"):
        with_pism = (ALONE, NO_MOVES) if figure == "fig12" else (ALONE,)
        return [("default", ""), ("spread", ""), *((name, way) for way in ways for name in with_pism)]
    names = FIG15_SCHEDULERS if figure == "fig15" else [name for name in KINDS if name != "default"]
    alone = [("default", "")] if figure == "fig13" else []
    return alone + [(name, way) for way in ("", UTILISATION, *ways) for name in names]
