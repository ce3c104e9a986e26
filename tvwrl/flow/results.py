"""Runs schedulers on a problem and writes what they made of it: rows, placements, replicas without a machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.flow.assignment import Assignment
from tvwrl.flow.baselines.medea import Medea
from tvwrl.flow.baselines.tetris_graphene import Tetris
from tvwrl.flow.generated import generate
from tvwrl.flow.problem import NOWHERE, Problem
from tvwrl.flow.referee import validate
from tvwrl.flow.registry import scheduler
from tvwrl.runs import whole_file


def run_scheduler(problem: Problem, name: str, seed: int = 0, medea_seconds: float = 2.0) -> Assignment:
    """The assignment by the named scheduler; `medea_seconds` limits each integer programme of Medea.

    Compilation does not count towards `Assignment.seconds`.
    """
    place = scheduler(name, seed)
    if isinstance(place, Medea):
        place = replace(place, limit=medea_seconds)
    if isinstance(place, Tetris):  # compile its kernels; Aladdin+H does so by itself, the others have none
        place(generate(23, 62, 0, load=0.3))
    return place(problem)


def row_of(problem: Problem, assignment: Assignment, bound: float) -> dict[str, Any]:
    """The referee's counts as one row: efficiencies in %, latency in ms per replica (Eq. 12).

    `bound`: lower bound on machines, or NaN. Raises RuntimeError if the assignment exceeds a capacity.
    """
    verdict = validate(problem, assignment.machine)
    if verdict.over_capacity:
        raise RuntimeError(f"{assignment.scheduler} exceeds capacity {verdict.over_capacity} times")
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
    latency = 1000.0 * assignment.seconds / verdict.replicas
    row |= {"latency_ms": latency, "seconds": assignment.seconds, "migrations": assignment.migrations}
    reason = max(assignment.reasons.values(), key=list(assignment.reasons.values()).count, default="")
    return row | {"reason": reason, "details": json.dumps(assignment.details, default=float)}


def write_placements(path: Path, problem: Problem, assignments: Mapping[str, Assignment]) -> None:
    """Write a Parquet row for each scheduler and placed replica: application, replica (from 0), machine (from 0)."""
    import polars as pl

    number = np.arange(len(problem.application)) - problem.first[problem.application]
    frames = []
    for name, assignment in assignments.items():
        placed = np.flatnonzero(assignment.machine != NOWHERE)
        names = problem.instance.application[problem.application[placed]].astype(str).tolist()
        columns = {"scheduler": [name] * len(placed), "application": names}
        text = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
        frames.append(
            text.with_columns(pl.Series("replica", number[placed]), pl.Series("machine", assignment.machine[placed]))
        )
    with whole_file(path) as partial:
        pl.concat(frames).write_parquet(partial)


def unplaced_rows(problem: Problem, assignments: Mapping[str, Assignment]) -> list[dict[str, Any]]:
    """A row for each scheduler and application with unplaced replicas: how many, and why."""
    rows = []
    for name, assignment in assignments.items():
        left = np.bincount(problem.application[assignment.machine == NOWHERE], minlength=len(problem.instance))
        for i in np.flatnonzero(left).tolist():
            application = str(problem.instance.application[i])
            reason = assignment.reasons.get(i, "")
            rows.append({"scheduler": name, "application": application, "replicas": int(left[i]), "reason": reason})
    return rows


def write_unplaced(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows of `unplaced_rows` as CSV; without rows, the header alone."""
    import polars as pl

    schema = {"scheduler": pl.String, "application": pl.String, "replicas": pl.Int64, "reason": pl.String}
    with whole_file(path) as partial:
        pl.DataFrame(rows, schema=schema).write_csv(partial)
