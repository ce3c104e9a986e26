"""The benchmark's page and tables, of all tasks together and of each; `ranking` has what stands in them."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np

from tvwrl.benchmark.ranking import Estimate, Line
from tvwrl.experiments import (
    CEILING,
    FLOOR,
    no_value,
    paired_bootstrap,
    stratified_bootstrap,
    with_interval,
)
from tvwrl.markdown import markdown_table
from tvwrl.plotting import NOTHING, Panel, Point, Row, draw_estimates
from tvwrl.schedulers import CURRENT_LOAD, FORECASTS, GROUPS, PLUS, PRODUCTION, RECONSTRUCTED, REQUESTS, title_of

FEW = 3  # tasks whose tables and pictures all fit on the page
ATTAINABLE = (CURRENT_LOAD.group, REQUESTS.group, FORECASTS.group)  # what a cluster can know
MOVES = "moves per workload"  # a column of tasks where workloads may move
Column = Callable[["Line"], str]
HEAD: dict[str, Column] = {
    "scheduler": lambda line: f"**{line.label}**" if line.ours else line.label,
    "rank": lambda line: str(line.rank),
    "reward (thousands)": lambda line: no_value(line.incomplete) or with_interval(*line.reward, 1, "", 1e-3),
    "behind the best of its group": lambda line: "0" if line.is_best else with_interval(*line.behind, 1, "", 1e-3),
    "gap closed %": lambda line: _plain(line.closed, 0),
    "overshoot %": lambda line: _plain(line.overshoot, 3),
    "machines": lambda line: _plain(line.machines, 2),
    "wait (slots)": lambda line: _plain(line.wait, 2),
    "unplaced": lambda line: f"{line.unplaced:.2f}",
    MOVES: lambda line: _plain(line.moves, 2),
    "ms per decision": lambda line: f"{line.milliseconds:.2f}",
}
LEGEND = (
    "Reward: minus the penalties, so nearer to 0 is better. Values are means over the task's test sequences, with 95 % "
    "bootstrap intervals in brackets; differences are paired by sequence. Schedulers are ranked among those that know "
    "as much, and equals share a rank; those that left workloads unplaced in any sequence come last, and have no "
    "means: what never ran costs nothing, and a mean over the other sequences would be over their own selection. Gap "
    "closed: where the reward lies between that of "
    f"`{FLOOR}` (0 %) and that of `{CEILING}` (100 %). *Tuned*: with the margin that was best on validation sequences, "
    "which the name shows, and with backfilling (when a workload has to wait, others may pass it) where that was "
    "better still. A decision places one workload, or none. Bold: this project's rules and agents."
)


def _plain(value: float, decimals: int) -> str:
    """A number, or a dash where there is none."""
    return "-" if np.isnan(value) else f"{value:.{decimals}f}"


def text(found: Mapping[str, Sequence[Line]], missing: int) -> str:
    """Markdown: production's rules and ours on each task, ranks over all tasks, and of `FEW` tasks all tables."""
    parts = ["# Benchmark", LEGEND]
    if missing:
        parts.append(f"**{missing} cells are missing** from the tables below; the same command completes them.")
    parts += ["## Production's rules and ours", _against_production(found), "## All tasks", _overall(found)]
    if len(found) <= FEW:
        parts += [task_table(task, lines) for task, lines in found.items()]
    return "\n\n".join(parts)


def task_table(task: str, lines: Sequence[Line]) -> str:
    """Markdown: the picture and the table of a task."""
    head = [name for name in HEAD if name != MOVES or not np.isnan([line.moves for line in lines]).all()]
    body = []
    for group in GROUPS:
        own = [line for line in lines if line.knowledge == group]
        body += [[f"*{group}*", *[""] * (len(head) - 1)]] if own else []
        body += [[HEAD[name](line) for name in head] for line in own]
    count = f"{len(lines[0].rewards)} test sequences."
    return "\n\n".join([f"## {task}", count, f"![{task}]({task}.png)", markdown_table(head, body)])


