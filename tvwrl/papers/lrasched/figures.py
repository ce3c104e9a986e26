"""The figures and tables of the paper: their options, the cells they need, and their commands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from tvwrl.checks import at_least, different, within
from tvwrl.experiments import (
    Report,
    Rows,
    check_seeds,
    column,
    distinct,
    mean_with_interval,
    paired_difference,
    plot_lines,
    plot_places,
    read_cell_rows,
    select,
)
from tvwrl.lrasched import SERVICES
from tvwrl.markdown import markdown_table
from tvwrl.papers import LRASCHED
from tvwrl.papers.lrasched import learning, published, testbed
from tvwrl.papers.lrasched.cells import Measurement
from tvwrl.papers.lrasched.placement import HEURISTICS, MILP, measure_placement, measure_planning_time
from tvwrl.planning import Drawn
from tvwrl.plotting import COLOURS, DPI, OTHERS, OURS, WIDTH, new_figure, scale_logarithmically, tidy
from tvwrl.types import Float, InputError

SCALES = ((500, 100), (1_000, 300), (2_000, 500))  # applications, machines of Figures 8 to 10
SMALL = (50, 10)  # of the gap: the programme can solve these
DIMENSIONS = (3, 4, 5, 6)
WITHOUT_SEARCH = ("LRASched", "FFD-AntiAffinity")  # heuristics of Figures 6, 7, 11 and 12
MACHINES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)  # of Figures 11 and 12
LARGEST_FOR_MILP = 1_000  # machines of Figures 11 and 12


@dataclass(frozen=True)
class PaperStudy(ABC):
    """What the studies below share: how a figure is made of the rows of its cells."""

    preset: Literal["smoke", "medium", "paper"] = "medium"
    """smoke: a trial of less than two minutes, with fewer seeds and sizes; medium: as on the pages of results; paper:
    five seeds and more, and the paper's largest sizes. What you set yourself holds."""

    partial: ClassVar[bool] = False
    smoke: ClassVar[dict[str, Any]] = {}
    paper: ClassVar[dict[str, Any]] = {}

    def cells(self, figure: str) -> list[Measurement]:
        """The cells of a figure. Raises InputError for options out of range."""
        study = self
        usual, preset = type(self)(), {"smoke": self.smoke, "paper": self.paper}.get(self.preset, {})
        study = replace(
            self, **{name: one for name, one in preset.items() if getattr(self, name) == getattr(usual, name)}
        )
        check(vars(study))
        return study._cells(figure)

    @abstractmethod
    def _cells(self, figure: str) -> list[Measurement]:
        """The cells with these very options."""

    def report(self, figure: str, out: Path, cells: Sequence[Measurement]) -> Report:
        """The figure, made of finished cells."""
        made = TABLES[figure](read_cell_rows(out, cells))
        return replace(made, text=f"# {LRASCHED.titles[figure]}\n\n{made.text}")


