"""Figures 10 and 11 of the Aladdin+H paper, and what repacking is worth when machines are few: tables and plots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from tvwrl.checks import at_least, different, positive, within
from tvwrl.experiments import (
    Cell,
    Report,
    Rows,
    bootstrap_interval,
    check_seeds,
    column,
    distinct,
    read_cell_rows,
    select,
)
from tvwrl.markdown import markdown_table
from tvwrl.papers import ALADDIN as ALADDIN_H
from tvwrl.papers.aladdin.cells import TIANCHI, PlacementCell
from tvwrl.papers.aladdin.published import GROUPS, MACHINES, MEDEA, REPORTED, reported
from tvwrl.planning import DEMAND, GENERATED, SEARCH, abilities, title_of_planner
from tvwrl.plotting import Panel, Point, Row, draw_estimates, ranked
from tvwrl.types import Float

ALADDIN = tuple(f"{name}({order})" for name in GROUPS for order in ("LRF", "SRF"))
BASELINES = (
    *("Tetris.1", "Tetris.4", "Graphene.1", "Graphene.4"),
    *MEDEA,
    *("TRIVIAL-cpu", "TRIVIAL-mem", "OCTOPUS-cpu", "OCTOPUS-mem"),
)
OTHERS = ("FF", "SpreadWFD-Avg-BinSearch", "best")  # beside the paper's own
DEMANDS = (0.75, 0.85, 0.9, 0.93, 0.96)


class Preset(NamedTuple):
    """Machines of the clusters."""

    generated: tuple[int, ...]
    tianchi: tuple[int, ...]
    repack: int  # of the one cluster of aladdin-repack


PRESETS = {
    "smoke": Preset((40, 80), (40, 80), 40),
    "medium": Preset((100, 200, 400), (100, 200, 400), 200),
    "paper": Preset((1_000, 2_000, 4_000, 8_000, 12_000), (1_000, 2_000, 4_000, 6_000), 1_000),
}
REPACKED = tuple(
    f"Aladdin+H.4({order})-{way}"
    for order in ("LRF", "SRF")
    for way in ("none", "blocked-still", "blocked", "cheapest")
)


class Column(NamedTuple):
    """A table of one column of the rows."""

    title: str
    column: str
    decimals: int


PANELS = {
    "fig10": (
        Column("Violations", "violations", 0),
        Column("Replicas that are placed, %", "placed_pct", 2),
        Column("Machines used", "machines_used", 0),
        Column("Machines above the lower bound, %", "gap_pct", 1),
        Column("CPU efficiency, %", "cpu_pct", 1),
        Column("Memory efficiency, %", "mem_pct", 1),
    ),
    "fig11": (
        Column("Latency, ms per replica", "latency_ms", 3),
        Column("Runtime, s", "seconds", 2),
        Column("Migrations", "migrations", 0),
    ),
    "repack": (
        Column("Replicas left out", "left_out", 1),
        Column("Machines used", "machines_used", 1),
        Column("Migrations", "migrations", 0),
    ),
}


@dataclass(frozen=True)
class _Study(ABC):
    """What the studies of this paper share."""

    preset: Literal["smoke", "medium", "paper"] = "paper"
    """smoke: fewer than 100 machines, a minute; medium: 100 to 400, minutes; paper: 1,000 to 12,000."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of generated problems; values are means over them."""

    partial = False

    def report(self, figure: str, out: Path, cells: Sequence[PlacementCell]) -> Report:
        """A table per panel, with a line per planner and a column per size or demand."""
        parts, rows, plots = self._make(PANELS[figure], read_cell_rows(out, cells))
        title = ALADDIN_H.titles[figure]
        return Report("\n\n".join([f"# {title[0].upper()}{title[1:]}", *parts]), rows, plots)

    @abstractmethod
    def _make(self, panels: Sequence[Column], rows: Rows) -> Made:
        """Tables, rows and plots of a figure."""

    def _means(self) -> str:
        return f"Means over seeds {', '.join(map(str, self.seeds))}"


