"""Rows of the results -> pages: tables by what schedulers may know, what was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.experiments.episode_rows import GAPS, incomplete_by, no_value
from tvwrl.experiments.plots import PENALTY
from tvwrl.experiments.statistics import NO_ESTIMATE, Estimate, estimates_by_column, interquartile_mean, with_interval
from tvwrl.experiments.tables import CEILING, FLOOR
from tvwrl.experiments.training_runs import DEEPRM
from tvwrl.markdown import markdown_table
from tvwrl.plotting import NOTHING, Panel, Point, Row, draw_estimates, ranked
from tvwrl.schedulers import GROUPS, is_ours, knowing_no_more, titles_of
from tvwrl.types import Float

if TYPE_CHECKING:
    import polars as pl

AGENT = "agent"
AGENTS: dict[str, dict[str, Any]] = {  # what they are shown differs so from the preset's scenario
    AGENT: {},
    "agent-history": {"observe_request": False, "observe_forecast": False, "choose_from_queue": False},
    "agent-peak": {"observe_forecast": False, "observe_peak": True},
    "agent-forecast-peak": {"observe_peak": True},
}
LEARNT = (*AGENTS, DEEPRM)
DENSE = 0.5  # above this load workloads wait whatever a scheduler does
Measures = Mapping[str, Mapping[str, Estimate]]  # scheduler -> column of the rows -> estimate
METRICS = ("reward", "overshoot_pct", "machines_used", *GAPS, "wait_mean", "unplaced")
MIDDLE = "reward, IQM"
HEAD = [
    *("scheduler", "reward (thousands)", "IQM reward (thousands)", "agent ahead by (thousands)", "gap closed %"),
    *("overshoot %", "machines / tetris'", "peak machines above bound %", "machine slots above bound %"),
    *("the same, with waiting", "wait (slots)"),
]
ENOUGH = 3  # seeds
TRAINED = "what-was-trained"  # the name of a page
DRAWN = 2  # schedulers of each knowledge group in a picture
COMPARED = ["agent", "best rival", "ahead by (thousands)", "cost saved %", "gap closed %"]
COMPARED += ["overshoot %", "wait (slots)"]
NOTE = (
    "Values are means, with 95 % bootstrap intervals over test sequences and training seeds in brackets; ratios and "
    "differences are paired by sequence. Gap closed: where the mean reward lies between that of "
    f"`{FLOOR}` (0 %) and that of `{CEILING}` (100 %)."
)
RIVAL = (
    "*Best rival*: the best scheduler that knows no more than the agent; an asterisk: the agent is significantly "
    "better than every one of them (the paired interval of the difference in reward lies above 0)."
)
COLUMNS = (
    "Agents are averaged over their seeds. A scheduler that left workloads unplaced in any sequence has no means and "
    "comes last, as what never ran costs nothing. IQM: the interquartile mean, of the middle half of the values. The "
    f"bound on machines is for schedules in which nothing waits, as in nearly all at loads up to {DENSE:g}. At higher "
    "loads workloads wait: then only the bound with waiting holds, and none on the peak (docs/explanation/bounds.md)."
)


def rivals(measures: Measures, knowledge: Mapping[str, str], agent: str) -> list[str]:
    """The other schedulers that know no more than the agent and left no workload unplaced; `knowledge`: the group of
    every scheduler."""
    groups = knowing_no_more(knowledge[agent])
    able = [name for name in measures if name not in AGENTS and knowledge[name] in groups]
    return [name for name in able if not measures[name]["unplaced"].mean]


def best_rival(measures: Measures, knowledge: Mapping[str, str], agent: str) -> str:
    """The one of `rivals` with the highest mean reward; empty if there is none."""
    return max(rivals(measures, knowledge, agent), key=lambda name: measures[name]["reward"].mean, default="")


def cost_saved(measures: Measures, scheduler: str, other: str) -> Estimate:
    """Share of the other's cost, the reward with its sign changed, that a scheduler saves."""
    if not {scheduler, other} <= measures.keys():
        return NO_ESTIMATE
    its = measures[other]["reward"]
    return (its - measures[scheduler]["reward"]) / its


