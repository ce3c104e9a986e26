"""Tables of Figure 10, of runs of nginx, of the laws, and of schedulers with and without PISM.

Each takes the title, the rows of the cells and the study, and gives the figure's report.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.experiments import (
    Report,
    Rows,
    column,
    distinct,
    interval_name,
    mean_with_interval,
    mean_with_range,
    paired_difference,
    plot_places,
    select,
)
from tvwrl.interference import (
    ANCHORS,
    CLASSES,
    ERMS_SENSITIVITY,
    LAWS,
    NGINX_BANDWIDTH,
    NGINX_CPU,
    TAOBENCH_BANDWIDTH,
    TAOBENCH_CACHE,
    describe_trace,
)
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism import law_fitting, published
from tvwrl.papers.pism.cells import ANCHOR_MACHINES, ANCHOR_SERVICES, CAMPAIGN, COMPOSED
from tvwrl.papers.pism.prediction_tables import HALVES
from tvwrl.papers.pism.predictors import NGINX_PREDICTORS, classifiers_of
from tvwrl.papers.pism.trials import ALONE, PISM, UTILISATION, problem_of
from tvwrl.types import Float

if TYPE_CHECKING:
    from tvwrl.papers.pism.figures import ClassifierStudy, LawStudy, NginxStudy, SchedulerStudy

CLASSIFIED = (*CLASSES, "overall")
HITS = {"exact": "in the right class", "neighbour": "in the right or a neighbouring class"}
KEPT = {
    ("TaoBench, P99", "bandwidth"): TAOBENCH_BANDWIDTH,
    ("TaoBench, P99", "cache"): TAOBENCH_CACHE,
    ("nginx, mean", "cpu"): NGINX_CPU,
    ("nginx, mean", "bandwidth"): NGINX_BANDWIDTH,
}
CURVES = {"memory": "TaoBench bandwidth + cache", "queue": "nginx cpu + bandwidth", "control": "nginx cpu"}  # by law
CHANGED = {  # field of a scheduler's row -> title, digits, unit
    "slowdown": ("mean slowdown", 3, 1),
    "slowdown_p99": ("P99 slowdown", 2, 1),
    "predicted": ("predicted level", 2, 1),
    "reward": ("reward, thousands", 0, 1000),
    "overshoot_pct": ("overshoot %", 2, 1),
    "wait_mean": ("wait, slots", 2, 1),
}


def fig10(title: str, rows: Rows, study: ClassifierStudy) -> Report:
    """How often the category of a batch task is predicted right when it arrives: by task, by instance; a plot."""
    one, seeds = rows[0], len(study.seeds)
    parts = [
        f"# {title} (real)\n\n{one['known_tasks'] + one['arriving_tasks']:,} tasks of {one['jobs']:,} "
        "jobs of Alibaba's trace; percent of tasks or instances in the predicted class, overall: in all three "
        "dimensions. By time: learnt from jobs submitted in the earlier six sevenths of the span, one split. By "
        f"jobs: a seventh of them drawn, {seeds} seeds [{interval_name(seeds)}]. Thresholds are those of the tasks "
        "learnt from: the paper gives only two of its nine, for other tasks, so its numbers serve for orientation only."
    ]
    for hit, shown in HITS.items():
        for of in ("tasks", "instances"):
            body = [["paper, instances of one day", *published.CLASSIFIER[hit]]] if of == "instances" else []
            for split in ("time", "jobs"):
                for name in classifiers_of(split):
                    own = select(rows, split=split, predictor=name, of=of, hit=hit)
                    body.append([f"{name}, by {split}", *(mean_with_range(column(own, field)) for field in CLASSIFIED)])
            parts.append(f"## % of {of} {shown}\n\n" + markdown_table((f"of {of}", *CLASSIFIED), body))
    lines = {}
    for name in classifiers_of("jobs"):
        own = select(rows, split="jobs", predictor=name, of="instances", hit="exact")
        lines[name] = np.array([column(own, field) for field in CLASSIFIED])
    up = "% of instances in the predicted class (real)"
    plot = partial(plot_places, places=CLASSIFIED, lines=lines, title=up)
    return Report("\n\n".join(parts), rows, {"plot": plot})


def nginx(title: str, rows: Rows, study: NginxStudy) -> Report:
    """Levels of a real web server predicted from the load on its machine (Section 6.3.1), by campaign and by
    composition; a plot."""
    first, *others = NGINX_PREDICTORS
    fields = ("within", "exact", *HALVES, "read_as_low", "read_as_high")
    head = ("predictor (real)", "within 2", "exact", *HALVES.values(), "high read as low", "low as high")
    parts, lines = [], {name: list[Float]() for name in NGINX_PREDICTORS}
    for split, what in ((CAMPAIGN, "campaigns"), (COMPOSED, "compositions of pods")):
        by_name = {name: select(rows, split=split, predictor=name) for name in NGINX_PREDICTORS}
        within = {name: column(own, "within") for name, own in by_name.items()}
        body = [[name, *(_mean_known(column(own, field)) for field in fields)] for name, own in by_name.items()]
        notes = []
        for name in others:
            both = ~np.isnan(within[first] + within[name])  # parts in which there was something to predict
            notes.append(f"{paired_difference(within[first][both], within[name][both])} to {name}")
        runs = column(by_name[first], "runs")
        parts.append(
            f"{runs.sum():.0f} measured runs of {len(runs)} {what}: learnt from all {what} but one and predicted for "
            f"that one.\n\n{markdown_table(head, body)}\n\nWithin 2, {first} minus the others, percentage points, "
            f"paired by {split}: {'; '.join(notes)}."
        )
        for name, values in within.items():
            lines[name].append(values)
    text = (
        "# Levels of nginx under iBench and stress-ng (real)\n\nLevels 1..10 of mean response time by number of "
        "replicas and offered load. Percent, means over the parts that were left out [95 % bootstrap interval over "
        "these]. The paper has no such data; on its own cluster (150 services, batch work by category) it reports "
        "75.2 % within 2 for composition and 58.3 % for utilisation."
    )
    longest = max(len(values) for values in lines[first])
    padded = {
        name: np.array([np.pad(values, (0, longest - len(values)), constant_values=np.nan) for values in both])
        for name, both in lines.items()
    }
    places, up = ["a campaign left out", "a composition left out"], "within 2 levels, % (real)"
    plot = partial(plot_places, places=places, lines=padded, title=up, over="parts")
    return Report("\n\n".join([text, *parts]), rows, {"plot": plot})


def _mean_known(values: Float) -> str:
    """Mean over campaigns with its interval; a dash if fewer than two campaigns have a value."""
    return mean_with_interval(values) if (~np.isnan(values)).sum() > 1 else "-"


def law_curves(title: str, rows: Rows, study: LawStudy) -> Report:
    """Measured slowdowns (real), the curves fitted to them, and the anchors in clusters."""
    data, seeds = study.data_folder(), len(study.seeds)
    curves, points = _curves(data)
    slowed, erms = _erms(data / law_fitting.ERMS_FILE)
    tasks = "synthetic tasks" if study.recorded is None else "tasks replayed from a recorded hour"
    text = (
        "# Laws of the simulation, fitted to measurements (real)\n\nSlowdown - 1 per worker (TaoBench) or pod "
        "(nginx). Three parameters are fitted to the three or four points of a curve, all that exist: a residual "
        "of 0 says nothing, and between points the curve interpolates. Held out: error of the curve fitted to the "
        f"other points, in the slowdown, by point.\n\n{curves}\n\n{erms}\n\n"
        f"## Anchors (simulated)\n\n{ANCHOR_MACHINES} machines, {ANCHOR_SERVICES} services, {tasks}, the default "
        "scheduler. Services get base and sensitivity in one period and are measured in another with other "
        f"arrivals; means over {seeds} seeds [{interval_name(seeds)}].\n\n{_anchors(rows)}"
    )
    return Report(text, [*points, *slowed, *rows])


def _curves(data: Path) -> tuple[str, Rows]:
    """Table of the fitted curves, and their points as rows."""
    sources = {
        "TaoBench, P99": law_fitting.taobench_points(data / law_fitting.TAOBENCH_FILE),
        "nginx, mean": law_fitting.nginx_points(data / law_fitting.NGINX_FILE),
    }
    lines, rows = [], []
    for source, points in sources.items():
        for kind, (pressure, slowdown) in points.items():
            curve, kept = law_fitting.fit_curve(pressure, slowdown), KEPT.get((source, kind))
            off, out = curve.at(pressure) - slowdown, law_fitting.held_out(pressure, slowdown)
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
    slowed = law_fitting.fit_erms(path)
    median, scatter = float(np.median(slowed)), float(np.log(slowed).std(ddof=1))
    drawn = ERMS_SENSITIVITY[0] * np.exp(ERMS_SENSITIVITY[1] * np.random.default_rng(0).normal(size=100_000))
    quantiles = (0.1, 0.25, 0.5, 0.75, 0.9)
    pairs = list(zip(np.quantile(slowed, quantiles), np.quantile(drawn, quantiles), strict=True))
    table = markdown_table(
        ("Erms: slowdown - 1", *(f"P{100 * q:g}" for q in quantiles)),
        [[name, *(f"{pair[i]:.2f}" for pair in pairs)] for i, name in enumerate(("measured", "log-normal"))],
    )
    text = (
        f"Erms: {len(slowed)} microservices are slowed by {median:.2f} (median), standard deviation of the logarithm "
        f"{scatter:.2f}; kept: {ERMS_SENSITIVITY[0]:g} and {ERMS_SENSITIVITY[1]:g}.\n\n{table}"
    )
    return [{"source": "Erms", "kind": "all", "median": median, "log_deviation": scatter}], text


def _anchors(rows: Rows) -> str:
    lines = [["paper", "one cluster", *published.ANCHORS.values(), published.COUPON_CV]]
    for law in LAWS:
        cells = []
        for service in ANCHORS:
            own = select(rows, law=law, service=service)
            cells.append(", ".join(mean_with_range(column(own, name), 1) for name in ("p10", "p90")))
        cv = column(select(rows, law=law, service="coupon"), "cv")
        lines.append([law, CURVES[law], *cells, mean_with_range(cv, 3)])
    return markdown_table(
        ("law (simulated)", "curves", "checkout P10, P90, ms", "coupon P10, P90, ms", "coupon CV"), lines
    )


def schedulers(title: str, rows: Rows, study: SchedulerStudy) -> Report:
    """Each scheduler alone, and the changes that utilisation or PISM make to it."""
    body = []
    for law in study.laws:
        for name in distinct(rows, "scheduler"):

            def by_seed(way: str, field: str, unit: float = 1.0, name: str = name, law: str = law) -> Float:
                """(seeds,) means over the sequences of each seed."""
                own = select(rows, law=law, scheduler=name, way=way)
                return np.array([column(own, field, seed=seed).mean() / unit for seed in study.seeds])

            alone = {field: by_seed(ALONE, field, unit) for field, (_, _, unit) in CHANGED.items()}
            means = [f"{np.mean(alone[field]):.{digits}f}" for field, (_, digits, _) in CHANGED.items()]
            body.append([f"{law}: {name}", "", *means])
            for way in (UTILISATION, PISM):
                line = [f"{law}: {name} + {way}", f"{by_seed(way, 'elsewhere').mean():.0f}"]
                for field, (_, digits, unit) in CHANGED.items():
                    line.append(mean_with_range(by_seed(way, field, unit) - alone[field], digits, "+"))
                if way == PISM:
                    tail = by_seed(PISM, "slowdown_p99") / by_seed(UTILISATION, "slowdown_p99")
                    line.append(mean_with_range(100.0 * (tail - 1.0), 1, "+"))
                body.append(line)
    head = ["law: scheduler (simulated)", "elsewhere, %", *(shown for shown, *_ in CHANGED.values())]
    head.append("P99 slowdown to utilisation's, %")
    body = [line + [""] * (len(head) - len(line)) for line in body]
    trace, seeds = describe_trace(problem_of(study).trace), len(study.seeds)
    text = (
        "# Schedulers with and without PISM (simulated)\n\n"
        f"Trace {trace}, load {study.load:g}, {study.sequences} test sequences of each of {seeds} "
        f"{'seeds' if seeds > 1 else 'seed'}: each scheduler alone, and the change if the machine with the least CPU "
        "in use (utilisation) or the lowest score (PISM) is taken among those it prefers "
        f"[{interval_name(seeds)}, paired by seed]. Response times are simulated under a law that no score sees; "
        "slowdown: over the undisturbed response time. Scores are learnt from "
        f"{study.episodes} training sequences. Elsewhere: workloads on another machine than alone.\n\n"
        + markdown_table(head, body)
    )
    return Report(text, rows)
