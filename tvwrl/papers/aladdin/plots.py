"""Plots of the Aladdin+H paper: a line per planner, coloured by family."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tvwrl.experiments.engine import Rows
from tvwrl.experiments.rows import distinct
from tvwrl.plotting import COLOURS, DPI, new_figure, tidy

MARKERS = "osD^vP"  # within a family


def plot_by_size(file: Path, rows: Rows, panels: Sequence[tuple[str, str]]) -> None:
    """A PNG with a panel per (title, column): means over seeds by number of machines."""
    _plot(file, rows, panels, "machines", "machines in the cluster", _family)


def plot_by_demand(file: Path, rows: Rows, panels: Sequence[tuple[str, str]]) -> None:
    """The same by demand; families are ways of repacking."""
    _plot(file, rows, panels, "demand", "demand by capacity, scarcer resource", lambda name: name.partition("-")[2])


def _family(name: str) -> str:
    return re.split(r"[.(-]", name.removeprefix("Aladdin+"))[0]


def _plot(
    file: Path,
    rows: Rows,
    panels: Sequence[tuple[str, str]],
    across: str,
    label: str,
    family_of: Callable[[str], str],
) -> None:
    wide = min(2, len(panels))
    down = -(-len(panels) // wide)
    figure = new_figure(4.4 * wide, 2.4 * down + 1.3)
    axes = figure.subplots(down, wide, squeeze=False).ravel()
    names = distinct(rows, "planner")
    families = list(dict.fromkeys(map(family_of, names)))
    for axis, (title, column) in zip(axes, panels, strict=False):
        for name in names:
            family = family_of(name)
            turn = [other for other in names if family_of(other) == family].index(name)
            mine = [row for row in rows if row["planner"] == name]
            places = sorted({row[across] for row in mine})
            means = [np.mean([row[column] for row in mine if row[across] == place]) for place in places]
            colour = COLOURS[families.index(family) % len(COLOURS)]
            style = {"ls": "-" if turn % 2 == 0 else "--", "ms": 4.5, "lw": 1.2, "mfc": "none"}
            axis.plot(places, means, marker=MARKERS[turn % len(MARKERS)], color=colour, label=name, **style)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(label)
        values = np.array([row[column] for row in rows])
        values = values[np.isfinite(values)]
        if values.size and values.min() >= 0 and values.max() > 50 * max(np.median(values), 1e-9):
            axis.set_yscale("symlog" if values.min() == 0 else "log")
        else:
            axis.ticklabel_format(axis="y", useOffset=False)
        tidy(axis)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(file, dpi=DPI, format="png", pil_kwargs={"optimize": True})
