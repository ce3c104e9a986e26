"""Plots of the provisioning paper: deviation against seconds (Figure 3), or bars of both next to published values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from tvwrl.experiments.engine import Rows
from tvwrl.experiments.plots import NOTHING, Bar, plot_bars
from tvwrl.experiments.rows import column, distinct, select
from tvwrl.experiments.statistics import bootstrap_interval
from tvwrl.papers.provisioning.cells import KNOWN
from tvwrl.papers.provisioning.published import FIGURES, STUDIES
from tvwrl.papers.provisioning.reference import Reference
from tvwrl.papers.provisioning.tables import DEVIATION, SECONDS, mean_over, means_of
from tvwrl.provisioning.results import plot_trade_off
from tvwrl.types import Float


def plots_of(name: str, rows: Rows, reference: Reference) -> dict[str, Callable[[Path], None]]:
    """`plot` and what draws it, if the rows suffice."""
    drawn = [row for row in rows if row["study"] != KNOWN]
    if name == "fig3":
        points = _trade_off(drawn or rows)
        return {"plot": partial(plot_trade_off, points)} if points else {}
    return {"plot": partial(_plot, name, drawn, reference)} if drawn else {}


def _trade_off(rows: Rows) -> Rows:
    """A point per algorithm that has run on all groups of instances: means over these."""
    bound = round(np.mean([row["lower_bound"] for row in rows])) if rows else 0
    over = {"instance": f"mean of {len({row['instance'] for row in rows})} instances", "lower_bound": bound}
    means = mean_over(list(means_of(rows).values()))
    return [over | {"algorithm": n, "seconds": m.seconds, "deviation_pct": m.deviation} for n, m in means.items()]


def _plot(name: str, drawn: Rows, reference: Reference, file: Path) -> None:
    figure, panels, published = FIGURES[name], {}, {}
    for graph in distinct(drawn, "graph"):
        values = sorted(distinct(select(drawn, graph=graph), "value"))
        theirs = [reference.results.get((figure.study, graph, value), {}) for value in values]
        for of, (title, field) in enumerate(((DEVIATION, "deviation_pct"), (SECONDS, "seconds"))):
            panels[f"{title}: {graph}"] = {
                STUDIES[figure.study].describe(value): {
                    algorithm: _bar(column(drawn, field, graph=graph, value=value, algorithm=algorithm))
                    for algorithm in figure.algorithms
                }
                for value in values
            }
            published[f"{title}: {graph}"] = {
                algorithm: [one[algorithm][of] for one in theirs]
                for algorithm in mean_over(theirs)
                if algorithm in figure.algorithms
            }
    logarithmic = [panel for panel in panels if panel.startswith(SECONDS)]
    plot_bars(panels, file, published if any(published.values()) else None, "instances", logarithmic)


def _bar(values: Float) -> Bar:
    return Bar(float(np.mean(values)), *bootstrap_interval(values)) if len(values) else NOTHING
