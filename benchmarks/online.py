"""A table and a figure of runs of scripts/learn_online.py that differ in their seed alone."""

from __future__ import annotations

import json
from pathlib import Path

import tyro

from tvwrl.experiments.online_report import online_table, plot_rewards, rewards_by_phase
from tvwrl.runs import read_csv


def main(runs: tyro.conf.Positional[tuple[Path, ...]], out: Path = Path("docs/training/online.png")) -> None:
    """Read the rows of finished runs, print a table of all, draw the figure.

    Args:
        runs: their folders.
        out: the figure.
    """
    rewards = rewards_by_phase([read_csv(run / "rows.csv") for run in runs])
    phases = json.loads((runs[0] / "run.json").read_text())["phases"]
    names = [f"{phase['trace']['name']}, load {phase['load']:g}" for phase in phases]
    print(online_table(rewards, names))
    plot_rewards(rewards, names, out)


if __name__ == "__main__":
    tyro.cli(main)
