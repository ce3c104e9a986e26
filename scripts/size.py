"""Recommend size and degree of collocation for a new application from short profiles of it."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.lrasched.sizing import SizingSettings, size_application


def main() -> None:
    """Parse the arguments, recommend, print."""
    print(size_application(tyro.cli(SizingSettings)))


if __name__ == "__main__":
    command_line.run(main)