def _against_production(found: Mapping[str, Sequence[Line]]) -> str:
    """Per task: the best rules of production clusters, and the best of ours that knows neither peaks nor the future."""
    head = ["task", "best by default", "best, tuned", "best `-like`", "best of ours", "ours less than the tuned one, %"]
    body = []
    for task, lines in found.items():
        placed = sorted((line for line in lines if not line.incomplete), key=lambda line: -line.reward[0])
        placed = [line for line in placed if line.knowledge in ATTAINABLE]
        theirs = [line for line in placed if _is_theirs(line) and line.scheduler not in RECONSTRUCTED]
        like = [line for line in placed if line.scheduler in RECONSTRUCTED]
        ours = [line for line in placed if line.ours]
        default = [line for line in theirs if not line.tuned]
        if not (default and ours):
            body.append([task, *"-" * (len(head) - 1)])
            continue
        best = [default[0], theirs[0], *like[:1], ours[0]]
        cells = [f"{line.played if line.tuned else line.label} {line.reward[0] / 1e3:,.0f}" for line in best]
        cells[2:2] = [] if like else ["-"]
        percent = 100 / -theirs[0].reward[0]
        saved, low, high = paired_bootstrap(ours[0].rewards, theirs[0].rewards)
        body.append([task, *cells, with_interval(saved, (low, high), 0, "", percent)])
    note = (
        "Mean rewards in thousands. Schedulers that know true lifetime peaks or the whole future are left out. Rules "
        "that had to be reconstructed (`-like`) have a column of their own: what they are named after may do better or "
        "worse. Intervals are of paired differences. All schedulers on all tasks are in [benchmark.csv](benchmark.csv) "
        "and in `benchmark.html`, which `tvwrl benchmark` writes too and a browser can sort."
    )
    return f"{markdown_table(head, body)}\n\n{note}"


def _is_theirs(line: Line) -> bool:
    """Whether it is a rule of production clusters: it places by one, or moves by one."""
    return line.scheduler in PRODUCTION or (PLUS in line.scheduler and not line.ours)


def _overall(found: Mapping[str, Sequence[Line]]) -> str:
    """A row per scheduler, by group: mean rank, the number of tasks in which it is best or level, means over tasks."""
    every: dict[tuple[str, str, bool], list[Line]] = {}
    for lines in found.values():
        for line in lines:
            every.setdefault((line.knowledge, line.scheduler, line.tuned), []).append(line)
    body = []
    for group in GROUPS:
        own = {key: lines for key, lines in every.items() if key[0] == group}
        body += [[f"*{group}*", *[""] * 5]] if own else []
        for (_, name, tuned), lines in sorted(own.items(), key=lambda item: np.mean([line.rank for line in item[1]])):
            level = sum(line.is_best or line.behind[1][1] >= 0 for line in lines)
            closed = [line.closed for line in lines]
            left = sum(bool(line.incomplete) for line in lines)
            label = f"{name}, tuned" if tuned else name
            row = [f"**{label}**" if lines[0].ours else label, f"{np.mean([line.rank for line in lines]):.1f}"]
            row.append(f"{level} of {len(lines)}")
            if left:
                row += [f"- (workloads not placed in {left} of {len(lines)} tasks)", "-"]
            else:
                row.append("-" if np.isnan(closed).all() else f"{np.nanmean(closed):.0f}")
                row.append(_middle_closed(lines))
            body.append([*row, _plain(float(np.mean([line.overshoot for line in lines])), 3)])
    head = ["scheduler", "mean rank in its group", "best or level with it", "gap closed %"]
    head += ["gap closed %, IQM", "overshoot %"]
    note = (
        "*Level*: the interval of the difference from the best of the group includes 0. Means are over tasks. IQM: "
        "mean of the middle half of the sequences of all tasks, each as far on its way from the task's mean reward of "
        f"`{FLOOR}` to that of `{CEILING}`; its 95 % interval is a bootstrap stratified by task, as "
        "[rliable](https://github.com/google-research/rliable) computes it."
    )
    return f"{markdown_table(head, body)}\n\n{note}"


