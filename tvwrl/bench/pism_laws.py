"""What the laws of the simulation were fitted to: measured slowdowns (real) beside the fitted curves, and anchors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.bench.figures import write_figure
from tvwrl.bench.pism_worlds import WARM_UP
from tvwrl.command_line import Numbers
from tvwrl.experiments.statistics import interval_name
from tvwrl.experiments.statistics import mean_with_range as told
from tvwrl.interference.batch_tasks import ARRIVALS_FILE, USAGE_FILE
from tvwrl.interference.law_fitting import fit_curve, fit_erms, held_out, nginx_points, taobench_points
from tvwrl.interference.testbed import laws
from tvwrl.interference.testbed.arrivals import RECORDED_AT, Arrivals, read_hour, replay_hour
from tvwrl.interference.testbed.clock_kernels import DEFAULT
from tvwrl.interference.testbed.deployment import draw_deployment
from tvwrl.interference.testbed.responses import draw_response_model
from tvwrl.interference.testbed.simulation import PlacementRule, simulate
from tvwrl.interference.testbed.snapshots import take_snapshots
from tvwrl.markdown import markdown_table
from tvwrl.types import InputError

NAMES = {"laws": "no figure, but the laws of the simulation: fitted to measured response times, at published anchors"}
FILES = ("taobench_colocation.csv", "ntua_nginx_ibench.csv.gz", "erms_inflection.csv.gz")
KEPT = {
    ("TaoBench, P99", "bandwidth"): laws.TAOBENCH_BANDWIDTH,
    ("TaoBench, P99", "cache"): laws.TAOBENCH_CACHE,
    ("nginx, mean", "cpu"): laws.NGINX_CPU,
    ("nginx, mean", "bandwidth"): laws.NGINX_BANDWIDTH,
}
USED = {
    "memory": "TaoBench bandwidth + cache",
    "queue": "nginx cpu + bandwidth",
    "control": "nginx cpu",
}  # by law
MACHINES, SERVICES, MINUTES = 40, 60, 50  # of the clusters that anchors are looked for in
PUBLISHED = {"checkout": "146, 318", "coupon": "7, 9"}  # ms, P10 and P90
CV = "< 0.2"  # of coupon (Section 4)
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class LawSettings:
    """Measured slowdowns under interference, real; and where the laws come out in simulated clusters."""

    data: Path | None = None
    """Folder with taobench_colocation.csv, ntua_nginx_ibench.csv.gz and erms_inflection.csv.gz; with the files of
    batch tasks too, clusters replay these, else made-up tasks."""
    seeds: Numbers = tuple(range(10))
    """Of the clusters in which services are asked for their anchors."""

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown, which is written to a folder `laws` of `out` too. Raises InputError for missing files."""
        if self.data is None:
            raise InputError(f"data is not given: must be the folder with {', '.join(FILES)}")
        if not self.seeds or min(self.seeds) < 0:
            raise InputError(f"seeds is {', '.join(map(str, self.seeds))}: must be numbers >= 0")
        curves, points = _curves(self.data)
        slowed, erms = _erms(self.data / FILES[2])
        real = all((self.data / file).exists() for file in (USAGE_FILE, ARRIVALS_FILE))
        hour = read_hour(self.data if real else None, False, np.random.default_rng(0))
        rows = [row for seed in self.seeds for row in anchors(hour, seed)]
        tasks = "tasks replay_hour from a recorded hour" if real else "made-up tasks"
        text = (
            f"# Laws of the simulation, fitted to measurements (real)\n\nSlowdown - 1 per worker (TaoBench) or pod "
            "(nginx). Three figures are fitted to the three or four points of a curve, all there are: a residual of 0 "
            "tells nothing, and between points a curve is interpolated. Held out: error of the curve that was fitted "
            f"to the other points, in the slowdown, by point.\n\n{curves}\n\n{erms}\n\n"
            f"## Anchors (simulated)\n\n{MACHINES} machines, {SERVICES} services, {tasks}, the default scheduler. "
            "Services get base and sensitivity in one period and are asked in another with other arrivals; means over "
            f"{len(self.seeds)} seeds [{interval_name(len(self.seeds))}].\n\n{_anchor_table(rows)}\n"
        )
        found = [*points, *slowed, *rows]
        columns = dict.fromkeys(column for row in found for column in row)
        write_figure(out / name, text, [dict.fromkeys(columns, "") | row for row in found], {}, asdict(self))
        return text


def anchors(hour: Arrivals, seed: int) -> Rows:
    """Of each law P10, P90 and coefficient of variation of checkout and coupon in a period that nothing was set by."""
    rng = np.random.default_rng(seed)
    first, second = (replay_hour(hour, MACHINES, MINUTES, rng) for _ in range(2))
    deployment = draw_deployment(MACHINES, SERVICES, first, 60 * MINUTES, rng)
    every = np.arange(60.0 * WARM_UP, 60.0 * MINUTES, 60.0)
    before, after = (
        take_snapshots(simulate(deployment, one, PlacementRule(DEFAULT), rng, RECORDED_AT), every)
        for one in (first, second)
    )
    rows: Rows = []
    for name, law in laws.LAWS.items():
        chance = np.random.default_rng([seed, 1])
        response_model = draw_response_model(law, deployment, before, chance)
        times = response_model.response_ms(deployment, after, chance)
        for service in laws.ANCHORS:
            own = times[:, deployment.service == deployment.services.index(service)]
            low, high = np.quantile(own, laws.QUANTILES)
            spread = float(own.std() / own.mean())
            rows.append({"law": name, "seed": seed, "service": service, "p10": low, "p90": high, "cv": spread})
    return rows


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
            told = ", ".join(f"{x:.4g}" for x in kept) if kept else "none"
            errors = [
                ", ".join(f"{x:{sign}.3f}" for x in part) for part, sign in ((slowdown, ""), (off, "+"), (out, "+"))
            ]
            lines.append([source, kind, *(f"{x:.3f}" for x in curve), told, *errors])
    head = ["service", "pressure", "knee", "slope below", "slope above", "kept in the laws"]
    return markdown_table([*head, "measured slowdown - 1", "residual", "held out"], lines), rows


def _erms(path: Path) -> tuple[Rows, str]:
    """How far the log-normal that sensitivities are drawn from is off Erms' microservices."""
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
    paper = ["paper", "one cluster", *PUBLISHED.values(), CV]
    lines = [paper]
    for law in laws.LAWS:
        cells = []
        for service in laws.ANCHORS:
            own = [row for row in rows if (row["law"], row["service"]) == (law, service)]
            cells.append(", ".join(told(np.array([row[name] for row in own]), 1) for name in ("p10", "p90")))
        coupon = np.array([row["cv"] for row in rows if (row["law"], row["service"]) == (law, "coupon")])
        lines.append([law, USED[law], *cells, told(coupon, 3)])
    return markdown_table(
        ("law (simulated)", "curves", "checkout P10, P90, ms", "coupon P10, P90, ms", "coupon CV"), lines
    )
