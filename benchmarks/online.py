"""A table and a figure of runs of scripts/learn_online.py that differ in their seed alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tvwrl.experiments.online_report import online_table, plot_rewards, rewards_by_phase
from tvwrl.runs import read_csv


def main() -> None:
    """Read the rows of the runs, print a table of all, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="run folders, finished")
    parser.add_argument("--out", type=Path, default=Path("docs/training/online.png"), help="the figure")
    options = parser.parse_args()
    rewards = rewards_by_phase([read_csv(run / "rows.csv") for run in options.runs])
    phases = json.loads((options.runs[0] / "run.json").read_text())["phases"]
    names = [f"{phase['trace']['name']}, load {phase['load']:g}" for phase in phases]
    print(online_table(rewards, names))
    plot_rewards(rewards, names, options.out)


if __name__ == "__main__":
    main()
