"""Files of a paper's figure: rows, table, provenance, and plots of means over seeds with their 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvwrl.runs import provenance, whole_file, write_csv, write_json


def write_figure(
    folder: Path,
    text: str,
    rows: list[dict[str, Any]],
    plots: Mapping[str, Callable[[Path], None]],
    facts: Mapping[str, Any],
) -> None:
    """rows.csv, table.md, a PNG per plot, and run.json with where it came from and the `facts` (paths as text)."""
    write_csv(folder / "rows.csv", rows)
    with whole_file(folder / "table.md") as partial:
        partial.write_text(text, encoding="utf-8")
    for name, plot in plots.items():
        with whole_file(folder / f"{name}.png") as partial:
            plot(partial)
    told = {name: str(value) if isinstance(value, Path) else value for name, value in facts.items()}
    write_json(folder / "run.json", provenance() | told)
