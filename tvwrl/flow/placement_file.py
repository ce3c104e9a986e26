"""Files of placements: `placement.parquet`, and rows of what has no machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.flow.outcome import Outcome
from tvwrl.flow.problem import NOWHERE, Problem
from tvwrl.runs import whole_file


def write_placements(path: Path, problem: Problem, outcomes: Mapping[str, Outcome]) -> None:
    """One row per scheduler, application, its replica (from 0) and machine (from 0); without those that have none."""
    import polars as pl

    number = np.arange(len(problem.application)) - problem.first[problem.application]
    frames = []
    for name, outcome in outcomes.items():
        there = np.flatnonzero(outcome.machine != NOWHERE)
        names = problem.instance.application[problem.application[there]].astype(str).tolist()
        columns = {"scheduler": [name] * len(there), "application": names}
        text = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
        frames.append(
            text.with_columns(pl.Series("replica", number[there]), pl.Series("machine", outcome.machine[there]))
        )
    with whole_file(path) as partial:
        pl.concat(frames).write_parquet(partial)


def unplaced_rows(problem: Problem, outcomes: Mapping[str, Outcome]) -> list[dict[str, Any]]:
    """Scheduler, application, replicas without a machine, and why: a row per application that has some."""
    rows = []
    for name, outcome in outcomes.items():
        left = np.bincount(problem.application[outcome.machine == NOWHERE], minlength=len(problem.instance))
        for i in np.flatnonzero(left).tolist():
            told = {"application": str(problem.instance.application[i]), "replicas": int(left[i])}
            rows.append({"scheduler": name, **told, "reason": outcome.reasons.get(i, "")})
    return rows


def write_unplaced(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows of `unplaced_rows`, a header alone if there are none."""
    import polars as pl

    schema = {"scheduler": pl.String, "application": pl.String, "replicas": pl.Int64, "reason": pl.String}
    with whole_file(path) as partial:
        pl.DataFrame(rows, schema=schema).write_csv(partial)
