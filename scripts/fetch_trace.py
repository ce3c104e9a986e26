"""Download a published trace from its publisher's own address."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.traces.fetch_trace import FetchOptions, fetch_and_report


def main() -> None:
    """Parse the arguments and download."""
    fetch_and_report(tyro.cli(FetchOptions), print)


if __name__ == "__main__":
    command_line.run(main)
