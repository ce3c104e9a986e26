"""Charts: the bars of an evaluation (the six of the paper's Figures 4 and 5), and bars and lines of any estimates."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tvwrl.experiments.statistics import bootstrap_interval
from tvwrl.experiments.tables import by_load, resources_of
from tvwrl.plotting import COLOURS, DPI, new_figure, tidy
from tvwrl.schedulers import GROUPS, Knowledge
from tvwrl.types import Float, InputError

if TYPE_CHECKING:
    import polars as pl

HATCHES = ("", "///", "...", "xxx")  # tell bars apart where there are more of them than colours
NOT_IN_NAMES = r"[^\w.+ -]"  # what a file name must not contain; a resource may be called mem/GB


class Bar(NamedTuple):
    """A mean and its 95 % interval; the ends are NaN if there is no interval."""

    height: float
    low: float
    high: float


NOTHING = Bar(float("nan"), float("nan"), float("nan"))
Bars = Mapping[str, Mapping[str, Bar]]  # group at the axis -> name in the legend -> bar


def plot_comparison(
    rows: pl.DataFrame, folder: str | Path, seed: int = 0, knowledge: Mapping[str, Knowledge] | None = None
) -> list[Path]:
    """Writes `<metric>.png` for utilisation and fragmentation per resource, overshoot % and machines used, and all of
    them in `comparison.png`, to `folder` (made if absent); returns the files, `comparison.png` last.

    Bars are means over sequences, one per scheduler, by load; whiskers are 95 % bootstrap intervals, absent with one
    sequence. Schedulers come in order of appearance in `rows`, or, with `knowledge`, by what they know, which the
    legend says. `rows`: see `tvwrl.metrics.score_episode`. `seed` >= 0: of the resampling. Raises InputError if there
    are no rows or a column is missing.
    """
    if rows.is_empty():
        raise InputError("no rows: nothing to plot")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    groups = {name: known.group for name, known in (knowledge or {}).items()}
    panels: dict[str, Bars] = {}
    files = {}
    for column, title in _panels(resources_of(rows)).items():
        panels[title] = {
            f"load {load:g}": {name: _bar(group[name][column], seed) for name in _by_group(group, groups)}
            for load, group in by_load(rows).items()
        }
        files[folder / f"{re.sub(NOT_IN_NAMES, '-', column)}.png"] = {title: panels[title]}
    files[folder / "comparison.png"] = panels
    for file, shown in files.items():
        plot_bars(shown, file, groups=groups)
    return list(files)


def _by_group(names: Iterable[str], groups: Mapping[str, str]) -> list[str]:
    """The names in the order of `GROUPS`, those without a group last."""
    return sorted(names, key=lambda name: GROUPS.index(groups[name]) if name in groups else len(GROUPS))


def _bar(values: Float, seed: int) -> Bar:
    return Bar(float(values.mean()), *bootstrap_interval(values, np.random.default_rng(seed)))


def _panels(resources: list[str]) -> dict[str, str]:
    """column -> title, in the paper's order."""
    return {
        **{f"utilisation_{r}": f"Utilisation, {r} (higher is better)" for r in resources},
        **{f"fragmentation_{r}": f"Fragmentation, {r} (lower is better)" for r in resources},
        "overshoot_pct": "Overshoot, % of capacity (lower is better)",
        "machines_used": "Machines used (lower is better)",
    }


