"""Tables and plots of paper 000's simulations: Figures 8 to 12, and for which sizes its percentages come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.bench.figures import write_figure
from tvwrl.bench.lrasched_latency import APPLICATIONS, MOST_FOR_MILP, SIZES, growth, latencies
from tvwrl.bench.lrasched_placement import DIMENSIONS, HEURISTICS, MILP, SCALES, cells, check, complete, planned
from tvwrl.command_line import Numbers, Shares
from tvwrl.experiments.plots import plot_lines
from tvwrl.experiments.statistics import bootstrap_interval
from tvwrl.markdown import markdown_table
from tvwrl.provisioning.admission import volume_bound
from tvwrl.provisioning.referee import judge, utilisation
from tvwrl.provisioning.sources.drawn import Drawn
from tvwrl.types import Float, InputError

NAMES = {
    "fig8": "Figure 8, applications that are placed",
    "fig9": "Figure 9, utilisation of the cluster",
    "fig10": "Figure 10, machines used when more are added",
    "fig11": "Figure 11, latency by cluster size, 3 dimensions",
    "fig12": "Figure 12, latency by cluster size, 6 dimensions",
    "gap": "gap of the heuristics to the optimum, on batches that the programme solves",
    "range": "sizes and replicas for which the percentages of Figure 8 come out",
}
COLUMNS = {
    "fig8": ("placed_pct", "applications wholly placed, %"),
    "fig9": ("utilisation_pct", "utilisation, %"),
    "fig10": ("machines_used", "machines"),
}
# Means over dimensions that the text gives: Figures 8 and 10 for 500 applications, 9 for all
PUBLISHED: dict[str, dict[str, float | str]] = {
    "fig8": {MILP: 86.1, "LRASched": "about the same", "FFD-AntiAffinity": 75.5},
    "fig9": {MILP: 87.5, "LRASched": 86.0, "FFD-AntiAffinity": 79.8},
    "fig10": {MILP: 114, "LRASched": 116, "FFD-AntiAffinity": 125},
    "fig11": {},
    "fig12": {MILP: "up to 890 ms", "LRASched": "up to 170 ms", "FFD-AntiAffinity": "below 40 ms"},
}
SMALL = (50, 10)  # applications, machines
AIM = 86.1  # of Figure 8
RANGES = ((1, 1), (1, 2), (1, 3), (1, 5), (1, 10))
Rows = list[dict[str, Any]]
Made = tuple[str, Rows, dict[str, Callable[[Path], None]]]  # table, rows, plots by name


@dataclass(frozen=True)
class PlacementSettings:
    """Batches of applications on unequal machines: LRASched, a local search, first fit and the integer programme."""

    seeds: Numbers = (0, 1, 2)
    """Of what is drawn; means and intervals are over them."""
    largest: Shares = (0.5, 0.2)
    """Largest size of a replica: as printed, and where the published percentages come out (lrasched-range)."""
    replicas: tuple[int, int] = (1, 1)
    """Fewest and most replicas of an application; the paper does not print them."""
    scales: int = len(SCALES)
    """How many of the scales: 500, 1,000 and 2,000 applications."""
    milp_seconds: float = 20.0
    """Time limit of the integer programme, per phase; 0 leaves it out."""
    workers: int = 1
    """Batches at a time, each in a process of its own."""

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown of one of `NAMES`, which is written to a folder of that name in `out` too.

        Batches that are placed (`cells/` of `out`) are not placed again. Raises InputError for values out of range.
        """
        check(self.seeds, self.milp_seconds, self.workers, self.scales)
        if not self.largest or len(set(self.largest)) != len(self.largest):
            raise InputError(f"largest is {', '.join(map(str, self.largest))}: must be different ones, at least one")
        for largest in self.largest:
            Drawn(replicas=self.replicas, largest=largest)
        others: dict[str, Callable[[PlacementSettings, Path], Made]]
        others = {"range": _range, "gap": _gap, "fig11": partial(_latency, name), "fig12": partial(_latency, name)}
        text, rows, plots = others.get(name, partial(_fig, name))(self, out)
        text = f"## {NAMES[name][0].upper()}{NAMES[name][1:]} (simulated)\n\n{text}\n"
        write_figure(out / name, text, rows, plots, asdict(self))
        return text


