"""Tables in Markdown that also read well in a terminal."""

from __future__ import annotations

from collections.abc import Sequence


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
