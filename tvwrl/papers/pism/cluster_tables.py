"""Tables and plots of the figures of simulated clusters: 12 to 15, and Table 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.experiments import (
    Report,
    Rows,
    column,
    interval_name,
    mean_point,
    mean_with_range,
    plot_lines,
    plot_places,
    select,
)
from tvwrl.interference import CANDIDATES
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism import published
from tvwrl.papers.pism.clusters import AGAIN, ALONE, COUNTS, KINDS, NO_MOVES, ONCE, SHUFFLED, UTILISATION, WARM_UP
from tvwrl.papers.pism.trials import QUANTILES
from tvwrl.plotting import Panel, Row, draw_estimates
from tvwrl.types import Float

if TYPE_CHECKING:
    from tvwrl.papers.pism.figures import ClusterStudy

Plots = dict[str, Callable[[Path], None]]
TITLES = {  # what people call the ways to choose a machine
    UTILISATION: "least CPU",
    SHUFFLED: "PISM, shuffled",
    COUNTS: "PISM, counts alone",
    ONCE: "PISM, learnt once",
    AGAIN: "PISM, learnt again",
}
SIDES = ("with PISM", "without, or with trees that know nothing")
SMALL_SCHEDULERS = ("random", "spread", "stack")


def _setting(rows: Rows) -> str:
    """What stands above every table."""
    one = rows[0]
    seeds = len({row["seed"] for row in rows})
    parts = [
        f"{one['machines']} machines, {one['services']} services, learnt from {one['learns']} minutes",
        f"measured in the last {one['minutes'] - WARM_UP} of {one['minutes']}",
        "tasks replayed from a recorded hour" if one["data"] else "synthetic tasks",
        f"the scheduler assumes the right category of {column(rows, 'right').mean():.0f} % of the instances",
    ]
    parts += ["all services equally sensitive"] * one["alike"]
    parts += ["services as sensitive as Erms' microservices"] * one["measured_services"]
    parts += [f"each instance kept in each copy of the hour with probability {one['kept']:.2f} %"] * (one["kept"] < 100)
    means = f"Means over {seeds} seeds, {interval_name(seeds)} in brackets" if seeds > 1 else "One seed"
    silent = f"{100 * one['silent']:g} % of the machines silent, stale after {one['stale_after']:g} s"
    parts += [silent] * (one["silent"] > 0)
    return (
        f"{', '.join(parts)}; response times follow a law that the score does not see. {means}. Predicted: by PISM's "
        "own trees, which is all that the paper's simulation can know, the same trees before and after a change; "
        "observed: from response times."
    )


def _report(title: str, rows: Rows, text: str, plots: Plots) -> Report:
    return Report(f"# {title} (simulated)\n\n{_setting(rows)}\n\n{text}", rows, plots)


def _of(rows: Rows, law: str, scheduler: str, learnt: str, trees: str = "") -> Rows:
    """Rows by seed; `trees` that predicted scores: by default those that placed, else those learnt once."""
    trees = trees or (learnt if learnt not in ("", UTILISATION) else ONCE)
    return select(rows, law=law, scheduler=scheduler, learnt=learnt, trees=trees)


def _change(now: Rows, before: Rows, name: str) -> str:
    """Change in percent, seed by seed; nothing if both are the same rows."""
    if now == before:
        return ""
    return mean_with_range(100.0 * (column(now, name) / column(before, name) - 1.0), 1, "+")


def _ways(rows: Rows) -> list[str]:
    """The ways in which PISM learnt that were tried."""
    return [learnt for learnt in (SHUFFLED, COUNTS, ONCE, AGAIN) if any(row["learnt"] == learnt for row in rows)]


def fig12(title: str, rows: Rows, study: ClusterStudy) -> Report:
    """Default scheduler and PISM alone: scores, their lowest and highest bucket, slowdown of services."""
    head = ["law", "scheduler", "predicted score", "%", "observed score", "%"]
    head += ["lowest bucket, % (predicted)", "highest, % (predicted)", "lowest (observed)", "highest (observed)"]
    head += ["mean slowdown", "P99 slowdown", "%", "moves a machine and minute"]
    lines = [published.FIG12_DEFAULT, published.FIG12_PISM]
    plots: Plots = {}
    for law in study.laws:
        shown = [("default", "", trees) for trees in _ways(rows)]
        shown += [("spread", "", ONCE)]
        shown += [(name, learnt, learnt) for name in (ALONE, NO_MOVES) for learnt in _ways(rows)]
        for name, learnt, trees in shown:
            now, before = _of(rows, law, name, learnt, trees), _of(rows, law, "default", "", trees)
            line = [law, f"{name}, {learnt}" if learnt else f"{name}, trees {trees}"]
            for field in ("predicted", "score"):
                line += [mean_with_range(column(now, field), 2), _change(now, before, field)]
            for field in ("predicted_0", "predicted_9", "score_0", "score_9"):
                line.append(mean_with_range(column(now, field), 1))
            line += [mean_with_range(column(now, field), 2) for field in ("slowdown", "slowdown_p99")]
            lines.append([*line, _change(now, before, "slowdown_p99"), f"{column(now, 'moves').mean():.2f}"])
        plots[f"plot-{law}"] = partial(_plot_buckets, rows, law)
    best = _ways(rows)[-1]
    over = [
        f"{law} {_change(_of(rows, law, ALONE, best), _of(rows, law, 'spread', '', best), 'slowdown_p99')}"
        for law in study.laws
    ]
    note = f"{ALONE}, {best}, over spread without PISM, % of the P99 slowdown: {'; '.join(over)}."
    return _report(title, rows, f"{markdown_table(head, lines)}\n\n{note}", plots)


def _plot_buckets(rows: Rows, law: str, file: Path) -> None:
    """A panel for each way to learn: how many machines have which score, beside those under the default scheduler."""

    def shares(scheduler: str, learnt: str, part: str) -> Float:
        """(buckets, seeds) percent."""
        mine = _of(rows, law, scheduler, learnt)
        return np.array([column(mine, f"{part}_{bucket}") for bucket in range(10)])

    ours = "PISM, observed"
    panels = {
        TITLES[learnt]: {
            "default scheduler, observed": shares("default", "", "score"),
            "PISM, as its trees predict": shares(ALONE, learnt, "predicted"),
            ours: shares(ALONE, learnt, "score"),
        }
        for learnt in _ways(rows)
    }
    places = [f"{1 + 0.9 * bucket:.1f}" for bucket in range(10)]
    across, up = "score of a machine, from (higher is worse)", "% of machines and minutes"
    paper = {TITLES[COUNTS]: {0: published.FIG12_LOWEST}}
    plot_lines(file, places, panels, across, up, [ours], published=paper)


def table3(title: str, rows: Rows, study: ClusterStudy) -> Report:
    """Throughput at a fixed number of requests under way, against the default scheduler."""
    lines = [published.TABLE3]
    for law in study.laws:
        shown = {f"{ALONE}, {learnt}": (ALONE, learnt) for learnt in _ways(rows)}
        for name, (scheduler, learnt) in (shown | {"spread, without PISM": ("spread", "")}).items():
            now = _of(rows, law, scheduler, learnt)
            gains = [mean_with_range(column(now, field), 1, "+") for field in ("heavy", "light")]
            lines.append([law, name, *gains, mean_with_range(column(now, "heaviest"), 2)])
    text = (
        "Percent more throughput than under the default scheduler, mean over services; throughput: a fixed number of "
        "requests under way over the mean response time. Tail-heavy: the 9.3 % of services (as in the paper) with the "
        "highest P90 over mean; the last column is the highest, where the paper's tail-heavy ones have 5.\n\n"
    )
    head = ["law", "scheduler", "tail-heavy, %", "tail-light, %", "highest P90 / mean before"]
    return _report(title, rows, text + markdown_table(head, lines), {})


def fig13(title: str, rows: Rows, study: ClusterStudy) -> Report:
    """Every scheduler alone, with the score by utilisation, and with PISM."""
    head = ["law", "scheduler", "score", "predicted score", "%", "observed score", "%", "mean slowdown", "%"]
    head += ["P99 slowdown", "%", "% to utilisation", "CPU, % (P5 to P95)"]
    lines = [["published", name, "PISM", "", change, *[""] * 8] for name, change in published.FIG13_CHANGES.items()]
    for law in study.laws:
        for name in KINDS:
            for learnt in ("", *((UTILISATION, *_ways(rows)) if name != "default" else ())):
                now = _of(rows, law, name, learnt)
                before = _of(rows, law, name, "", "" if learnt == UTILISATION else learnt)
                line = [law, name, learnt or "none"]
                for field in ("predicted", "score", "slowdown", "slowdown_p99"):
                    line += [mean_with_range(column(now, field), 2), _change(now, before, field)]
                known = _of(rows, law, name, UTILISATION)
                line.append(_change(now, known, "slowdown_p99") if learnt not in ("", UTILISATION) else "")
                ends = [f"{column(now, f'utilisation_p{q}').mean():.0f}" for q in (5, 95)]
                lines.append([*line, " to ".join(ends)])
    plots: Plots = {"plot": partial(_plot_changes, rows, study.laws)}
    text = markdown_table(head, lines)
    if rows[0]["machines"] <= CANDIDATES:
        text = (
            f"On {rows[0]['machines']} machines all are among the {CANDIDATES} that a scheduler prefers, so each way "
            f"to choose does the same with every scheduler.\n\n{text}"
        )
    return _report(title, rows, text, plots)


def _plot_changes(rows: Rows, laws: Sequence[str], file: Path) -> None:
    """A panel for each scheduler, a row for each way to choose among the machines that it prefers, a mark for each law:
    change of the P99 slowdown in percent, seed by seed."""
    ways = (UTILISATION, *_ways(rows))
    panels = []
    for name in _schedulers(rows, laws[0]):
        alone = {law: column(_of(rows, law, name, ""), "slowdown_p99") for law in laws}
        found = {
            TITLES[learnt]: [
                mean_point(100.0 * (column(_of(rows, law, name, learnt), "slowdown_p99") / alone[law] - 1.0))
                for law in laws
            ]
            for learnt in ways
        }
        panels.append(Panel(_capitalised(name), found))
    chart = [Row(TITLES[learnt], ours=learnt not in (UTILISATION, SHUFFLED)) for learnt in ways]
    note = "seeds: change of P99 slowdown against the scheduler alone, %"
    draw_estimates(file, chart, panels, [f"{law} law" for law in laws], note, sides=SIDES)


def _schedulers(rows: Rows, law: str) -> list[str]:
    """Those that choose machines for PISM."""
    return [name for name in KINDS if name != "default" and _of(rows, law, name, "")]


def _capitalised(name: str) -> str:
    """A scheduler as the title of a panel; the longest name may be broken."""
    return (name[0].upper() + name[1:]).replace("VariationRisk", "Variation-Risk")


def _plot_schedulers(rows: Rows, law: str, field: str, label: str, file: Path) -> None:
    """The same in absolute numbers, of one law."""
    names = _schedulers(rows, law)
    lines = {
        f"+ {TITLES[learnt]}" if learnt else "alone": np.array(
            [column(_of(rows, law, name, learnt), field) for name in names]
        )
        for learnt in ("", UTILISATION, *_ways(rows))
    }
    ours = [f"+ {TITLES[learnt]}" for learnt in _ways(rows) if learnt != SHUFFLED]
    plot_places(file, [_capitalised(name) for name in names], lines, label, ours, sides=SIDES)


def fig14(title: str, rows: Rows, study: ClusterStudy) -> Report:
    """Mean response times of two services, and their change by PISM, seed by seed."""
    head = ["law", "service", "scheduler", "score", "mean, ms", "%", "% to utilisation"]
    paper = published.FIG14_CHECKOUT_STACK
    lines = [["published", "checkout", "stack", pism, ms, "", ""] for pism, ms in paper.items()]
    for law in study.laws:
        for service in ("checkout", "browse_product"):
            field = f"{service}_mean"
            for name in SMALL_SCHEDULERS:
                alone, known = _of(rows, law, name, ""), _of(rows, law, name, UTILISATION)
                for learnt in ("", UTILISATION, *_ways(rows)):
                    now = _of(rows, law, name, learnt)
                    changes = [_change(now, alone, field)]
                    changes.append(_change(now, known, field) if learnt not in ("", UTILISATION) else "")
                    mean = mean_with_range(column(now, field), 0)
                    lines.append([law, service, name, learnt or "none", mean, *changes])
    plots: Plots = {
        f"plot-{law}": partial(_plot_schedulers, rows, law, "checkout_mean", "mean of checkout, ms")
        for law in study.laws
    }
    return _report(title, rows, markdown_table(head, lines), plots)


def fig15(title: str, rows: Rows, study: ClusterStudy) -> Report:
    """Percentiles of response times of two services."""
    head = ["law", "service", "scheduler", "score", *(f"P{q}, ms" for q in QUANTILES)]
    paper = published.FIG15_CHECKOUT_P99
    lines = [["published", "checkout", "", pism, "", "", "", "", ms] for pism, ms in paper.items()]
    for law in study.laws:
        for service in ("checkout", "browse_product"):
            for name in SMALL_SCHEDULERS:
                for learnt in ("", UTILISATION, *_ways(rows)):
                    now = _of(rows, law, name, learnt)
                    ms = [mean_with_range(column(now, f"{service}_p{q}"), 0) for q in QUANTILES]
                    lines.append([law, service, name, learnt or "none", *ms])
    plots: Plots = {
        f"plot-{law}": partial(_plot_schedulers, rows, law, "checkout_p99", "P99 of checkout, ms") for law in study.laws
    }
    return _report(title, rows, markdown_table(head, lines), plots)
