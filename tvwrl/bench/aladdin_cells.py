"""Placement problems of paper 002's evaluation, placed by its schedulers; rows are kept, so that work can go on.

A cell is one problem. Its rows are `cells/<cell>.csv` of the folder, written after every scheduler; what stands there
is not placed again. `request.json` says what all of them were made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tvwrl.bench.requests import check_request
from tvwrl.flow.bounds import bound_or_nan
from tvwrl.flow.generated import generate, usual_replicas
from tvwrl.flow.problem import Problem
from tvwrl.flow.results import row_of, run_scheduler
from tvwrl.flow.tianchi import read_tianchi, scaled
from tvwrl.parallel import Call, run_calls
from tvwrl.runs import read_csv, write_csv, write_json

GENERATED, TIANCHI = "generated", "tianchi"
TEXT = ("instance", "scheduler", "reason", "details")  # columns that are no numbers


@dataclass(frozen=True)
class Cell:
    """A problem, and who places it."""

    instance: str  # GENERATED or TIANCHI
    machines: int
    seed: int
    load: float  # of the generated ones, share of the scarcer resource
    schedulers: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its file, without ending."""
        load = f"-{self.load:g}" if self.instance == GENERATED else ""
        return f"{self.instance}-{self.machines}{load}-seed{self.seed}"

    def problem(self, tianchi: str) -> Problem:
        """Drawn with the paper's replicas per machine, or the contest's, scaled."""
        if self.instance == TIANCHI:
            return scaled(read_tianchi(tianchi), self.machines, self.seed)
        return generate(self.machines, usual_replicas(self.machines), self.seed, self.load)


def complete(folder: Path, cells: Sequence[Cell], tianchi: str, medea: float, workers: int) -> list[dict[str, Any]]:
    """Rows of the cells, in their order, after placing what is missing; `medea`: seconds for one programme of it.

    Raises InputError if the folder was made from another contest file or with other seconds.
    """
    asked = {"tianchi": tianchi, "medea_seconds": medea}
    check_request(folder / "request.json", asked)
    write_json(folder / "request.json", asked)
    files = {cell: folder / "cells" / f"{cell.name}.csv" for cell in cells}
    calls: list[Call] = [
        (place, (cell, tianchi, medea, file)) for cell, file in files.items() if _missing(cell, read_csv(file))
    ]
    with tqdm(total=len(calls), desc="problems", unit="problem", disable=None) as bar:
        for _ in run_calls(calls, workers, None, processes=True):
            bar.update()
    return [row for cell, file in files.items() for row in rows_of(cell, read_csv(file))]


def rows_of(cell: Cell, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the cell's schedulers, in their order, with numbers as numbers."""
    done = {row["scheduler"]: row for row in rows}
    found = [done[name] for name in cell.schedulers if name in done]
    return [{name: value if name in TEXT else float(value) for name, value in row.items()} for row in found]


def _missing(cell: Cell, rows: Sequence[dict[str, Any]]) -> list[str]:
    done = {row["scheduler"] for row in rows}
    return [name for name in cell.schedulers if name not in done]


def place(cell: Cell, tianchi: str, medea: float, file: Path) -> dict[str, Any]:
    """Place a problem by the schedulers that are missing, and add their rows to the file."""
    rows = read_csv(file)
    problem = cell.problem(tianchi)
    bound = float(rows[0]["bound"]) if rows else float(bound_or_nan(problem)[0])
    for name in _missing(cell, rows):
        assignment = run_scheduler(problem, name, cell.seed, medea)
        facts = {"instance": cell.instance, "seed": cell.seed, "load": cell.load, "scheduler": name}
        rows.append(facts | row_of(problem, assignment, bound))
        write_csv(file, rows)
    return {"cell": cell.name}