def _middle_closed(lines: Sequence[Line]) -> str:
    """Interquartile mean of the gap closed over the sequences of all tasks, with its interval."""
    strata = [line.closed_each for line in lines if len(line.closed_each)]
    if len(strata) < len(lines):
        return "-"
    middle, low, high = stratified_bootstrap(strata)
    return with_interval(middle, (low, high), 0)


def picture(task: str, lines: Sequence[Line]) -> Callable[[Path], None]:
    """Writes a PNG: a row per scheduler with its mean penalty and interval, ranked within groups.

    Where a rule was tuned too, both forms are in its row, the default as a ring, and the better one decides its place.
    """
    titles = {line.scheduler: title_of(line.scheduler) for line in lines}
    rows = dict.fromkeys(Row(titles[line.scheduler], line.knowledge, line.ours) for line in lines)
    points: dict[str, list[Point]] = {row.name: [NOTHING, NOTHING] for row in rows}
    for line in lines:
        both = sum(other.scheduler == line.scheduler for other in lines) > 1
        low, high = line.reward[1]
        point = Point(-line.reward[0] / 1e3, -high / 1e3, -low / 1e3)
        points[titles[line.scheduler]][0 if both and not line.tuned else 1] = point
    panel = Panel("Mean penalty per sequence, thousands (logarithmic; lower is better)", points, logarithmic=True)
    series, note = (
        ("default of a rule also tuned", "tuned, or the only form"),
        f"{len(lines[0].rewards)} sequences of {task}",
    )
    return partial(draw_estimates, rows=list(rows), panels=[panel], series=series, note=note)


def browser_table(found: Mapping[str, Sequence[Line]]) -> Callable[[Path], None]:
    """Writes one self-contained HTML file: all tables in one, which a click on a heading sorts."""
    return partial(_write_html, found)


def csv_table(found: Mapping[str, Sequence[Line]]) -> Callable[[Path], None]:
    """Writes one CSV file with a row per task and scheduler, numbers to 6 digits; empty where there is none."""
    return partial(_write_csv, found)


def _write_csv(found: Mapping[str, Sequence[Line]], file: Path) -> None:
    import polars as pl
    from polars import selectors

    rows = [
        {
            "task": task,
            "knowledge": line.knowledge,
            "scheduler": line.played,
            "tuned": line.tuned,
            "ours": line.ours,
            "rank": line.rank,
            **_with_ends("reward", line.reward),
            **_with_ends("behind_best", line.behind),
            "gap_closed_pct": line.closed,
            "overshoot_pct": line.overshoot,
            "machines": line.machines,
            "wait_slots": line.wait,
            "unplaced": line.unplaced,
            "moves_per_workload": line.moves,
            "decision_ms": line.milliseconds,
        }
        for task, lines in found.items()
        for line in lines
    ]

    pl.DataFrame(rows).with_columns(selectors.float().round_sig_figs(6)).fill_nan(None).write_csv(file)


def _with_ends(name: str, estimate: Estimate) -> dict[str, float]:
    value, (low, high) = estimate
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _write_html(found: Mapping[str, Sequence[Line]], file: Path) -> None:
    heads = ["task", "knowledge", *HEAD]
    lines = []
    for task, own in found.items():
        for line in own:
            cells = [task, line.knowledge, *(show(line).strip("*") for show in HEAD.values())]
            strong = ' class="ours"' if line.ours else ""
            lines.append(f"<tr{strong}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    page = files("tvwrl.benchmark").joinpath("table.html").read_text(encoding="utf-8")
    head = "".join(f"<th><button>{html.escape(title)}</button></th>" for title in heads)
    page = page.replace("<!--head-->", head).replace(
        "<!--legend-->", html.escape(LEGEND.replace("`", "").replace("*", ""))
    )
    file.write_text(page.replace("<!--body-->", "\n".join(lines)), encoding="utf-8")
