"""`tvwrl reproduce`: the figures of the papers, and the page of results."""

from __future__ import annotations

from typing import Any

from tvwrl import papers
from tvwrl.experiments import results
from tvwrl.progress import say

RESULTS = "results"


def figures() -> dict[str, dict[str, str]]:
    """Paper -> name of a figure -> its title."""
    return papers.titles() | {"Results": {RESULTS: results.TITLE}}


def options_of(name: str) -> type:
    """The options of a figure."""
    if name == RESULTS:
        from tvwrl.experiments import COMMANDS

        return COMMANDS[name]
    return papers.command(name)


def make_figure(options: Any) -> None:
    """Measure what is missing of a figure, and write it."""
    say(f"{options.__doc__}")
    options.run()
