"""The papers: published numbers, the cells that measure them again, and the figures made of both; one folder each.

Nothing imports this room but the reproduce command.
"""

from __future__ import annotations

from importlib import import_module

PAPERS = ("aladdin", "lrasched", "pism", "provisioning", "tvw_rl")  # folders; `figures.COMMANDS` in each


def commands() -> dict[str, type]:
    """Command name -> dataclass with its options and a method `run`."""
    found: dict[str, type] = {}
    for paper in PAPERS:
        found |= import_module(f"tvwrl.papers.{paper}.figures").COMMANDS
    return found
