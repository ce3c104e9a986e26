"""Tables and plots of paper 002's Figures 10 and 11, and what repacking is worth when machines are few."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tvwrl.bench import aladdin_published as published
from tvwrl.bench.aladdin_cells import GENERATED, TIANCHI, Cell, complete
from tvwrl.bench.aladdin_figures import plot_loads, plot_sizes
from tvwrl.bench.figures import write_figure
from tvwrl.command_line import Names, Numbers, Shares
from tvwrl.flow.registry import ALADDIN, BASELINES
from tvwrl.markdown import markdown_table
from tvwrl.types import InputError

NAMES = {
    "fig10": "Figure 10, violations, machines used and resource efficiency by cluster size",
    "fig11": "Figure 11, latency, runtime and migrations by cluster size",
    "repack": "what moving placed replicas is worth, by how full the cluster is",
}
SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "smoke": {GENERATED: (40, 80), TIANCHI: (40, 80)},
    "full": {GENERATED: (1_000, 2_000, 4_000, 8_000, 12_000), TIANCHI: (1_000, 2_000, 4_000, 6_000)},
}
LOADS = (0.75, 0.85, 0.9, 0.93, 0.96)
STRESSED = {"smoke": 40, "full": 1_000}  # machines of the stressed problems
MEANS_OF_REPACKING = ("none", "blocked-still", "blocked", "cheapest")  # as scheduler names end
# title, column, decimals, published
Panel = tuple[str, str, int, dict[str, str]]
PANELS: dict[str, tuple[Panel, ...]] = {
    "fig10": (
        ("Violations", "violations", 0, published.VIOLATIONS),
        ("Replicas that are placed, %", "placed_pct", 2, {}),
        ("Machines used", "machines_used", 0, {}),
        ("Machines above the lower bound, %", "gap_pct", 1, {}),
        ("CPU efficiency, %", "cpu_pct", 1, published.CPU_EFFICIENCY),
        ("Memory efficiency, %", "mem_pct", 1, published.MEMORY_EFFICIENCY),
    ),
    "fig11": (
        ("Latency, ms per replica", "latency_ms", 3, published.LATENCY),
        ("Runtime, s", "seconds", 2, {name: f"{value} min" for name, value in published.MINUTES.items()}),
        ("Migrations", "migrations", 0, published.MIGRATIONS),
    ),
}
Rows = list[dict[str, Any]]
Made = tuple[str, Rows, dict[str, Callable[[Path], None]]]  # table, rows, plots by name


@dataclass(frozen=True)
class AladdinSettings:
    """Aladdin+H, Tetris, Graphene, Medea and Firmament on drawn problems like the paper's, and on the contest's."""

    preset: Literal["smoke", "full"] = "full"
    """smoke: two sizes below 100 machines, a minute; full: 1,000 to 12,000 machines."""
    tianchi: str = ""
    """The Tianchi contest's zip or folder; without it only drawn problems are placed."""
    seeds: Numbers = (0,)
    """Of what is drawn; values are means over them."""
    schedulers: Names = (*ALADDIN, *BASELINES)
    """Names; an unknown one lists those that there are."""
    load: float = 0.75
    """Demand of the drawn problems as a share of the scarcer resource of all machines."""
    medea_machines: int = 1_000
    """Medea places no clusters larger than this: it takes minutes there."""
    medea_seconds: float = 2.0
    """Time limit of each of Medea's programmes."""
    loads: Shares = LOADS
    """Of aladdin-repack."""
    workers: int = 1
    """Problems at a time, each in a process of its own; times are processor time."""

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown of one of `NAMES`, which is written to a folder of that name in `out` too.

        What is placed (`cells/` of `out`) is not placed again. Raises InputError for values out of range.
        """
        self._check()
        text, rows, plots = _repack(self, out) if name == "repack" else _figure(name, self, out)
        text = f"## {NAMES[name][0].upper()}{NAMES[name][1:]}\n\n{text}\n"
        write_figure(out / name, text, rows, plots, asdict(self))
        return text

    def _check(self) -> None:
        from tvwrl.flow.registry import scheduler

        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) != len(self.seeds):
            raise InputError(f"seeds is {', '.join(map(str, self.seeds))}: must be different numbers >= 0")
        if not self.schedulers or len(set(self.schedulers)) != len(self.schedulers):
            raise InputError(f"schedulers is {', '.join(self.schedulers)}: must be different ones, at least one")
        for name in self.schedulers:
            scheduler(name)
        for load in (self.load, *self.loads):
            if not 0 < load <= 1:
                raise InputError(f"load is {load:g}: must be above 0, at most 1")
        if not 0 < self.medea_seconds < np.inf:
            raise InputError(f"medea_seconds is {self.medea_seconds}: must be a number > 0")
        if self.workers < 1:
            raise InputError(f"workers is {self.workers}: must be at least 1")

    def cells(self, instance: str) -> list[Cell]:
        """Of all sizes and seeds of an instance."""
        found = []
        for machines in SIZES[self.preset][instance]:
            able = machines <= self.medea_machines
            names = tuple(name for name in self.schedulers if able or not name.startswith("Medea"))
            found += [Cell(instance, machines, seed, self.load, names) for seed in self.seeds if names]
        return found


def _figure(name: str, settings: AladdinSettings, out: Path) -> Made:
    """A table per instance and panel, a column per number of machines."""
    parts: list[str] = []
    kept: Rows = []
    plots: dict[str, Callable[[Path], None]] = {}
    for instance in (GENERATED, TIANCHI) if settings.tianchi else (GENERATED,):
        cells = settings.cells(instance)
        rows = complete(out, cells, settings.tianchi, settings.medea_seconds, settings.workers)
        rows = [row | {"placed_pct": 100.0 * row["placed"] / row["replicas"]} for row in rows]
        kept += rows
        parts += [f"### {instance.capitalize()}", _told(instance, settings, rows)]
        for title, column, decimals, known in PANELS[name]:
            parts += [
                title + _spread_of(column),
                _table(rows, column, decimals, known if instance == GENERATED else {}),
            ]
        plots[f"{instance}"] = partial(plot_sizes, rows=rows, panels=[panel[:2] for panel in PANELS[name]])
    return "\n\n".join(parts), kept, plots


def _told(instance: str, settings: AladdinSettings, rows: Rows) -> str:
    largest = max(rows, key=lambda row: row["machines"])
    what = f"{largest['replicas']:,.0f} replicas on {largest['machines']:,.0f} machines, fewer in proportion"
    if instance == GENERATED:
        what = f"Drawn from Tables 3 and 4, {settings.load:.0%} of the scarcer resource demanded: {what}"
    else:
        what = f"The contest's set B, largest demand over time: {what} (applications drawn)"
    medea = (
        f" Medea: up to {settings.medea_machines:,} machines, {settings.medea_seconds:g} s a programme."
        if any(name.startswith("Medea") for name in settings.schedulers)
        else ""
    )
    return f"{what}. Means over seeds {', '.join(map(str, settings.seeds))}; times are processor time.{medea}"


def _spread_of(column: str) -> str:
    return ", mean over machines in use [5th to 95th percentile]" if column in ("cpu_pct", "mem_pct") else ""


def _table(rows: Rows, column: str, decimals: int, known: dict[str, str]) -> str:
    sizes = sorted({int(row["machines"]) for row in rows})
    lines = []
    for name in dict.fromkeys(row["scheduler"] for row in rows):
        told = [name]
        for size in sizes:
            mine = [row for row in rows if row["scheduler"] == name and row["machines"] == size]
            told.append(_value(mine, column, decimals))
        lines.append(told + [_known(known, name)] * bool(known))
    head = ["scheduler", *(f"{size:,}" for size in sizes), *["published"] * bool(known)]
    return markdown_table(head, lines)


def _value(rows: Rows, column: str, decimals: int) -> str:
    """Mean over seeds; nothing where a scheduler was not tried, a dash where the value does not exist."""
    if not rows:
        return ""
    mean = float(np.mean([row[column] for row in rows]))
    if not np.isfinite(mean):
        return "-"
    told = f"{mean:,.{decimals}f}"
    if _spread_of(column):
        stem = column.removesuffix("_pct")
        low, high = (np.mean([row[f"{stem}_{end}"] for row in rows]) for end in ("low", "high"))
        told += f" [{low:.0f}-{high:.0f}]"
    return told


def _known(known: dict[str, str], name: str) -> str:
    """What was published of a scheduler, or of it whatever the order of arrival."""
    return known.get(name) or known.get(re.sub(r"\((LRF|SRF)\)$", "", name), "")


def _repack(settings: AladdinSettings, out: Path) -> Made:
    """Replicas left out and machines used by load, for each way of repacking."""
    names = tuple(f"Aladdin+H.4({order})-{way}" for order in ("LRF", "SRF") for way in MEANS_OF_REPACKING)
    size = STRESSED[settings.preset]
    cells = [Cell(GENERATED, size, seed, load, names) for load in settings.loads for seed in settings.seeds]
    rows = complete(out, cells, settings.tianchi, settings.medea_seconds, settings.workers)
    rows = [row | {"left_out": row["replicas"] - row["placed"]} for row in rows]
    panels = (
        ("Replicas left out", "left_out", 1),
        ("Machines used", "machines_used", 1),
        ("Migrations", "migrations", 0),
    )
    parts = [
        f"Drawn problems of {size:,} machines; columns: demand as a share of the scarcer resource. Nothing moves "
        f"(none), replicas move to let one in that finds no direct path (blocked-still), then machines are emptied too "
        f"(blocked), or whenever it is cheaper (cheapest). Means over seeds {', '.join(map(str, settings.seeds))}. "
        f"Violations of all: {sum(row['violations'] for row in rows):.0f}."
    ]
    for title, column, decimals in panels:
        parts += [title, _by_load(rows, names, settings.loads, column, decimals)]
    plots: dict[str, Callable[[Path], None]]
    plots = {"repack": partial(plot_loads, rows=rows, panels=[panel[:2] for panel in panels[:2]])}
    return "\n\n".join(parts), rows, plots


def _by_load(rows: Rows, names: Sequence[str], loads: Sequence[float], column: str, decimals: int) -> str:
    lines = []
    for name in names:
        mine = [[row for row in rows if (row["scheduler"], row["load"]) == (name, load)] for load in loads]
        lines.append([name, *(_value(some, column, decimals) for some in mine)])
    return markdown_table(["scheduler", *(f"{load:.0%}" for load in loads)], lines)