def gap_closed(measures: Measures, scheduler: str) -> Estimate:
    """How far the mean reward is on the way from `FLOOR` (0) to `CEILING` (1); NaN where that is not the higher one."""
    if not {FLOOR, CEILING, scheduler} <= measures.keys():
        return NO_ESTIMATE
    floor = measures[FLOOR]["reward"]
    way, whole = (measures[name]["reward"] - floor for name in (scheduler, CEILING))
    draws: Float = np.where(whole.draws > 0, whole.draws, np.nan)
    return way / Estimate(whole.mean if whole.mean > 0 else float("nan"), draws)


def shown(found: Estimate, decimals: int = 2, scale: float = 1.0, sign: str = "") -> str:
    """Mean [interval], or a dash."""
    return with_interval(found.mean, found.interval, decimals, sign, scale)


def slots_gap(load: float) -> str:
    """The column with the distance of machine slots to the bound that holds at a load: above `DENSE` workloads wait."""
    return "slots_gap_waiting_pct" if load > DENSE else "slots_gap_pct"


def measure(rows: pl.DataFrame) -> dict[str, dict[str, dict[str, Estimate]]]:
    """group -> scheduler -> metric -> estimate; rows as of `results.finished_rows`. No estimate of a measure where an
    episode, of any seed, is incomplete."""
    found: dict[str, dict[str, dict[str, Estimate]]] = {}
    every = {metric: estimates_by_column(rows, metric) for metric in METRICS}
    every[MIDDLE] = estimates_by_column(rows, "reward", interquartile_mean)
    for metric, groups in every.items():
        for group, columns in groups.items():
            for column, one in columns.items():
                found.setdefault(group, {}).setdefault(column, {})[metric] = one
    return found


def write_pages(
    rows: pl.DataFrame, trained: pl.DataFrame, groups: Sequence[str], how: str
) -> tuple[str, dict[str, str]]:
    """Markdown from `finished_rows` and `trainings`: the page, and what it links to by name: a page per trace, with the
    picture `<trace>.png`, and `TRAINED`, which begins with `how`. `groups`: all that were asked for."""
    measures = measure(rows)
    knowledge = dict(rows.select("column", "knowledge").unique().rows())
    loads = dict(rows.select("group", "load").unique().rows())
    left = incomplete_by(rows, ("group", "column"))
    cells = [(group, agent) for group, of in measures.items() for agent in AGENTS if agent in of and of.keys() - LEARNT]
    sequences = {group: part["sequence"].n_unique() for (group,), part in rows.group_by("group")}
    traces: dict[str, list[str]] = {}
    for group in groups:
        if group not in measures:
            continue
        trace = trained.filter(trained["group"] == group)["trace"][0]
        parts = traces.setdefault(trace, [f"# {trace}", f"![{trace}]({trace}.png)", f"{NOTE} {COLUMNS}"])
        learnt = trained.filter(trained["group"] == group)["evaluated"]
        played = f"{sequences[group]} test sequences; {int(learnt.sum())} of {len(learnt)} learnt schedulers"
        parts += [
            f"## Load {loads[group]:g}",
            played,
            _table(measures[group], knowledge, {n: what for (of, n), what in left.items() if of == group}),
        ]
    links = [f"[{trace}]({trace}.md)" for trace in traces]
    main = ["# Results"]
    if (seeds := trained["seed"].n_unique()) < ENOUGH:
        main.append(
            f"**Fewer than {ENOUGH} training seeds ({seeds}) were asked for**: the intervals say little, with one seed "
            "nothing, of what another training would have given."
        )
    main.append(_missing(measures, trained, groups))
    main += ["## Agents against schedulers that know no more", _averages(measures, knowledge, cells)]
    main += [_overview(measures, knowledge, cells), NOTE, "## Every scheduler"]
    main += [
        f"A page per trace has them all: {', '.join(links)}. [What was trained]({TRAINED}.md) describes the agents."
    ]
    pages = {trace: _joined(parts) for trace, parts in traces.items()}
    return _joined(main), pages | {TRAINED: _joined(["# What was trained", how, _trained(trained)])}


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def plot_trace(rows: pl.DataFrame, file: Path) -> None:
    """A chart of agents, and of the best schedulers of each knowledge group, at every load; from rows of one trace."""
    measures, loads = measure(rows), dict(rows.select("group", "load").unique().rows())
    groups = dict(rows.select("column", "knowledge").unique().rows())
    cost = {name: sum(_cost(of[name]) for of in measures.values() if name in of) for name in groups}
    names: list[str] = []
    for title in GROUPS:  # the cheapest schedulers of each group over all loads, then what was trained
        group = [name for name in cost if groups[name] == title and name not in LEARNT]
        names += sorted(group, key=lambda name: cost[name])[:DRAWN]
    names += [name for name in LEARNT if name in cost]
    titles = titles_of(names)
    shown = ranked(
        (Row(titles[name], groups[name], is_ours(name)) for name in names),
        {titles[name]: cost[name] for name in names},
        GROUPS,
    )
    panels = [
        Panel(
            title,
            {
                titles[n]: [
                    _point(of[n][metric or slots_gap(loads[group])], scale) if n in of else NOTHING
                    for group, of in measures.items()
                ]
                for n in names
            },
            logarithmic=None if title == PENALTY else False,
        )
        for title, metric, scale in (
            (PENALTY, "reward", -0.001),
            ("Overshoot, % of capacity (lower is better)", "overshoot_pct", 1.0),
            ("Machines used (lower is better)", "machines_used", 1.0),
            ("Machine slots above bound, % (lower is better)", "", 1.0),
        )
    ]
    series = [f"load {loads[group]:g}" for group in measures]
    note = f"test sequences and training seeds (bound at loads above {DENSE:g}: for schedules that wait)"
    draw_estimates(file, shown, panels, series, note, across=len(panels))