@dataclass(frozen=True)
class SizeStudy(_Study):
    """Aladdin+H, Tetris, Graphene, Medea and Firmament on problems generated like the paper's, and on the contest's."""

    tianchi: str = ""
    """The Tianchi contest's zip or folder; without it, only generated problems are placed."""
    planners: tuple[str, ...] = (*ALADDIN, *BASELINES, *OTHERS)
    """Planners to compare, e.g. best,Aladdin+H.4(SRF); tvwrl place --list-planners names all."""
    demand: float = DEMAND
    """Demand of generated replicas, as a share of the scarcer resource of all machines, above 0 and at most 1."""
    medea_machines: int = 1_000
    """Largest cluster to run Medea on; it takes minutes even there."""
    medea_seconds: float = 2.0
    """Time limit of each of Medea's integer programmes, seconds."""
    search_seconds: float = 60.0
    """Time limit of the search (best), seconds."""

    def cells(self, figure: str) -> list[Cell]:
        """Every planner on the problems of every size and seed. Raises InputError for bad options."""
        _check(self.seeds, self.planners, demand=self.demand)
        positive(medea_seconds=self.medea_seconds, search_seconds=self.search_seconds)
        at_least(0, medea_machines=self.medea_machines)
        sizes = PRESETS[self.preset]
        return [
            PlacementCell(
                instance, machines, seed, self.demand, name, self.tianchi, self.medea_seconds, self.search_seconds
            )
            for instance, clusters in ((GENERATED, sizes.generated), (TIANCHI, sizes.tianchi))
            if instance == GENERATED or self.tianchi
            for machines in clusters
            for seed in self.seeds
            for name in self.planners
            if machines <= self.medea_machines or not name.startswith("Medea(")
        ]

    def _make(self, panels: Sequence[Column], rows: Rows) -> Made:
        """Sections of generated problems and of the contest's."""
        rows = [row | {"placed_pct": 100.0 * row["placed"] / row["replicas"]} for row in rows]
        parts: list[str] = []
        plots: dict[str, Callable[[Path], None]] = {}
        for instance in distinct(rows, "instance"):
            own = select(rows, instance=instance)
            parts += [f"## {instance.capitalize()}", self._describe(instance, own)]
            for panel in panels:
                table = _table(own, panel, "machines", "{:,}", beside=instance == GENERATED)
                parts += [panel.title + _spread_note(panel.column), table]
            plots[instance] = partial(
                plot_largest, rows=own, columns=[panel.column for panel in panels if panel.column in SHOWN]
            )
        return parts, rows, plots

    def _describe(self, instance: str, rows: Rows) -> str:
        largest = max(rows, key=lambda row: row["machines"])
        what = f"{largest['replicas']:,} replicas on {largest['machines']:,} machines, fewer in proportion"
        if instance == GENERATED:
            what = f"Drawn from Tables 3 and 4, {self.demand:.0%} of the scarcer resource demanded: {what}"
        else:
            what = f"The contest's set B, largest demand over time: {what} (applications drawn)"
        medea = (
            f" Medea: up to {self.medea_machines:,} machines, {self.medea_seconds:g} s a programme."
            if any(name.startswith("Medea(") for name in self.planners)
            else ""
        )
        return f"{what}. {self._means()}; times are processor time.{medea}"


