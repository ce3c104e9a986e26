"""Learn an interference score from simulated observations and write it to a file that evaluate.py takes."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.interference.fitting import InterferenceFitOptions, fit_or_explain


def main() -> None:
    """Parse the arguments; fit or explain."""
    fit_or_explain(tyro.cli(InterferenceFitOptions), print)


if __name__ == "__main__":
    command_line.run(main)
