"""The command `tvwrl`: one table of subcommands, whose options and work are imported when they are asked for."""

from tvwrl.cli.door import main

__all__ = ["main"]
