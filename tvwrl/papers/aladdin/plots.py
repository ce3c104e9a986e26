"""Plots of the Aladdin+H paper: a row per planner in its family, in words, next to what the paper's text says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tvwrl.experiments import Rows, bootstrap_interval, column, distinct, select
from tvwrl.papers.aladdin.published import MACHINES, reported
from tvwrl.planning import GENERATED, SEARCH, title_of_planner
from tvwrl.plotting import Panel, Point, Row, draw_estimates, ranked
from tvwrl.types import Float

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
    if "machines_used" in columns and np.isfinite(bound := _mean(column(rows, "bound"))):
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
        return Point(_mean(values), *(_mean(column(rows, end)) for end in SPREAD[field]))
    return Point(_mean(values), *bootstrap_interval(values))


def _mean(values: Float) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