@dataclass(frozen=True)
class LearningStudy(PaperStudy):
    """How well performance is predicted, on a simulated testbed and on real measurements."""

    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds of applications and models; means and intervals are over them."""
    data: Path | None = None
    """For table2: folder with erms_inflection.csv.gz and ntua_nginx_ibench.csv.gz; default: simulated data only."""
    earlier: int = 100
    """For table2: number of earlier applications on the simulated testbed, at least 2."""
    arriving: int = 40
    """Number of simulated applications that arrive; doubled in fig5."""

    smoke: ClassVar[dict[str, Any]] = {"seeds": (0, 1), "earlier": 30, "arriving": 15}

    def _cells(self, figure: str) -> list[Measurement]:
        if figure == "fig2":
            return [Measurement.of(f"degrees/seed{seed}", learning.performance_by_degree, seed) for seed in self.seeds]
        asked = [(seed, name) for seed in self.seeds for name in learning.PREDICTORS]
        if figure == "fig5":
            return [
                Measurement.of(f"arrivals/seed{seed}/{name}", learning.errors_by_tenth, name, seed, 2 * self.arriving)
                for seed, name in asked
            ]
        source: dict[str, dict[str, Any]]
        source = {data: {"earlier": self.earlier, "arriving": self.arriving} for data in learning.SIMULATED}
        if self.data is not None:
            for data, (file, _) in learning.REAL.items():
                if not (self.data / file).is_file():
                    raise InputError(f"{self.data / file}: no such file")
                source[data] = {"folder": self.data}
        return [
            Measurement.of(f"predictions/{data}-seed{seed}/{name}", learning.prediction_errors, data, seed, name, **own)
            for data, own in source.items()
            for seed, name in asked
        ]


@dataclass(frozen=True)
class TestbedStudy(PaperStudy):
    """A simulated testbed: applications arrive, are sized by short profiles, and placed by three schemes."""

    seeds: tuple[int, ...] = tuple(range(5))
    """Seeds of applications, arrivals and noise; means and intervals are over them."""
    margin: float = 0.02
    """Safety margin on top of the performance goal, against prediction errors."""
    milp_seconds: float = 5.0
    """Time limit of each integer programme, seconds; 0 leaves it out."""

    smoke: ClassVar[dict[str, Any]] = {"seeds": (0,), "milp_seconds": 0.5}

    def _cells(self, figure: str) -> list[Measurement]:
        function = {"fig6": testbed.utilisation_over_time, "fig7": testbed.response_times}[figure]
        return [
            Measurement.of(
                f"testbed/margin{self.margin:g}-seed{seed}/{function.__name__}-{scheme}",
                function,
                seed,
                scheme,
                self.margin,
                seconds,
            )
            for seed in self.seeds
            for scheme, seconds in schemes(WITHOUT_SEARCH, self.milp_seconds)
        ]


@dataclass(frozen=True)
class GapStudy(PaperStudy):
    """Placing small batches on unequal machines: LRASched, local search, first fit and the integer programme."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the drawn batches; means and intervals are over them."""
    largest_sizes: tuple[float, ...] = (0.5, 0.2)
    """Largest sizes of a replica: 0.5 as printed in the paper, or 0.2, which reproduces its percentages."""
    replica_range: tuple[int, int] = (1, 1)
    """Fewest and most replicas of an application (not in the paper)."""
    milp_seconds: float = 20.0
    """Time limit of each integer programme, seconds; 0 leaves it out. The bound on what any plan places takes 3 s
    at most beside it."""

    smoke: ClassVar[dict[str, Any]] = {"seeds": (0,), "largest_sizes": (0.2,), "milp_seconds": 1.0}
    paper: ClassVar[dict[str, Any]] = {"seeds": tuple(range(5))}

    def _cells(self, figure: str) -> list[Measurement]:
        fewest, most = self.replica_range
        return [
            Measurement.of(
                f"batches/{applications}-{machines}-{dimensions}-{fewest}to{most}-{largest:g}-seed{seed}/{scheme}",
                measure_placement,
                Drawn(applications, machines, dimensions, self.replica_range, largest),
                seed,
                scheme,
                seconds,
            )
            for largest in self.largest_sizes
            for applications, machines in self._scales()
            for dimensions in DIMENSIONS
            for seed in self.seeds
            for scheme, seconds in schemes(HEURISTICS, self.milp_seconds)
        ]

    def _scales(self) -> Sequence[tuple[int, int]]:
        """Numbers of applications and machines of the batches."""
        return (SMALL,)


@dataclass(frozen=True)
class PlacementStudy(GapStudy):
    """Placing batches of the sizes of Figures 8 to 10, by the same schemes."""

    scales: int = len(SCALES)
    """How many of the three scales to run: 500, 1,000, 2,000 applications."""

    smoke: ClassVar[dict[str, Any]] = GapStudy.smoke | {"scales": 1}

    def _scales(self) -> Sequence[tuple[int, int]]:
        return SCALES[: self.scales]


@dataclass(frozen=True)
class PlanningTimeStudy(PaperStudy):
    """How long placement takes, by cluster size: LRASched, first fit and the integer programme."""

    seeds: tuple[int, ...] = (0,)
    """Seeds of the drawn batches; means are over them."""
    sizes: int = len(MACHINES)
    """How many of the sizes of clusters to run: 100, 300, ... 100,000 machines."""
    milp_seconds: float = 20.0
    """Time limit of each integer programme, seconds; 0 leaves it out."""

    smoke: ClassVar[dict[str, Any]] = {"sizes": 4, "milp_seconds": 1.0}
    paper: ClassVar[dict[str, Any]] = {"seeds": tuple(range(5))}

    def _cells(self, figure: str) -> list[Measurement]:
        dimensions = {"fig11": 3, "fig12": 6}[figure]
        return [
            Measurement.of(
                f"planning-times/{dimensions}-{machines}-seed{seed}/{scheme}",
                measure_planning_time,
                # Small replicas, so that hardly any application is rejected: rejecting takes less time than placing
                Drawn(100, machines, dimensions, replicas=(1, 10), largest=0.2),
                seed,
                scheme,
                seconds,
            )
            for machines in MACHINES[: self.sizes]
            for seed in self.seeds
            for scheme, seconds in schemes(WITHOUT_SEARCH, self.milp_seconds * (machines <= LARGEST_FOR_MILP))
        ]


