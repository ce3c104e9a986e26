"""Find equivalence classes of a trace's workloads: compare representations and k, choose, write a classes file."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.ec.fitting import ClassFitOptions, fit_and_report


def main() -> None:
    """Parse the options, fit the classes and print the report."""
    fit_and_report(tyro.cli(ClassFitOptions), print)


if __name__ == "__main__":
    command_line.run(main)
