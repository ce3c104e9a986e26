"""Train a placement policy on a trace, then compare it with the heuristics."""

from __future__ import annotations

import sys

import tyro

from tvwrl import command_line
from tvwrl.experiments.train_command import TrainingSettings, train


def main() -> int:
    """Parse the arguments and train."""
    return train(parse())


def parse() -> TrainingSettings:
    """The command line; options that are not given come from the preset."""
    return tyro.cli(TrainingSettings, default=TrainingSettings.default_for(sys.argv[1:]))


if __name__ == "__main__":
    command_line.run(main)
