"""The report of a prepared trace: statistics as JSON and Markdown, and a page of plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.markdown import markdown_table
from tvwrl.plotting import new_figure
from tvwrl.traces.canonical import read_sample
from tvwrl.traces.statistics import DAY_SECONDS, population_statistics
from tvwrl.types import Float, Trace

if TYPE_CHECKING:
    from matplotlib.axis import Axis

YEAR_2000 = 946_684_800  # seconds since 1970
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
LARGEST = 1_000_000  # usage rows above which figures and plots are of a part of the workloads
SHORT_AXIS = 100  # largest over smallest value of an axis
EXAMPLES = 4  # number of series drawn, from much to little variation


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
    return [
        line
        for unit, counts in found.items()
        for line in _table(unit, [""], {name: [f"{count:,}"] for name, count in counts.items()})
    ]


def _table(title: str, head: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of a table and a blank one, or none without rows; `title` stands above the names of the rows."""
    return [markdown_table([title, *head], [[name, *row] for name, row in rows.items()]), ""] if rows else []


def _plot(trace: Trace, statistics: dict[str, Float], workloads: int, path: Path) -> None:
    """Population (level against variability), examples of series, and the daily pattern, on one page.

    The trace is a sample of as many `workloads`, or all of them.
    """
    figure = new_figure(11, 8.5)
    count = f"{len(trace):,}" if len(trace) == workloads else f"sample of {len(trace):,} of {workloads:,}"
    figure.suptitle(f"{trace.name}: {count} workloads, slots of {trace.slot_seconds} s")
    grid = figure.add_gridspec(3, 2 * EXAMPLES)
    for d, name in enumerate(trace.resources[:2]):
        axes = figure.add_subplot(grid[0, d * EXAMPLES : (d + 1) * EXAMPLES])
        level, variation = statistics[f"{name}_level"], statistics[f"{name}_variation"]
        axes.plot(np.maximum(level, 1e-6), np.maximum(variation, 1e-3), ".", ms=3, alpha=0.4)
        axes.set(xscale="log", yscale="log", xlabel=f"{name}: mean, fraction", ylabel="std / mean")
        _label_sparsely(axes.xaxis)
        _label_sparsely(axes.yaxis)
    order = np.argsort(statistics[f"{trace.resources[0]}_variation"], kind="stable")
    for k, i in enumerate(order[(np.linspace(0.95, 0.35, EXAMPLES) * (len(order) - 1)).astype(int)]):
        axes = figure.add_subplot(grid[1, 2 * k : 2 * k + 2])
        slot = trace.slot[trace.offsets[i] : trace.offsets[i + 1]]
        filled = np.full((slot[-1] - slot[0] + 1, len(trace.resources)), np.nan)  # a gap is not drawn
        filled[slot - slot[0]] = trace.series(i)
        hours = (slot[0] + np.arange(len(filled))) * trace.slot_seconds / 3600
        for d, name in enumerate(trace.resources):
            axes.plot(hours, filled[:, d], lw=0.6, label=name)
        axes.set_title(str(trace.workload_id[i])[:24], fontsize=7)
        axes.tick_params(labelsize=6)
        axes.set_xlabel("hours", fontsize=7)
        if k == 0:
            axes.legend(fontsize=6)
    axes = figure.add_subplot(grid[2, :])
    for d, name in enumerate(trace.resources):
        low, middle, high = _daily(trace, d)
        line = axes.plot(np.arange(24), middle, label=f"{name}: median over workloads, 25 to 75 %")[0]
        axes.fill_between(np.arange(24), low, high, alpha=0.2, color=line.get_color())
    axes.set(xlabel="hour of the day, from the trace's time 0", ylabel="usage / own mean")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=80)


def _label_sparsely(axis: Axis) -> None:
    """Labels of a logarithmic axis that do not run into each other: at 1, 2 and 5, or if it is long at decades only."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high < SHORT_AXIS * low:
        axis.set_view_interval(low / 1.5, high * 1.5, ignore=True)  # there is a label then, however short it was
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _daily(trace: Trace, resource: int) -> Float:
    """(3, 24) quartiles over workloads of the usage by hour of the day, divided by the workload's mean."""
    owner = np.repeat(np.arange(len(trace)), np.diff(trace.offsets))
    hour = (trace.slot * trace.slot_seconds // 3600) % 24
    cell, size = owner * 24 + hour, len(trace) * 24
    total, count = np.bincount(cell, trace.usage[:, resource], size), np.bincount(cell, minlength=size)
    mean = np.add.reduceat(trace.usage[:, resource], trace.offsets[:-1]) / np.diff(trace.offsets)
    profile = (
        np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(-1, 24) / np.maximum(mean, 1e-12)[:, None]
    )
    with np.errstate(all="ignore"):
        seen = [column[np.isfinite(column)] for column in profile.T]
    return np.array([np.quantile(c, (0.25, 0.5, 0.75)) if len(c) else [np.nan] * 3 for c in seen]).T
