"""Reproduces the paper: what is missing of an experiment is trained and evaluated, then told beside what was published.

Paper: "Scheduling of Time-Varying Workloads Using Reinforcement Learning" (AAAI 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from tvwrl.agents.config import PRESETS, TrainConfig
from tvwrl.agents.policy_scheduler import knowledge_of
from tvwrl.bench.cells import TRAINED, Bench, Cell, by_run, complete, read_rows
from tvwrl.bench.experiments import EXPERIMENTS
from tvwrl.bench.published import TABLE1
from tvwrl.bench.reports import plot, summarise, write_tables
from tvwrl.ec import REPRESENTATIONS, EquivalenceClasses, population_of
from tvwrl.ec.comparison import Comparison, compare
from tvwrl.markdown import markdown_table
from tvwrl.parallel import Call, run_calls
from tvwrl.runs import provenance, whole_file, write_json
from tvwrl.schedulers import Knowledge
from tvwrl.traces.sequences import SequenceSampler

if TYPE_CHECKING:
    from tvwrl.ec.lstnet import ForecastSettings

SCALES = {  # --preset: hyper-parameters, training seeds
    "smoke": (replace(PRESETS["smoke"], comparison_sequences=4), (0,)),
    "medium": (PRESETS["fast"], (0, 1, 2)),
    "paper": (PRESETS["paper"], (0, 1, 2, 3, 4)),
}


def table1(
    like: str, problem: SequenceSampler, settings: ForecastSettings, radius: int | None, seed: int
) -> tuple[str, Comparison]:
    """Table 1's half for a trace `like` google or alibaba: k, f and EG, each with the published value in brackets."""
    makes: list[Callable[[], EquivalenceClasses]] = [
        partial(EquivalenceClasses, name, radius=radius, random_state=seed) for name in REPRESENTATIONS
    ]
    comparison = compare(population_of(problem), makes, replace(settings, seed=seed))
    rows, gains = [], {}
    for candidate in comparison.candidates:
        k, f, effective = TABLE1[like][candidate.name]
        shown = ["-"] * 6
        if (gain := candidate.gain) is not None:
            gains[candidate.name] = gain.effective_gain
            shown = [f"{gain.fraction:.2f}", f"{gain.effective_gain:.2f}"]
            rs = (gain.correlation, gain.agnostic, gain.last_value, gain.seasonal)
            shown += ["-" if np.isnan(r) else f"{r:.3f}" for r in rs]
        first = [candidate.name, f"{candidate.classes.k} ({k})", f"{shown[0]} ({f})", f"{shown[1]} ({effective})"]
        rows.append([*first, *shown[2:]])
    head = ["distance", "k", "f", "effective gain, %", "r, by class", "r, of all", "r, last value", "r, a day before"]
    published = {name: row[2] for name, row in TABLE1[like].items()}
    lines = [markdown_table(head, rows), "", *_orders("effective gain", gains, published, True)]
    if comparison.chance is not None:
        dealt = (
            f"the labels of {comparison.chosen.name} dealt out at random reach {comparison.chance.effective_gain:.2f} %"
        )
        lines.append(f"- chance: {dealt}; differences of that size say nothing")
        if not comparison.chance.beats_plain_rules:
            lines.append("- mind: the forecaster does not beat plain rules on this trace, so f and gains say nothing")
    return "\n".join(lines), comparison


def _orders(name: str, measured: dict[str, float], published: dict[str, float], more: bool) -> list[str]:
    """A line that says whether the order is the published one; none if not all were measured."""
    if measured.keys() != published.keys():
        return []

    def order(values: dict[str, float]) -> str:
        return ", ".join(sorted(values, key=lambda variant: values[variant], reverse=more))

    ours, theirs = order(measured), order(published)
    if ours == theirs:
        return [f"- {name}: the order is the paper's, best first {ours}"]
    return [f"- {name}: the order differs: here, best first, {ours}; in the paper {theirs}"]


def as_in_the_paper(base: TrainConfig) -> TrainConfig:
    """The hyper-parameters with an agent that knows what the paper's does, and may not hold; its episodes are as long
    as they were."""
    return replace(base, scenario=replace(PRESETS["paper"].scenario, max_slots=base.scenario.max_slots))


def told(config: TrainConfig, name: str, knowledge: Knowledge | None = None) -> str:
    """How a learnt scheduler is trained, and what it knows (default: what the scenario shows)."""
    known = knowledge or knowledge_of(config.scenario)
    with_peaks = " with lifetime peaks" if config.scenario.observe_peak else ""
    start = f" from `expected-cost`{with_peaks} on" if config.begins_as_expected_cost else ""
    start += f" after a head start by imitating `{config.imitates}`" if config.imitates else ""
    return (
        f"- `{name}`: `{config.algo}`, policy `{config.policy}`, {config.iterations} iterations{start}; knows "
        f"*{known.group}*: {known.note}"
    )


def overview(bench: Bench, cells: Sequence[Cell]) -> str:
    """A line per run folder: iterations and evaluations that are done; then the sums."""
    rows, done, total, played, all_played = [], 0, 0, 0, 0
    for name, own in by_run(cells).items():
        iterations = bench.config(own[0]).iterations if own[0].scheduler in TRAINED else 0
        now, ready = bench.iterations_done(own[0]), sum(bench.rows_file(cell).exists() for cell in own)
        trained = f"{now} of {iterations}" if iterations else "-"
        rows.append([name, trained, f"{ready} of {len(own)}"])
        done, total, played, all_played = done + now, total + iterations, played + ready, all_played + len(own)
    share = f"{done} of {total} iterations of training ({done / max(total, 1):.0%})"
    table = markdown_table(["cell", "iterations", "evaluations"], rows)
    return f"{table}\n\ndone: {share}, {played} of {all_played} evaluations"


def complete_cells(
    bench: Bench, cells: Sequence[Cell], workers: int, ray: str | None, tell: Callable[[str], None]
) -> dict[str, str]:
    """Train and evaluate what is missing, `workers` at a time or on Ray; a line to `tell` per finished cell.

    Returns run folder -> error of those that failed; the others are all finished.
    """
    runs, failed = by_run(cells), {}
    calls: list[Call] = [(complete, (bench, own)) for own in runs.values()]
    with tqdm(total=len(calls), desc="cells", unit="cell", disable=None) as bar:
        for _, done in run_calls(calls, workers, ray, processes=True):
            if done["error"]:
                failed[done["run"]] = done["error"]
                tell(f"{done['run']}: failed: {done['error']}")
            elif done["played"]:
                tell(f"{done['run']}: {done['iterations']} iterations trained, evaluated in {done['played']} scenarios")
            bar.update()
    return failed


def write_report(bench: Bench, name: str, cells: Sequence[Cell], head: str, facts: dict[str, Any]) -> str:
    """rows.csv, table.md, run.json and plot.png of a finished experiment; returns the table."""
    folder, experiment = bench.out / name, EXPERIMENTS[name]
    rows = read_rows(bench, cells)
    groups = summarise(rows)
    text = f"# {experiment.title}\n\n{head}\n\n{write_tables(experiment, groups)}"
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / "rows.csv") as partial:
        rows.write_csv(partial)
    write_json(folder / "run.json", provenance() | facts | {"cells": [cell.run for cell in cells]})
    plot(experiment, groups, folder / "plot.png")
    (folder / "table.md").write_text(text, encoding="utf-8")
    return text
