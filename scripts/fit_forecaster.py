"""Compare forecasters of demand on a trace's unseen series, and keep the best network for training; resumable."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.experiments.fit_forecaster_command import ForecasterFitOptions, fit_forecasters


def main() -> None:
    """Parse the options, compare and report."""
    fit_forecasters(tyro.cli(ForecasterFitOptions))


if __name__ == "__main__":
    command_line.run(main)
