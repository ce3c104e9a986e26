"""Plots of the provisioning paper: a row for each algorithm, its deviation and seconds next to published values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tvwrl.experiments import Rows, bootstrap_interval, column, distinct
from tvwrl.papers.provisioning.cells import KNOWN
from tvwrl.papers.provisioning.published import FIGURES, SPREADING, STUDIES, Measurements, Reference
from tvwrl.papers.provisioning.tables import Where, mean_over, means_of
from tvwrl.planning import ABOVE, BETTER, SECONDS, SHORTEST, rows_of, title_of_planner
from tvwrl.plotting import NOTHING, Panel, Point, draw_estimates

Group = tuple[Where, ...]  # graphs and values that a point is the mean over
SIDES = "spreading, the paper's best", "others"


def plots_of(name: str, rows: Rows, reference: Reference) -> dict[str, Callable[[Path], None]]:
    """`plot` and what draws it, if the rows suffice: Figure 3 is over all groups of instances, as is its table."""
    drawn = [row for row in rows if row["study"] != KNOWN]
    if name == "fig3":
        return {"plot": partial(_plot_all, drawn or rows, reference)} if rows else {}
    return {"plot": partial(_plot, name, drawn, reference)} if drawn else {}


def _plot_all(rows: Rows, reference: Reference, file: Path) -> None:
    """Deviation and seconds, means over all groups that rows are of."""
    panels = _panels(rows, reference, "", [tuple(means_of(rows))])
    _draw(rows, panels, [""], f"means over {len({row['instance'] for row in rows})} instances", file)


def _plot(name: str, rows: Rows, reference: Reference, file: Path) -> None:
    """A column of panels for each graph, and a point for each value; if there is one value, a point for each graph."""
    study = STUDIES[FIGURES[name].study]
    graphs, values = distinct(rows, "graph"), sorted(distinct(rows, "value"))
    varied = [("density " if study.varied == "density" else "") + study.describe(value) for value in values]
    if len(values) == 1:
        panels = _panels(rows, reference, "", [((graph, values[0]),) for graph in graphs])
        _draw(rows, panels, [f"{graph} graph" for graph in graphs], f"{varied[0]}; {_counted(rows)}", file)
        return
    pairs = [
        _panels(rows, reference, f" ({graph} graphs)", [((graph, value),) for value in values]) for graph in graphs
    ]
    panels = [panel for kind in zip(*pairs, strict=True) for panel in kind]
    _draw(rows, panels, varied, _counted(rows), file, len(graphs))


def _draw(
    rows: Rows, panels: Sequence[Panel], series: Sequence[str], caption: str, file: Path, across: int = 2
) -> None:
    found = means_of(rows).values()
    names = {name: [one[name].deviation for one in found if name in one] for name in distinct(rows, "algorithm")}
    shown = rows_of({name: float(np.mean(values)) for name, values in names.items()}, SPREADING)
    draw_estimates(
        file,
        shown,
        panels,
        series,
        across=across,
        sides=SIDES,
        caption=f"{caption[0].upper()}{caption[1:]}; {BETTER}",
    )


def _panels(rows: Rows, reference: Reference, of: str, groups: Sequence[Group]) -> list[Panel]:
    """Deviation and seconds by algorithm, a point for each of the groups, with what was published."""
    study = rows[0]["study"]
    theirs = [mean_over([reference.results.get((study, *where), {}) for where in group]) for group in groups]
    names = distinct(rows, "algorithm")
    panels = []
    for place, (title, field) in enumerate(((ABOVE, "deviation_pct"), (SECONDS, "seconds"))):
        points = {title_of_planner(name): [_point(rows, name, field, group) for group in groups] for name in names}
        panels.append(
            Panel(f"{title}{of}", points, _published(names, theirs, place), logarithmic=field == "seconds", axis=field)
        )
    return panels


def _published(
    names: Iterable[str], theirs: Sequence[Measurements], place: int
) -> Mapping[str, Sequence[tuple[float, float]]]:
    known = [name for name in names if all(name in one for one in theirs)]
    return {title_of_planner(name): [(one[name][place], one[name][place]) for one in theirs] for name in known}


def _point(rows: Rows, name: str, field: str, group: Group) -> Point:
    """Mean over groups; its interval is over the numbers of instances, of which each has one in every group."""
    values = [column(rows, field, algorithm=name, graph=graph, value=value) for graph, value in group]
    together = min(map(len, values))
    if together == 0:
        return NOTHING
    values = [np.maximum(one, SHORTEST) for one in values] if field == "seconds" else values
    mean = float(np.mean([one.mean() for one in values]))
    return Point(mean, *bootstrap_interval(np.mean([one[:together] for one in values], axis=0)))


def _counted(rows: Rows) -> str:
    """What a point is the mean over."""
    names = Counter((row["graph"], row["value"], row["algorithm"]) for row in rows).values()
    least, most = min(names), max(names)
    if most == 1:
        return "one instance each"
    return f"means over {most if least == most else f'{least} to {most}'} instances each"