@dataclass(frozen=True)
class RepackStudy(_Study):
    """Aladdin+H with several rules for when placed replicas may move, on generated problems."""

    planners: tuple[str, ...] = REPACKED
    """Planners to compare, e.g. Aladdin+H.4(SRF),Tetris.1, with any numbers; tvwrl place --list-planners
    names all."""
    demands: tuple[float, ...] = DEMANDS
    """Demand of the replicas, as shares of the scarcer resource of all machines."""

    def cells(self, figure: str) -> list[Cell]:
        """Every planner on the problems of every demand and seed. Raises InputError for bad options."""
        _check(self.seeds, self.planners, demands=self.demands)
        size = PRESETS[self.preset].repack
        return [
            PlacementCell(GENERATED, size, seed, demand, name)
            for demand in self.demands
            for seed in self.seeds
            for name in self.planners
        ]

    def _make(self, panels: Sequence[Column], rows: Rows) -> Made:
        """Unplaced replicas and machines used by demand, for each planner."""
        rows = [row | {"left_out": row["replicas"] - row["placed"]} for row in rows]
        parts = [
            f"Drawn problems of {rows[0]['machines']:,} machines; columns: demand as a share of the scarcer resource. "
            f"Replicas never move (none), move to let in one that finds no direct path (blocked-still), move off "
            f"machines that can be emptied too (blocked), or also move wherever that is cheaper (cheapest). "
            f"{self._means()}. Violations of all: {sum(row['violations'] for row in rows)}."
        ]
        for panel in panels:
            parts += [panel.title, _table(rows, panel, "demand", "{:.0%}")]
        return parts, rows, {"repack": partial(plot_repacking, rows=rows, columns=("machines_used", "left_out"))}


def _check(seeds: Sequence[int], planners: Sequence[str], **shares: float | Sequence[float]) -> None:
    check_seeds(seeds)
    different(planners=planners)
    for name in planners:
        abilities(name)
    positive(**shares)
    within(0, 1, **shares)


Made = tuple[list[str], Rows, dict[str, Callable[[Path], None]]]  # paragraphs, rows, plots by name


def _spread_note(column: str) -> str:
    return ", mean over machines in use [5th to 95th percentile]" if column in ("cpu_pct", "mem_pct") else ""


def _table(rows: Rows, panel: Column, across: str, heading: str, beside: bool = False) -> str:
    """Means over seeds: a line per planner, a column per value of `across`, and `beside` them what was published."""
    beside = beside and panel.column in REPORTED
    places = sorted({row[across] for row in rows})
    lines = []
    for name in distinct(rows, "planner"):
        cells = [_mean(select(rows, planner=name, **{across: place}), panel) for place in places]
        found = reported(panel.column, name)
        lines.append([name, *cells, *[found.text if found else ""] * beside])
    head = ["planner", *map(heading.format, places), *["published"] * beside]
    return markdown_table(head, lines)


def _mean(rows: Rows, panel: Column) -> str:
    """Mean over seeds; empty where a planner was not run, a dash where the value does not exist."""
    if not rows:
        return ""
    mean = float(np.mean([row[panel.column] for row in rows]))
    if not np.isfinite(mean):
        return "-"
    text = f"{mean:,.{panel.decimals}f}"
    if _spread_note(panel.column):
        stem = panel.column.removesuffix("_pct")
        low, high = (np.mean([row[f"{stem}_{end}"] for row in rows]) for end in ("low", "high"))
        text += f" [{low:.0f}-{high:.0f}]"
    return text


SHOWN = {
    "violations": "Violations (lower is better)",
    "machines_used": "Machines used (lower is better)",
    "cpu_pct": "CPU in use, % (higher is better)",
    "mem_pct": "Memory in use, % (higher is better)",
    "seconds": "Runtime, seconds (lower is better)",
    "migrations": "Migrations (lower is better)",
    "left_out": "Replicas left out (lower is better)",
}
SPREAD = {"cpu_pct": ("cpu_low", "cpu_high"), "mem_pct": ("mem_low", "mem_high")}  # percentiles over machines
FAMILIES = {
    "Aladdin+H": "flow through groups of machines",
    "Tetris": "violations rescheduled",
    "Graphene": "violations rescheduled",
    "Medea": "integer programmes",
    "TRIVIAL": "Firmament, one resource",
    "OCTOPUS": "Firmament, one resource",
    "": "rules and search of provisioning",
}


