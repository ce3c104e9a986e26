"""Plots of the provisioning paper: deviation against seconds (Figure 3), or both next to published values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from tvwrl.experiments.engine import Rows
from tvwrl.experiments.rows import column, distinct
from tvwrl.experiments.statistics import bootstrap_interval
from tvwrl.papers.provisioning.cells import KNOWN
from tvwrl.papers.provisioning.published import FIGURES, STUDIES
from tvwrl.papers.provisioning.reference import Reference
from tvwrl.papers.provisioning.tables import DEVIATION, SECONDS, mean_over, means_of
from tvwrl.plotting import NOTHING, Panel, Point, Row, draw_estimates
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
    figure, panels = FIGURES[name], []
    study = STUDIES[figure.study]
    values = sorted(distinct(drawn, "value"))
    for graph in distinct(drawn, "graph"):
        theirs = [reference.results.get((figure.study, graph, value), {}) for value in values]
        known = [algorithm for algorithm in figure.algorithms if all(algorithm in one for one in theirs)]
        for of, (title, field) in enumerate(((DEVIATION, "deviation_pct"), (SECONDS, "seconds"))):
            points = {
                algorithm: [
                    _point(column(drawn, field, graph=graph, value=value, algorithm=algorithm)) for value in values
                ]
                for algorithm in figure.algorithms
            }
            published = {a: [(one[a][of], one[a][of]) for one in theirs] for a in known}
            panels.append(Panel(f"{title}: {graph}", points, published, logarithmic=field == "seconds"))
    rows = [Row(algorithm) for algorithm in figure.algorithms]
    series = [study.describe(value) for value in values]
    draw_estimates(file, rows, panels, series, "instances", across=2)


def _point(values: Float) -> Point:
    return Point(float(np.mean(values)), *bootstrap_interval(values)) if len(values) else NOTHING
