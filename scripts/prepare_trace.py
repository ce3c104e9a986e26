"""Prepare a trace: published files, your own table or a Prometheus server become a folder that training reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import tyro

from tvwrl import command_line
from tvwrl.traces.loaders import LOADERS
from tvwrl.traces.preparation.options import PrepareOptions, prepare_and_report


def main() -> None:
    """Parse the options, prepare, print the report."""
    commands = {name: _command(loader) for name, loader in LOADERS.items()}
    tyro.extras.subcommand_cli_from_dict(commands, description=__doc__, config=(tyro.conf.OmitArgPrefixes,))


def _command(kind: Any) -> Callable[..., None]:
    """A subcommand with the options of one loader beside those of all."""

    def command(common: PrepareOptions, loader: Any) -> None:
        made = kind(**{field.name: getattr(loader, field.name) for field in fields(kind)})
        prepare_and_report(common, made, print)

    # The options are checked only inside the command: tyro would report an error as a fault of a parameter "loader".
    unchecked = type(kind.__name__, (kind,), {"__post_init__": lambda self: None, "__module__": kind.__module__})
    command.__doc__ = unchecked.__doc__ = kind.__doc__
    command.__annotations__ = {"common": PrepareOptions, "loader": unchecked, "return": None}
    return command


if __name__ == "__main__":
    command_line.run(main)
