"""The paper's tables on equivalence classes, measured here and printed beside what was published.

Paper: "Scheduling of Time-Varying Workloads Using Reinforcement Learning" (AAAI 2021), Tables 1 and 2.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.policy_scheduler import load_policy
from tvwrl.agents.training import Trainer
from tvwrl.bench.evaluation import evaluate
from tvwrl.ec import REPRESENTATIONS, EquivalenceClasses, OwnLabels, population_of
from tvwrl.ec.classes import Classes
from tvwrl.ec.comparison import Comparison, compare
from tvwrl.envs.problem import Problem
from tvwrl.markdown import markdown_table
from tvwrl.runs import write_json
from tvwrl.traces import trace_hash
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.types import InputError, Trace

if TYPE_CHECKING:
    from tvwrl.ec.lstnet import ForecastSettings

TABLE1: dict[str, dict[str, tuple[int, float, float]]] = {  # trace -> distance -> k, f, effective gain in %
    "google": {"aggregate": (5, 0.65, 6.82), "temporal": (6, 0.58, 9.83), "dtw": (3, 0.55, 9.3)},
    "alibaba": {"aggregate": (4, 0.68, 5.13), "temporal": (4, 0.54, 8.14), "dtw": (3, 0.25, 5.73)},
}
METRICS = (  # column of the rows, the paper's name, whether more is better
    ("utilisation_cpu", "CPU util", True),
    ("utilisation_mem", "MEM util", True),
    ("fragmentation_cpu", "CPU frag", False),
    ("fragmentation_mem", "MEM frag", False),
    ("machines_used", "Machines used", False),
    ("overshoot_pct", "Overshoot, %", False),
)
VARIANTS = ("none", "aggregate", "dtw", "temporal")
TABLE2 = {  # metric -> the variants' values
    "CPU util": (0.328, 0.347, 0.345, 0.345),
    "MEM util": (0.613, 0.653, 0.649, 0.649),
    "CPU frag": (0.795, 0.776, 0.779, 0.777),
    "MEM frag": (0.734, 0.708, 0.708, 0.723),
    "Machines used": (6.38, 6.10, 6.12, 6.17),
    "Overshoot, %": (0.051, 0.284, 0.24, 0.52),
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


def table2_clustering(trace: Trace, config: TrainConfig, seeds: Sequence[int], own_labels: int, out: Path) -> str:
    """Train and evaluate without classes and with each representation, at load 0.5; the six metrics of Table 2.

    A variant and seed that is finished in `out` is not trained again. Returns the table in Markdown. Raises InputError
    if `out` holds trainings of another trace or with other settings.
    """
    asked = {"hash": trace_hash(trace), "own_labels": own_labels, "config": replace(config, seed=0).to_dict()}
    settings = out / "settings.json"
    if settings.exists() and json.loads(settings.read_text()) != json.loads(json.dumps(asked)):
        raise InputError(f"{out} holds trainings of another trace or with other settings: give --out another folder")
    write_json(settings, asked)
    means: dict[str, dict[str, np.ndarray]] = {}
    for variant in VARIANTS:
        runs = [_variant(trace, config, variant, seed, own_labels, out / f"{variant}-{seed}") for seed in seeds]
        means[variant] = {column: np.array([run[column] for run in runs]) for column, _, _ in METRICS}
    rows, orders = [], []
    for column, name, more in METRICS:
        cells = []
        for variant, published in zip(VARIANTS, TABLE2[name], strict=True):
            values = means[variant][column]
            spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
            cells.append(f"{values.mean():.3f}{spread} ({published})")
        rows.append([name, *cells])
        measured = {variant: float(means[variant][column].mean()) for variant in VARIANTS}
        orders.extend(_orders(name, measured, dict(zip(VARIANTS, TABLE2[name], strict=True)), more))
    head = ["metric", "without classes", *VARIANTS[1:]]
    lines = [markdown_table(head, rows), "", *orders]
    return "\n".join(lines) + "\n"


def _variant(
    trace: Trace, config: TrainConfig, variant: str, seed: int, own_labels: int, folder: Path
) -> dict[str, float]:
    """Mean of each metric over the test sequences, for one training; what is there already is used."""
    import polars as pl

    config = replace(config, seed=seed)
    rows = folder / "evaluation" / "rows.csv"
    if not rows.exists():
        trainer = _trainer(trace, config, variant, own_labels, folder)
        if trainer.run() != "finished":
            raise KeyboardInterrupt
        saved = Checkpoint.load(find_checkpoint(folder))
        policy = load_policy(folder, saved, config.device)
        load = config.scenario.load
        evaluate(trainer.problem, [lambda: policy], [load], config.comparison_sequences, seed, folder / "evaluation")
    table = pl.read_csv(rows)
    return {column: float(np.nanmean(table[column].to_numpy())) for column, _, _ in METRICS}


def _trainer(trace: Trace, config: TrainConfig, variant: str, own_labels: int, folder: Path) -> Trainer:
    """The training of a variant: new, or as its last checkpoint left it."""
    last = folder / "checkpoints" / "last.pt"
    identity: dict[str, Any] = {"argument": "", "slot_seconds": None, "name": trace.name, "source": trace.source}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the trace could not give is said once, by the caller
        if last.exists():
            saved = Checkpoint.load(last)
            trainer = Trainer(saved.problem(trace), saved.config, folder, saved.trace, lambda text: None)
            trainer.restore(saved)
            return trainer
        problem = Problem.build(trace, config.scenario, _classes(trace, config, variant, own_labels))
    trainer = Trainer(problem, config, folder, identity | {"hash": trace_hash(trace)}, lambda text: None)
    trainer.save()
    return trainer


def _classes(trace: Trace, config: TrainConfig, variant: str, own_labels: int) -> Classes:
    """Own labels, or classes with k by silhouette as in Table 1."""
    if variant == "none":
        return OwnLabels(own_labels)
    return EquivalenceClasses(variant).fit(population_of(SequenceSampler(trace, config.scenario)))


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
