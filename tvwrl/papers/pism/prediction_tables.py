"""Table 4 and Figures 11 and 16 to 18, simulated: levels of services and scores of machines, and their prediction.

Each takes the title, the rows of the cells and the study, and gives the figure's report.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.experiments import (
    Report,
    Rows,
    column,
    distinct,
    interval_name,
    mean_with_range,
    paired_difference,
    plot_places,
    point_estimate,
    select,
)
from tvwrl.interference import WEIGHTINGS
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism import published
from tvwrl.papers.pism.cells import CHECKOUT, MOST_LARGE, SAME_CPU
from tvwrl.papers.pism.clusters import K
from tvwrl.papers.pism.predictors import COMPOSITION, LINEAR, PREDICTORS, TREE
from tvwrl.types import Float

if TYPE_CHECKING:
    from tvwrl.papers.pism.figures import PredictionStudy

COMPARED = (COMPOSITION, LINEAR, TREE)
HALVES = {  # field of `metrics.accuracy` -> title
    f"{half}_{part}": f"{half.upper()} {part}" for half in ("busy", "idle") for part in ("precision", "recall", "f1")
}


def fig11(title: str, rows: Rows, study: PredictionStudy) -> Report:
    """Level of checkout by the number of large tasks beside it, at nearly the same use of CPU."""
    body, lines = [], {}
    numbers = sorted(distinct(rows, "tasks"))
    for law in study.laws:
        parts = [select(rows, law=law, tasks=number) for number in numbers]
        lines[law] = np.array([_mean_by_seed(part, "level", len(study.seeds)) for part in parts])
        records = sum(row["records"] for part in parts for row in part)
        for name, part in zip(numbers, parts, strict=True):
            share = 100 * sum(row["records"] for row in part) / max(records, 1)
            cells = [mean_with_range(_mean_by_seed(part, field, len(study.seeds)), 2) for field in ("level", "cpu")]
            body.append([f"{law}: {name}{' or more' if name == MOST_LARGE else ''}", *cells, f"{share:.1f}"])
    head = ("law: tasks of category [2, 4, 3] (simulated)", "mean level of checkout", "batch cores", "records, %")
    text = (
        f"{_heading(title, study)} Records whose batch work uses the median CPU, give or take {SAME_CPU:.0%}. Paper, "
        f"by a plot alone: the score rises from about 8.3 to 10 with the number.\n\n{markdown_table(head, body)}"
    )
    plot = partial(plot_places, places=[str(one) for one in numbers], lines=lines, title="mean level of checkout")
    return Report(text, rows, {"plot": plot})


def _mean_by_seed(rows: Rows, field: str, seeds: int) -> Float:
    """(seeds,) the field of each seed's row; NaN for one that has none."""
    found = np.full(seeds, np.nan)
    for i, seed in enumerate(distinct(rows, "seed")):
        found[i] = column(select(rows, seed=seed), field).mean()
    return found


def table4(title: str, rows: Rows, study: PredictionStudy) -> Report:
    """BUSY and IDLE of checkout."""
    own = select(rows, of="service", service=CHECKOUT)
    body = []
    for law in study.laws:
        for name in COMPARED:
            part = select(own, law=law, predictor=name)
            cells = [*_means(part, tuple(HALVES)), *_means(part, ("read_as_low", "read_as_high"), 2)]
            body.append([f"{law}: {name}", *cells])
    head = ("law: predictor (simulated)", *HALVES.values(), "high read as low", "low as high")
    table = markdown_table(head, [published.TABLE4, *body])
    return Report(f"{_heading(title, study)} The text of the paper gives no precision and recall.\n\n{table}", own)


def fig16(title: str, rows: Rows, study: PredictionStudy) -> Report:
    """Predicted by observed level of checkout."""
    pairs, own = select(rows, of="pair"), select(rows, of="service", service=CHECKOUT)
    paper = published.FIG16_CHECKOUT
    body = [["paper (its cluster)", *(f"{value:g}" for value in paper.values())]]
    body += [[law, *_means(select(own, law=law), tuple(paper), 2)] for law in study.laws]
    parts = [markdown_table(("law (simulated)", "within 2", "high read as low", "low read as high"), body)]
    for law in study.laws:
        grid = np.zeros((K, K))
        for row in select(pairs, law=law):
            grid[row["observed"] - 1, row["predicted"] - 1] += row["records"]
        share = 100 * grid / np.maximum(grid.sum(axis=1, keepdims=True), 1)
        cells = [[str(level + 1), *(f"{value:.0f}" for value in share[level])] for level in range(K)]
        parts.append(f"Law {law}: percent of records of an observed level, by predicted level.")
        parts.append(markdown_table(("observed (simulated)", *(str(level + 1) for level in range(K))), cells))
    return Report("\n\n".join([_heading(title, study), *parts]), pairs + own)


