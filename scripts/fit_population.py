"""Fit the parameters of a synthetic workload population to a real trace sample."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.traces.population_fit import PopulationFitOptions, fit_and_report


def main() -> None:
    """Parse the arguments and fit."""
    fit_and_report(tyro.cli(PopulationFitOptions), print)


if __name__ == "__main__":
    command_line.run(main)
