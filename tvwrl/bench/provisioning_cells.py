"""Instances of the provisioning paper's studies, planned by its algorithms; rows are kept, so that work can go on.

A cell is one instance. Its rows are `cells/<cell>.csv` of the folder, written after every algorithm; what stands there
is not planned again. `request.json` says what all of them were made from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tvwrl.bench.provisioning_published import DENSITY, MACHINE, STUDIES, Study
from tvwrl.bench.requests import check_request
from tvwrl.parallel import Call, run_calls
from tvwrl.provisioning.bounds.counting import by_volume
from tvwrl.provisioning.instance import Fleet, Instance
from tvwrl.provisioning.results import judged, row_of
from tvwrl.provisioning.sources.generated import generate
from tvwrl.provisioning.sources.opening import open_instance, windowed
from tvwrl.provisioning.suite import measured
from tvwrl.runs import read_csv, write_csv, write_json
from tvwrl.types import InputError

KNOWN = "known"  # in place of a study: an instance that the released code was measured on


@dataclass(frozen=True)
class Cell:
    """An instance to plan, and by what."""

    study: str  # of STUDIES, or KNOWN
    graph: str  # of the affinity; of a known instance, its name
    value: int  # of what the study varies
    number: int  # 0, 1, 2, ... of the same graph and value
    algorithms: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its file, without ending."""
        return self.graph if self.study == KNOWN else f"{self.study}-{self.graph}-{self.value}-{self.number}"


@dataclass(frozen=True)
class Workshop:
    """Where rows are kept, and what their instances are drawn from."""

    out: Path
    fixed: str  # instance whose applications, replicas and limits the others are drawn from; at one time
    series: str  # the same with series; may be the same source
    known: dict[str, str]  # instance -> file
    shrink: int = 1  # so many times fewer applications, >= 1
    seed: int = 0

    def check(self, cells: Sequence[Cell]) -> None:
        """Raise InputError if the folder was made from something else, or what is missing of the cells cannot be drawn;
        else note what it is made from."""
        asked = {
            "fixed": self.fixed,
            "series": self.series,
            "shrink": self.shrink,
            "seed": self.seed,
            "machine": list(MACHINE),
        }
        check_request(self.out / "request.json", asked)
        for series in {STUDIES[cell.study].series for cell in cells if cell.study != KNOWN and self.missing(cell)}:
            self.base(series)
        write_json(self.out / "request.json", asked)

    def rows_file(self, cell: Cell) -> Path:
        """Where the rows of a cell are."""
        return self.out / "cells" / f"{cell.name}.csv"

    def rows(self, cell: Cell) -> list[dict[str, Any]]:
        """What is done of a cell: of its algorithms, in their order."""
        done = {row["algorithm"]: row for row in read_csv(self.rows_file(cell))}
        return [done[name] for name in cell.algorithms if name in done]

    def missing(self, cell: Cell) -> list[str]:
        """Algorithms of a cell that have no row yet."""
        done = {row["algorithm"] for row in self.rows(cell)}
        return [name for name in cell.algorithms if name not in done]

    def instance(self, cell: Cell) -> Instance:
        """The instance of a cell, read or drawn."""
        if cell.study == KNOWN:
            return open_instance(self.known[cell.graph])
        study = STUDIES[cell.study]
        base = self.base(study.series)
        density, applications = _size(study, cell.value, len(base), self.shrink)
        return generate(base, cell.graph, density, applications, self.seed + cell.number)

    def base(self, series: bool) -> Instance:
        """What instances are drawn from. Raises InputError if they need series and it has none."""
        base = _base(self.series, None) if series else _base(self.fixed, 1)
        if series and base.demand.shape[1] == 1:
            raise InputError(f"base {self.series} has demand at one time: Figures 6 and 7 need several")
        return base


@lru_cache(maxsize=2)
def _base(source: str, times: int | None) -> Instance:
    return windowed(open_instance(source), times)


def _size(study: Study, value: int, base: int, shrink: int) -> tuple[float, int | None]:
    """Density (0 to 1) and number of applications of an instance; None: those of the base themselves."""
    if study.varied == "density":
        return value / 100, None if shrink == 1 else max(2, base // shrink)
    return DENSITY / 100, max(2, value // shrink)


def merge(cells: Sequence[Cell]) -> list[Cell]:
    """Each instance once, with the algorithms of all cells that plan it; the first of each number before the second."""
    found: dict[str, Cell] = {}
    for cell in cells:
        known = found.get(cell.name, cell)
        found[cell.name] = replace(cell, algorithms=tuple(dict.fromkeys((*known.algorithms, *cell.algorithms))))
    return sorted(found.values(), key=lambda cell: cell.number)


def complete(shop: Workshop, cell: Cell) -> dict[str, Any]:
    """Plan what is missing of a cell; `cell`, `planned` (how many) and `seconds` it took."""
    began, fleet, missing = time.monotonic(), Fleet.of(MACHINE), shop.missing(cell)
    if not missing:
        return {"cell": cell.name, "planned": 0, "seconds": 0.0}
    instance = shop.instance(cell)
    bound = by_volume(instance, fleet)  # Eq. 4, which the published deviations are from
    for name in missing:
        result = judged(instance, fleet, *measured(instance, fleet, name))
        row = {"study": cell.study, "graph": cell.graph, "value": cell.value, "number": cell.number}
        row |= {"applications": len(instance), "limits": len(instance.affinity)} | row_of(instance, bound, result)
        write_csv(shop.rows_file(cell), [*read_csv(shop.rows_file(cell)), row])
    return {"cell": cell.name, "planned": len(missing), "seconds": time.monotonic() - began}


def complete_cells(shop: Workshop, cells: Sequence[Cell], workers: int, tell: Callable[[str], None]) -> None:
    """Plan what is missing, `workers` cells at a time, each in a process of its own; a line to `tell` for each."""
    todo = [cell for cell in merge(cells) if shop.missing(cell)]
    calls: list[Call] = [(complete, (shop, cell)) for cell in todo]
    with tqdm(total=len(calls), desc="instances", unit="instance", disable=None) as bar:
        for _, done in run_calls(calls, workers, None, processes=True):
            tell(f"{done['cell']}: {done['planned']} algorithms in {done['seconds']:.0f} s")
            bar.update()
