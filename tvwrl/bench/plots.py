"""Rows of evaluated episodes -> the paper's six bar charts (Figures 4 and 5), one file each and one with all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.bench.tables import Summaries, bootstrap_interval, by_load, resources_of
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

# Okabe and Ito (2008): told apart with every common colour blindness; yellow is left out, too pale on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F")
HATCHES = ("", "///", "...", "xxx")  # from the eighth scheduler on colours repeat, hatched
NOT_IN_NAMES = r"[^\w.+ -]"  # of files; a resource may be called mem/GB
DPI = 150


def plot_comparison(rows: pl.DataFrame, folder: str | Path, seed: int = 0) -> list[Path]:
    """Writes `<metric>.png` for utilisation and fragmentation per resource, overshoot % and machines used, and all of
    them in `comparison.png`, to `folder` (made if absent); returns the files, `comparison.png` last.

    Bars are means over sequences, one per scheduler (in order of appearance in `rows`), grouped by load; whiskers are
    95 % bootstrap intervals, absent with one sequence. `rows`: see `tvwrl.metrics.score_episode`. `seed` >= 0: of the
    resampling. Raises InputError if there are no rows or a column is missing.
    """
    if rows.is_empty():
        raise InputError("no rows: nothing to plot")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    loads, panels = by_load(rows), _panels(resources_of(rows))
    schedulers = list(dict.fromkeys(rows["scheduler"].to_list()))
    files = []
    for column, title in panels.items():
        files.append(folder / f"{re.sub(NOT_IN_NAMES, '-', column)}.png")
        _figure(loads, schedulers, {column: title}, seed, files[-1])
    files.append(folder / "comparison.png")
    _figure(loads, schedulers, panels, seed, files[-1])
    return files


def _panels(resources: list[str]) -> dict[str, str]:
    """column -> title, in the paper's order."""
    return {
        **{f"utilisation_{r}": f"Utilisation, {r} (higher is better)" for r in resources},
        **{f"fragmentation_{r}": f"Fragmentation, {r} (lower is better)" for r in resources},
        "overshoot_pct": "Overshoot, % of capacity (lower is better)",
        "machines_used": "Machines used (lower is better)",
    }


def _figure(
    loads: dict[float, Summaries], schedulers: list[str], panels: dict[str, str], seed: int, file: Path
) -> None:
    """One file with one panel per metric, in columns of two, under one legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(6.4 * across, 3.2 * down + 1.0), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis, (column, title) in zip(axes, panels.items(), strict=False):
        _bars(axis, loads, schedulers, column, seed)
        axis.set_title(title, fontsize=11)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    lines = -(-len(labels) // 4)
    legend = figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=-(-len(labels) // lines),
        frameon=False,
        title="Means over arrival sequences; whiskers: 95 % bootstrap intervals",
        title_fontsize=9,
    )
    legend.get_title().set_color("#444444")
    figure.savefig(file, dpi=DPI)


def _bars(axis: Any, loads: dict[float, Summaries], schedulers: list[str], column: str, seed: int) -> None:
    """Bars of one metric: a group per load, a bar per scheduler, a whisker per bar."""
    width = min(0.84 / len(schedulers), 0.25)
    for place, scheduler in enumerate(schedulers):
        centre = np.arange(len(loads)) + (place - (len(schedulers) - 1) / 2) * width
        values = [group[scheduler][column] if scheduler in group else np.array([np.nan]) for group in loads.values()]
        height = np.array([v.mean() for v in values])
        interval = np.array([bootstrap_interval(v, np.random.default_rng(seed)) for v in values])
        whisker = np.abs(interval - height[:, None]).T
        axis.bar(
            centre,
            height,
            0.92 * width,
            label=scheduler,
            color=COLOURS[place % len(COLOURS)],
            hatch=HATCHES[place // len(COLOURS) % len(HATCHES)],
            edgecolor="white",
            linewidth=0,
            yerr=whisker,
            error_kw={"elinewidth": 1.1, "capsize": min(3.0, 16 * width), "ecolor": "#222222"},
        )
        for x in centre[height == 0]:  # or else a bar of nothing reads as a bar left out
            axis.annotate("0", (x, 0), (0, 3), textcoords="offset points", ha="center", fontsize=7.5, color="#444444")
    axis.set_xlim(-0.6, len(loads) - 0.4)
    axis.set_xticks(np.arange(len(loads)), [f"load {load:g}" for load in loads])
    axis.set_ylim(bottom=0)
    axis.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(axis="x", length=0)
    axis.spines[["top", "right"]].set_visible(False)
