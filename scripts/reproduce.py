"""Reproduce the papers' figures and tables next to the published numbers, and compare agents with every heuristic."""

from __future__ import annotations

import tyro

from tvwrl import command_line, papers
from tvwrl.experiments.results import study as results


def main() -> int | None:
    """Parse the arguments, reproduce."""
    commands = papers.commands() | results.COMMANDS
    return tyro.extras.subcommand_cli_from_dict(commands, description=__doc__).run()


if __name__ == "__main__":
    command_line.run(main)
