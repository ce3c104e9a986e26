"""Search hyper-parameters by many short trainings; resumable."""

from __future__ import annotations

import sys

import tyro

from tvwrl import command_line
from tvwrl.experiments.tuning.command import TuningSettings, tune


def main() -> None:
    """Parse the arguments and search; options that are not given come from the preset."""
    tune(tyro.cli(TuningSettings, default=TuningSettings.default_for(sys.argv[1:])))


if __name__ == "__main__":
    command_line.run(main)
