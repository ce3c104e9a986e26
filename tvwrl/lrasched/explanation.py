"""Explains a recommendation of size and degree: in words, as a table and as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.lrasched.recommendation import Choice, Recommendation
from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, OTHERS, OURS, WIDTH, new_figure, tidy


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
    choices = {"Size,\nthe smallest first": found.size, "Replicas on a machine,\nthe most first": found.degree}
    counts = [len(choice.configurations) for choice in choices.values()]
    figure = new_figure(WIDTH, 4.6)
    axes = figure.subplots(1, 2, width_ratios=[max(count, sum(counts) / 3) for count in counts], sharey=True)
    for axis, (label, choice) in zip(axes, choices.items(), strict=True):
        _curve(axis, found, choice, label)
    better = "higher" if found.goal.higher_is_better else "lower"
    axes[0].set_ylabel(f"performance ({better} is better)", fontsize=9.5)
    figure.suptitle(title, fontsize=10)
    legend = axes[0].get_legend_handles_labels()
    figure.legend(*legend, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    figure.savefig(file, dpi=DPI, format="png")


def _curve(axis: Any, found: Recommendation, choice: Choice, label: str) -> None:
    x, known, chosen = np.arange(len(choice.configurations)), choice.measured, choice.chosen
    axis.plot(x, choice.predicted, "-o", color=COLOURS[0], ms=4, lw=1.4, label="predicted")
    axis.plot(x[known], choice.performance[known], "D", color=OTHERS, ms=7, label="measured")
    axis.axhline(found.goal.performance, color=OTHERS, lw=1.2, label="goal")
    axis.axhline(found.goal.limit, color=OTHERS, lw=1.2, ls="--", label="goal with margin")
    ring = {"ls": "", "marker": "o", "ms": 15, "mfc": "none", "mec": OURS, "mew": 2}
    axis.plot(chosen, choice.performance[chosen], **ring, label="recommended")
    axis.set_xticks(x, [c.name for c in choice.configurations], rotation=60, ha="right", rotation_mode="anchor")
    axis.tick_params(labelsize=9)
    axis.set_ylim(0, 1.08)
    axis.set_title(label + ("" if choice.reached else ":\ngoal not reached"), fontsize=10)
    tidy(axis, "y")
