"""Explains a recommendation of size and degree: in words, as a table and as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.lrasched.recommendation import Choice, Recommendation
from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, new_figure, tidy

BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[-1]


def explain(found: Recommendation, source: str) -> str:
    """Markdown: the decision in words, then both curves as tables. `source` says what was learnt from."""
    goal, chosen = found.goal, found.configuration
    sign = ">=" if goal.higher_is_better else "<="
    known = "measured" if found.degree.measured[found.degree.chosen] else "predicted"
    words = [
        f"{found.application}: {source}. Goal: performance {sign} {goal.performance:g}, with the margin {sign} "
        f"{goal.limit:g}.",
        f"Recommended: {chosen.name}: {chosen.cpu:g} cores, {chosen.mem:g} GiB, at most {chosen.collocation} on a "
        f"machine; {known} performance {found.degree.expected:.3f}.",
    ]
    if not found.reached:
        none = "no degree of the sizes that might reach it is" if found.size.reached else "no configuration is"
        words.append(f"GOAL NOT REACHED: {none} expected to. This is the one expected to perform best.")
    passed = [c.name for c in found.size.configurations[: found.size.chosen]]
    promising = [n for n, met in zip(passed, goal.met(found.size.performance), strict=False) if met]
    if promising:
        words.append(f"Passed over, because no degree of theirs is expected to reach the goal: {', '.join(promising)}.")
    if found.size.measured.sum() < 2:
        words.append("The curve of sizes rests on one measurement: measure a second size, and ask again.")
    degrees = int(found.degree.measured.sum())
    if degrees < min(2, len(found.degree.configurations)):
        names = " and ".join(c.name for c in found.degree.configurations[-3:-1][::-1])
        count = "none" if found.assumed else "only one"
        words.append(
            f"The degree rests on other applications: {count} was measured. Measure e.g. {names}, and ask again."
        )
    if found.unused:
        words.append(f"Not used, because their sizes were not considered: {', '.join(found.unused)}.")
    tables = [
        f"{title}\n\n{_table(choice)}"
        for title, choice in (("Sizes, the smallest first", found.size), ("Degrees, the largest first", found.degree))
    ]
    return "\n\n".join([*words, *tables])


def _table(choice: Choice) -> str:
    rows = []
    for i, c in enumerate(choice.configurations):
        value = f"{choice.performance[i]:.3f}" if choice.measured[i] else ""
        numbers = [f"{c.cpu:g}", f"{c.mem:g}", str(c.collocation), f"{choice.predicted[i]:.3f}", value]
        rows.append([c.name, *numbers, "<- chosen" if i == choice.chosen else ""])
    head = ("configuration", "cores", "GiB", "on a machine", "predicted", "measured", "")
    return markdown_table(head, rows)


def plot_recommendation(found: Recommendation, file: Path, title: str) -> None:
    """Write a PNG of both curves: predictions, measurements, the goal and the choice."""
    figure = new_figure(12, 4.4)
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [2, 1]}, sharey=True)
    _curve(left, found, found.size, "size, the smallest first")
    _curve(right, found, found.degree, "degree of collocation, the largest first")
    left.set_ylabel("performance" if found.goal.higher_is_better else "performance (lower is better)")
    figure.suptitle(title, fontsize=11)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(file, dpi=DPI, format="png")


def _curve(axis: Any, found: Recommendation, choice: Choice, label: str) -> None:
    x, known = np.arange(len(choice.configurations)), choice.measured
    axis.plot(x, choice.predicted, "-o", color=BLUE, ms=4, label="predicted")
    axis.plot(x[known], choice.performance[known], "D", color=ORANGE, ms=8, label="measured")
    axis.axhline(found.goal.performance, color=GREY, label="goal")
    axis.axhline(found.goal.limit, color=GREY, ls="--", label="goal with margin")
    chosen = choice.chosen
    axis.plot(chosen, choice.performance[chosen], "o", ms=16, mfc="none", mec="#222222", mew=1.6, label="chosen")
    axis.set_xticks(x, [c.name for c in choice.configurations], rotation=60, ha="right", fontsize=8)
    axis.set_ylim(0, 1.05)
    axis.set_title(label + ("" if choice.reached else ": goal not reached"), fontsize=10)
    tidy(axis, "y")
