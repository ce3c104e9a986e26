"""Let a trained policy keep learning while workloads arrive and their mix shifts."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.experiments.learn_online_command import OnlineSettings, learn_online


def main() -> int:
    """Parse the arguments, learn and compare."""
    return learn_online(tyro.cli(OnlineSettings))


if __name__ == "__main__":
    command_line.run(main)