def schemes(heuristics: Iterable[str], milp_seconds: float) -> list[tuple[str, float]]:
    """The heuristics, and the programme with its seconds unless these are 0."""
    return [*((name, 0.0) for name in heuristics), *[(MILP, milp_seconds)] * (milp_seconds > 0)]


def check(options: dict[str, Any]) -> None:
    """Raise InputError for options out of range; those that a study lacks are not checked."""
    check_seeds(options["seeds"])
    within(0, 1, margin=options.get("margin"))
    at_least(0, milp_seconds=options.get("milp_seconds"))
    at_least(2, earlier=options.get("earlier"), arriving=options.get("arriving"))
    within(1, len(SCALES), scales=options.get("scales"))
    at_least(1, sizes=options.get("sizes"))
    different(largest_sizes=options.get("largest_sizes", (1,)))


MEASURES = {
    "fig8": ("placed_pct", "applications placed completely, %"),
    "fig9": ("utilisation_pct", "utilisation, %"),
    "fig10": ("machines_used", "machines"),
}
SCHEME = "LRASched"  # the paper's own
MEAN = "mean over dimensions"
BATCH = ("applications", "machines", "dimensions", "replicas", "largest", "seed")  # columns that name a batch
LARGE = 1_000  # machines from which on the growth of planning time is fitted


def by_place(rows: Rows, name: str, across: str, **where: Any) -> Float:
    """(places, seeds) values of one column, a line for each value of the column `across`."""
    return np.array([column(rows, name, **where, **{across: place}) for place in distinct(rows, across)])


def table2(rows: Rows) -> Report:
    """Errors and latency of every predictor on every data set."""
    data, names, seeds = (distinct(rows, name) for name in ("data", "predictor", "seed"))
    intro = (
        "Two configurations of each arriving application are measured, the others predicted. Of each real data set, "
        f"two thirds of the applications serve as earlier ones. Means over {len(seeds)} seeds [95 % bootstrap "
        "interval]; predictions are clipped to 0..1. Worst: RMSE of the worst application. Latency: median of one "
        "prediction from application and configuration to performance, in the fastest seed."
    )
    head = ("predictor", "RMSE", "paper", "worst", "latency, ms", "paper, ms")
    parts = [intro]
    for one in data:
        body, differences = [], []
        best = column(rows, "rmse", data=one, predictor=learning.FM)
        for name in names:
            error, worst, latency = (
                column(rows, what, data=one, predictor=name) for what in ("rmse", "worst_rmse", "latency_ms")
            )
            paper = [f"{value:g}" for value in published.PREDICTION.get(name, ())] or ["", ""]
            body.append([name, mean_with_interval(error, 3), paper[0], f"{worst.max():.3f}"])
            body[-1] += [f"{latency.min():.4f}", paper[1]]
            if name != learning.FM:
                differences.append(f"{paired_difference(best, error, 3)} to {name}")
        note = f"RMSE of the {learning.FM} minus that of the others, paired: {'; '.join(differences)}."
        parts += [f"## {one}", markdown_table(head, body), note]
    lines = {name: by_place(rows, "rmse", "data", predictor=name) for name in names}
    plot = partial(plot_places, places=data, lines=lines, title="RMSE of held-out performance", ours=(learning.FM,))
    return Report("\n\n".join(parts), rows, {"plot": plot})