def _fig(name: str, settings: PlacementSettings, out: Path) -> Made:
    """Figures 8 to 10: a table per largest size and scale, a column per number of dimensions."""
    column, label = COLUMNS[name]
    parts: list[str] = []
    kept: Rows = []
    plots: dict[str, Callable[[Path], None]] = {}
    for largest in settings.largest:
        asked = cells(settings.seeds, settings.replicas, largest, SCALES[: settings.scales])
        rows = complete(out, asked, settings.milp_seconds, settings.workers)
        kept += rows
        for applications, machines in SCALES[: settings.scales]:
            mine = [row for row in rows if row["applications"] == applications]
            parts.append(
                f"{applications:,} applications of {settings.replicas[0]} to {settings.replicas[1]} replicas of sizes "
                f"up to {largest:g}, {machines} machines: {label}"
            )
            values = {scheme: _by_dimension(mine, scheme, column) for scheme in _schemes(mine)}
            parts.append(_table(name, values, mine, applications == SCALES[0][0]))
            title = f"plot-{applications}-{largest:g}"
            places = [f"{d} dimensions" for d in DIMENSIONS]
            plots[title] = partial(plot_lines, places=places, lines=values, across="", up=label)
    return "\n\n".join(parts), kept, plots


def _schemes(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["scheme"] for row in rows))


def _by_dimension(rows: Rows, scheme: str, column: str) -> Float:
    """(dimensions, seeds)."""
    mine = [row for row in rows if row["scheme"] == scheme]
    return np.array([[row[column] for row in mine if row["dimensions"] == d] for d in DIMENSIONS])


def _table(name: str, values: dict[str, Float], rows: Rows, published: bool) -> str:
    head = ["scheme", *(f"D = {d}" for d in DIMENSIONS), "mean", *["published mean"] * published]
    lines = []
    for scheme, found in values.items():
        told = [str(PUBLISHED[name].get(scheme, ""))] * published
        lines.append([scheme, *(f"{row.mean():.1f}" for row in found), _mean(found), *told])
    if name == "fig8":
        found = np.array([[r["bound_pct"] for r in rows if r["dimensions"] == d] for d in DIMENSIONS])
        lines.append(["no plan more than", *(f"{row.mean():.1f}" for row in found), _mean(found), *[""] * published])
    return markdown_table(head, lines)


def _mean(found: Float) -> str:
    """Mean over dimensions, with its interval over seeds."""
    by_seed = found.mean(axis=0)
    low, high = bootstrap_interval(by_seed)
    return f"{by_seed.mean():.1f}" + (f" [{low:.1f}, {high:.1f}]" if np.isfinite(low) else "")


def _latency(name: str, settings: PlacementSettings, out: Path) -> Made:
    """Figures 11 and 12: milliseconds per application by cluster size."""
    dimensions = 3 if name == "fig11" else 6
    rows = latencies(dimensions, SIZES, settings.seeds[0], settings.milp_seconds)
    lines = []
    for scheme in _schemes(rows):
        ms = {row["machines"]: row["ms"] for row in rows if row["scheme"] == scheme}
        told = [f"{ms[machines]:.3g}" if machines in ms else "" for machines in SIZES]
        power = growth(rows, scheme)
        grows = f"machines^{power:.2f}" if np.isfinite(power) else ""
        lines.append([scheme, *told, grows, str(PUBLISHED[name].get(scheme, ""))])
    text = (
        f"Milliseconds of processor time per application of a batch of {APPLICATIONS}, by number of machines; the "
        f"paper does not print how many it had. The programme (wall clock) is given {settings.milp_seconds:g} s for "
        f"the whole batch, and not tried beyond {MOST_FOR_MILP:,} machines.\n\n"
    )
    text += markdown_table(["scheme", *(f"{machines:,}" for machines in SIZES), "grows like", "published"], lines)
    return text, rows, {"plot": partial(_plot_latency, rows)}


