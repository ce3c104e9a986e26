"""Placement problems of paper 002's evaluation, placed by its schedulers; rows are kept, so that work can go on.

A cell is one problem. Its rows are `cells/<cell>.csv` of the folder, written after every scheduler; what stands there
is not placed again. `request.json` says what all of them were made from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.bench.requests import check_request
from tvwrl.flow import published
from tvwrl.flow.baselines.aligned import Tetris
from tvwrl.flow.baselines.medea import Medea
from tvwrl.flow.bounds import lower_bound
from tvwrl.flow.generated import generate
from tvwrl.flow.outcome import Outcome
from tvwrl.flow.problem import Problem
from tvwrl.flow.referee import judge
from tvwrl.flow.registry import scheduler
from tvwrl.flow.tianchi import read_tianchi, scaled
from tvwrl.parallel import Call, run_calls
from tvwrl.runs import read_csv, write_csv, write_json
from tvwrl.types import InputError

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
        replicas = round(self.machines * published.REPLICAS / published.MACHINES)
        return generate(self.machines, replicas, self.seed, self.load)


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
    bound = float(rows[0]["bound"]) if rows else bound_of(problem)
    for name in _missing(cell, rows):
        outcome = placed(problem, name, cell.seed, medea)
        facts = {"instance": cell.instance, "seed": cell.seed, "load": cell.load, "scheduler": name}
        rows.append(facts | row_of(problem, outcome, bound))
        write_csv(file, rows)
    return {"cell": cell.name}


def bound_of(problem: Problem) -> float:
    """Machines that any placement of all replicas needs, NaN if there is none."""
    try:
        return float(lower_bound(problem).machines)
    except InputError:
        return float("nan")


def placed(problem: Problem, name: str, seed: int = 0, medea: float = 2.0) -> Outcome:
    """What the scheduler of a name makes of a problem; compiling is not in its seconds."""
    place = scheduler(name, seed)
    if isinstance(place, Medea):
        place = replace(place, limit=medea)
    if isinstance(place, Tetris):  # of the others Aladdin+H compiles by itself
        place(generate(23, 62, 0, load=0.3))
    return place(problem)


def row_of(problem: Problem, outcome: Outcome, bound: float) -> dict[str, Any]:
    """What a table tells of an outcome, by the referee; efficiencies in %, latency in ms per replica (Eq. 12)."""
    verdict = judge(problem, outcome.machine)
    if verdict.over_capacity:
        raise RuntimeError(f"{outcome.scheduler} exceeds capacity {verdict.over_capacity} times")
    row: dict[str, Any] = {
        "machines": len(problem.fleet.capacity),
        "replicas": verdict.replicas,
        "placed": verdict.placed,
        "violations": verdict.violations,
        "above_limits": verdict.above_limits,
        "apart": verdict.apart,
        "machines_used": verdict.machines,
        "bound": bound,
        "gap_pct": 100.0 * (verdict.machines / bound - 1.0) if verdict.placed == verdict.replicas else float("nan"),
    }
    for d, resource in enumerate(problem.instance.resources[:2]):
        share = 100.0 * verdict.efficiency[:, d] if verdict.machines else np.zeros(1)
        low, high = np.percentile(share, (5, 95))
        row |= {f"{resource}_pct": share.mean(), f"{resource}_low": low, f"{resource}_high": high}
    latency = 1000.0 * outcome.seconds / verdict.replicas
    row |= {"latency_ms": latency, "seconds": outcome.seconds, "migrations": outcome.migrations}
    reason = max(outcome.reasons.values(), key=list(outcome.reasons.values()).count, default="")
    return row | {"reason": reason, "details": json.dumps(outcome.details, default=float)}
