"""Compare schedulers, and trained policies, on the same arrival sequences of a trace."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.experiments.evaluate_command import ComparisonSettings, compare_schedulers


def main() -> None:
    """Parse the arguments and compare."""
    compare_schedulers(tyro.cli(ComparisonSettings))


if __name__ == "__main__":
    command_line.run(main)
