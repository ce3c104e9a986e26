"""Files of a paper's figure: rows, table, provenance, and plots of means over seeds with their 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.bench.intervals import bootstrap_interval
from tvwrl.bench.plots import COLOURS, DPI
from tvwrl.runs import provenance, whole_file, write_csv, write_json
from tvwrl.types import Float


def write_figure(
    folder: Path,
    text: str,
    rows: list[dict[str, Any]],
    plots: Mapping[str, Callable[[Path], None]],
    facts: Mapping[str, Any],
) -> None:
    """rows.csv, table.md, a PNG per plot, and run.json with where it came from and the `facts` (paths as text)."""
    write_csv(folder / "rows.csv", rows)
    with whole_file(folder / "table.md") as partial:
        partial.write_text(text, encoding="utf-8")
    for name, plot in plots.items():
        with whole_file(folder / f"{name}.png") as partial:
            plot(partial)
    told = {name: str(value) if isinstance(value, Path) else value for name, value in facts.items()}
    write_json(folder / "run.json", provenance() | told)


def plot_lines(
    file: Path, places: Sequence[str], lines: Mapping[str, Float], across: str, up: str, joined: bool = True
) -> None:
    """A PNG of `lines` (places, seeds) by name: their means with whiskers; `joined`: with lines between the places."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for number, (name, values) in enumerate(lines.items()):
        mean = values.mean(axis=1)
        interval = np.array([bootstrap_interval(row, np.random.default_rng(0)) for row in values])
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
    axis.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(
        loc="outside lower center",
        ncols=3,
        frameon=False,
        title="Means over seeds; whiskers: 95 % bootstrap intervals",
        title_fontsize=9,
    )
    figure.savefig(file, dpi=DPI, format="png")
