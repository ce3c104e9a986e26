"""Figures 3 to 7 of the provisioning paper: the instances and algorithms that each needs, and its tables and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from tvwrl.checks import at_least, different, one_of
from tvwrl.experiments import Cell, Report, RunOptions, commands, read_cell_rows
from tvwrl.papers.provisioning import titles
from tvwrl.papers.provisioning.cells import KNOWN, PlanCell, base_instance
from tvwrl.papers.provisioning.plots import plots_of
from tvwrl.papers.provisioning.published import (
    FEW,
    FIGURES,
    GRAPHS,
    INSTANCES,
    STUDIES,
    Figure,
    Reference,
    read_reference,
)
from tvwrl.papers.provisioning.tables import tables_of


class Scale(NamedTuple):
    """How much a preset plans."""

    graphs: tuple[str, ...]
    instances: int  # of each graph and value
    shrink: int  # divides the number of applications


SCALES = {"smoke": Scale(GRAPHS[:1], 1, 50), "medium": Scale(GRAPHS, 3, 10), "paper": Scale(GRAPHS, INSTANCES, 1)}


@dataclass(frozen=True)
class ProvisioningStudy(RunOptions):
    """The paper's algorithms on generated instances, and on those used to measure its released code."""

    preset: Literal["smoke", "medium", "paper"] = "smoke"
    """smoke: one arbitrary graph, 50 times fewer applications, seconds; medium: 3 graphs with 3 instances each, 10
    times fewer applications, minutes; paper: the paper's sizes, 3 graphs with 10 instances each, hours."""
    graphs: tuple[str, ...] | None = None
    """Kinds of affinity graphs: arbitrary, normal, threshold; default: the preset's."""
    instances: int | None = None
    """Instances of each graph and value; default: the preset's."""
    densities: tuple[int, ...] = (1, 5, 10)
    """Affinity densities of Figures 3, 4 and 6, %."""
    application_counts: tuple[int, ...] = FEW
    """Numbers of applications of Figures 5 and 7."""
    base: str = "tianchi"
    """Instance or trace to draw applications, replicas and limits from, unless --reference-data has one."""
    reference_data: Path | None = None
    """Folder with published_summary.csv, reference.json and the instances that the released code was measured on."""
    seed: int = 0
    """Seed of the first instance of each kind; the others follow."""

    partial = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """Graphs to draw."""
        return SCALES[self.preset].graphs if self.graphs is None else self.graphs

    @property
    def count(self) -> int:
        """Instances per graph and value."""
        return SCALES[self.preset].instances if self.instances is None else self.instances

    def cells(self, figure: str) -> list[Cell]:
        """Every algorithm on known instances, then on drawn ones. Raises InputError for bad options or sources."""
        self._check()
        wanted, reference = FIGURES[figure], read_reference(self.reference_data)
        study = STUDIES[wanted.study]
        base = str(reference.instance("TClab_TS" if study.series else "TClab_2D") or self.base)
        if not (self.report_only or self.dry_run):
            base_instance(base, study.series)
        shrink = SCALES[self.preset].shrink
        return self._known(wanted, reference) + [
            PlanCell(wanted.study, graph, value, number, algorithm, base, shrink, self.seed)
            for number in range(self.count)
            for graph in self.kinds
            for value in sorted(self.densities if study.varied == "density" else self.application_counts)
            for algorithm in wanted.algorithms
        ]

    def report(self, figure: str, out: Path, cells: Sequence[PlanCell]) -> Report:
        """Tables beside what was published and measured, and a plot."""
        rows, reference = read_cell_rows(out, cells), read_reference(self.reference_data)
        text = tables_of(figure, rows, reference)
        if (shrink := SCALES[self.preset].shrink) > 1:
            title, _, rest = text.partition("\n")
            note = f"{self.preset.capitalize()}: drawn instances are {shrink} times smaller than the published ones, "
            note += "so do not compare them."
            text = f"{title}\n\n{note}\n{rest}"
            reference = Reference()  # a picture has no note, so published values do not stand in it
        return Report(text, rows, plots_of(figure, rows, reference))

    def _known(self, figure: Figure, reference: Reference) -> list[Cell]:
        """Cells of the instances that the reference folder has, by the figure's algorithms and all measured there."""
        files = {
            name: file
            for name in (figure.known if self.preset == "paper" else figure.small)
            if (file := reference.instance(name))
        }
        return [
            PlanCell(KNOWN, name, 0, 0, algorithm, str(file))
            for name, file in files.items()
            for algorithm in dict.fromkeys((*figure.algorithms, *reference.released.get(name, {})))
        ]

    def _check(self) -> None:
        """Raise InputError for values out of range."""
        for name, values, allowed in (
            ("graphs", self.kinds, GRAPHS),
            ("densities", self.densities, STUDIES["density2D"].values),
            ("application_counts", self.application_counts, FEW),
        ):
            different(**{name: values})
            one_of(allowed, **{name: values})
        at_least(1, instances=self.count)
        at_least(0, seed=self.seed)


COMMANDS = commands(titles.PREFIX, titles.PAPER, titles.FIGURES, ProvisioningStudy, titles.ALL)