def _plot_latency(rows: Rows, file: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from tvwrl.plotting import COLOURS, DPI

    figure = Figure(figsize=(8, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for number, scheme in enumerate(_schemes(rows)):
        mine = [(row["machines"], row["ms"]) for row in rows if row["scheme"] == scheme]
        axis.plot(*zip(*mine, strict=True), "-o", ms=4, color=COLOURS[number], label=scheme)
    axis.set(xscale="log", yscale="log", xlabel="machines", ylabel="ms per application")
    axis.grid(color="#DDDDDD", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(file, dpi=DPI, format="png")


def _gap(settings: PlacementSettings, out: Path) -> Made:
    """Applications placed of small batches, and how far that is from what the programme proved."""
    rows: Rows = []
    for largest in settings.largest:
        asked = cells(settings.seeds, settings.replicas, largest, (SMALL,))
        rows += complete(out, asked, settings.milp_seconds, settings.workers)
    lines = []
    for scheme in _schemes(rows):
        told = [scheme]
        for largest in settings.largest:
            mine = [row for row in rows if (row["scheme"], row["largest"]) == (scheme, largest)]
            gap = 100.0 * np.mean([row["bound_pct"] / row["placed_pct"] - 1 for row in mine])
            told += [f"{np.mean([row['placed_pct'] for row in mine]):.1f}", f"{gap:.1f}"]
        lines.append(told)
    ends = [row["status"] for row in rows if row["scheme"] == MILP]
    solved = (
        f"{ends.count('optimal')} of {len(ends)} batches were solved to optimality" if ends else "the programme is off"
    )
    columns = [text for largest in settings.largest for text in (f"sizes to {largest:g}: placed, %", "gap, %")]
    text = (
        f"{SMALL[0]} applications, {SMALL[1]} machines, means over {DIMENSIONS[0]} to {DIMENSIONS[-1]} dimensions and "
        f"{len(settings.seeds)} seeds; gap: how much more the best bound allows. {solved}.\n\n"
    )
    return text + markdown_table(["scheme", *columns], lines), rows, {}


def _range(settings: PlacementSettings, out: Path) -> Made:
    """For each range of replicas the largest size at which LRASched places 86.1 %, and what the others do there."""
    applications, machines = SCALES[0]
    rows: Rows = []
    printed = 0.5
    with tqdm(total=len(RANGES), desc="ranges", unit="range", disable=None) as bar:
        for replicas in RANGES:
            low, high = 0.0, printed
            for _ in range(9):
                middle = (low + high) / 2
                placed = _placed(settings, replicas, middle, ("LRASched",))["LRASched"][0]
                low, high = (middle, high) if placed > AIM else (low, middle)
            for largest in (printed, high):
                found = _placed(settings, replicas, largest, tuple(HEURISTICS))
                bound = _bound(settings, replicas, largest)
                rows += [
                    {"replicas": "{}-{}".format(*replicas), "largest": largest, "scheme": scheme}
                    | {"placed_pct": placed, "utilisation_pct": used, "bound_pct": bound}
                    for scheme, (placed, used) in found.items()
                ]
            bar.update()
    lines = []
    for largest, replicas in dict.fromkeys((row["largest"], row["replicas"]) for row in rows):
        mine = {row["scheme"]: row for row in rows if (row["largest"], row["replicas"]) == (largest, replicas)}
        told = [f"{mine[scheme]['placed_pct']:.1f} / {mine[scheme]['utilisation_pct']:.1f}" for scheme in HEURISTICS]
        lines.append([replicas, f"{largest:.3f}", *told, f"{mine['LRASched']['bound_pct']:.1f}"])
    head = ["replicas", "largest size", *HEURISTICS, "no plan more than, %"]
    text = (
        f"Placed / utilisation, %, means over {DIMENSIONS[0]} to {DIMENSIONS[-1]} dimensions and seeds; {applications} "
        f"applications, {machines} machines. Published: LRASched about {AIM} / 86, FFD 75.5 / 79.8.\n\n"
    )
    return text + markdown_table(head, lines), rows, {}


def _placed(
    settings: PlacementSettings, replicas: tuple[int, int], largest: float, schemes: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Percent placed and utilisation by scheme, means over dimensions and seeds."""
    found: dict[str, list[tuple[float, float]]] = {scheme: [] for scheme in schemes}
    applications, machines = SCALES[0]
    for seed in settings.seeds:
        for dimensions in DIMENSIONS:
            instance, fleet = Drawn(applications, machines, dimensions, replicas, largest).draw(seed)
            there = fleet.first(machines)
            for scheme in schemes:
                made = planned(instance, there, HEURISTICS[scheme], scheme)
                whole = judge(instance, there, made).whole
                found[scheme].append((100.0 * whole / applications, 100.0 * utilisation(instance, there, made)))
    return {scheme: tuple(np.mean(values, axis=0).tolist()) for scheme, values in found.items()}


def _bound(settings: PlacementSettings, replicas: tuple[int, int], largest: float) -> float:
    """Percent that no plan places more than, mean over dimensions and seeds."""
    applications, machines = SCALES[0]
    found = []
    for seed in settings.seeds:
        for dimensions in DIMENSIONS:
            instance, fleet = Drawn(applications, machines, dimensions, replicas, largest).draw(seed)
            found.append(100.0 * volume_bound(instance, fleet.first(machines), 5.0) / applications)
    return float(np.mean(found))
