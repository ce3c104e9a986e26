"""The report of a prepared trace: statistics as JSON and Markdown, and a page of plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, WIDTH, new_figure, people_call, scale_logarithmically, tidy
from tvwrl.traces.canonical import read_sample
from tvwrl.traces.statistics import DAY_SECONDS, population_statistics
from tvwrl.types import Float, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

YEAR_2000 = 946_684_800  # seconds since 1970
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
LARGEST = 4_000_000  # usage rows above which figures and plots are of a part of the workloads
EXAMPLES = (0.95, 0.75, 0.55, 0.35)  # shares of the workloads that vary less than those whose series are drawn
LEAST_LEVEL, LEAST_VARIATION = 1e-6, 1e-3  # that are drawn; what is less lies there
DAYS_FROM = 72  # hours of a trace from which on axes are in days


def describe(folder: Path, plots: bool = True) -> dict[str, Any]:
    """Quantiles over workloads of the statistics of the canonical trace in `folder`, and the page of plots."""
    trace, workloads = read_sample(folder, LARGEST)
    statistics = population_statistics(trace)
    quantiles = {
        name: [round(float(v), 6) for v in np.quantile(known, LEVELS)]
        for name, values in statistics.items()
        if len(known := values[np.isfinite(values)])
    }
    if plots:
        _plot(trace, statistics, workloads, folder / "report.png")
    return {"quantiles": {"levels": LEVELS, **quantiles}, "described": len(trace), "plots": plots}


def report_text(report: dict[str, Any]) -> str:
    """The report as a page of Markdown, which also reads well in a terminal."""
    rows, workloads, rules, time = report["rows"], report["workloads"], report["rules"], report["time"]
    days = (time["last"] - time["first"]) / 1e6 / DAY_SECONDS
    lines = [
        f"# Trace '{report['name']}'" + (f", read as {report['loader']}" if report["loader"] != report["name"] else ""),
        "",
        f"{workloads['kept']:,} of {workloads['seen']:,} workloads kept; {report['slots']:,} slots of "
        f"{rules['slot_seconds']} s over {days:.1f} days; {report['coverage']:.1%} of the slots between a workload's "
        "first and last are recorded.",
        "",
        f"Time: {_moment(time['first'])} to {_moment(time['last'])}.",
        "",
        f"Rules: gaps of at most {rules['longest_gap']} slots: {rules['gaps']}; stretches of at least "
        f"{rules['min_records']} records; at most {report['max_bad_fraction']:.2%} bad rows.",
        "",
        *_counts(rows),
        *(f"- {example}" for example in report["examples"]),
        *([""] if report["examples"] else []),
        *_table("more than a reference machine", ["records", "most", "of workload", "at"], _above(report["above"])),
        *_table("written beside", ["rows"], {f"{name}.parquet": [f"{n:,}"] for name, n in report["beside"].items()}),
    ]
    quantiles = {name: values for name, values in report["quantiles"].items() if name != "levels"}
    values = {name: [f"{value:.4g}" for value in row] for name, row in quantiles.items()}
    lines += _table("over workloads", [f"{level:.0%}" for level in LEVELS], values)
    if report["described"] < workloads["kept"]:
        sample = f"{report['described']:,} of the {workloads['kept']:,} workloads"
        lines += [f"Quantiles and plots are of a sample: {sample}.", ""]
    if report["plots"]:
        lines += ["![population, examples, daily pattern](report.png)", ""]
    return "\n".join(lines)


def _moment(microseconds: int) -> str:
    """A date, or seconds on the trace's own clock for what would be before 2000."""
    if microseconds / 1e6 < YEAR_2000:
        return f"{microseconds / 1e6:,.0f} s"
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _counts(rows: dict[str, dict[str, int]]) -> list[str]:
    """Tables of what was read and dropped, one for each unit: rows, files, slots, workloads."""
    found = {"rows": {f"read: {table}": count for table, count in sorted(rows["read"].items()) if count}}
    found["rows"] |= {"bad": sum(rows["bad"].values())}
    found["rows"] |= {f"bad: {rule}": count for rule, count in sorted(rows["bad"].items())}
    for rule, count in sorted(rows["dropped"].items()):
        unit = rule.partition(" ")[0]
        unit = unit if unit in ("files", "slots", "workloads") else "rows"
        found.setdefault(unit, {})[f"dropped: {rule}"] = count
    for note, count in sorted(rows["noted"].items()):
        found.setdefault(note.partition(" ")[0], {})[note] = count
    return [
        line
        for unit, counts in found.items()
        for line in _table(unit, [""], {name: [f"{count:,}"] for name, count in counts.items()})
    ]