def _point(found: Estimate, scale: float) -> Point:
    return Point(scale * found.mean, *sorted(scale * end for end in found.interval))


def _cost(own: Mapping[str, Estimate]) -> float:
    """Minus the mean reward, by which schedulers are ranked; infinite for one that left workloads unplaced."""
    return np.inf if np.isnan(own["reward"].mean) else -own["reward"].mean


def _trained(trained: pl.DataFrame) -> str:
    """A line per trace and agent, or DeepRM: iterations, minutes, machine and commit of each seed."""
    body = []
    once = trained.unique(("trace", "agent", "seed"), keep="first", maintain_order=True)
    for (trace, agent), part in once.group_by("trace", "agent", maintain_order=True):
        own = part.sort("seed")
        minutes = [_minutes(*values) for values in own.select("seconds", "timed", "iterations").rows()]
        done = [f"{now} of {of}" if now < of else f"{of}" for now, of in own.select("iterations", "of").rows()]
        facts = [", ".join(dict.fromkeys(str(v) for v in own[name] if v)) for name in ("cores", "commit")]
        body.append([trace, agent, ", ".join(map(str, own["seed"])), ", ".join(done), ", ".join(minutes), *facts])
    return markdown_table(["trace", "learnt", "seeds", "iterations", "minutes (wall clock)", "cores", "commit"], body)


def _minutes(seconds: float, timed: int, iterations: int) -> str:
    """What is known of how long it took."""
    if not timed:
        return "-" if not iterations else "not recorded"
    return f"{seconds / 60:.1f}" + (f" (of {timed} iterations)" if timed != iterations else "")


def _missing(measures: Mapping[str, Measures], trained: pl.DataFrame, groups: Sequence[str]) -> str:
    """Every cell that was asked for and has no rows."""
    lines = []
    for group in groups:
        if not measures.get(group, {}).keys() - LEARNT:
            lines.append(f"- {group}: the heuristics")
        for agent, seed, done, of in (
            trained.filter((trained["group"] == group) & ~trained["evaluated"])
            .sort("seed")
            .select("agent", "seed", "iterations", "of")
            .rows()
        ):
            lines.append(f"- {group}: {agent} of seed {seed} ({done} of {of} iterations trained, not evaluated)")
    return "Missing from all figures below:\n\n" + "\n".join(lines) if lines else ""


