"""The figures and tables of the paper: their options, the cells they need, and their commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tvwrl.checks import at_least, different, within
from tvwrl.experiments import Report, check_seeds, commands, read_cell_rows
from tvwrl.papers.lrasched import learning, tables, testbed
from tvwrl.papers.lrasched.cells import Measurement
from tvwrl.papers.lrasched.placement import HEURISTICS, MILP, measure_placement, measure_planning_time
from tvwrl.papers.lrasched.titles import FIGURES, GAP, LEARNING, PAPER, PLACEMENT, PLANNING_TIME, PREFIX, TESTBED
from tvwrl.planning import Drawn
from tvwrl.types import InputError

SCALES = ((500, 100), (1_000, 300), (2_000, 500))  # applications, machines of Figures 8 to 10
SMALL = (50, 10)  # of the gap: the programme can solve these
DIMENSIONS = (3, 4, 5, 6)
WITHOUT_SEARCH = ("LRASched", "FFD-AntiAffinity")  # heuristics of Figures 6, 7, 11 and 12
MACHINES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)  # of Figures 11 and 12
LARGEST_FOR_MILP = 1_000  # machines of Figures 11 and 12


class PaperStudy:
    """What the studies below share: how a figure is made of the rows of its cells."""

    partial = False

    def report(self, figure: str, out: Path, cells: Sequence[Measurement]) -> Report:
        """The figure, made of finished cells."""
        made = tables.TABLES[figure](read_cell_rows(out, cells))
        return replace(made, text=f"# {FIGURES[figure]}\n\n{made.text}")


@dataclass(frozen=True)
class LearningStudy(PaperStudy):
    """How well performance is predicted, on a simulated testbed and on real measurements."""

    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds of applications and models; means and intervals are over them."""
    data: Path | None = None
    """For table2: folder with erms_inflection.csv.gz and ntua_nginx_ibench.csv.gz; default: simulated data only."""
    earlier: int = 100
    """For table2: number of earlier applications on the simulated testbed, at least 2."""
    arriving: int = 40
    """Number of simulated applications that arrive; doubled in fig5."""

    def cells(self, figure: str) -> list[Measurement]:
        """The cells of a figure. Raises InputError for options out of range."""
        check(vars(self))
        if figure == "fig2":
            return [Measurement.of(f"degrees/seed{seed}", learning.performance_by_degree, seed) for seed in self.seeds]
        asked = [(seed, name) for seed in self.seeds for name in learning.PREDICTORS]
        if figure == "fig5":
            return [
                Measurement.of(f"arrivals/seed{seed}/{name}", learning.errors_by_tenth, name, seed, 2 * self.arriving)
                for seed, name in asked
            ]
        source: dict[str, dict[str, Any]]
        source = {data: {"earlier": self.earlier, "arriving": self.arriving} for data in learning.SIMULATED}
        if self.data is not None:
            for data, (file, _) in learning.REAL.items():
                if not (self.data / file).is_file():
                    raise InputError(f"{self.data / file}: no such file")
                source[data] = {"folder": self.data}
        return [
            Measurement.of(f"predictions/{data}-seed{seed}/{name}", learning.prediction_errors, data, seed, name, **own)
            for data, own in source.items()
            for seed, name in asked
        ]


@dataclass(frozen=True)
class TestbedStudy(PaperStudy):
    """A simulated testbed: applications arrive, are sized by short profiles, and placed by three schemes."""

    seeds: tuple[int, ...] = tuple(range(5))
    """Seeds of applications, arrivals and noise; means and intervals are over them."""
    margin: float = 0.02
    """Safety margin on top of the performance goal, against prediction errors."""
    milp_seconds: float = 5.0
    """Time limit of each integer programme, seconds; 0 leaves it out."""

    def cells(self, figure: str) -> list[Measurement]:
        """The cells of a figure. Raises InputError for options out of range."""
        check(vars(self))
        function = {"fig6": testbed.utilisation_over_time, "fig7": testbed.response_times}[figure]
        return [
            Measurement.of(
                f"testbed/margin{self.margin:g}-seed{seed}/{function.__name__}-{scheme}",
                function,
                seed,
                scheme,
                self.margin,
                seconds,
            )
            for seed in self.seeds
            for scheme, seconds in schemes(WITHOUT_SEARCH, self.milp_seconds)
        ]


