"""The papers: published numbers, the cells that measure them again, and the figures made of both; one folder each.

Nothing imports this room but the reproduce command.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["PAPERS", "command", "titles"]

PAPERS = ("tvw_rl", "lrasched", "provisioning", "pism", "aladdin")  # folders; `titles` and `figures.COMMANDS` in each


def titles() -> dict[str, dict[str, str]]:
    """Paper -> name of a figure's command -> its title; imports no figure."""
    found: dict[str, dict[str, str]] = {}
    for paper in PAPERS:
        of = _titles_of(paper)
        every = {"all": "all of them in one folder"} if hasattr(of, "ALL") else {}
        found[of.PAPER] = {f"{of.PREFIX}-{name}".lstrip("-"): title for name, title in (of.FIGURES | every).items()}
    return found


def command(name: str) -> type:
    """The dataclass with the options of the figure `name`, and a method `run`; imports the figures of one paper."""
    listed = titles()
    paper = next(paper for paper in PAPERS if name in listed[_titles_of(paper).PAPER])
    found: dict[str, type] = import_module(f"tvwrl.papers.{paper}.figures").COMMANDS
    return found[name]


def _titles_of(paper: str) -> Any:
    return import_module(f"tvwrl.papers.{paper}.titles")
