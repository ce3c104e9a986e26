"""Tables in Markdown that also read well in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

MARK = "<!-- What follows is generated; what stands above this line is kept. -->"


def preserved_introduction(page: Path, title: str) -> str:
    """What stands in a page above `MARK`, written by hand, and the mark; all of a page without it is taken to be so.

    Without a page it is the title.
    """
    opening = page.read_text(encoding="utf-8").partition(MARK)[0].rstrip() if page.exists() else f"# {title}"
    return f"{opening}\n\n{MARK}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with columns of even width; the first is left-aligned, the others right."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    width = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
    lines = []
    for row in cells:
        aligned = [cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, width, strict=True))]
        lines.append("| " + " | ".join(aligned) + " |")
    rule = ["-" * (w - 1) + ":" if i else "-" * w for i, w in enumerate(width)]
    lines.insert(1, "| " + " | ".join(rule) + " |")
    return "\n".join(lines)