def fig2(rows: Rows) -> Report:
    """Throughput and 99th percentile of the four services by degree of collocation."""
    services, degrees, seeds = [one.name for one in SERVICES], distinct(rows, "collocation"), distinct(rows, "seed")

    def by_degree(name: str, service: str) -> Float:
        """(degrees, seeds) means over applications."""
        return np.array(
            [[column(rows, name, service=service, seed=s, collocation=d).mean() for s in seeds] for d in degrees]
        )

    body = [
        [service, label, *map(mean_with_interval, by_degree(name, service))]
        for service in services
        for name, label in (("throughput_pct", "throughput at saturation"), ("p99_pct", "p99 at half load"))
    ]
    head = ("service (simulated)", "% of alone", *(f"{d} on a machine" for d in degrees))
    text = (
        f"Replicas of 2 cores and 4 GiB on a machine of 16 cores and 32 GiB; "
        f"{learning.SATURATED // len(services)} applications per service and seed, {len(seeds)} seeds [95 % bootstrap "
        "interval]. Paper: two Cassandra replicas on a machine cost about 1 % of throughput (or add it to the 99th "
        "percentile), more degrade it significantly; HBase does best with two.\n\n" + markdown_table(head, body)
    )
    lines = {service: by_degree("throughput_pct", service) for service in services}
    up = "throughput, % of that alone (simulated)"
    panels, places = {"": lines}, [str(d) for d in degrees]
    plot = partial(plot_lines, places=places, panels=panels, across="replicas on a machine", up=up)
    return Report(text, rows, {"plot": plot})


def fig5(rows: Rows) -> Report:
    """Errors of every predictor for each tenth of the arriving applications."""
    tenths, arriving = distinct(rows, "tenth"), rows[0]["arriving"]
    lines = {name: by_place(rows, "rmse", "tenth", predictor=name) for name in distinct(rows, "predictor")}
    shown = (1, 2, 4, 6, 8, 10)
    body = [[name, *(mean_with_interval(values[tenth - 1], 3) for tenth in shown)] for name, values in lines.items()]
    head = ("predictor (simulated)", *(f"{10 * tenth - 10}-{10 * tenth} %" for tenth in shown))
    text = (
        f"RMSE of the held-out sizes of the applications that arrive in each tenth of the time: "
        f"{learning.FIRST} were profiled before, {arriving} arrive. Two sizes of each are measured and the rest "
        "predicted; then the rest is learnt too, as would be measured while the application runs. Paper: 0.25 on "
        "average, below 0.5, falling over time.\n\n" + markdown_table(head, body)
    )
    places = [str(round((tenth - 0.5) * arriving / len(tenths))) for tenth in tenths]
    across, up = "applications that have arrived", "RMSE of held-out sizes (simulated)"
    plot = partial(plot_lines, places=places, panels={"": lines}, across=across, up=up, ours=(learning.FM,))
    return Report(text, rows, {"plot": plot})


def with_best_bound(rows: Rows) -> Rows:
    """The rows with the least bound that any scheme proved of their batch."""
    least: dict[tuple[object, ...], float] = {}
    for row in rows:
        batch = tuple(row[name] for name in BATCH)
        least[batch] = min(row["bound_pct"], least.get(batch, np.inf))
    return [row | {"bound_pct": least[tuple(row[name] for name in BATCH)]} for row in rows]


def batches(figure: str, rows: Rows) -> Report:
    """Figures 8 to 10: a table per largest size and scale, a column per number of dimensions."""
    rows = with_best_bound(rows)
    measure, label = MEASURES[figure]
    parts, plots = [], {}
    dimensions, scales = distinct(rows, "dimensions"), distinct(rows, "applications")
    for largest in distinct(rows, "largest"):
        for applications in scales:
            mine = select(rows, largest=largest, applications=applications)
            paper = published.PLACEMENT[figure] if applications == scales[0] else None
            values = {
                scheme: by_place(mine, measure, "dimensions", scheme=scheme) for scheme in distinct(mine, "scheme")
            }
            body = [[scheme, *_means(found)] for scheme, found in values.items()]
            if figure == "fig8":
                bound = by_place(mine, "bound_pct", "dimensions", scheme=next(iter(values)))
                body.append(["no plan more than", *_means(bound)])
            known = {
                name: value for name, value in (paper or {}).items() if name in values and not isinstance(value, str)
            }
            head = ["scheme", *(f"D = {d}" for d in dimensions), "mean"]
            if paper is not None:
                head, body = [*head, "published mean"], [[*line, str(paper.get(line[0], ""))] for line in body]
            fewest, most = mine[0]["replicas"].split("-")
            replicas = f"{fewest} to {most} replicas" if fewest != most else f"{most} replica{'s' * (most != '1')}"
            parts.append(
                f"{applications:,} applications, {replicas} per application, sizes up to {largest:g}, "
                f"{mine[0]['machines']} machines: {label}"
            )
            parts.append(markdown_table(head, body))
            plots[f"plot-{applications}-{largest:g}"] = partial(
                plot_places,
                places=[*(f"{d} dimensions" for d in dimensions), MEAN],
                lines={scheme: np.vstack([found, found.mean(axis=0)]) for scheme, found in values.items()},
                title=label,
                ours=(SCHEME,),
                published={MEAN: known},
            )
    return Report("\n\n".join(parts), rows, plots)