@dataclass(frozen=True)
class GapStudy(PaperStudy):
    """Placing small batches on unequal machines: LRASched, local search, first fit and the integer programme."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the drawn batches; means and intervals are over them."""
    largest_sizes: tuple[float, ...] = (0.5, 0.2)
    """Largest sizes of a replica: 0.5 as printed in the paper, or 0.2, which reproduces its percentages."""
    replica_range: tuple[int, int] = (1, 1)
    """Fewest and most replicas of an application (not in the paper)."""
    milp_seconds: float = 20.0
    """Time limit of each integer programme, seconds; 0 leaves it out."""

    def cells(self, figure: str) -> list[Measurement]:
        """The cells of a figure. Raises InputError for options out of range."""
        check(vars(self))
        fewest, most = self.replica_range
        return [
            Measurement.of(
                f"batches/{applications}-{machines}-{dimensions}-{fewest}to{most}-{largest:g}-seed{seed}/{scheme}",
                measure_placement,
                Drawn(applications, machines, dimensions, self.replica_range, largest),
                seed,
                scheme,
                seconds,
            )
            for largest in self.largest_sizes
            for applications, machines in self._scales()
            for dimensions in DIMENSIONS
            for seed in self.seeds
            for scheme, seconds in schemes(HEURISTICS, self.milp_seconds)
        ]

    def _scales(self) -> Sequence[tuple[int, int]]:
        """Numbers of applications and machines of the batches."""
        return (SMALL,)


@dataclass(frozen=True)
class PlacementStudy(GapStudy):
    """Placing batches of the sizes of Figures 8 to 10, by the same schemes."""

    scales: int = len(SCALES)
    """How many of the three scales to run: 500, 1,000, 2,000 applications."""

    def _scales(self) -> Sequence[tuple[int, int]]:
        return SCALES[: self.scales]


@dataclass(frozen=True)
class PlanningTimeStudy(PaperStudy):
    """How long placement takes, by cluster size: LRASched, first fit and the integer programme."""

    seeds: tuple[int, ...] = (0,)
    """Seeds of the drawn batches; means are over them."""
    milp_seconds: float = 20.0
    """Time limit of each integer programme, seconds; 0 leaves it out."""

    def cells(self, figure: str) -> list[Measurement]:
        """The cells of a figure. Raises InputError for options out of range."""
        check(vars(self))
        dimensions = {"fig11": 3, "fig12": 6}[figure]
        return [
            Measurement.of(
                f"planning-times/{dimensions}-{machines}-seed{seed}/{scheme}",
                measure_planning_time,
                # Small replicas, so that hardly any application is rejected: rejecting takes less time than placing
                Drawn(100, machines, dimensions, replicas=(1, 10), largest=0.2),
                seed,
                scheme,
                seconds,
            )
            for machines in MACHINES
            for seed in self.seeds
            for scheme, seconds in schemes(WITHOUT_SEARCH, self.milp_seconds * (machines <= LARGEST_FOR_MILP))
        ]


def schemes(heuristics: Iterable[str], milp_seconds: float) -> list[tuple[str, float]]:
    """The heuristics, and the programme with its seconds unless these are 0."""
    return [*((name, 0.0) for name in heuristics), *[(MILP, milp_seconds)] * (milp_seconds > 0)]


def check(options: dict[str, Any]) -> None:
    """Raise InputError for options out of range; those that a study lacks are not checked."""
    check_seeds(options["seeds"])
    within(0, 1, margin=options.get("margin"))
    at_least(0, milp_seconds=options.get("milp_seconds"))
    at_least(2, earlier=options.get("earlier"), arriving=options.get("arriving"))
    within(1, len(SCALES), scales=options.get("scales"))
    different(largest_sizes=options.get("largest_sizes", (1,)))


STUDIES: dict[type, dict[str, str]] = {LearningStudy: LEARNING, TestbedStudy: TESTBED}
STUDIES |= {PlacementStudy: PLACEMENT, GapStudy: GAP, PlanningTimeStudy: PLANNING_TIME}
COMMANDS: dict[str, type] = {}
for _study, _figures in STUDIES.items():
    COMMANDS |= commands(PREFIX, PAPER, _figures, _study)
