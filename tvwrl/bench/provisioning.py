"""Reproduces figures of the provisioning paper: what is missing is planned, then told beside what was published."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tvwrl.bench.provisioning_cells import KNOWN, Cell, Workshop, complete_cells
from tvwrl.bench.provisioning_published import FEW, FIGURES, GRAPHS, INSTANCES, STUDIES, Figure
from tvwrl.bench.provisioning_reference import Reference, read_reference
from tvwrl.bench.provisioning_tables import plot, report
from tvwrl.command_line import Names, Numbers
from tvwrl.markdown import preserved_introduction
from tvwrl.runs import provenance, whole_file, write_csv, write_json
from tvwrl.types import InputError

SHRINK = 50  # smoke: so many times fewer applications


@dataclass(frozen=True)
class ProvisioningSettings:
    """Which instances are planned, and what they are drawn from."""

    preset: Literal["smoke", "full"] = "smoke"
    """smoke: one arbitrary graph each, 50 times fewer applications: seconds. full: the paper's sizes, 3 graphs and 10
    instances each: hours."""
    graphs: Names | None = None
    """Kinds of affinity graphs: arbitrary, normal, threshold; default: the preset's."""
    instances: int | None = None
    """Instances of each graph and value; default: the preset's."""
    densities: Numbers = (1, 5, 10)
    """Affinity densities of Figures 3, 4 and 6, %."""
    applications: Numbers = FEW
    """Numbers of applications of Figures 5 and 7."""
    base: str = "tianchi"
    """Instance or trace whose applications, replicas and limits are drawn from, if --reference has none."""
    reference: Path | None = None
    """Folder with published_summary.csv, reference.json and the instances that the released code was measured on."""
    seed: int = 0
    """Seed of the first instance of each kind; the others follow."""
    workers: int = 1
    """Instances at a time, each in a process of its own."""
    out: Path | None = None
    """Folder of rows, tables and plots; give the same again to go on, or to share rows between figures. Default:
    runs/<name>-<time>."""
    page: Path | None = None
    """Page of the figures too, e.g. docs/provisioning-results.md; what is written by hand at its top is kept."""
    report_only: bool = False
    """Only write tables, plots and page again, from the instances that are finished in --out."""

    def check(self) -> None:
        """Raise InputError for values out of range."""
        for name, values, allowed in (
            ("graphs", self.kinds, GRAPHS),
            ("densities", self.densities, STUDIES["density2D"].values),
            ("applications", self.applications, FEW),
        ):
            if not values or len(set(values)) != len(values) or not set(values) <= set(allowed):
                shown, given = ", ".join(map(str, allowed)), ", ".join(map(str, values))
                raise InputError(f"{name} is {given}: must be different ones of {shown}")
        if self.count < 1:
            raise InputError(f"instances is {self.count}: must be at least 1")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}: must be >= 0")
        if self.workers < 1:
            raise InputError(f"workers is {self.workers}: must be at least 1")
        if self.report_only and self.out is None:
            raise InputError("report_only needs --out: the folder whose rows the tables are made from")

    @property
    def kinds(self) -> tuple[str, ...]:
        """Graphs to draw."""
        return self.graphs if self.graphs is not None else GRAPHS[:1] if self.preset == "smoke" else GRAPHS

    @property
    def count(self) -> int:
        """Instances per graph and value."""
        return self.instances if self.instances is not None else 1 if self.preset == "smoke" else INSTANCES

    def workshop(self, out: Path, reference: Reference) -> Workshop:
        """Where rows are kept, and what instances are drawn from."""
        fixed, series = (str(reference.instance(name) or self.base) for name in ("TClab_2D", "TClab_TS"))
        files = {name: reference.instance(name) for figure in FIGURES.values() for name in figure.known + figure.small}
        known = {name: str(path) for name, path in files.items() if path}
        return Workshop(out, fixed, series, known, SHRINK if self.preset == "smoke" else 1, self.seed)

    def cells(self, figure: Figure, reference: Reference) -> list[Cell]:
        """Instances of a figure, by its algorithms; known ones that the folder has by all that were measured there."""
        asked = self.densities if STUDIES[figure.study].varied == "density" else self.applications
        cells = [
            Cell(figure.study, graph, value, number, figure.algorithms)
            for number in range(self.count)
            for graph in self.kinds
            for value in sorted(asked)
        ]
        names = figure.small if self.preset == "smoke" else figure.known
        known = {name: reference.released.get(name, {}) for name in names if reference.instance(name)}
        every = {name: tuple(dict.fromkeys((*figure.algorithms, *measured))) for name, measured in known.items()}
        return [*(Cell(KNOWN, name, 0, 0, algorithms) for name, algorithms in every.items()), *cells]


