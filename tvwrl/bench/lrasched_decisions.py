"""What recommendations are worth on the simulated testbed, by margin: whether the goal is met, and at what price."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.experiments.plots import plot_lines
from tvwrl.experiments.statistics import bootstrap_interval
from tvwrl.lrasched.predictors import PREDICTORS
from tvwrl.lrasched.profiles import Configuration
from tvwrl.lrasched.recommender import Recommender
from tvwrl.lrasched.testbed import CPUS, MEMS, SimulatedApplication, configurations, draw_applications, profile
from tvwrl.markdown import markdown_table

GOAL, MARGINS = 0.8, (0.0, 0.02, 0.05, 0.1)
COLUMNS = ("met", "claimed", "size_over_pct", "degree", "best_degree", "profiles")


def decisions(
    seeds: Sequence[int], earlier: int, arriving: int
) -> tuple[str, list[dict[str, Any]], Callable[[Path], None]]:
    """Markdown, rows and what draws the plot, of recommendations for `arriving` applications after `earlier` ones."""
    rows = []
    jobs = [(seed, name, margin) for seed in seeds for name in PREDICTORS for margin in MARGINS]
    for seed, name, margin in tqdm(jobs, desc="recommending", disable=None, leave=False):
        drawn, offered, rng = draw_applications(earlier + arriving, seed), configurations(), np.random.default_rng(seed)
        recommender = Recommender(profile(drawn[:earlier], offered, seed), offered, PREDICTORS[name], seed)
        each = [_judge(recommender, one, margin, rng) for one in drawn[earlier:]]
        means = np.nanmean(np.array(each), axis=0)
        rows.append({"predictor": name, "margin": margin, "seed": seed, **dict(zip(COLUMNS, means, strict=True))})

    def values(name: str, margin: float, column: str) -> Any:
        return np.array([row[column] for row in rows if (row["predictor"], row["margin"]) == (name, margin)])

    def shown(name: str, margin: float) -> list[str]:
        low, high = bootstrap_interval(values(name, margin, "met"))
        mean = {column: values(name, margin, column).mean() for column in COLUMNS}
        met = f"{100 * mean['met']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        rest = f"{100 * mean['claimed']:.1f}", f"{mean['size_over_pct']:+.1f}", f"{mean['profiles']:.1f}"
        return [name, f"{margin:g}", met, *rest[:2], f"{mean['degree']:.2f}", f"{mean['best_degree']:.2f}", rest[2]]

    head = ("predictor (simulated)", "margin", "goal met, %", "said so, %", "size, %", "degree", "best", "profiles")
    text = (
        "# Recommendations by margin (simulated)\n\n"
        f"Goal {GOAL:g}; {earlier} applications profiled before, {arriving} that arrive, less those that no size can "
        f"bring to the goal; {len(seeds)} seeds [95 % bootstrap interval]. Met: without noise the recommended size and "
        "degree reach the goal. Size: above the smallest that does alone, by share of the largest CPU and memory. "
        "Degree: mean, and the largest that the smallest size allows. Profiles: measurements of a new application.\n\n"
        f"{markdown_table(head, [shown(name, margin) for name in PREDICTORS for margin in MARGINS])}\n"
    )
    lines = {name: np.array([100 * values(name, margin, "met") for margin in MARGINS]) for name in PREDICTORS}
    places = [f"{margin:g}" for margin in MARGINS]
    return text, rows, lambda file: plot_lines(file, places, lines, "margin", "goal met, % (simulated)")


def _judge(
    recommender: Recommender, one: SimulatedApplication, margin: float, rng: np.random.Generator
) -> tuple[float, ...]:
    """COLUMNS of one application; NaN where no size reaches the goal."""
    measured: set[str] = set()

    def measure(configuration: Configuration) -> float:
        measured.add(configuration.name)
        return one.measure(configuration, rng)

    found = recommender.profile(one.name, measure, GOAL, margin, rng)
    able = [size for size in recommender.sizes if one.performance(size) >= GOAL]
    if not able:
        return (float("nan"),) * len(COLUMNS)
    taken, cost = found.configuration, [c.cpu / max(CPUS) + c.mem / max(MEMS) for c in (found.configuration, able[0])]
    allowed = [c.collocation for c in recommender.degrees(able[0]) if one.performance(c) >= GOAL]
    return (
        float(one.performance(taken) >= GOAL),
        float(found.reached),
        100 * (cost[0] / cost[1] - 1),
        taken.collocation,
        max(allowed),
        len(measured),
    )
