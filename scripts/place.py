"""Place applications with affinity and anti-affinity on machines of many kinds, by Aladdin+H or its baselines."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.flow.place_command import PlacementSettings, place


def main() -> None:
    """Parse the arguments and place."""
    place(tyro.cli(PlacementSettings))


if __name__ == "__main__":
    command_line.run(main)
