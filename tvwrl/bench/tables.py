"""Rows of evaluated episodes -> comparison tables with bootstrap intervals over arrival sequences.

Columns of a row: see `tvwrl.metrics.score_episode`. One row per scheduler, load and sequence; a NaN or null (a wait
where nothing was placed, a decision time that was not measured) is left out of means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.markdown import markdown_table
from tvwrl.types import Float, InputError

if TYPE_CHECKING:
    import polars as pl

RESAMPLES = 10_000
TERMINAL_WIDTH = 110  # columns
BLOCK = 4_000_000  # most draws held in memory at a time


@dataclass(frozen=True)
class Metric:
    """How one column of the rows is shown."""

    column: str
    title: str  # heading in markdown
    short: str  # heading in the terminal
    decimals: int
    rank: int  # place in the terminal, 0 = leftmost
    scale: float = 1.0  # shown value = scale * value


Summaries = dict[str, dict[str, Float]]  # scheduler -> column -> (sequences,), in rising sequence


def bootstrap_interval(
    values: Float, rng: np.random.Generator, resamples: int = RESAMPLES, level: float = 0.95
) -> tuple[float, float]:
    """Percentile bootstrap interval (low, high) of the mean of `values` (n,), in their unit (Efron 1979).

    The values are independent of one another (one per sequence). NaN are left out; fewer than two values say nothing
    of their spread and give (NaN, NaN). `level` in (0, 1): how often the interval should hold the true mean.
    """
    values = np.asarray(values, dtype=np.float64)
    values = values[~np.isnan(values)]
    if len(values) < 2:
        return float("nan"), float("nan")
    block = max(1, BLOCK // len(values))
    sizes = [min(block, resamples - done) for done in range(0, resamples, block)]
    means = np.concatenate([values[rng.integers(len(values), size=(n, len(values)))].mean(axis=1) for n in sizes])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_bootstrap(
    a: Float, b: Float, rng: np.random.Generator, resamples: int = RESAMPLES, level: float = 0.95
) -> tuple[float, float, float]:
    """Mean of a - b and its percentile bootstrap interval (low, high); `a`, `b` (n,) on the same sequences in order.

    Pairing takes out what a hard sequence does to both, so the interval is narrower than that of two independent
    samples wherever the two rise and fall together. An interval without 0 separates the two at this level. Raises
    InputError if the shapes differ.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"paired samples have shapes {a.shape} and {b.shape}: must be equal and one-dimensional")
    return (_mean(a - b), *bootstrap_interval(a - b, rng, resamples, level))


def comparison_table(
    rows: pl.DataFrame, reference: str | None = None, knowledge: Mapping[str, str] | None = None, seed: int = 0
) -> str:
    """Markdown: per load, the mean and 95 % interval of each metric by scheduler, best reward first, then paired
    differences in reward between `reference` (default: the best) and each other scheduler on the same sequences.

    `knowledge`: scheduler -> what it may know, written under the tables. `seed` >= 0: of the resampling. Raises
    InputError if a column is missing, a sequence occurs twice, or `reference` has no rows at a load.
    """
    metrics, parts = _metrics(rows), []
    for load, group in by_load(rows).items():
        head = ["scheduler", *(metric.title for metric in metrics)]
        body = [[n, *(_interval_cell(m, group[n][m.column], seed) for m in metrics)] for n in _best_first(group)]
        parts += [f"### {_heading(load, group)}", markdown_table(head, body)]
        if len(group) > 1:
            parts.append(_difference_table(group, reference, load, seed))
    parts.append(
        "Mean over sequences [95 % bootstrap interval]; waits in slots; sorted by reward, those that left "
        "workloads unplaced last: what never ran costs nothing but its wait."
    )
    known = [f"- `{name}`: {text}" for name, text in (knowledge or {}).items() if name in set(rows["scheduler"])]
    if known:
        parts.append("What each scheduler may know:\n\n" + "\n".join(known))
    return "\n\n".join(parts) + "\n"


def terminal_table(rows: pl.DataFrame, seed: int = 0) -> str:
    """Aligned plain text of at most 110 columns: means by load and scheduler, best reward first, for a terminal.

    Reward also has half the width of its 95 % interval. Columns that do not fit are left out, the least telling
    (at the right) first. `seed` and errors as in `comparison_table`.
    """
    metrics, parts = sorted(_metrics(rows), key=lambda metric: metric.rank), []
    for load, group in by_load(rows).items():
        schedulers = _best_first(group)
        columns = [["scheduler", *(_clip(name, 24) for name in schedulers)]]
        for metric in metrics:
            show = _half_width_cell if metric.column == "reward" else _mean_cell
            columns.append([metric.short, *(show(metric, group[name][metric.column], seed) for name in schedulers)])
        widths = [max(map(len, column)) for column in columns]
        while sum(widths) + 2 * (len(widths) - 1) > TERMINAL_WIDTH:
            widths.pop()
        lines = []
        for line in zip(*columns[: len(widths)], strict=True):
            cells = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=False))]
            lines.append("  ".join(cells))
        parts.append(
            "\n".join([_clip(_heading(load, group), TERMINAL_WIDTH), lines[0], "-" * len(lines[0]), *lines[1:]])
        )
    return "\n\n".join(parts) + "\n"


