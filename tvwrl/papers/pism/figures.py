"""All figures of the PISM paper: their options, the cells they need, and their commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from tvwrl.checks import at_least, below, different, one_of, positive
from tvwrl.experiments import Report, Rows, RowsCell, check_seeds, read_cell_rows
from tvwrl.interference import ARRIVALS_FILE, LAWS, LEAST_SERVICES, STALE_AFTER, USAGE_FILE, TwoDays, check_training
from tvwrl.papers import PISM
from tvwrl.papers.pism import cluster_tables, clusters, measured_tables, prediction_tables, trace_tables
from tvwrl.papers.pism.cells import (
    CAMPAIGN,
    COMPOSED,
    AnchorCell,
    ClassifierCell,
    ClusterCell,
    LargeTasksCell,
    NginxCell,
    PredictionCell,
    SchedulerCell,
    TraceCell,
)
from tvwrl.papers.pism.clusters import AGAIN, ALONE, COUNTS, KINDS, NO_MOVES, ONCE, SHUFFLED, UTILISATION
from tvwrl.papers.pism.law_fitting import ERMS_FILE, NGINX_FILE, TAOBENCH_FILE
from tvwrl.papers.pism.predictors import COMPOSITION, NGINX_PREDICTORS, PREDICTORS, classifiers_of
from tvwrl.papers.pism.trials import POLICY, SchedulerTrial, TrialOptions, problem_of, scheduler_of
from tvwrl.types import InputError

BATCH_FILES = (ARRIVALS_FILE, USAGE_FILE)


class PaperStudy:
    """What all studies share: how a figure is made of the rows of its cells."""

    partial = False

    def report(self, figure: str, out: Path, cells: Sequence[RowsCell]) -> Report:
        """The figure, made of finished cells."""
        return TABLES[figure](PISM.titles[figure], read_cell_rows(out, cells), self)


@dataclass(frozen=True)
class StudyOfData(PaperStudy):
    """A study of published data sets."""

    data: Path | None = None
    """Folder with the published data sets that docs/how-to/batch-beside-services.md lists. Figures measured on real
    data need theirs; simulations replay its batch tasks, by default synthetic ones."""

    files: ClassVar[tuple[str, ...]] = BATCH_FILES

    def data_folder(self) -> Path:
        """The folder of data. Raises InputError if none is given or a file is missing."""
        if self.data is None:
            raise InputError(f"data is not given: must be the folder with {', '.join(self.files)}")
        if missing := [file for file in self.files if not (self.data / file).exists()]:
            raise InputError(f"{self.data} lacks {', '.join(missing)}")
        return self.data


@dataclass(frozen=True)
class StudyUnderLaws(PaperStudy):
    """A study of several laws."""

    laws: tuple[str, ...] = tuple(LAWS)
    """Laws by which batch work slows services: memory (bandwidth and cache), queue (run queue and bandwidth), control
    (total CPU alone)."""

    def check_laws(self) -> None:
        """Raise InputError unless the laws are known and different, at least one."""
        different(laws=self.laws)
        one_of(LAWS, laws=self.laws)


@dataclass(frozen=True)
class TraceStudy(StudyOfData):
    """Real batch tasks of Alibaba's cluster-trace-v2018."""

    def cells(self, figure: str) -> list[TraceCell]:
        """The figure itself."""
        return [TraceCell(figure, self.data_folder())]


@dataclass(frozen=True)
class ClassifierStudy(StudyOfData):
    """Categories of tasks of measured usage, learnt from earlier tasks and predicted for later ones."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the random split by jobs; one fit per seed."""

    files = (USAGE_FILE,)

    def cells(self, figure: str) -> list[ClassifierCell]:
        """Every classifier on the split by time, and on a split by jobs per seed."""
        check_seeds(self.seeds)
        data = self.data_folder()
        splits = (("time", 0), *(("jobs", seed) for seed in self.seeds))
        return [ClassifierCell(split, seed, name, data) for split, seed in splits for name in classifiers_of(split)]


SIZES = ("machines", "services", "learns", "minutes", "rounds")
PRESETS = {"smoke": (6, 24, 180, 32, 1), "medium": (40, 60, 240, 45, 2), "paper": (600, 150, 240, 60, 3)}
SMALL_CLUSTER = ("fig14", "fig15")
SMALL_MACHINES = 14
SMALL_LONGER = 4  # times as many minutes, for so few machines say little in one