def reproduce(
    names: Sequence[str], settings: ProvisioningSettings, out: Path, tell: Callable[[str], None]
) -> dict[str, str]:
    """Figure -> its tables, after planning what is missing in `out` (unless `report_only`); a line to `tell` per
    instance.

    Writes `<figure>/rows.csv`, `table.md`, `plot.png` and `run.json` too, of instances that are finished. Raises
    InputError for bad settings, and where `out` was made from others.
    """
    settings.check()
    reference = read_reference(settings.reference)
    shop = settings.workshop(out, reference)
    cells = {name: settings.cells(FIGURES[name], reference) for name in names}
    every = [cell for own in cells.values() for cell in own]
    shop.check([] if settings.report_only else every)
    if not settings.report_only:
        complete_cells(shop, every, settings.workers, tell)
    tables = {}
    for name, own in cells.items():
        rows = [row for cell in own if not shop.missing(cell) for row in shop.rows(cell)]
        if rows:
            tables[name] = _write(out / name, name, rows, reference, settings)
    if not tables:
        raise InputError(f"{out} holds no finished instance of {', '.join(names)}")
    return tables


def _write(
    folder: Path, name: str, rows: list[dict[str, Any]], reference: Reference, settings: ProvisioningSettings
) -> str:
    """The files of a figure; returns its tables."""
    text = report(name, FIGURES[name], rows, reference)
    if settings.preset == "smoke":
        title, _, rest = text.lstrip().partition("\n")
        trial = f"Smoke: drawn instances are {SHRINK} times smaller than the published ones: a trial, not a comparison."
        text = f"{title}\n\n{trial}\n{rest}"
    write_csv(folder / "rows.csv", rows)
    with whole_file(folder / "table.md") as partial:
        partial.write_text(text, encoding="utf-8")
    plot(name, FIGURES[name], rows, reference, folder / "plot.png")
    facts = {"preset": settings.preset, "graphs": settings.kinds, "instances": settings.count, "seed": settings.seed}
    write_json(folder / "run.json", provenance() | facts)
    return text


def made_by(settings: ProvisioningSettings, name: str) -> str:
    """What a page is made of, and the command that makes it."""
    words = ["python", "scripts/reproduce.py", name, "--preset", settings.preset]
    lists = {"graphs": settings.kinds, "densities": settings.densities, "applications": settings.applications}
    words += [word for option, values in lists.items() for word in (f"--{option}", ",".join(map(str, values)))]
    words += ["--instances", str(settings.count), "--seed", str(settings.seed)]
    words += ["--reference", "FOLDER"] if settings.reference else ["--base", settings.base]
    words += ["--out", "runs/provisioning", "--page", "docs/provisioning-results.md"]
    return f"Generated from the instances that are finished so far of\n\n```\n{shlex.join(words)}\n```"


def write_page(page: Path, out: Path, tables: dict[str, str], head: str) -> None:
    """A page of the tables, with their pictures in a folder of its name beside it.

    Its opening stays, as it is written by hand: see `preserved_introduction`.
    """
    pictures = page.with_suffix("")
    parts = [preserved_introduction(page, "Provisioning"), head]
    for name, text in tables.items():
        title, _, rest = text.strip().partition("\n")
        parts.append(title)
        drawn = out / name / "plot.png"
        if drawn.exists():
            with whole_file(pictures / f"{name}.png") as partial:
                partial.write_bytes(drawn.read_bytes())
            parts.append(f"![{title.removeprefix('## ')}]({pictures.name}/{name}.png)")
        parts.append(rest.strip())
    with whole_file(page) as partial:
        partial.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