def fig17(title: str, rows: Rows, study: PredictionStudy) -> Report:
    """Levels of all services within 2."""
    own = select(rows, of="service")
    lines, body, notes = {}, [], []
    for name in PREDICTORS:
        lines[name] = np.array([_by_seed(select(own, law=law, predictor=name), "within") for law in study.laws])
        paper = f"{published.FIG17_WITHIN[name]:g}" if name in published.FIG17_WITHIN else ""
        body.append([name, paper, *map(mean_with_range, lines[name])])
    for i, law in enumerate(study.laws):
        gaps = []
        for name in (LINEAR, TREE):
            gaps.append(f"{paired_difference(lines[COMPOSITION][i], lines[name][i])} to {name}")
        notes.append(f"{law} {', '.join(gaps)}")
    text = (
        f"{_heading(title, study)} Each service counts alike; the paper's figures are of 150 services of its cluster."
        f"\n\n{markdown_table(('predictor (simulated)', 'paper', *study.laws), body)}\n\n"
        f"Composition less utilisation, paired by seed: {'; '.join(notes)}. Under the control law the composition "
        "holds no information beyond the CPU."
    )
    return _with_plot(text, own, study, lines, "records within 2 levels, % (simulated)")


def fig18(title: str, rows: Rows, study: PredictionStudy) -> Report:
    """Scores of machines by weighting."""
    own = select(rows, of="machine")
    fields = ("within", "busy_precision", "busy_recall", "busy_f1", "read_as_low")
    body, lines = [], {}
    for law in study.laws:
        for weighting in WEIGHTINGS:
            for name in (COMPOSITION, TREE):
                part = select(own, law=law, weighting=weighting, predictor=name)
                body.append([f"{law}: {weighting}, {name}", *_means(part, fields), *_means(part, ("correlation",), 3)])
    for weighting in WEIGHTINGS:
        chosen = [select(own, law=law, weighting=weighting, predictor=COMPOSITION) for law in study.laws]
        lines[weighting] = np.array([_by_seed(part, "correlation") for part in chosen])
    names = ("within 2", "BUSY precision", "BUSY recall", "BUSY F1", "high read as low", "correlation")
    text = (
        f"{_heading(title, study)} A machine's score is the weighted mean of its services' levels; BUSY: above 5.5. "
        "Paper, by plots alone: Corr predicts best, Fair and CPU-Quota are nearly the same.\n\n"
        + markdown_table(("law: weighting, predictor (simulated)", *names), body)
    )
    return _with_plot(text, own, study, lines, "correlation of predicted and observed score (simulated)")


def _heading(title: str, study: PredictionStudy) -> str:
    """Title and setting."""
    tasks = "synthetic tasks" if study.data is None else "an hour of Alibaba v2018's tasks"
    known = "true categories" if study.data is None or study.truth else "the categories that the classifier predicts"
    seeds = len(study.seeds)
    return (
        f"# {title} (simulated)\n\nSimulated: {study.machines} machines, {study.services} services, {study.hours} h to "
        f"learn from and the next {study.hours} h to predict, a record per service instance every "
        f"{study.report_seconds} s; batch work replays {tasks}, in {known}. Means over {seeds} seeds "
        f"[{interval_name(seeds)}]; percent. No predictor sees the law behind the response times."
    )


def _by_seed(rows: Rows, field: str) -> Float:
    """(seeds,) means of a field without NaN; NaN where nothing is left."""
    return np.array([point_estimate(column(select(rows, seed=seed), field)) for seed in distinct(rows, "seed")])


def _means(rows: Rows, fields: Sequence[str], decimals: int = 1) -> list[str]:
    return [mean_with_range(_by_seed(rows, field), decimals) for field in fields]


def _with_plot(text: str, rows: Rows, study: PredictionStudy, lines: dict[str, Float], up: str) -> Report:
    plot = partial(plot_places, places=study.laws, lines=lines, title=up)
    return Report(text, rows, {"plot": plot})
