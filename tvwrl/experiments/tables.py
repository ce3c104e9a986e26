"""Rows of evaluated episodes -> comparison tables with bootstrap intervals over arrival sequences.

Columns of a row: see `tvwrl.metrics.score_episode`, and `with_gaps`. One row per scheduler, load and sequence. A
decision time that was not measured (NaN or null) is left out of means. A scheduler with an incomplete episode at a load
has no means there at all (`episode_rows`), and comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.experiments.episode_rows import REWARD_BOUND, UNPLACED, complete_only, incomplete, no_value
from tvwrl.experiments.statistics import (
    Statistic,
    bootstrap_interval,
    interquartile_mean,
    mean,
    paired_bootstrap,
    point_estimate,
    share_closed,
    with_interval,
)
from tvwrl.markdown import markdown_table
from tvwrl.names import name_and_source
from tvwrl.schedulers import GROUPS, Knowledge, head_of, parted, plus
from tvwrl.types import Float, InputError

if TYPE_CHECKING:
    import polars as pl

LEAST, USUAL, MOST = 60, 110, 120  # columns of a table in the terminal; the usual ones where there is no terminal
FLOOR: str = "best-fit-peak"  # 0 % of "gap closed"
CEILING: str = "clairvoyant"  # 100 %
UNKNOWN = "knowledge not stated"


@dataclass(frozen=True)
class Metric:
    """How one column of the rows is shown."""

    column: str
    title: str  # heading in markdown
    short: str  # heading in the terminal, of one line or two
    meaning: str  # for the legend below it
    decimals: int
    rank: int  # place in the terminal, 0 = leftmost
    scale: float = 1.0  # shown value = scale * value
    statistic: Statistic = mean


Summaries = dict[str, dict[str, Float]]  # scheduler -> column -> (sequences,), in rising sequence
Known = Mapping[str, Knowledge]  # scheduler -> what it may know


CLOSED = Metric(
    "",
    "gap closed %",
    "gap\nclosed %",
    f"where the reward lies between that of {FLOOR} (0) and that of {CEILING} (100)",
    0,
    1,
    statistic=share_closed,
)
_NOTE = (
    "Mean over sequences [95 % bootstrap interval]; IQM = interquartile mean; waits in slots; sorted by reward. A "
    "scheduler that left workloads unplaced in any sequence has no means and comes last: what never ran costs nothing, "
    f"and a mean over the other sequences would be over its own selection. Gap closed: how far the mean reward is on "
    f"the way from that of `{FLOOR}` (0 %) to that of `{CEILING}` (100 %)."
)
_GAP_NOTE = (
    "Above bound: beyond the lower bound for schedules without overshoot and without waiting "
    "(docs/explanation/bounds.md); below it are only those that overshoot or let workloads wait. With waiting: the "
    "bound holds for these too."
)
_REWARD_NOTE = (
    "No schedule earns more: mean of a bound, in thousands, on the reward of every schedule that places all workloads, "
    "with the whole future, waiting and overshoot (docs/explanation/bounds.md). It is loose."
)


def comparison_table(
    rows: pl.DataFrame, reference: str | None = None, knowledge: Known | None = None, seed: int = 0
) -> str:
    """Markdown: per load, the mean and 95 % interval of each metric by scheduler, grouped by knowledge and best reward
    first, then paired differences in reward between `reference` (default: the best) and each other scheduler on the
    same sequences.

    Parameters
    ----------
    rows : pl.DataFrame
        A row for each scheduler, load and sequence, as in rows.csv.
    reference : str, optional
        The scheduler with which the others are compared; default: the best.
    knowledge : Known, optional
        Scheduler -> what it may know, written under the tables; without it there is one group.
    seed : int, default 0
        Seed of the resampling, >= 0.

    Returns
    -------
    str
        The tables, in Markdown.

    Raises
    ------
    InputError
        If a column is missing, a sequence occurs twice, or `reference` has no rows at a load.
    """
    metrics, known, parts = _metrics(rows), knowledge or {}, []
    for load, group in by_load(rows).items():
        head = ["scheduler", *(metric.title for metric in metrics), "gap closed %"]
        body = []
        for title, names in _by_knowledge(group, known):
            body += [[f"*{title}*", *[""] * (len(head) - 1)]] if known else []
            for n in names:
                cells = [_interval_cell(m, group[n][m.column], seed) for m in metrics]
                cells[0] = no_value(_incomplete(group, n)) or cells[0]
                body.append([n, *cells, _interval_cell(CLOSED, _towards_ceiling(group, n), seed)])
        parts += [f"### {_heading(load, group)}", markdown_table(head, body)]
        if len(group) > 1:
            parts.append(_difference_table(group, reference, load, seed))
    parts.append(_NOTE)
    if "slots_gap_pct" in rows.columns:
        parts.append(_GAP_NOTE)
    if REWARD_BOUND in rows.columns:
        parts.append(_REWARD_NOTE)
    notes = [f"- `{name}`: {knows.note}" for name, knows in known.items() if name in set(rows["scheduler"])]
    if notes:
        parts.append("What each scheduler may know:\n\n" + "\n".join(notes))
    return "\n\n".join(parts) + "\n"


def terminal_table(
    rows: pl.DataFrame,
    knowledge: Known | None = None,
    seed: int = 0,
    shown: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """Aligned plain text: means by load and scheduler in the order of `comparison_table`, and what the columns mean.

    Reward also has half the width of its 95 % interval.

    Parameters
    ----------
    rows : pl.DataFrame
        As in `Evaluation.rows`.
    knowledge : Known, optional
        As of `comparison_table`.
    seed : int, default 0
        Seed of the resampling, >= 0.
    shown : Sequence[str], default ()
        Columns that are left out last.
    width : int, optional
        Letters of the longest line; default: the terminal's, up to 120; 110 without one. Columns that do not fit are
        left out, the least telling (at the right) first.

    Returns
    -------
    str
        The tables.

    Raises
    ------
    InputError
        As `comparison_table` does.
    """
    width = max(LEAST, min(width or get_terminal_size((USUAL, 0)).columns, MOST))
    known, parts = knowledge or {}, []
    used: dict[str, Metric] = {}
    metrics = sorted([*_metrics(rows), CLOSED], key=lambda metric: 1.5 if metric.column in shown else metric.rank)
    for load, group in by_load(rows).items():
        groups = _by_knowledge(group, known)
        order = [name for _, names in groups for name in names]
        kept = [metric for metric in metrics if metric is not CLOSED or {FLOOR, CEILING} <= set(group)]
        columns = [["", "scheduler", *_short(order, 33)]]
        for metric in kept:
            above, _, below = metric.short.rpartition("\n")
            cells = [_terminal_cell(metric, group, name, seed) for name in order]
            columns.append([above, below, *cells])
        widths = [max(map(len, column)) for column in columns]
        while sum(widths) + 2 * (len(widths) - 1) > width:
            widths.pop()
        used |= {metric.short: metric for metric in kept[: len(widths) - 1]}
        lines = []
        for line in zip(*columns[: len(widths)], strict=True):
            cells = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=False))]
            lines.append("  ".join(cells))
        parts += [_clip(_heading(load, group), width), lines[0], lines[1], "-" * len(lines[0])]
        rest = iter(lines[2:])
        for title, names in groups:
            parts += [_clip(f"-- {title}", width)] if known else []
            parts += [next(rest) for _ in names]
        left = {name: what for name in order if (what := _incomplete(group, name))}
        for name, what in left.items():
            parts += wrap(f"No means for {name}: {what}.", width, subsequent_indent="  ")
        parts.append("")
    return "\n".join([*parts, *_legend(used.values(), width)]) + "\n"


def _terminal_cell(metric: Metric, group: Summaries, name: str, seed: int) -> str:
    """The estimate of a metric; for the reward, with half the width of its interval."""
    values = _towards_ceiling(group, name) if metric is CLOSED else group[name][metric.column]
    cell = with_interval(_estimate(metric, values), (np.nan, np.nan), metric.decimals)
    if metric.column == "reward" and metric.statistic is mean:
        low, high = _interval(metric, values, seed)
        cell += "" if np.isnan(low) else f" ±{(high - low) / 2:.{metric.decimals}f}"
    return cell


def _legend(metrics: Iterable[Metric], width: int) -> list[str]:
    """What the columns mean, in lines of at most `width`; columns that mean the same stand together."""
    together: dict[str, list[str]] = {}
    for metric in metrics:
        heading = metric.short.replace("-\n", "").replace("\n", " ")
        together.setdefault(metric.meaning, []).append(heading)
    lines = []
    for meaning, headings in together.items():
        lines += wrap(f"{' / '.join(headings)}: {meaning}", width, subsequent_indent="  ")
    return lines


def by_load(rows: pl.DataFrame) -> dict[float, Summaries]:
    """load (rising) -> scheduler (in order of appearance) -> column -> values (its sequences,), in rising sequence.

    null becomes NaN; so do all measures of a scheduler with an incomplete episode at that load. Raises InputError if a
    column is missing or a scheduler has a sequence twice at one load.
    """
    columns = ["sequence", "offered_load", *(metric.column for metric in _metrics(rows))]
    columns += [REWARD_BOUND] if REWARD_BOUND in rows.columns else []
    missing = sorted({"scheduler", "load", *columns} - set(rows.columns))
    if missing:
        raise InputError(f"rows lack the columns {missing}")
    tables: dict[float, Summaries] = {}
    rows = complete_only(rows, by=["load", "scheduler"])
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
    bound = "above a lower bound for schedules that"
    plain = f"{bound} neither overshoot nor let workloads wait"
    slots, peak = f"machines used, summed over slots, % {plain}", f"most machines used at once, % {plain}"
    waiting = f"machines used, summed over slots, % {bound} let workloads wait"
    head = "machine slots above bound with waiting %"
    gaps = [
        Metric("slots_gap_pct", "machine slots above bound %", "slots\nabove %", slots, 1, 2),
        Metric("peak_gap_pct", "peak machines above bound %", "peak\nabove %", peak, 1, 2),
        Metric("slots_gap_waiting_pct", head, "slots above\n%, waiting", waiting, 1, 6),
    ]
    moves = [
        Metric("moves_per_workload", "moves per workload", "moves per\nworkload", "times that a workload moved", 2, 1),
        Metric("moves_per_day", "moves per day", "moves\na day", "moves in the cluster per day", 1, 3),
        Metric("moved_often", "moved often %", "moved\noften %", "workloads that moved more than twice", 1, 4, 100.0),
    ]
    reward = "minus the penalties, mean per sequence ± half its 95 % interval; nearer to 0 is better"
    middle = "the same without the best and the worst quarter of sequences"
    used = "usage as a share of the capacity of the largest number of machines in use at once"
    scattered = "unused capacity that lies scattered over machines, 0 to 1; lower is better"
    ran = "machines that ran anything in the sequence, mean"
    return [
        Metric("reward", "reward (thousands)", "reward,\nthousands", reward, 2, 0, 0.001),
        Metric(
            "reward",
            "IQM reward (thousands)",
            "reward,\nmiddle half",
            middle,
            2,
            6,
            0.001,
            statistic=interquartile_mean,
        ),
        *(Metric(f"utilisation_{r}", f"utilisation {r}", f"used\n{_clip(r, 8)}", used, 3, 2) for r in resources),
        *(
            Metric(f"fragmentation_{r}", f"fragmentation {r}", f"scattered\n{_clip(r, 8)}", scattered, 3, 4)
            for r in resources
        ),
        Metric("overshoot_pct", "overshoot %", "over-\nshoot %", "demand above capacity, % of all capacity", 3, 1),
        Metric("machines_used", "machines used", "machines\nused", ran, 2, 1),
        Metric("peak_machines", "peak machines", "machines,\nmost", "most machines in use at once, mean", 2, 5),
        *(moved for moved in moves if moved.column in rows.columns),
        *(gap for gap in gaps if gap.column in rows.columns),
        Metric("wait_mean", "wait (slots)", "wait,\nslots", "between arrival and placement, mean over workloads", 2, 1),
        Metric(UNPLACED, "unplaced", "un-\nplaced", "workloads that were never placed, mean per sequence", 2, 1),
        Metric("decision_ms", "decision ms", "decision,\nms", "time to decide where a workload goes, mean", 3, 5),
    ]


def _by_knowledge(group: Summaries, known: Known) -> list[tuple[str, list[str]]]:
    """(knowledge, its schedulers, the best first), the least knowing first; one nameless group if nothing is known."""
    order = [*GROUPS, UNKNOWN] if known else [UNKNOWN]
    of = {name: known[name].group if name in known else UNKNOWN for name in group}
    return [(title, names) for title in order if (names := [n for n in best_first(group) if of[n] == title])]


def _towards_ceiling(group: Summaries, name: str) -> Float:
    """(n, 3) reward of FLOOR, CEILING and the scheduler on the sequences that all have; n = 0 if one is not there."""
    trio = [group[n] for n in (FLOOR, CEILING, name) if n in group]
    if len(trio) < 3:
        return np.empty((0, 3))
    shared = set.intersection(*(set(columns["sequence"]) for columns in trio))
    return np.stack([columns["reward"][np.isin(columns["sequence"], list(shared))] for columns in trio], axis=1)


def _difference_table(group: Summaries, reference: str | None, load: float, seed: int) -> str:
    """Markdown of the paired differences in reward, `reference` minus each other scheduler."""
    schedulers = best_first(group)
    reference = schedulers[0] if reference is None else reference
    if reference not in group:
        raise InputError(f"reference scheduler {reference!r} has no rows at load {load}: {', '.join(schedulers)} have")
    if what := _incomplete(group, reference):
        return f"No reward of `{reference}` to compare: {what}."
    body = []
    for name in schedulers:
        if name == reference:
            continue
        if what := _incomplete(group, name):
            body.append([name, no_value(what), *[""] * 4])
            continue
        _, mine, theirs = np.intersect1d(group[reference]["sequence"], group[name]["sequence"], return_indices=True)
        a, b = group[reference]["reward"][mine] / 1000, group[name]["reward"][theirs] / 1000
        body.append([name, *_difference_cells(a, b, mean, seed), *_difference_cells(a, b, interquartile_mean, seed)])
        body[-1].append(f"{(a > b).sum()} of {len(a)}")
    head = ["against", "mean difference", "95 % interval", "IQM difference", "95 % interval", "sequences won"]
    title = f"Reward of `{reference}` minus that of each other scheduler, thousands, paired by sequence:"
    return f"{title}\n\n{markdown_table(head, body)}"


def _difference_cells(a: Float, b: Float, statistic: Statistic, seed: int) -> list[str]:
    found, low, high = paired_bootstrap(a, b, np.random.default_rng(seed), statistic=statistic)
    return ["" if np.isnan(found) else f"{found:+.2f}", "" if np.isnan(low) else f"[{low:.2f}, {high:.2f}]"]


def best_first(group: Summaries) -> list[str]:
    """The schedulers by falling mean reward; then those that left workloads unplaced, the fewest first."""

    def place(name: str) -> tuple[float, float]:
        left = float(np.nansum(group[name][UNPLACED]))
        return left, 0.0 if left else -point_estimate(group[name]["reward"])

    return sorted(group, key=place)


def _incomplete(group: Summaries, name: str) -> str:
    """Why a scheduler has no means; empty if it has."""
    return incomplete(group[name][UNPLACED], group[name].get("decision_ms"))


def _heading(load: float, group: Summaries) -> str:
    counts = {name: len(columns["sequence"]) for name, columns in group.items()}
    most = max(counts.values())
    fewer = ", ".join(f"{name} {count}" for name, count in counts.items() if count < most)
    offered = point_estimate(np.concatenate([columns["offered_load"] for columns in group.values()]))
    text = f"Load {load:g} (offered: {offered:.2f}), {most} sequence{'s' * (most != 1)}"
    text += f" (fewer: {fewer})" if fewer else ""
    if bounds := [columns[REWARD_BOUND] for columns in group.values() if REWARD_BOUND in columns]:
        text += f"; no schedule earns more than {point_estimate(np.concatenate(bounds)) / 1000:.2f}"
    return text


def _interval_cell(metric: Metric, values: Float, seed: int) -> str:
    return with_interval(_estimate(metric, values), _interval(metric, values, seed), metric.decimals)


def _estimate(metric: Metric, values: Float) -> float:
    return metric.scale * point_estimate(values, metric.statistic)


def _interval(metric: Metric, values: Float, seed: int) -> tuple[float, float]:
    low, high = bootstrap_interval(values, np.random.default_rng(seed), statistic=metric.statistic)
    return metric.scale * low, metric.scale * high


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _short(names: Sequence[str], width: int) -> list[str]:
    """The names in at most `width` letters, or as many as leave them different.

    Of rules that move, the options go first; of others the middle, as names of rollouts begin with the base and end
    with options.
    """
    cut = [_without_options(name, width) for name in names]
    while len(set(cut)) < len(names):
        cut = [name if len(name) <= width else f"{name[: width // 2]}…{name[-(width // 2) :]}" for name in names]
        width += 1
    return cut


def _without_options(name: str, width: int) -> str:
    """`PLACING + RULE(…)` in at most `width` letters; other names without their middle."""
    if len(name) <= width:
        return name
    if both := parted(name):
        placing, rule = both[0], f"{head_of(both[1])}(…)" if "(" in name_and_source(both[1])[0] else both[1]
        room = width - len(plus("", rule))
        if room > 1:
            return plus(placing if len(placing) <= room else f"{placing[: room - 1]}…", rule)
    return f"{name[: width // 2]}…{name[-(width // 2) :]}"
