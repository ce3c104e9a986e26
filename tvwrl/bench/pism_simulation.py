"""Figures 12, 13 and 15 and Table 3 of paper 003, simulated: what PISM does to services, by law of response times."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from tvwrl.bench.figures import write_figure
from tvwrl.bench.pism_figures import fig12, fig13, fig15, setting, table3
from tvwrl.bench.pism_worlds import Cell, check_cells, complete
from tvwrl.command_line import Names, Numbers
from tvwrl.interference.score import STALE_AFTER
from tvwrl.interference.testbed.laws import LAWS
from tvwrl.interference.weights import WEIGHTINGS
from tvwrl.types import InputError

NAMES = {
    "fig12": "Figure 12, interference scores of machines with and without PISM",
    "table3": "Table 3, throughput of services",
    "fig13": "Figure 13, schedulers with and without PISM",
    "fig15": "Figure 15, response times of two services on 14 machines",
}
SMALL = 14  # machines of Figure 15
LONGER = 4  # times as many minutes there, as so few machines tell little in one


class Preset(NamedTuple):
    """How much is simulated."""

    machines: int
    services: int
    learns: int  # minutes of the first period, under the default scheduler
    minutes: int  # of each later period; of each the first 20 are left out
    rounds: int  # of learning again
    seeds: tuple[int, ...]


PRESETS = {
    "smoke": Preset(6, 24, 180, 32, 1, (0,)),
    "medium": Preset(40, 60, 240, 45, 2, tuple(range(10))),
    "paper": Preset(600, 150, 240, 60, 3, tuple(range(10))),
}


@dataclass(frozen=True)
class SimulationSettings:
    """A simulated cluster under several laws of response times, none of which the scorer sees."""

    data: Path | None = None
    """Folder with spar_sample_tasks.csv.gz and ali18_usage_tasks.csv.gz, whose tasks are replay_hour; default: made-up
    tasks."""
    preset: Literal["smoke", "medium", "paper"] = "medium"
    """smoke: a trial in a minute; medium: 40 machines, 10 seeds, minutes a seed; paper: 600 machines, 150 services,
    hours."""
    laws: Names = tuple(LAWS)
    """memory: bandwidth and cache; queue: run queue and bandwidth; control: total CPU alone."""
    seeds: Numbers | None = None
    """Of what is drawn; means and intervals are over them. Default: the preset's."""
    machines: int | None = None
    """Default: the preset's; Figure 15 has 14."""
    services: int | None = None
    """Kinds of services; default: the preset's."""
    learns: int | None = None
    """Minutes of the first period, under the default scheduler, which PISM learns from; default: the preset's."""
    minutes: int | None = None
    """Of each later period, of which the first 20 are not judged; default: the preset's."""
    rounds: int | None = None
    """Periods under PISM that it learns from again; default: the preset's."""
    pressure: float = 1.0
    """How hard batch work presses, over the law's assumption that the mean is at the knee of the curve."""
    truth: bool = False
    """The scheduler is told true categories instead of classified ones."""
    silent: float = 0.0
    """Share of the machines, each for half an hour on average, whose reports are missing: at least 0 and below 1."""
    stale_after: float = STALE_AFTER
    """Seconds without a report, after which PISM takes a machine only where it knows of no other."""
    alike: bool = False
    """All services are equally sensitive, so that it is worth nothing to know which of them suffer."""
    weighting: str = "corr"
    """How much each service counts for its machine's score: fair, cpu-quota, corr, cv. Paper: corr is best (6.3.2)."""
    workers: int = 1
    """Clusters at a time, each in a process of its own."""

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown of one of `NAMES`, which is written to a folder of that name in `out` too.

        Clusters that are simulated (`cells/` of `out`) are not simulated again. Raises InputError for values out of
        range and damaged files.
        """
        rows = complete(out, self._cells(name), self.workers)
        made = {"fig12": fig12, "table3": table3, "fig13": fig13, "fig15": fig15}[name]
        text, plots = made(rows)
        text = f"# {NAMES[name]} (simulated)\n\n{setting(rows, bool(self.data))}\n\n{text}\n"
        write_figure(out / name, text, rows, plots, asdict(self))
        return text

    def _cells(self, name: str) -> list[Cell]:
        preset = PRESETS[self.preset]
        seeds = self.seeds or preset.seeds
        longer = LONGER if name == "fig15" and self.preset != "smoke" else 1
        defaults = (
            (SMALL if name == "fig15" else preset.machines),
            preset.services,
            preset.learns,
            preset.minutes * longer,
        )
        given = self.machines, self.services, self.learns, self.minutes
        machines, services, learns, minutes = (d if g is None else g for g, d in zip(given, defaults, strict=True))
        check_cells(machines, services, learns, minutes, self.data)
        if unknown := [law for law in self.laws if law not in LAWS]:
            raise InputError(f"unknown law '{unknown[0]}'; valid: {', '.join(LAWS)}")
        if self.weighting not in WEIGHTINGS:
            raise InputError(f"unknown weighting '{self.weighting}'; valid: {', '.join(WEIGHTINGS)}")
        rounds = preset.rounds if self.rounds is None else self.rounds
        if not self.laws:
            raise InputError("the list of laws is empty")
        limits = {"pressure": self.pressure, "workers": self.workers, "rounds": rounds + 1}
        for field, value in limits.items():
            if not value > 0:
                raise InputError(f"{field} is {getattr(self, field)}: must be {'>= 0' if field == 'rounds' else '> 0'}")
        if len(set(seeds)) != len(seeds) or min(seeds) < 0:
            raise InputError(f"seeds is {', '.join(map(str, seeds))}: must be different numbers >= 0")
        if not 0 <= self.silent < 1:
            raise InputError(f"silent is {self.silent:g}: must be a share of the machines, at least 0 and below 1")
        if not self.stale_after >= 0:
            raise InputError(f"stale_after is {self.stale_after:g}: must be >= 0, in seconds")
        data, told_of = str(self.data) if self.data else "", (self.silent, self.stale_after, self.alike, self.weighting)
        return [
            Cell(law, seed, machines, services, learns, minutes, rounds, self.pressure, data, self.truth, *told_of)
            for seed in seeds
            for law in self.laws
        ]