def family_of(name: str) -> str:
    """The kind of planner, in words."""
    return next(family for start, family in FAMILIES.items() if name.startswith(start))


def plot_largest(file: Path, rows: Rows, columns: Sequence[str]) -> None:
    """A PNG of the planners that were run on the largest cluster, a panel per column of `SHOWN`; means over seeds.

    Ranked by the first column, then by the next; published values stand beside problems like the paper's.
    """
    largest = max(row["machines"] for row in rows)
    rows = select(rows, machines=largest)
    like_theirs = rows[0]["instance"] == GENERATED and largest == MACHINES
    names = distinct(rows, "planner")
    order = sorted(names, key=lambda name: [float(column(rows, field, planner=name).mean()) for field in columns])
    shown = ranked(
        (Row(title_of_planner(name), family_of(name), name == SEARCH) for name in names),
        {title_of_planner(name): place for place, name in enumerate(order)},
        tuple(FAMILIES.values()),
    )
    panels = []
    for field in columns:
        points = {title_of_planner(name): [_point(select(rows, planner=name), field)] for name in names}
        said = {title_of_planner(name): found for name in names if (found := reported(field, name)) and like_theirs}
        published = {title: [(one.low, one.high)] for title, one in said.items() if one.low == one.low}
        panels.append(Panel(SHOWN[field], points, published, logarithmic=None if field == "seconds" else False))
    seeds = len(distinct(rows, "seed"))
    caption = f"{rows[0]['replicas']:,} replicas, {largest:,} machines"
    if "machines_used" in columns and np.isfinite(bound := _mean_of(column(rows, "bound"))):
        caption += f" (at least {bound:,.0f} needed)"
    caption += f", means over {seeds} seeds" * (seeds > 1)
    percentiles = "5th to 95th percentile of machines" if SPREAD.keys() & set(columns) else ""
    lines = "; ".join(filter(None, [percentiles, "95 % intervals of other means" if seeds > 1 else ""]))
    sides = "the search of this project", "others"
    draw_estimates(file, shown, panels, across=len(panels), sides=sides, caption=caption, lines=lines)


def plot_repacking(file: Path, rows: Rows, columns: Sequence[str]) -> None:
    """A PNG of ways of repacking, a panel per column of `SHOWN` and a point per demand; means over seeds."""
    names, demands = distinct(rows, "planner"), sorted(distinct(rows, "demand"))
    strip = _prefix(names)
    shown = [Row(strip(title_of_planner(name)), ours=name.endswith("-blocked")) for name in names]
    panels = [
        Panel(
            SHOWN[field],
            {
                strip(title_of_planner(name)): [
                    _point(select(rows, planner=name, demand=one), field) for one in demands
                ]
                for name in names
            },
        )
        for field in columns
    ]
    seeds = len(distinct(rows, "seed"))
    caption = f"{rows[0]['machines']:,} machines, demand as a share of the scarcer resource"
    caption += f", means over {seeds} seeds" * (seeds > 1)
    series = [f"demand {100 * demand:g} %" for demand in demands]
    draw_estimates(file, shown, panels, series, sides=("the default", "others"), caption=caption)


def _prefix(names: Sequence[str]) -> Callable[[str], str]:
    """Takes `Aladdin+H, 4 groups, ` from titles that all begin so."""
    begin = {", ".join(title_of_planner(name).split(", ")[:2]) + ", " for name in names}
    return lambda title: title.removeprefix(next(iter(begin))) if len(begin) == 1 else title


def _point(rows: Rows, field: str) -> Point:
    """Mean over seeds with its interval; of a share in use, with percentiles over machines."""
    values = column(rows, field)
    if field in SPREAD:
        return Point(_mean_of(values), *(_mean_of(column(rows, end)) for end in SPREAD[field]))
    return Point(_mean_of(values), *bootstrap_interval(values))


def _mean_of(values: Float) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