def plot_bars(
    panels: Mapping[str, Bars],
    file: Path,
    published: Mapping[str, Mapping[str, float | Sequence[float]]] | None = None,
    over: str = "arrival sequences",
    logarithmic: Collection[str] = (),
    groups: Mapping[str, str] | None = None,
) -> None:
    """One PNG with one panel per title, in columns of two, under one legend.

    `published`: title -> name of a bar -> the published value, or one per group, drawn as diamonds; `over`: what the
    means are over; `logarithmic`: titles of panels with such an axis; `groups`: name of a bar -> heading of its column
    in the legend.
    """
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure = new_figure(6.4 * across, 3.2 * down + 1.0, w_pad=0.1, h_pad=0.1)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    names = list(dict.fromkeys(name for bars in panels.values() for group in bars.values() for name in group))
    for axis, (title, bars) in zip(axes, panels.items(), strict=False):
        _bars(axis, bars, names, (published or {}).get(title, {}), title in logarithmic)
        axis.set_title(title, fontsize=11)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    columns = -(-len(labels) // -(-len(labels) // 4))
    if groups and set(labels) <= set(groups) and across == 1:
        labels, columns = [f"{name}: {groups[name]}" for name in labels], 2
    elif groups and set(labels) <= set(groups):
        handles, labels, columns = _columns(handles, labels, groups)
    legend = figure.legend(
        handles,
        labels,
        loc="outside lower center",
        fontsize=8 if groups else None,
        ncols=columns,
        frameon=False,
        title=f"Means over {over}; whiskers: 95 % bootstrap intervals" + "; diamonds: published" * bool(published),
        title_fontsize=9,
    )
    legend.get_title().set_color("#444444")
    figure.savefig(file, dpi=DPI, format="png")


def _columns(handles: list[Any], labels: list[str], groups: Mapping[str, str]) -> tuple[list[Any], list[str], int]:
    """Handles and labels of a legend with a column for each group under its name, and how many columns these are."""
    from matplotlib.patches import Patch

    empty = Patch(alpha=0.0)
    found = {group: [i for i, label in enumerate(labels) if groups[label] == group] for group in GROUPS}
    found = {group: own for group, own in found.items() if own}
    rows = 1 + max(map(len, found.values()))
    every, names = [], []
    for group, own in found.items():
        padding = rows - 1 - len(own)
        every += [empty, *(handles[i] for i in own), *[empty] * padding]
        names += [f"{group}:", *(labels[i] for i in own), *[""] * padding]
    return every, names, len(found)


def _bars(
    axis: Any, bars: Bars, names: list[str], published: Mapping[str, float | Sequence[float]], logarithmic: bool
) -> None:
    """Bars of one panel: a whisker per bar, a diamond where a value was published."""
    width = min(0.84 / len(names), 0.25)
    for place, name in enumerate(names):
        centre = np.arange(len(bars)) + (place - (len(names) - 1) / 2) * width
        drawn = np.array([group.get(name, NOTHING) for group in bars.values()])  # (groups, 3)
        height = drawn[:, 0]
        whisker = np.abs(drawn[:, 1:] - height[:, None]).T
        axis.bar(
            centre,
            height,
            0.92 * width,
            label=name,
            color=COLOURS[place % len(COLOURS)],
            hatch=HATCHES[place // len(COLOURS) % len(HATCHES)],
            edgecolor="white",
            linewidth=0,
            yerr=whisker,
            error_kw={"elinewidth": 1.1, "capsize": min(3.0, 16 * width), "ecolor": "#222222"},
        )
        for x in centre[height == 0]:  # without the digit, a bar of height 0 looks like a missing one
            axis.annotate("0", (x, 0), (0, 3), textcoords="offset points", ha="center", fontsize=7.5, color="#444444")
        if name in published:
            axis.plot(
                centre,
                np.broadcast_to(np.asarray(published[name], np.float64), centre.shape),
                "D",
                color="#222222",
                mfc="white",
                ms=5,
                zorder=4,
                clip_on=False,
            )
    axis.set_xlim(-0.6, len(bars) - 0.4)
    axis.set_xticks(np.arange(len(bars)), list(bars))
    axis.set_yscale("log") if logarithmic else axis.set_ylim(bottom=0)
    axis.tick_params(axis="x", length=0)
    tidy(axis, "y")


def plot_lines(
    file: Path, places: Sequence[str], lines: Mapping[str, Float], across: str, up: str, joined: bool = True
) -> None:
    """A PNG of `lines` (places, seeds) by name: their means with whiskers; `joined`: with lines between the places."""
    figure = new_figure(8, 4.4)
    axis = figure.subplots()
    for number, (name, values) in enumerate(lines.items()):
        mean = values.mean(axis=1)
        interval = np.array([bootstrap_interval(row) for row in values])
        x = np.arange(len(places)) + 0.08 * (number - (len(lines) - 1) / 2)
        axis.errorbar(
            x,
            mean,
            np.abs(interval - mean[:, None]).T,
            fmt="-o" if joined else "o",
            color=COLOURS[number % len(COLOURS)],
            ms=5,
            capsize=3,
            label=name,
        )
    axis.set_xticks(range(len(places)), list(places))
    axis.set_xlabel(across)
    axis.set_ylabel(up)
    axis.set_ylim(bottom=0)
    tidy(axis, "y")
    figure.legend(
        loc="outside lower center",
        ncols=3,
        frameon=False,
        title="Means over seeds; whiskers: 95 % bootstrap intervals",
        title_fontsize=9,
    )
    figure.savefig(file, dpi=DPI, format="png")
