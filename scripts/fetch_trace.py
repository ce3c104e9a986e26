"""Download a published trace from its publisher's own address."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from tvwrl import command_line
from tvwrl.command_line import Names
from tvwrl.traces.catalogue import data_folder
from tvwrl.traces.fetch import fetch, source_folder


@dataclass(frozen=True)
class Arguments:
    """Download a published trace from its publisher's own address.

    Without --parts, only the first part of each table that comes in several is fetched, and all of the small tables
    with facts about machines and workloads. An interrupted download goes on where it stopped when the same command
    is given again; files that are there are kept.
    """

    name: tyro.conf.Positional[str]
    """google2011, google2019, alibaba2018, azure2019 or bitbrains."""
    parts: str | None = None
    """Numbers of the parts, counted from 0: 0-9, or 0,3,7-8, or all; default: 0."""
    tables: Names = ()
    """Names of tables; default: those that are needed. An unknown one lists those that there are."""
    cell: str | None = None
    """Cell of google2019, a to h; default: a."""
    out: Path | None = None
    """Folder to download to; default: raw/<name> in TVWRL_DATA (~/.cache/tvwrl if that is not set)."""
    base_url: str | None = None
    """A mirror that lays the files out as --out has them, with a SHA256SUM or without: google2011 asks it for
    <base-url>/task_usage/part-00000-of-00500.csv.gz; docs/traces.md lists the files of every trace."""


def main() -> None:
    """Parse the arguments, download, say how to go on."""
    arguments = tyro.cli(Arguments)
    name = arguments.name
    out = arguments.out or data_folder() / "raw" / name
    try:
        paths = fetch(name, out, arguments.parts, arguments.tables, arguments.base_url, arguments.cell)
    except KeyboardInterrupt:
        print(f"the same command goes on where it stopped; what was fetched is in {out}", file=sys.stderr)
        raise
    print(f"{len(paths)} {'file' if len(paths) == 1 else 'files'} in {out}; to go on:")
    source = source_folder(name, out, arguments.cell)
    print(f"python scripts/prepare_trace.py {name} --source {shlex.quote(str(source))}")


if __name__ == "__main__":
    command_line.run(main)
