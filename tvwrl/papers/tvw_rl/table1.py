"""Table 1: classes by aggregate features, temporal features and DTW, compared by what a forecaster gains from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.ec import REPRESENTATIONS, EquivalenceClasses, clustered, network_gains, population_of
from tvwrl.experiments import Cell, Report, Rows, RowsCell, opened, read_cell_rows
from tvwrl.forecasting import ForecastSettings
from tvwrl.markdown import markdown_table
from tvwrl.papers.tvw_rl.published import TABLE1
from tvwrl.simulation import Scenario
from tvwrl.traces import SequenceSampler, describe_source
from tvwrl.types import InputError

CHANCE = "random labels"
CORRELATIONS = ("correlation", "agnostic", "last_value", "seasonal")


@dataclass(frozen=True)
class Comparison(RowsCell):
    """The representations on one trace: a row for each, and one for the chosen labels in random order."""

    published: str  # google or alibaba
    trace: str  # what to open
    radius: int | None
    step_seconds: int
    seed: int
    forecast: ForecastSettings

    @property
    def name(self) -> str:
        """Of the published trace that it is compared with."""
        return f"table1-{self.published}"

    def request(self) -> dict[str, Any]:
        """The trace by its content."""
        return super().request() | {"trace": opened(self.trace)[1]}

    def sampler(self) -> SequenceSampler:
        """The trace under the scenario. Raises InputError where it cannot be used."""
        scenario = Scenario(step_seconds=self.step_seconds, placements_per_slot=None)
        return SequenceSampler(opened(self.trace)[0], scenario)

    def measure(self) -> Rows:
        """Cluster by every representation, and train the forecaster on each."""
        makes: list[Callable[[], EquivalenceClasses]] = [
            partial(EquivalenceClasses, name, radius=self.radius, random_state=self.seed) for name in REPRESENTATIONS
        ]
        population, settings = population_of(self.sampler()), replace(self.forecast, seed=self.seed)
        found = clustered(population, makes)
        chance = network_gains(population, found, settings)
        rows: Rows = []
        for candidate in found:
            row = {"distance": candidate.name, "k": candidate.classes.k}
            if (gain := candidate.gain) is not None:
                row |= {name: float(getattr(gain, name)) for name in ("fraction", "effective_gain", *CORRELATIONS)}
            rows.append(row)
        if chance is not None:
            drawn = {"effective_gain": chance.effective_gain, "useful": chance.beats_plain_rules}
            rows.append({"distance": CHANCE} | drawn)
        return [{"published": self.published} | row for row in rows]


@dataclass(frozen=True)
class PaperTraces:
    """What stands for the paper's two traces."""

    google: str = "google"
    """Trace to use for the paper's Google trace: a name or a folder. Table 1 leaves the paper's trace out if it is
    ""."""
    alibaba: str = "alibaba"
    """Trace to use for the paper's Alibaba trace, e.g. tianchi: a name or a folder. Table 1 leaves the paper's trace
    out if it is ""."""


@dataclass(frozen=True)
class Table1Study(PaperTraces):
    """k, f and effective prediction gain of classes by each representation, next to the published values."""

    radius: int | None = None
    """Half-width of the Sakoe-Chiba band of dynamic time warping, slots; default: no band."""
    step_seconds: int = Scenario.step_seconds
    """Length of one slot of the environment, seconds; a multiple of the trace's interval."""
    seed: int = 0
    """Seed of all random choices."""
    forecast: ForecastSettings = field(default_factory=ForecastSettings)

    partial = False

    def cells(self, figure: str) -> list[Cell]:
        """One per trace."""
        asked = {"google": self.google, "alibaba": self.alibaba}
        if not any(asked.values()):
            raise InputError("both traces are left out: give at least one")
        at_least(0, radius=self.radius, seed=self.seed)
        found = [
            Comparison(published, trace, self.radius, self.step_seconds, self.seed, self.forecast)
            for published, trace in asked.items()
            if trace
        ]
        for cell in found:
            cell.sampler()  # refuses a trace before long work
        return list(found)

    def report(self, figure: str, out: Path, cells: Sequence[Cell]) -> Report:
        """A table per trace, and whether the order of the representations is the published one."""
        parts, rows = ["# Table 1: different distance methods (published values in brackets)"], []
        for cell in cells:
            assert isinstance(cell, Comparison)
            own = read_cell_rows(out, [cell])
            source = describe_source(opened(cell.trace)[0], cell.trace)
            parts += [f"## {cell.published.capitalize()}", source, _table(own, TABLE1[cell.published])]
            rows += own
        return Report("\n\n".join(parts), rows)


def _table(rows: Rows, published: dict[str, tuple[int, float, float]]) -> str:
    """k, f and effective gain, each with the published value in brackets, then correlations and remarks."""
    body, gains = [], {}
    for row in rows:
        if row["distance"] == CHANCE:
            continue
        k, f, gain = published[row["distance"]]
        known = "fraction" in row
        shown = [f"{row['fraction']:.2f}", f"{row['effective_gain']:.2f}"] if known else ["-", "-"]
        shown += ["-" if np.isnan(r) else f"{r:.3f}" for r in (row.get(name, np.nan) for name in CORRELATIONS)]
        if known:
            gains[row["distance"]] = row["effective_gain"]
        body.append([row["distance"], f"{row['k']} ({k})", f"{shown[0]} ({f})", f"{shown[1]} ({gain})", *shown[2:]])
    head = ["distance", "k", "f", "effective gain, %", "r, by class", "r, of all", "r, last value", "r, a day before"]
    lines = [markdown_table(head, body), ""]
    lines += orders("effective gain", gains, {name: values[2] for name, values in published.items()})
    for row in rows:
        if row["distance"] == CHANCE:
            reached = f"the labels of the highest gain in random order reach {row['effective_gain']:.2f} %"
            lines.append(f"- chance: {reached}; differences of that size mean nothing")
            if not row["useful"]:
                lines.append("- note: the forecaster does not beat plain rules here, so f and gains mean nothing")
    return "\n".join(lines)


def orders(name: str, measured: dict[str, float], published: dict[str, float]) -> list[str]:
    """A line that says whether the order, highest first, is the published one; none if not all were measured.

    There is one measurement of each, so that nobody knows how much of the order is chance.
    """
    if measured.keys() != published.keys():
        return []
    ours, theirs = (", ".join(sorted(values, key=lambda one: -values[one])) for values in (measured, published))
    if ours == theirs:
        return [f"- {name}, measured once: the order is the paper's, highest first {ours}"]
    return [f"- {name}, measured once: the order differs: here, highest first, {ours}; in the paper {theirs}"]
