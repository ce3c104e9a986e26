"""The laws of the simulated testbed: measured slowdowns (real), fitted curves and published anchors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvwrl.command_line import Numbers
from tvwrl.experiments.engine import Rows, read_rows
from tvwrl.experiments.reproduce import Report, check_seeds
from tvwrl.experiments.statistics import interval_name, mean_with_range
from tvwrl.interference.batch_tasks import ARRIVALS_FILE, USAGE_FILE
from tvwrl.interference.testbed import laws
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism import published
from tvwrl.papers.pism.cells import ANCHOR_MACHINES, ANCHOR_SERVICES, AnchorCell
from tvwrl.papers.pism.law_fitting import fit_curve, fit_erms, held_out, nginx_points, taobench_points
from tvwrl.papers.pism.options import folder_with
from tvwrl.papers.pism.rows import column, select

FIGURES = {"laws": "additional: the laws of the simulation fitted to measured response times, at published anchors"}
FILES = ("taobench_colocation.csv", "ntua_nginx_ibench.csv.gz", "erms_inflection.csv.gz")
KEPT = {
    ("TaoBench, P99", "bandwidth"): laws.TAOBENCH_BANDWIDTH,
    ("TaoBench, P99", "cache"): laws.TAOBENCH_CACHE,
    ("nginx, mean", "cpu"): laws.NGINX_CPU,
    ("nginx, mean", "bandwidth"): laws.NGINX_BANDWIDTH,
}
CURVES = {"memory": "TaoBench bandwidth + cache", "queue": "nginx cpu + bandwidth", "control": "nginx cpu"}  # by law


@dataclass(frozen=True)
class LawStudy:
    """Measured slowdowns under interference, real; and the anchored services in simulated clusters."""

    data: Path | None = None
    """Folder with taobench_colocation.csv, ntua_nginx_ibench.csv.gz and erms_inflection.csv.gz; if it also has the
    files of batch tasks, clusters replay them, otherwise synthetic tasks."""
    seeds: Numbers = tuple(range(10))
    """Seeds of the clusters in which anchors are measured."""

    partial = False

    def cells(self, figure: str) -> list[AnchorCell]:
        """A cluster per seed."""
        check_seeds(self.seeds)
        data = folder_with(self.data, *FILES)
        recorded = data if all((data / file).exists() for file in (USAGE_FILE, ARRIVALS_FILE)) else None
        return [AnchorCell(seed, recorded) for seed in self.seeds]

    def report(self, figure: str, out: Path, cells: Sequence[AnchorCell]) -> Report:
        """Curves fitted to the measurements, and the anchors in clusters."""
        data, rows = folder_with(self.data, *FILES), read_rows(out, cells)
        curves, points = _curves(data)
        slowed, erms = _erms(data / FILES[2])
        tasks = "tasks replayed from a recorded hour" if cells[0].data else "synthetic tasks"
        text = (
            "# Laws of the simulation, fitted to measurements (real)\n\nSlowdown - 1 per worker (TaoBench) or pod "
            "(nginx). Three parameters are fitted to the three or four points of a curve, all that exist: a residual "
            "of 0 says nothing, and between points the curve interpolates. Held out: error of the curve fitted to the "
            f"other points, in the slowdown, by point.\n\n{curves}\n\n{erms}\n\n"
            f"## Anchors (simulated)\n\n{ANCHOR_MACHINES} machines, {ANCHOR_SERVICES} services, {tasks}, the default "
            "scheduler. Services get base and sensitivity in one period and are measured in another with other "
            f"arrivals; means over {len(cells)} seeds [{interval_name(len(cells))}].\n\n{_anchor_table(rows)}"
        )
        return Report(text, [*points, *slowed, *rows])


def _curves(data: Path) -> tuple[str, Rows]:
    """Table of the fitted curves, and their points as rows."""
    sources = {"TaoBench, P99": taobench_points(data / FILES[0]), "nginx, mean": nginx_points(data / FILES[1])}
    lines, rows = [], []
    for source, points in sources.items():
        for kind, (pressure, slowdown) in points.items():
            curve, kept = fit_curve(pressure, slowdown), KEPT.get((source, kind))
            off, out = curve.at(pressure) - slowdown, held_out(pressure, slowdown)
            about = {"source": source, "kind": kind}
            for values in zip(pressure, slowdown, off, out, strict=True):
                rows.append(about | dict(zip(("pressure", "slowdown", "residual", "held_out"), values, strict=True)))
            shown = ", ".join(f"{x:.4g}" for x in kept) if kept else "none"
            errors = [
                ", ".join(f"{x:{sign}.3f}" for x in part) for part, sign in ((slowdown, ""), (off, "+"), (out, "+"))
            ]
            lines.append([source, kind, *(f"{x:.3f}" for x in curve), shown, *errors])
    head = ["service", "pressure", "knee", "slope below", "slope above", "kept in the laws"]
    return markdown_table([*head, "measured slowdown - 1", "residual", "held out"], lines), rows


def _erms(path: Path) -> tuple[Rows, str]:
    """Erms' microservices beside the log-normal distribution that sensitivities are drawn from."""
    slowed = fit_erms(path)
    median, scatter = float(np.median(slowed)), float(np.log(slowed).std(ddof=1))
    drawn = laws.ERMS_SENSITIVITY[0] * np.exp(laws.ERMS_SENSITIVITY[1] * np.random.default_rng(0).normal(size=100_000))
    quantiles = (0.1, 0.25, 0.5, 0.75, 0.9)
    pairs = list(zip(np.quantile(slowed, quantiles), np.quantile(drawn, quantiles), strict=True))
    table = markdown_table(
        ("Erms: slowdown - 1", *(f"P{100 * q:g}" for q in quantiles)),
        [[name, *(f"{pair[i]:.2f}" for pair in pairs)] for i, name in enumerate(("measured", "log-normal"))],
    )
    text = (
        f"Erms: {len(slowed)} microservices are slowed by {median:.2f} (median), standard deviation of the logarithm "
        f"{scatter:.2f}; kept: {laws.ERMS_SENSITIVITY[0]:g} and {laws.ERMS_SENSITIVITY[1]:g}.\n\n{table}"
    )
    return [{"source": "Erms", "kind": "all", "median": median, "log_deviation": scatter}], text


def _anchor_table(rows: Rows) -> str:
    lines = [["paper", "one cluster", *published.ANCHORS.values(), published.COUPON_CV]]
    for law in laws.LAWS:
        cells = []
        for service in laws.ANCHORS:
            own = select(rows, law=law, service=service)
            cells.append(", ".join(mean_with_range(column(own, name), 1) for name in ("p10", "p90")))
        cv = column(select(rows, law=law, service="coupon"), "cv")
        lines.append([law, CURVES[law], *cells, mean_with_range(cv, 3)])
    return markdown_table(
        ("law (simulated)", "curves", "checkout P10, P90, ms", "coupon P10, P90, ms", "coupon CV"), lines
    )
