"""Charts of evaluations: estimates of every scheduler by metric, and lines of means over seeds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.experiments.statistics import bootstrap_interval, point_estimate
from tvwrl.experiments.tables import Summaries, by_load, resources_of
from tvwrl.plotting import (
    COLOURS,
    DPI,
    MARKERS,
    NOTHING,
    OURS,
    PUBLISHED,
    WIDTH,
    Panel,
    Point,
    Row,
    draw_estimates,
    new_figure,
    ranked,
    tidy,
)
from tvwrl.schedulers import GROUPS, Knowledge, is_ours, titles_of
from tvwrl.types import Float, InputError

if TYPE_CHECKING:
    import polars as pl

NOT_IN_NAMES = r"[^\w.+ -]"  # what a file name must not contain; a resource may be called mem/GB
PENALTY = "Penalty, thousands (lower is better)"  # per sequence; on a logarithmic axis


def plot_comparison(
    rows: pl.DataFrame, folder: str | Path, seed: int = 0, knowledge: Mapping[str, Knowledge] | None = None
) -> list[Path]:
    """Write a chart for each metric, `<column>.png`, and one of those that matter most, `comparison.png`, to `folder`
    (made if absent).

    One row per scheduler, ranked by reward over all loads within what it may know; one point per load: the mean over
    sequences and its 95 % bootstrap interval, which is absent with one sequence. A scheduler that left workloads
    unplaced has no points at that load, and comes last.

    Parameters
    ----------
    rows : pl.DataFrame
        A row for each scheduler, load and sequence, with the columns of `tvwrl.metrics.score_episode`.
    folder : str | Path
        Where the pictures are written.
    seed : int, default 0
        Seed of the resampling, >= 0.
    knowledge : Mapping[str, Knowledge], optional
        Scheduler -> what it may know, by which schedulers are grouped.

    Returns
    -------
    list[Path]
        The files, `comparison.png` last.

    Raises
    ------
    InputError
        If there are no rows or a column is missing.
    """
    if rows.is_empty():
        raise InputError("no rows: nothing to plot")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    loads = by_load(rows)
    names = list(dict.fromkeys(name for group in loads.values() for name in group))
    titles, groups = titles_of(names), {name: known.group for name, known in (knowledge or {}).items()}
    shown = ranked(
        (Row(titles[name], groups.get(name, ""), is_ours(name)) for name in names),
        {titles[name]: _cost(loads.values(), name) for name in names},
        GROUPS,
    )
    panels = {
        column: Panel(
            title,
            {
                titles[name]: [
                    mean_point(of[name][column] * scale, seed) if name in of else NOTHING for of in loads.values()
                ]
                for name in names
            },
            logarithmic=None if title == PENALTY else False,
        )
        for column, (title, scale) in _metrics(resources_of(rows)).items()
    }
    series = [f"load {load:g}" for load in loads]
    together = [panel for column, panel in panels.items() if not column.startswith("fragmentation")]
    files = {folder / f"{re.sub(NOT_IN_NAMES, '-', column)}.png": [panel] for column, panel in panels.items()}
    files[folder / "comparison.png"] = together
    for file, drawn in files.items():
        draw_estimates(file, shown, drawn, series, "arrival sequences")
    return list(files)


def _cost(loads: Iterable[Summaries], name: str) -> float:
    """What ranks a scheduler; whoever left workloads unplaced has no mean reward, and comes last."""
    own = [load[name] for load in loads if name in load]
    left = sum(float(np.nansum(one["unplaced"])) for one in own)
    return 1e18 * left if left else -sum(point_estimate(one["reward"]) for one in own) / len(own)


def _metrics(resources: Sequence[str]) -> dict[str, tuple[str, float]]:
    """column -> title, factor."""
    return {
        "reward": (PENALTY, -0.001),
        "overshoot_pct": ("Overshoot, % of capacity (lower is better)", 1.0),
        "machines_used": ("Machines used (lower is better)", 1.0),
        "wait_mean": ("Wait, slots (lower is better)", 1.0),
        **{f"utilisation_{r}": (f"Utilisation of {r}, % (higher is better)", 100.0) for r in resources},
        **{f"fragmentation_{r}": (f"Fragmentation of {r}, % (lower is better)", 100.0) for r in resources},
    }


def plot_lines(
    file: Path,
    places: Sequence[str],
    panels: Mapping[str, Mapping[str, Float]],
    across: str,
    up: str,
    ours: Collection[str] = (),
    over: str = "seeds",
    published: Mapping[str, Mapping[int, float]] | None = None,
) -> None:
    """A PNG with a panel for each title, at most two side by side, of lines (places, seeds) by name: their means with
    intervals, joined along the places. A name looks the same in every panel.

    `ours`: the names that are drawn in the strong colour; `over`: what the means are over; `published`: title -> number
    of the place, from 0 -> value.
    """
    down, wide = -(-len(panels) // 2), min(2, len(panels))
    figure = new_figure(WIDTH, 2.4 * down + 0.9 if len(panels) > 1 else 4.4)
    axes = figure.subplots(down, wide, squeeze=False, sharex=True, sharey=True)
    styles = _styles(dict.fromkeys(name for lines in panels.values() for name in lines), ours)
    handles: dict[str, Any] = {}
    for axis, (title, lines) in zip(axes.ravel(), panels.items(), strict=False):
        for number, (name, values) in enumerate(lines.items()):
            mean, interval = values.mean(axis=1), np.array([bootstrap_interval(row) for row in values])
            x = np.arange(len(places)) + 0.04 * (number - (len(lines) - 1) / 2)
            handles[name] = axis.errorbar(x, mean, np.abs(interval - mean[:, None]).T, **styles[name])
        if known := (published or {}).get(title):
            (handles["published"],) = axis.plot(
                list(known),
                list(known.values()),
                ls="",
                marker="d",
                ms=7,
                color=PUBLISHED,
                mfc="white",
                mew=1.3,
                zorder=5,
            )
        axis.set_title(title, fontsize=10)
        axis.set_xticks(range(len(places)), list(places))
        axis.tick_params(labelsize=9)
        tidy(axis, "y")
    axes[0, 0].set_ylim(bottom=0)
    for axis in axes[-1]:
        axis.set_xlabel(across, fontsize=9.5)
    for axis in axes[:, 0]:
        axis.set_ylabel(up, fontsize=9.5)
    for axis in axes.ravel()[len(panels) :]:
        axis.set_visible(False)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
        title=f"Means over {over}; bars: 95 % bootstrap intervals",
        title_fontsize=9,
    )
    figure.savefig(file, dpi=DPI, format="png")


def _styles(names: Iterable[str], ours: Collection[str]) -> dict[str, dict[str, Any]]:
    """Name -> look of its line: each has a colour and a mark of its own, as far as there are any."""
    colours = [colour for colour in COLOURS if colour != OURS]
    styles: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(name for name in names if name not in ours):
        line = "-" if number < len(colours) else "--"
        styles[name] = {"color": colours[number % len(colours)], "marker": MARKERS[1 + number % 7], "ls": line}
    for number, name in enumerate(ours):
        styles[name] = {"color": OURS, "marker": MARKERS[0], "ls": ("-", "--", ":")[number % 3], "zorder": 4}
    return {name: style | {"ms": 5, "lw": 1.4} for name, style in styles.items()}


def plot_places(
    file: Path,
    places: Sequence[str],
    lines: Mapping[str, Float],
    title: str,
    ours: Collection[str] = (),
    over: str = "seeds",
    sides: tuple[str, str] | None = None,
    published: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """A PNG of `lines` (places, seeds) by name, as rows of a chart with a panel for each place.

    `title`: what is measured, with its unit; `ours`: the names that are drawn in the strong colour; `sides`: what that
    and the other stand for, by default `ours` and others; `published`: place -> name -> value.
    """
    rows = [Row(name, ours=name in ours) for name in lines]
    known = published or {}
    panels = [
        Panel(
            place,
            {name: [mean_point(values[i])] for name, values in lines.items()},
            {name: [(value, value)] for name, value in known.get(place, {}).items()},
        )
        for i, place in enumerate(places)
    ]
    draw_estimates(file, rows, panels, note=f"{over}: {title}", sides=sides or (", ".join(ours), "others"))


def mean_point(values: Float, seed: int = 0) -> Point:
    """The mean of independent values (n,) with its interval; `seed` >= 0: of the resampling."""
    return Point(point_estimate(values), *bootstrap_interval(values, np.random.default_rng(seed)))
