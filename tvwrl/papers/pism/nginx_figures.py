"""Levels of a real web server predicted from the load on its machine, by campaign (Section 6.3.1, real data)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvwrl.experiments.engine import Rows, read_rows
from tvwrl.experiments.plots import plot_lines
from tvwrl.experiments.reproduce import Report
from tvwrl.experiments.statistics import mean_with_interval, paired_bootstrap
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism.cells import NGINX_PREDICTORS, NginxCell
from tvwrl.papers.pism.options import folder_with
from tvwrl.papers.pism.rows import column, select
from tvwrl.types import Float

FIGURES = {"nginx": "additional: levels of real runs of nginx under interference"}
FILE = "ntua_nginx_ibench.csv.gz"
COMPOSITION, *OTHERS = NGINX_PREDICTORS
HALVES = [f"{half}_{part}" for half in ("busy", "idle") for part in ("precision", "recall", "f1")]


@dataclass(frozen=True)
class NginxStudy:
    """Level prediction on real runs of nginx under interference."""

    data: Path | None = None
    """Folder with ntua_nginx_ibench.csv.gz."""

    partial = False

    def cells(self, figure: str) -> list[NginxCell]:
        """Every predictor on all campaigns."""
        runs = folder_with(self.data, FILE) / FILE
        return [NginxCell(name, runs) for name in NGINX_PREDICTORS]

    def report(self, figure: str, out: Path, cells: Sequence[NginxCell]) -> Report:
        """Accuracy of each predictor, and a plot by campaign."""
        rows = read_rows(out, cells)
        fields = ("within", "exact", *HALVES, "read_as_low", "read_as_high")
        body = [[name, *(_mean(rows, name, field) for field in fields)] for name in NGINX_PREDICTORS]
        titles = (field.replace("_", " ").replace("busy", "BUSY").replace("idle", "IDLE") for field in HALVES)
        head = ("predictor (real)", "within 2", "exact", *titles, "high read as low", "low as high")
        notes = []
        for name in OTHERS:
            ours, other = (_column(rows, one, "within") for one in (COMPOSITION, name))
            difference, low, high = paired_bootstrap(ours, other)
            notes.append(f"{difference:+.1f} [{low:+.1f}, {high:+.1f}] to {name}")
        runs = _column(rows, COMPOSITION, "runs")
        text = (
            "# Levels of nginx under iBench and stress-ng (real)\n\n"
            f"{runs.sum():.0f} measured runs of {len(runs)} campaigns. Levels 1..10 of mean response time by "
            "number of replicas and offered load, learnt from all campaigns but one and predicted for that one. "
            "Percent, means over campaigns [95 % bootstrap interval over campaigns]. The paper has no such data; on "
            "its own cluster (150 services, batch work by category) it reports 75.2 % within 2 for composition and "
            f"58.3 % for utilisation.\n\n{markdown_table(head, body)}\n\n"
            f"Within 2, {COMPOSITION} less the others, paired: {'; '.join(notes)}."
        )
        return Report(text, rows, {"plot": lambda file: _plot(rows, file)})


def _column(rows: Rows, name: str, field: str) -> Float:
    """(campaigns,)."""
    return column(select(rows, predictor=name), field)


def _mean(rows: Rows, name: str, field: str) -> str:
    """Mean over campaigns with its interval; a dash if fewer than two campaigns have the field."""
    values = _column(rows, name, field)
    return mean_with_interval(values) if (~np.isnan(values)).sum() > 1 else "-"


def _plot(rows: Rows, file: Path) -> None:
    lines = {name: _column(rows, name, "within")[:, None] for name in NGINX_PREDICTORS}
    places = [str(number + 1) for number in range(len(lines[COMPOSITION]))]
    plot_lines(file, places, lines, "campaign left out", "runs within 2 levels, % (real)", joined=False)