@dataclass(frozen=True)
class ClusterStudy(StudyUnderLaws, StudyOfData):
    """A simulated cluster under several laws of response times, none of which the score sees."""

    preset: Literal["smoke", "medium", "paper"] = "medium"
    """smoke: a trial, a minute; medium: 40 machines, 10 seeds, minutes per seed; paper: 600 machines, 150 services,
    hours."""
    seeds: tuple[int, ...] | None = None
    """Seeds of the simulation; means and intervals are over them. Default: the preset's."""
    machines: int | None = None
    """Machines in the cluster; default: the preset's, 14 for Figures 14 and 15."""
    services: int | None = None
    """Simulated services; default: the preset's."""
    learns: int | None = None
    """Minutes of the first period, under the default scheduler, from which PISM learns; default: the preset's."""
    minutes: int | None = None
    """Minutes of each later period; the first 20 are not measured. Default: the preset's."""
    rounds: int | None = None
    """Number of further periods that are scheduled with PISM, and from which it learns again; default: the preset's."""
    pressure: float = 1.0
    """Pressure of batch work, relative to the law's assumption that the mean is at the knee of the curve."""
    truth: bool = False
    """Use the true categories of tasks instead of classified ones."""
    silent: float = 0.0
    """Share of machines whose reports are missing, each for half an hour on average; at least 0 and below 1."""
    stale_after: float = STALE_AFTER
    """Seconds without a report after which PISM avoids a machine if it knows any other."""
    alike: bool = False
    """Make all services equally sensitive, so that knowing which of them suffer has no value."""
    measured_services: bool = False
    """Make services as sensitive as the microservices measured for Erms (its file in --data), drawn with replacement;
    default: drawn from the log-normal distribution that is fitted to these."""

    def cells(self, figure: str) -> list[ClusterCell]:
        """The figure's schedulers on the cluster of every seed and law."""
        size: dict[str, Any] = dict(zip(SIZES, PRESETS[self.preset], strict=True))
        if figure in SMALL_CLUSTER:
            size["machines"] = SMALL_MACHINES
            size["minutes"] *= 1 if self.preset == "smoke" else SMALL_LONGER
        size |= {name: given for name in SIZES if (given := getattr(self, name)) is not None}
        seeds = self.seeds if self.seeds is not None else (0,) if self.preset == "smoke" else tuple(range(10))
        self._check(size, seeds)
        options: dict[str, Any] = {
            name: getattr(self, name) for name in ("truth", "silent", "stale_after", "alike", "measured_services")
        }
        options |= {"factor": self.pressure, "data": str(self.data) if self.data else ""}
        drawn = [clusters.SimulatedCluster(law, seed, **size, **options) for seed in seeds for law in self.laws]
        ways = (ONCE, COUNTS, SHUFFLED, *((AGAIN,) if size["rounds"] else ()))
        return [ClusterCell(one, *tried) for one in drawn for tried in _tried(figure, ways)]

    def _check(self, size: dict[str, int], seeds: Sequence[int]) -> None:
        """Raise InputError for values out of range, and for files that are not there."""
        check_seeds(seeds)
        self.check_laws()
        if self.measured_services and self.alike:
            raise InputError(
                "alike and measured_services exclude each other: services are equally sensitive, or as measured"
            )
        if self.measured_services and (self.data is None or not (self.data / ERMS_FILE).exists()):
            raise InputError(f"measured_services needs {ERMS_FILE} in the folder of --data")
        if self.data is not None:
            self.data_folder()
        shortest = clusters.WARM_UP + 2 * clusters.EVERY
        least = {"machines": 3, "services": LEAST_SERVICES, "learns": shortest, "minutes": shortest, "rounds": 0}
        for name, limit in least.items():
            at_least(limit, **{name: size[name]})
        positive(pressure=self.pressure)
        below(1, silent=self.silent)
        at_least(0, stale_after=self.stale_after)


def _tried(figure: str, ways: Sequence[str]) -> list[tuple[str, str]]:
    """Schedulers that a figure shows, each with how its score was learnt."""
    if figure in ("fig12", "table3"):
        with_pism = (ALONE, NO_MOVES) if figure == "fig12" else (ALONE,)
        return [("default", ""), ("spread", ""), *((name, way) for way in ways for name in with_pism)]
    names = (
        cluster_tables.SMALL_SCHEDULERS if figure in SMALL_CLUSTER else [name for name in KINDS if name != "default"]
    )
    alone = [("default", "")] if figure == "fig13" else []
    return alone + [(name, way) for way in ("", UTILISATION, *ways) for name in names]