def by_load(rows: pl.DataFrame) -> dict[float, Summaries]:
    """load (rising) -> scheduler (in order of appearance) -> column -> values (its sequences,), in rising sequence.

    null becomes NaN. Raises InputError if a column is missing or a scheduler has a sequence twice at one load.
    """
    columns = ["sequence", "offered_load", *(metric.column for metric in _metrics(rows))]
    missing = sorted({"scheduler", "load", *columns} - set(rows.columns))
    if missing:
        raise InputError(f"rows lack the columns {missing}")
    tables: dict[float, Summaries] = {}
    for part in rows.sort("load", maintain_order=True).partition_by("load", "scheduler", maintain_order=True):
        part = part.sort("sequence")
        load, scheduler = float(part["load"][0]), str(part["scheduler"][0])
        if part["sequence"].n_unique() < len(part):
            raise InputError(f"rows of scheduler {scheduler!r}, load {load}: a sequence occurs twice")
        values = {name: np.array(part[name].to_list(), dtype=np.float64) for name in columns}
        tables.setdefault(load, {})[scheduler] = values
    return tables


def resources_of(rows: pl.DataFrame) -> list[str]:
    """The resources that the rows have columns for, in order."""
    return [name.removeprefix("utilisation_") for name in rows.columns if name.startswith("utilisation_")]


def _metrics(rows: pl.DataFrame) -> list[Metric]:
    resources = resources_of(rows)
    return [
        Metric("reward", "reward (thousands)", "reward/1000", 2, 0, 0.001),
        *(Metric(f"utilisation_{r}", f"utilisation {r}", f"util {_clip(r, 4)}", 3, 2) for r in resources),
        *(Metric(f"fragmentation_{r}", f"fragmentation {r}", f"frag {_clip(r, 4)}", 3, 4) for r in resources),
        Metric("overshoot_pct", "overshoot %", "over %", 3, 1),
        Metric("machines_used", "machines used", "mach", 2, 1),
        Metric("peak_machines", "peak machines", "peak", 2, 5),
        Metric("wait_mean", "wait (slots)", "wait", 2, 3),
        Metric("unplaced", "unplaced", "unpl", 2, 3),
        Metric("decision_ms", "decision ms", "ms", 3, 5),
    ]


def _difference_table(group: Summaries, reference: str | None, load: float, seed: int) -> str:
    """Markdown of the paired differences in reward, `reference` minus each other scheduler."""
    schedulers = _best_first(group)
    reference = schedulers[0] if reference is None else reference
    if reference not in group:
        raise InputError(f"reference scheduler {reference!r} has no rows at load {load}: {', '.join(schedulers)} have")
    body = []
    for name in schedulers:
        if name == reference:
            continue
        _, mine, theirs = np.intersect1d(group[reference]["sequence"], group[name]["sequence"], return_indices=True)
        a, b = group[reference]["reward"][mine] / 1000, group[name]["reward"][theirs] / 1000
        mean, low, high = paired_bootstrap(a, b, np.random.default_rng(seed))
        interval = "" if np.isnan(low) else f"[{low:.2f}, {high:.2f}]"
        body.append([name, f"{mean:+.2f}" if len(a) else "", interval, f"{(a > b).sum()} of {len(a)}"])
    head = ["against", "mean difference", "95 % interval", "sequences won"]
    title = f"Reward of `{reference}` minus that of each other scheduler, thousands, paired by sequence:"
    return f"{title}\n\n{markdown_table(head, body)}"


def _best_first(group: Summaries) -> list[str]:
    """By mean reward; whoever left workloads unplaced comes last, as what never ran is not in the reward."""
    return sorted(group, key=lambda name: (group[name]["unplaced"].any(), -_mean(group[name]["reward"])))


def _heading(load: float, group: Summaries) -> str:
    counts = {name: len(columns["sequence"]) for name, columns in group.items()}
    most = max(counts.values())
    fewer = ", ".join(f"{name} {count}" for name, count in counts.items() if count < most)
    offered = _mean(np.concatenate([columns["offered_load"] for columns in group.values()]))
    sequences = f"{most} sequence{'s' * (most != 1)}" + (f" (fewer: {fewer})" if fewer else "")
    return f"Load {load:g} (really offered: {offered:.2f}), {sequences}"


def _mean(values: Float) -> float:
    """Mean of what is not NaN; NaN if nothing is left."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _mean_cell(metric: Metric, values: Float, seed: int) -> str:
    mean = metric.scale * _mean(values)
    return "-" if np.isnan(mean) else f"{mean:.{metric.decimals}f}"


def _interval_cell(metric: Metric, values: Float, seed: int) -> str:
    low, high = (metric.scale * v for v in bootstrap_interval(values, np.random.default_rng(seed)))
    interval = "" if np.isnan(low) else f" [{low:.{metric.decimals}f}, {high:.{metric.decimals}f}]"
    return _mean_cell(metric, values, seed) + interval


def _half_width_cell(metric: Metric, values: Float, seed: int) -> str:
    low, high = (metric.scale * v for v in bootstrap_interval(values, np.random.default_rng(seed)))
    half = "" if np.isnan(low) else f" ±{(high - low) / 2:.{metric.decimals}f}"
    return _mean_cell(metric, values, seed) + half


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
