"""Table 4 and Figures 16 to 18, simulated: how well levels of services and scores of machines are predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvwrl.command_line import Names, Numbers
from tvwrl.experiments.engine import Rows, read_rows
from tvwrl.experiments.plots import plot_lines
from tvwrl.experiments.reproduce import Report, check_seeds
from tvwrl.experiments.statistics import interval_name, mean_with_range, paired_bootstrap, point_estimate
from tvwrl.interference.testbed.laws import LAWS
from tvwrl.interference.testbed.two_days import TwoDays
from tvwrl.interference.weights import WEIGHTINGS
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism import published
from tvwrl.papers.pism.cells import CHECKOUT, COMPOSITION, LINEAR, PREDICTORS, TREE, PredictionCell
from tvwrl.papers.pism.clusters import K
from tvwrl.papers.pism.options import check_laws
from tvwrl.papers.pism.rows import column, select
from tvwrl.types import Float

FIGURES = {
    "table4": "Table 4, BUSY and IDLE of checkout",
    "fig16": "Figure 16, predicted by observed level of checkout",
    "fig17": "Figure 17, levels of all services within 2",
    "fig18": "Figure 18, scores of machines by weighting",
}
SHOWN = {"fig16": (COMPOSITION,), "fig17": tuple(PREDICTORS)}  # predictors; else:
COMPARED = (COMPOSITION, LINEAR, TREE)
Made = tuple[str, Rows, dict[str, Callable[[Path], None]]]  # text below the setting, rows, plots


@dataclass(frozen=True)
class PredictionStudy:
    """How well interference is predicted: one simulated day to learn from, the next to predict."""

    seeds: Numbers = (0, 1, 2)
    """Seeds of deployments, arrivals and noise; means and intervals are over them."""
    laws: Names = tuple(LAWS)
    """Laws by which batch work slows services: memory, queue, control (its total CPU alone)."""
    data: Path | None = None
    """Folder with spar_sample_tasks.csv.gz and ali18_usage_tasks.csv.gz; default: synthetic batch tasks."""
    machines: int = 40
    """Simulated machines."""
    services: int = 150
    """Simulated services; each machine runs 20 instances."""
    hours: int = 24
    """Length of a day."""
    truth: bool = False
    """Learn scores from the true categories of tasks instead of classified ones."""
    report_seconds: int = 300
    """Seconds between records of a service instance."""

    partial = False

    def cells(self, figure: str) -> list[PredictionCell]:
        """The figure's predictors on the days of every seed, under every law."""
        check_seeds(self.seeds)
        check_laws(self.laws)
        size = (self.machines, self.services, self.hours, self.truth, self.report_seconds)
        return [
            PredictionCell(TwoDays(seed, self.data, *size), law, name)
            for seed in self.seeds
            for law in self.laws
            for name in SHOWN.get(figure, COMPARED)
        ]

    def report(self, figure: str, out: Path, cells: Sequence[PredictionCell]) -> Report:
        """The figure's tables, and a plot for Figures 17 and 18."""
        make = {"table4": self._table4, "fig16": self._fig16, "fig17": self._fig17, "fig18": self._fig18}[figure]
        text, rows, plots = make(read_rows(out, cells))
        return Report(f"# {FIGURES[figure]} (simulated)\n\n{self._setting()} {text}", rows, plots)

    def _setting(self) -> str:
        tasks = "synthetic tasks" if self.data is None else "an hour of Alibaba v2018's tasks"
        known = "true categories" if self.data is None or self.truth else "the categories that the classifier predicts"
        seeds = len(self.seeds)
        return (
            f"Simulated: {self.machines} machines, {self.services} services, {self.hours} h to learn from and the next "
            f"{self.hours} h to predict, a record per service instance every {self.report_seconds} s; batch work "
            f"replays {tasks}, in {known}. Means over {seeds} seeds [{interval_name(seeds)}]; percent. No predictor "
            "sees the law behind the response times."
        )

    def _by_seed(self, rows: Rows, field: str) -> Float:
        """(seeds,) means of a field without NaN; NaN where nothing is left."""
        return np.array([point_estimate(column(select(rows, seed=seed), field)) for seed in self.seeds])

    def _means(self, rows: Rows, fields: Sequence[str], decimals: int = 1) -> list[str]:
        return [mean_with_range(self._by_seed(rows, field), decimals) for field in fields]

    def _table4(self, rows: Rows) -> Made:
        halves = [(half, part) for half in ("busy", "idle") for part in ("precision", "recall", "f1")]
        own = select(rows, of="service", service=CHECKOUT)
        body = []
        for law in self.laws:
            for name in COMPARED:
                part = select(own, law=law, predictor=name)
                cells = self._means(part, [f"{half}_{field}" for half, field in halves])
                body.append([f"{law}: {name}", *cells, *self._means(part, ("read_as_low", "read_as_high"), 2)])
        names = [f"{half.upper()} {field}" for half, field in halves]
        head = ("law: predictor (simulated)", *names, "high read as low", "low as high")
        text = "The text of the paper gives no precision and recall.\n\n" + markdown_table(
            head, [published.TABLE4, *body]
        )
        return text, own, {}

    def _fig16(self, rows: Rows) -> Made:
        pairs, own = select(rows, of="pair"), select(rows, of="service", service=CHECKOUT)
        paper = published.FIG16_CHECKOUT
        body = [["paper (its cluster)", *(f"{value:g}" for value in paper.values())]]
        body += [[law, *self._means(select(own, law=law), tuple(paper), 2)] for law in self.laws]
        parts = [markdown_table(("law (simulated)", "within 2", "high read as low", "low read as high"), body)]
        for law in self.laws:
            grid = np.zeros((K, K))
            for row in select(pairs, law=law):
                grid[row["observed"] - 1, row["predicted"] - 1] += row["records"]
            share = 100 * grid / np.maximum(grid.sum(axis=1, keepdims=True), 1)
            cells = [[str(level + 1), *(f"{value:.0f}" for value in share[level])] for level in range(K)]
            parts.append(f"Law {law}: percent of records of an observed level, by predicted level.")
            parts.append(markdown_table(("observed (simulated)", *(str(level + 1) for level in range(K))), cells))
        return "\n\n".join(["", *parts]), pairs + own, {}

    def _fig17(self, rows: Rows) -> Made:
        own = select(rows, of="service")
        lines, body, notes = {}, [], []
        for name in PREDICTORS:
            lines[name] = np.array([self._by_seed(select(own, law=law, predictor=name), "within") for law in self.laws])
            paper = f"{published.FIG17_WITHIN[name]:g}" if name in published.FIG17_WITHIN else ""
            body.append([name, paper, *map(mean_with_range, lines[name])])
        for i, law in enumerate(self.laws):
            gaps = []
            for name in (LINEAR, TREE):
                difference, low, high = paired_bootstrap(lines[COMPOSITION][i], lines[name][i])
                gaps.append(f"{difference:+.1f} [{low:+.1f}, {high:+.1f}] to {name}")
            notes.append(f"{law} {', '.join(gaps)}")
        text = (
            "Each service counts alike; the paper's figures are of 150 services of its cluster.\n\n"
            f"{markdown_table(('predictor (simulated)', 'paper', *self.laws), body)}\n\n"
            f"Composition less utilisation, paired by seed: {'; '.join(notes)}. Under the control law the composition "
            "holds no information beyond the CPU."
        )
        return text, own, self._plot(lines, "records within 2 levels, % (simulated)")

    def _fig18(self, rows: Rows) -> Made:
        own = select(rows, of="machine")
        fields = ("within", "busy_precision", "busy_recall", "busy_f1", "read_as_low")
        body, lines = [], {}
        for law in self.laws:
            for weighting in WEIGHTINGS:
                for name in (COMPOSITION, TREE):
                    part = select(own, law=law, weighting=weighting, predictor=name)
                    cells = self._means(part, fields) + self._means(part, ("correlation",), 3)
                    body.append([f"{law}: {weighting}, {name}", *cells])
        for weighting in WEIGHTINGS:
            chosen = [select(own, law=law, weighting=weighting, predictor=COMPOSITION) for law in self.laws]
            lines[weighting] = np.array([self._by_seed(part, "correlation") for part in chosen])
        names = ("within 2", "BUSY precision", "BUSY recall", "BUSY F1", "high read as low", "correlation")
        text = (
            "A machine's score is the weighted mean of its services' levels; BUSY: above 5.5. Paper, by plots alone: "
            "Corr predicts best, Fair and CPU-Quota are nearly the same.\n\n"
            + markdown_table(("law: weighting, predictor (simulated)", *names), body)
        )
        return text, own, self._plot(lines, "correlation of predicted and observed score (simulated)")

    def _plot(self, lines: dict[str, Float], label: str) -> dict[str, Callable[[Path], None]]:
        return {"plot": lambda file: plot_lines(file, self.laws, lines, "law", label, joined=False)}