def is_better_than_all(measures: Measures, knowledge: Mapping[str, str], agent: str) -> bool:
    """Whether the paired difference in reward lies above zero, interval and all, for every rival, if there is one."""
    others = rivals(measures, knowledge, agent)
    ahead = [measures[agent]["reward"] - measures[name]["reward"] for name in others]
    return bool(ahead) and all(one.interval[0] > 0 for one in ahead)


def _overview(measures: Mapping[str, Measures], knowledge: Mapping[str, str], cells: Sequence[tuple[str, str]]) -> str:
    """Every agent against the best scheduler that knows no more."""
    if not cells:
        return "No trace and load has both an agent and heuristics yet."
    body = []
    for group, agent in sorted(cells, key=lambda cell: list(AGENTS).index(cell[1])):
        of = measures[group]
        best = best_rival(of, knowledge, agent)
        ahead = shown(of[agent]["reward"] - of[best]["reward"], scale=0.001, sign="+") if best else "-"
        line = [group, agent, best, ahead + "*" * is_better_than_all(of, knowledge, agent)]
        line += [shown(cost_saved(of, agent, best), 1, 100), shown(gap_closed(of, agent), 0, 100)]
        line += [with_interval(of[agent]["overshoot_pct"].mean, NO_ESTIMATE.interval, 3)]
        body.append([*line, with_interval(of[agent]["wait_mean"].mean, NO_ESTIMATE.interval, 2)])
    return f"{markdown_table(['', *COMPARED], body)}\n\n{RIVAL}"


def _averages(measures: Mapping[str, Measures], knowledge: Mapping[str, str], cells: Sequence[tuple[str, str]]) -> str:
    """A line per agent: in how many cells it is better than all that know no more, and means over cells."""
    lines = []
    for agent in AGENTS:
        own = [measures[group] for group, name in cells if name == agent]
        if not own:
            continue
        above = sum(is_better_than_all(of, knowledge, agent) for of in own)
        saved = [cost_saved(of, agent, best_rival(of, knowledge, agent)).mean for of in own]
        closed = [gap_closed(of, agent).mean for of in own]
        left = sum(bool(np.isnan(of[agent]["reward"].mean)) for of in own)
        lines.append(
            f"- `{agent}` is significantly better than every scheduler that knows no more in {above} of {len(own)} "
            "cells; "
            + (
                f"it has no average, as it left workloads unplaced in {left} of them."
                if left
                else f"on average it saves {np.mean(saved):.1%} of the cost of the best of them and closes "
                f"{np.mean(closed):.1%} of the gap from `{FLOOR}` to `{CEILING}`."
            )
        )
    return "\n".join(lines)


def _table(measures: Measures, knowledge: Mapping[str, str], left: Mapping[str, str]) -> str:
    """Schedulers by what they may know, in each group the best first; `left`: what those that left workloads unplaced,
    which come last, did not place."""
    body = []
    for title in GROUPS:
        names = [name for name in measures if knowledge[name] == title]
        body += [[f"*{title}*", *[""] * (len(HEAD) - 1)]] if names else []
        names.sort(key=lambda n: (_cost(measures[n]), measures[n]["unplaced"].mean))
        body += [_line(measures, n, left.get(n, "")) for n in names]
    return markdown_table(HEAD, body)


def _line(measures: Measures, name: str, left: str) -> list[str]:
    own = measures[name]
    ahead = measures[AGENT]["reward"] - own["reward"] if AGENT in measures and name != AGENT else None
    return [
        f"**{name}**" if name in AGENTS else name,
        no_value(left) or shown(own["reward"], scale=0.001),
        shown(own[MIDDLE], scale=0.001),
        "" if ahead is None else shown(ahead, scale=0.001, sign="+"),
        shown(gap_closed(measures, name), 0, 100),
        shown(own["overshoot_pct"], 3),
        shown(own["machines_used"] / measures["tetris"]["machines_used"] if "tetris" in measures else NO_ESTIMATE),
        *(shown(own[gap], 1) for gap in GAPS),
        shown(own["wait_mean"]),
    ]
