"""Reads the folder of reference results: what the authors published, and what their released code does when run again.

- `published_summary.csv`: means of the authors' rows by study, graph and value of what is varied
- `reference.json`: machines and processor seconds of the released code on single instances, as released
  (`as_published_code`, which divides integers) and with floating point (`as_in_paper`)
- `<instance>.csv.gz`: those instances, in the published format
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tvwrl.papers.provisioning.published import STUDIES
from tvwrl.types import InputError

SUMMARY, MEASURED = "published_summary.csv", "reference.json"
PAPER_NAMES = {  # name in the released code -> name in the paper
    "FFD-Degree": "Medea-TP",
    "NodeCount": "Medea-NC",
    "NCD-Fitness": "LRASched-Fitness",
    "NCD-DotDivision": "NCD-TightFill",
}


class Measurement(NamedTuple):
    """One algorithm's results: % above the bound of Eq. 4, seconds, and machines on a single instance."""

    deviation: float
    seconds: float
    machines: int = 0
    fell_back: bool = False  # spreading failed with First-Fit's number of machines and returned its plan


Measurements = dict[str, Measurement]  # by algorithm
Group = tuple[str, str, int]  # study, graph, value of what is varied


@dataclass(frozen=True)
class Reference:
    """Contents of the folder; empty without one."""

    folder: Path | None = None
    results: dict[Group, Measurements] = field(default_factory=dict)  # published means
    released: dict[str, Measurements] = field(default_factory=dict)  # instance -> the released code when run again
    floating: dict[str, Measurements] = field(default_factory=dict)  # instance -> the same with floating point

    def instance(self, name: str) -> Path | None:
        """The file of an instance, or None."""
        path = self.folder / f"{name}.csv.gz" if self.folder else None
        return path if path and path.exists() else None


@lru_cache(maxsize=1)
def read_reference(folder: Path | None) -> Reference:
    """Read both tables. Raises InputError if one is missing or not as described."""
    if folder is None:
        return Reference()
    for name in (SUMMARY, MEASURED):
        if not (folder / name).is_file():
            raise InputError(f"reference {folder}: has no {name}")
    try:
        with (folder / SUMMARY).open(newline="") as file:
            results = _summary(list(csv.DictReader(file)))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / SUMMARY}: not as described, or damaged: {error!r}") from None
    try:
        measured = json.loads((folder / MEASURED).read_text())["instances"]
        released = {name: _measurements(modes["as_published_code"]) for name, modes in measured.items()}
        # Instances with series were computed in floating point from the start.
        floating = {name: _measurements(modes["as_in_paper"]) or released[name] for name, modes in measured.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{folder / MEASURED}: not as described, or damaged: {error!r}") from None
    return Reference(folder, results, released, floating)


def paper_name(code: str) -> str:
    """The paper's name of an algorithm of the released code: `SpreadWFD-Avg-Decr2` for `RefineWFD-Avg-2`."""
    name = PAPER_NAMES.get(code, re.sub(r"-AvgExpo$", "-AvgExp", code))
    if found := re.fullmatch(r"RefineWFD-(\w+)-(\d+)", name):
        return f"SpreadWFD-{found[1]}-Decr{found[2]}"
    return f"{name}-BinSearch" if name.startswith("SpreadWFD") else name


def _summary(rows: list[dict[str, str]]) -> dict[Group, Measurements]:
    found: dict[Group, Measurements] = {}
    for row in rows:
        if row["set"] not in STUDIES:
            raise ValueError(f"set {row['set']}")
        group = row["set"], row["graph"], int(row["param"])
        outcome = Measurement(float(row["mean_dev_pct"]), float(row["mean_time_s"]))
        found.setdefault(group, {})[paper_name(row["algo"])] = outcome
    return found


def _measurements(algorithms: dict[str, dict[str, Any]]) -> Measurements:
    return {
        name: Measurement(float(one["dev_pct"]), float(one["cpu_s"]), int(one["nodes"]), bool(one["ub_fallback"]))
        for name, one in algorithms.items()
    }
