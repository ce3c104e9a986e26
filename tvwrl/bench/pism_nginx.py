"""Levels of a real web server predicted from what presses on it, campaign by campaign (Section 6.3.1, real data)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.bench.figures import write_figure
from tvwrl.experiments.plots import plot_lines
from tvwrl.experiments.statistics import bootstrap_interval, paired_bootstrap, point_estimate
from tvwrl.interference.accuracy import accuracy
from tvwrl.interference.levels import Levels
from tvwrl.interference.measured import read_nginx
from tvwrl.interference.predictor import LevelPredictor, MiddleLevel, Predictor, UtilisationPredictor, UtilisationTree
from tvwrl.markdown import markdown_table
from tvwrl.types import Float, InputError

NAMES = {"nginx": "no figure, but levels of real runs of nginx under interference"}
FILE = "ntua_nginx_ibench.csv.gz"
LEAF = 3  # records in a leaf: a service has dozens of runs, not thousands
COMPOSITION, LINEAR, TREE = "pods by kind (tree)", "number of pods (linear)", "number of pods (tree)"
MIDDLE = "always the middle level"
PREDICTORS: dict[str, Callable[[], Predictor]] = {
    COMPOSITION: lambda: LevelPredictor(leaf=LEAF),
    LINEAR: UtilisationPredictor,
    TREE: lambda: UtilisationTree(leaf=LEAF),
    MIDDLE: MiddleLevel,
}


@dataclass(frozen=True)
class NginxSettings:
    """Level prediction on real runs of nginx under interference."""

    data: Path | None = None
    """Folder with ntua_nginx_ibench.csv.gz."""
    k: int = 10
    """Levels."""

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown of one of `NAMES`, which is written to a folder of that name in `out` too."""
        if self.data is None:
            raise InputError("nginx needs --data, the folder with " + FILE)
        rows = judge(self.data / FILE, self.k)
        text = _text(rows, self.k)
        write_figure(out / name, text, rows, {"plot": lambda file: _plot(rows, file)}, asdict(self))
        return text


def judge(path: Path, k: int) -> list[dict[str, Any]]:
    """Each campaign's runs predicted by what was learnt of all others: a row per campaign and predictor.

    Levels are of the others' runs too; services that they ran fewer than k times are left out.
    """
    observations, campaign = read_nginx(path)
    rows = []
    for one in sorted(set(campaign)):
        train, test = (observations.only(np.flatnonzero(part)) for part in (campaign != one, campaign == one))
        levels = Levels.of(train, k, skip_rare=True)
        observed = levels.level(test.service, test.response_ms)
        known = observed > 0
        if not known.any():
            continue
        guesses = {name: make().fit(train, levels).predict(test) for name, make in PREDICTORS.items()}
        for name, guess in guesses.items():
            found = accuracy(np.rint(guess[known]), observed[known].astype(np.float64), k)
            rows.append({"campaign": one, "predictor": name, "runs": int(known.sum())} | found)
    return rows


def _columns(rows: list[dict[str, Any]], name: str, field: str) -> Float:
    return np.array([row[field] for row in rows if row["predictor"] == name], dtype=np.float64)


def _text(rows: list[dict[str, Any]], k: int) -> str:
    body = []
    halves = [f"{half}_{part}" for half in ("busy", "idle") for part in ("precision", "recall", "f1")]
    for name in PREDICTORS:
        shown = []
        for field in ("within", "exact", *halves, "read_as_low", "read_as_high"):
            values = _columns(rows, name, field)
            low, high = bootstrap_interval(values)
            shown.append("-" if np.isnan(low) else f"{point_estimate(values):.1f} [{low:.1f}, {high:.1f}]")
        body.append([name, *shown])
    near = round(2 * k / 10)
    told = (field.replace("_", " ").replace("busy", "BUSY").replace("idle", "IDLE") for field in halves)
    head = ("predictor (real)", f"within {near}", "exact", *told, "high read as low", "low as high")
    note = []
    for name in (LINEAR, TREE, MIDDLE):
        pair = (_columns(rows, COMPOSITION, "within"), _columns(rows, name, "within"))
        difference, low, high = paired_bootstrap(*pair)
        note.append(f"{difference:+.1f} [{low:+.1f}, {high:+.1f}] to {name}")
    campaigns, runs = len(_columns(rows, MIDDLE, "within")), int(_columns(rows, MIDDLE, "runs").sum())
    return (
        "# Levels of nginx under iBench and stress-ng (real)\n\n"
        f"{runs} measured runs of {campaigns} campaigns. Levels 1..{k} of mean response time by number of replicas and "
        "offered load, learnt from all campaigns but one and predicted for that one. Percent, means over campaigns "
        "[95 % bootstrap interval over campaigns]. The paper has no such data; on its own cluster (150 services, "
        "batch work by category) it reports 75.2 % within 2 for composition and 58.3 % for utilisation.\n\n"
        f"{markdown_table(head, body)}\n\nWithin {near}, {COMPOSITION} less the others, paired: {'; '.join(note)}.\n"
    )


def _plot(rows: list[dict[str, Any]], file: Path) -> None:
    campaigns = sorted({row["campaign"] for row in rows})
    lines = {name: _columns(rows, name, "within")[:, None] for name in PREDICTORS}
    places = [str(number + 1) for number in range(len(campaigns))]
    plot_lines(file, places, lines, "campaign left out", "runs within 2 levels, % (real)", joined=False)