def _means(found: Float) -> list[str]:
    """Mean of each number of dimensions; then the mean over them, with its interval over seeds."""
    return [*(f"{row.mean():.1f}" for row in found), mean_with_interval(found.mean(axis=0))]


def gap(rows: Rows) -> Report:
    """Applications placed of small batches, and how much more the best bound allows."""
    rows = with_best_bound(rows)
    sizes, lines = distinct(rows, "largest"), []
    for scheme in distinct(rows, "scheme"):
        lines.append([scheme])
        for largest in sizes:
            placed, bound = (column(rows, name, scheme=scheme, largest=largest) for name in ("placed_pct", "bound_pct"))
            lines[-1] += [f"{placed.mean():.1f}", f"{100.0 * np.mean(bound / placed - 1):.1f}"]
    ends = [row["status"] for row in select(rows, scheme=MILP)]
    solved = f"The programme solved {ends.count('optimal')} of {len(ends)} batches to optimality." if ends else ""
    dimensions = distinct(rows, "dimensions")
    text = (
        f"{rows[0]['applications']} applications, {rows[0]['machines']} machines, means over "
        f"{dimensions[0]} to {dimensions[-1]} dimensions and {len(distinct(rows, 'seed'))} seeds. Gap: how much more "
        f"the best bound allows. {solved}\n\n"
    )
    head = ["scheme", *(name for largest in sizes for name in (f"sizes to {largest:g}: placed, %", "gap, %"))]
    return Report(text + markdown_table(head, lines), rows)


def planning_time(figure: str, rows: Rows) -> Report:
    """Figures 11 and 12: milliseconds per application by cluster size."""
    sizes, lines = distinct(rows, "machines"), []
    for scheme in distinct(rows, "scheme"):
        shown = [f"{ms.mean():.3g}" if len(ms := column(rows, "ms", scheme=scheme, machines=m)) else "" for m in sizes]
        power = growth(rows, scheme)
        grows = f"machines^{power:.2f}" if np.isfinite(power) else ""
        lines.append([scheme, *shown, grows, _published_time(figure, scheme)])
    seconds, batch = max(column(rows, "milp_seconds")), rows[0]["applications"]
    text = (
        f"Milliseconds of processor time per application of a batch of {batch}, by number of machines, "
        f"which the paper does not print. The programme (wall-clock time) stops after {seconds:g} s for the whole "
        "batch and is tried on small clusters only.\n\n"
    )
    text += markdown_table(["scheme", *(f"{m:,}" for m in sizes), "grows like", "published"], lines)
    return Report(text, rows, {"plot": partial(_plot_planning_time, figure, rows)})


def growth(rows: Rows, scheme: str) -> float:
    """Exponent p of ms ~ machines^p, fitted to large clusters; NaN for fewer than two of them."""
    machines, ms = (column(rows, name, scheme=scheme) for name in ("machines", "ms"))
    large = machines >= LARGE
    return float(np.polyfit(np.log(machines[large]), np.log(ms[large]), 1)[0]) if large.sum() > 1 else float("nan")


def _published_time(figure: str, scheme: str) -> str:
    """What the paper says, "" where it says nothing."""
    known = published.PLANNING_TIME[figure].get(scheme)
    return f"{known[0]} {known[1]:g} ms" if known else ""


def _plot_planning_time(figure: str, rows: Rows, file: Path) -> None:
    """Milliseconds by cluster size; as the paper prints no sizes, what it says stands at the right, beside the axis."""
    page = new_figure(WIDTH, 4.4)
    axis = page.subplots()
    others = iter(zip((OTHERS, COLOURS[0], COLOURS[2]), ("--", "-.", ":"), "sD^", strict=True))
    for scheme in distinct(rows, "scheme"):
        machines = distinct(select(rows, scheme=scheme), "machines")
        ms = [column(rows, "ms", scheme=scheme, machines=number).mean() for number in machines]
        colour, line, mark = (OURS, "-", "o") if scheme == SCHEME else next(others)
        axis.plot(machines, ms, line, marker=mark, ms=6, mfc="none", mew=1.4, color=colour, label=scheme)
        if scheme in published.PLANNING_TIME[figure]:
            value = published.PLANNING_TIME[figure][scheme][1]
            axis.plot(1.02, value, "<", color=colour, clip_on=False, transform=axis.get_yaxis_transform())
            axis.annotate(
                f"published:\n{_published_time(figure, scheme)}",
                (1.035, value),
                xycoords=axis.get_yaxis_transform(),
                va="center",
                fontsize=8.5,
                color=colour,
            )
    axis.set_xlabel("machines", fontsize=9.5)
    axis.set_ylabel("processor time, ms per application (lower is better)", fontsize=9.5)
    scale_logarithmically(axis.xaxis)
    scale_logarithmically(axis.yaxis)
    axis.tick_params(labelsize=9)
    tidy(axis)
    page.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    page.savefig(file, dpi=DPI, format="png")


