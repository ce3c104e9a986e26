"""What a comparison of forecasters found: tables, rows and pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.experiments.engine import folder_of, read_cell_rows
from tvwrl.experiments.forecaster_cells import (
    OTHERS,
    OWN,
    POOLED,
    REWARDS,
    SAVED,
    SCORES,
    SHIPPED,
    Comparison,
    ForecasterCell,
)
from tvwrl.experiments.statistics import mean_with_interval, paired_difference
from tvwrl.forecasting import REFERENCE, SEGMENTS, SHARES, Beginnings, Forecaster, skill
from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, DPI, new_figure, tidy
from tvwrl.traces import stack_windows
from tvwrl.types import Float

EXAMPLES, SEEN_HOURS = 6, 8.0  # workloads shown, and what has been seen of them
LEARNT = {OWN: "the trace", POOLED: "the trace and others", OTHERS: "others only"}


class Finished:
    """What the finished cells of a split left, by the titles of the forecasters."""

    def __init__(self, out: Path, cells: Sequence[ForecasterCell]) -> None:
        self.cells = list(cells)
        self.rows = read_cell_rows(out, cells)
        folders = {cell.title: folder_of(out, cell) for cell in cells}
        self.scores = {name: _arrays(folder / SCORES) for name, folder in folders.items()}
        self.rewards = {name: _complete(_arrays(folder / REWARDS)) for name, folder in folders.items()}

    def best(self) -> ForecasterCell | None:
        """Of the forecasters that can be saved, the one with the best mean reward over all loads."""
        able = [cell for cell in self.cells if cell.candidate == SAVED]
        return max(able, key=lambda cell: np.nan_to_num(self._mean(cell.title), nan=-np.inf), default=None)

    def better_than(self, best: ForecasterCell) -> dict[str, float]:
        """Titles of what has a higher mean reward over all loads than `best`, and by how much."""
        means = {name: self._mean(name) for name in self.rewards}
        return {name: mean - means[best.title] for name, mean in means.items() if mean > means[best.title]}

    def _mean(self, title: str) -> float:
        """The mean reward over all loads; NaN if workloads were left unplaced at any."""
        return float(np.mean(list(self.rewards[title].values())))

    def reward_table(self, compared: ForecasterCell | None) -> str:
        """Markdown: a line for each forecaster with its rewards, and how much better those of `compared` are."""
        loads = list(next(iter(self.rewards.values())))
        head = ["forecaster", "learnt from", *(f"load {load}" for load in loads)]
        if compared is not None:
            head += [f"{compared.title} is better by, load {load}" for load in loads]
        return markdown_table(head, [self._rewards(cell, loads, compared) for cell in self.cells])

    def _rewards(self, cell: ForecasterCell, loads: Sequence[str], compared: ForecasterCell | None) -> list[str]:
        rewards = self.rewards[cell.title]
        shipped = any(
            row["measure"] == SHIPPED and row["value"] and row["learnt_from"] == cell.sources for row in self.rows
        )
        learnt = LEARNT[cell.sources] + ", from shipped weights" * (shipped and cell.candidate == SAVED)
        line = [cell.title, learnt, *(mean_with_interval(rewards[load] / 1000) for load in loads)]
        if compared is None:
            return line
        if compared.title == cell.title:
            return line + ["-"] * len(loads)
        own = self.rewards[compared.title]
        return line + [paired_difference(own[load], rewards[load], scale=1 / 1000) for load in loads]

    def scores_table(self) -> str:
        """Markdown: a line for each forecaster with its scores, means over segments."""
        head = ["forecaster", "CRPS", "skill %", "while running", "skill %", "Brier"]
        head += [f"{what} in {percent} %" for what in ("segments", "peak") for percent in (50, 90)]
        return markdown_table(head, [self._scores(cell.title) for cell in self.cells])

    def _scores(self, name: str) -> list[str]:
        scores, reference, line = self.scores[name], self.scores.get(REFERENCE), [name]
        for measure in ("crps", "running_crps"):
            own = float(np.nanmean(scores[measure]))
            line.append(f"{1000 * own:.1f}")
            line.append("-" if reference is None else f"{100 * skill(own, float(np.nanmean(reference[measure]))):.1f}")
        line.append(f"{scores['brier'].mean():.3f}")
        covered = (scores[f"{of}within_{percent}"].mean() for of in ("", "peak_") for percent in (50, 90))
        return line + [f"{100 * share:.0f}" for share in covered]

    def plot_skill(self, step_seconds: int, file: Path) -> None:
        """Skill of the largest demand by horizon, against the reference."""
        figure = new_figure(7, 4)
        axis = figure.subplots()
        hours = [(first + last) / 2 * step_seconds / 3600 for first, last in SEGMENTS]
        reference = self.scores[REFERENCE]["crps"]
        for i, (name, scores) in enumerate(self.scores.items()):
            style = _style(i, name)
            axis.plot(hours, 100 * skill(scores["crps"], reference), "o", ms=3, label=name, **style)
        axis.set_xscale("log", base=2)
        axis.set_xticks(hours, [f"{h:.3g}" for h in hours])
        axis.set(xlabel="hours ahead (middle of the segment)", ylabel=f"CRPS below that of {REFERENCE}, %")
        axis.legend(frameon=False, fontsize=7)
        tidy(axis)
        figure.savefig(file, dpi=DPI, format="png")

    def plot_calibration(self, file: Path) -> None:
        """Share of what came below each quantile."""
        figure = new_figure(5, 4.4)
        axis = figure.subplots()
        axis.plot([0, 1], [0, 1], color="grey", lw=1)
        for i, (name, scores) in enumerate(self.scores.items()):
            style = _style(i, name)
            axis.plot(SHARES, scores["calibration"], label=name, **style)
        axis.set(xlabel="quantile forecast", ylabel="share of what came below it", xlim=(0, 1), ylim=(0, 1))
        axis.legend(frameon=False, fontsize=7)
        tidy(axis)
        figure.savefig(file, dpi=DPI, format="png")


def plot_examples(comparison: Comparison, forecaster: Forecaster, file: Path) -> None:
    """A few test workloads: what was seen, bands of the largest demand by segment, and what came."""
    sampler, step = comparison.sampler, comparison.scenario.step_seconds / 3600
    drawn = sampler.windows("test", 20 * EXAMPLES, np.random.default_rng([comparison.seed, 9]))
    seen = max(1, round(SEEN_HOURS / step))
    longest = sorted(drawn, key=lambda window: -len(window.demand))[: 4 * EXAMPLES]
    chosen = sorted(longest, key=lambda window: -float(window.demand.std()))[::4]
    windows = stack_windows(chosen, sampler.trace, sampler.unit)
    beginnings = Beginnings(windows, np.arange(len(windows)), np.minimum(windows.length, seen))
    forecast = forecaster.predict(beginnings)
    bands = {
        share: forecast.quantile(share).astype(np.float64) * forecaster.peak_units
        for share in (0.05, 0.25, 0.5, 0.75, 0.95)
    }
    figure = new_figure(11, 5.4)
    for i, axis in enumerate(figure.subplots(2, len(chosen) // 2, squeeze=False, sharey=True).flat):
        d = i % len(sampler.trace.resources)
        demand, start = chosen[i].demand[:, d], int(beginnings.seen[i])
        hours = (np.arange(len(demand)) - start + 1) * step
        axis.step(hours, demand, where="mid", color="black", lw=1)
        axis.axvline(step / 2, color="grey", lw=0.8, ls=":")
        for low, high, colour, label in ((0.05, 0.95, "#C6DBEF", "90 %"), (0.25, 0.75, "#6BAED6", "50 %")):
            _band(axis, bands[low][i, :, d], bands[high][i, :, d], step, colour, label)
        axis.set_title(f"{sampler.trace.workload_id[chosen[i].workload]}"[:24], fontsize=7)
        axis.set(xlabel="hours from now", ylabel=f"{sampler.trace.resources[d]}, units")
        tidy(axis)
        if i == 0:
            axis.legend(frameon=False, fontsize=7, title="largest demand; 0: ended", title_fontsize=7)
    figure.savefig(file, dpi=DPI, format="png")


def _style(number: int, name: str) -> dict[str, Any]:
    """Networks have solid lines; where colours come a second time, lines are dotted."""
    again = number >= len(COLOURS)
    line = "-" if name.startswith(SAVED) else ":" if again else "--"
    return {"color": COLOURS[number % len(COLOURS)], "ls": line}


def _band(axis: Any, low: Float, high: Float, step: float, colour: str, label: str) -> None:
    """A band with one pair of values for each segment."""
    edges = [*((first - 0.5) * step for first, _ in SEGMENTS), (SEGMENTS[-1][1] + 0.5) * step]
    pairs = [np.append(values, values[-1]) for values in (low, high)]
    axis.fill_between(edges, *pairs, step="post", color=colour, lw=0, label=label)


def _arrays(path: Path) -> dict[str, Float]:
    return {name: np.array(value, np.float64) for name, value in json.loads(path.read_text()).items()}


def _complete(rewards: dict[str, Float]) -> dict[str, Float]:
    """The rewards of each load; none of a load in which an episode has none, as it left workloads unplaced."""
    return {load: np.full_like(own, np.nan) if np.isnan(own).any() else own for load, own in rewards.items()}