@dataclass(frozen=True)
class PredictionStudy(StudyUnderLaws, StudyOfData):
    """How well interference is predicted: one simulated day to learn from, the next to predict."""

    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds of deployments, arrivals and noise; means and intervals are over them."""
    machines: int = 40
    """Machines in the cluster."""
    services: int = 150
    """Simulated services."""
    hours: int = 24
    """Length of a day, hours."""
    truth: bool = False
    """Use the true categories of tasks instead of classified ones."""
    report_seconds: int = 300
    """Seconds between records of a service instance."""

    def cells(self, figure: str) -> list[PredictionCell]:
        """The figure's predictors on the days of every seed, under every law."""
        check_seeds(self.seeds)
        self.check_laws()
        if self.data is not None:
            self.data_folder()
        size = (self.machines, self.services, self.hours, self.truth, self.report_seconds)
        shown = {"fig16": (COMPOSITION,), "fig17": tuple(PREDICTORS)}.get(figure, prediction_tables.COMPARED)
        days = [TwoDays(seed, self.data, *size) for seed in self.seeds]
        if figure == "fig11":
            return [LargeTasksCell(one, law) for one in days for law in self.laws]
        return [PredictionCell(one, law, name) for one in days for law in self.laws for name in shown]


@dataclass(frozen=True)
class NginxStudy(StudyOfData):
    """Level prediction on real runs of nginx under interference."""

    files = (NGINX_FILE,)

    def cells(self, figure: str) -> list[NginxCell]:
        """Every predictor on all campaigns, and on all compositions of pods."""
        runs = self.data_folder() / NGINX_FILE
        return [NginxCell(name, runs, split) for split in (CAMPAIGN, COMPOSED) for name in NGINX_PREDICTORS]


@dataclass(frozen=True)
class SchedulerStudy(TrialOptions, StudyUnderLaws):
    """Schedulers with and without PISM on the same test sequences of a trace; response times are simulated."""

    schedulers: tuple[str, ...] = (
        "spread",
        "stack",
        "stack-80",
        "random",
        "kube-default",
        "load-aware",
        "target-load-packing",
        "risk-balancing",
        "expected-cost",
    )
    """Schedulers to compare; tvwrl evaluate --list-schedulers names all."""
    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds of sequences, services, noise and trees; intervals are over them."""

    def cells(self, figure: str) -> list[SchedulerCell]:
        """Every scheduler for every seed and law. Opens the trace, so that a bad one is refused before anything
        runs."""
        at_least(1, sequences=self.sequences)
        check_seeds(self.seeds)
        self.check_laws()
        names = [POLICY] * (self.checkpoint is not None) + list(self.schedulers)
        if not names:
            raise InputError("the list of schedulers is empty")
        check_training(self.laws[0], self.weighting, self.episodes)
        shared = {field.name: getattr(self, field.name) for field in fields(TrialOptions)}
        for name in names:
            scheduler_of(self, name)
        problem_of(TrialOptions(**shared))
        trials = [SchedulerTrial(**shared, seed=seed) for seed in self.seeds]
        return [SchedulerCell(trial, law, name) for trial in trials for law in self.laws for name in names]


@dataclass(frozen=True)
class LawStudy(StudyOfData):
    """Measured slowdowns under interference, real; and the anchored services in simulated clusters."""

    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds of the clusters in which anchors are measured."""

    files = (TAOBENCH_FILE, NGINX_FILE, ERMS_FILE)

    @property
    def recorded(self) -> Path | None:
        """The folder of data if clusters can replay its batch tasks."""
        return self.data if self.data and all((self.data / file).exists() for file in BATCH_FILES) else None

    def cells(self, figure: str) -> list[AnchorCell]:
        """A cluster per seed."""
        check_seeds(self.seeds)
        self.data_folder()
        return [AnchorCell(seed, self.recorded) for seed in self.seeds]


TABLES: dict[str, Callable[[str, Rows, Any], Report]] = {  # of title, rows and study
    "table1": trace_tables.report,
    "table2": trace_tables.report,
    "fig8": partial(trace_tables.report, plotted=True),
    "fig10": measured_tables.fig10,
    "fig11": prediction_tables.fig11,
    "fig12": cluster_tables.fig12,
    "table3": cluster_tables.table3,
    "fig13": cluster_tables.fig13,
    "fig14": cluster_tables.fig14,
    "fig15": cluster_tables.fig15,
    "table4": prediction_tables.table4,
    "fig16": prediction_tables.fig16,
    "fig17": prediction_tables.fig17,
    "fig18": prediction_tables.fig18,
    "nginx": measured_tables.nginx,
    "schedulers": measured_tables.schedulers,
    "laws": measured_tables.law_curves,
}