def fig6(rows: Rows) -> Report:
    """Utilisation of the testbed over time by scheme."""
    times, seeds = distinct(rows, "seconds"), distinct(rows, "seed")
    lines = {s: by_place(rows, "utilisation_pct", "seconds", scheme=s) for s in distinct(rows, "scheme")}
    placed = partial(column, rows, "placed_pct", seconds=times[-1])
    body = [
        [scheme, *(f"{row.mean():.1f}" for row in found), mean_with_interval(placed(scheme=scheme))]
        for scheme, found in lines.items()
    ]
    text = (
        f"Utilisation (1 - R_free / R_total) of {testbed.MACHINES} machines after so many seconds. One "
        f"of {testbed.ARRIVING} applications arrives every {testbed.EVERY} s; the scheduler runs every "
        f"{testbed.PERIOD} s. Means over {len(seeds)} seeds. Paper: alike for 200 s, then LRASched near the programme, "
        "FFD below.\n\n"
    )
    text += markdown_table(["scheme", *(f"{time} s" for time in times), "placed, %"], body)
    places, up = [str(time) for time in times], "utilisation, % (simulated)"
    plot = partial(plot_lines, places=places, panels={"": lines}, across="seconds", up=up, ours=(SCHEME,))
    return Report(text, rows, {"plot": plot})


def fig7(rows: Rows) -> Report:
    """99th percentiles of the placed applications, by service and scheme."""
    services, body, lines = [service.name for service in SERVICES], [], {}
    for scheme in distinct(rows, "scheme"):
        of: Callable[..., Float] = partial(column, rows, scheme=scheme)
        placed = [[of("p99_ms", service=s, seed=n) for n in distinct(rows, "seed")] for s in services]
        worst = np.array([[p99.max() if len(p99) else np.nan for p99 in own] for own in placed])
        lines[scheme] = worst
        rise = [100.0 * (of("p99_ms", service=s).mean() / of("apart_ms", service=s).mean() - 1) for s in services]
        met = 100.0 * np.mean(of("performance") >= testbed.GOAL)
        within = 100.0 * np.mean(of("p99_ms") <= of("goal_ms"))
        shown = [f"{w.mean():.1f} ({r:+.1f} %)" for w, r in zip(worst, rise, strict=True)]
        body.append([scheme, *shown, f"{met:.1f}", f"{within:.1f}", f"{of('collocation').mean():.2f}"])
    paper = [f"+{published.P99_INCREASE[service]} %" for service in services]
    body.append(["published, LRASched against FFD", *paper, "", "", ""])
    text = (
        f"Largest 99th percentile of response time, ms, mean over {len(distinct(rows, 'seed'))} seeds; in "
        "brackets, how much their mean exceeds that of the same sizes apart, which is how FFD places them. "
        f"Goal met: placed applications whose true performance is at least {testbed.GOAL}. p99 met: those whose "
        "99th percentile is at most what it is where one replica of their size, alone, just reaches the goal. "
        "Collocation: replicas of an application on the machine that holds most of them.\n\n"
    )
    text += markdown_table(["scheme", *services, "goal met, %", "p99 met, %", "collocation"], body)
    up = "largest p99, ms (simulated)"
    plot = partial(plot_places, places=services, lines=lines, title=up, ours=(SCHEME,))
    return Report(text, rows, {"plot": plot})


TABLES: dict[str, Callable[[Rows], Report]] = {
    "table2": table2,
    "fig2": fig2,
    "fig5": fig5,
    "fig6": fig6,
    "fig7": fig7,
    **{name: partial(batches, name) for name in MEASURES},
    "gap": gap,
    **{name: partial(planning_time, name) for name in published.PLANNING_TIME},
}