def _above(found: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The cells of records that use more than one reference machine, by resource."""
    return {
        name: [f"{of['records']:,}", f"{of['usage']:,.4g}", str(of["workload"]), _moment(of["time"])]
        for name, of in found.items()
    }


def _table(title: str, head: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of a table and a blank one, or none without rows; `title` stands above the names of the rows."""
    return [markdown_table([title, *head], [[name, *row] for name, row in rows.items()]), ""] if rows else []


def _plot(trace: Trace, statistics: dict[str, Float], workloads: int, path: Path) -> None:
    """Population (level against variability), examples of series, and the daily pattern, on one page.

    The trace is a sample of as many `workloads`, or all of them.
    """
    figure = new_figure(WIDTH, 8.6)
    count = f"{len(trace):,}" if len(trace) == workloads else f"sample of {len(trace):,} of {workloads:,}"
    figure.suptitle(f"{trace.name}: {count} workloads, slots of {trace.slot_seconds} s", fontsize=11)
    top, middle, bottom = figure.subfigures(3, 1, height_ratios=(2.6, 3.4, 2.2))
    shown = trace.resources[:2]
    for axes, name in zip(top.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        _draw_population(axes, name, statistics[f"{name}_level"], statistics[f"{name}_variation"])
    variation = statistics[f"{trace.resources[0]}_variation"]
    order = np.argsort(variation, kind="stable")
    middle.suptitle("Four workloads, from one that varies much to one that varies little", fontsize=10)
    grid = middle.subplots(2, 2)
    for axes, rank in zip(grid.ravel(), EXAMPLES, strict=True):
        i = order[int(rank * (len(order) - 1))]
        _draw_series(axes, trace, i)
        name = people_call(trace.resources[0])
        axes.set_title(f"{name} variation {variation[i]:.2g}, above {100 * rank:.0f} % of the workloads", fontsize=9)
    for axes in grid[:, 0]:
        axes.set_ylabel("usage", fontsize=9)
    middle.legend(handles=grid[0, 0].get_lines(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    _draw_days(bottom.subplots(), trace)
    figure.savefig(path, dpi=DPI)


def _draw_population(axes: Axes, resource: str, level: Float, variation: Float) -> None:
    """A dot for each workload, the paler the more there are; those that do not vary lie on the lower edge."""
    drawn = np.maximum(variation, LEAST_VARIATION)
    alpha = float(np.clip(8 / np.sqrt(len(level)), 0.08, 0.6))
    axes.plot(np.maximum(level, LEAST_LEVEL), drawn, "o", ms=4, mew=0, alpha=alpha, color=COLOURS[0])
    scale_logarithmically(axes.xaxis)
    scale_logarithmically(axes.yaxis)
    edge = f"\n(lowest: {LEAST_VARIATION:g} or less)" if (variation <= LEAST_VARIATION).any() else ""
    name = people_call(resource)
    axes.set_xlabel(f"{name} level: mean usage, fraction", fontsize=9)
    axes.set_ylabel(f"{name} variation: std / mean{edge}", fontsize=9)
    axes.tick_params(labelsize=9)
    tidy(axes)


def _draw_series(axes: Axes, trace: Trace, i: int) -> None:
    """A workload's usage of every resource; a gap is not drawn."""
    slot = trace.slot[trace.offsets[i] : trace.offsets[i + 1]]
    filled = np.full((slot[-1] - slot[0] + 1, len(trace.resources)), np.nan)
    filled[slot - slot[0]] = trace.series(i)
    hours = (slot[0] + np.arange(len(filled))) * trace.slot_seconds / 3600
    days = trace.slot[-1] * trace.slot_seconds >= 3600 * DAYS_FROM
    for d, name in enumerate(trace.resources):
        x = hours / 24 if days else hours
        axes.plot(x, filled[:, d], lw=0.9, color=COLOURS[d % len(COLOURS)], label=people_call(name))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("days" if days else "hours", fontsize=9, labelpad=1)
    axes.locator_params(axis="y", nbins=4)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.tick_params(labelsize=9)
    tidy(axes)


def _draw_days(axes: Axes, trace: Trace) -> None:
    """Median and middle half over workloads of usage by hour of the day, divided by the workload's mean."""
    hour = (trace.slot * trace.slot_seconds // 3600) % 24
    cell = np.repeat(np.arange(len(trace)), np.diff(trace.offsets)) * 24 + hour
    count = np.bincount(cell, minlength=24 * len(trace)).reshape(-1, 24)
    for d in range(len(trace.resources)):
        mean = np.add.reduceat(trace.usage[:, d], trace.offsets[:-1]) / np.diff(trace.offsets)
        total = np.bincount(cell, trace.usage[:, d], 24 * len(trace)).reshape(-1, 24)
        with np.errstate(all="ignore"):
            profile = np.where(count > 0, total / np.maximum(count, 1), np.nan) / np.maximum(mean, 1e-12)[:, None]
        seen = [column[np.isfinite(column)] for column in profile.T]
        quartiles = [np.quantile(c, (0.25, 0.5, 0.75)) if len(c) else [np.nan] * 3 for c in seen]
        low, middle, high = np.array(quartiles).T
        colour = COLOURS[d % len(COLOURS)]
        axes.plot(np.arange(24), middle, color=colour)
        axes.fill_between(np.arange(24), low, high, alpha=0.2, color=colour, lw=0)
    axes.set_xlabel("hour of the day, from the trace's time 0", fontsize=9)
    axes.set_ylabel("usage / own mean", fontsize=9)
    axes.set_xticks(range(0, 24, 3))
    axes.tick_params(labelsize=9)
    axes.set_title("Course of a day: median over workloads, and 25 to 75 %", fontsize=10)
    tidy(axes)
