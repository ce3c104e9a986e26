"""The benchmark's score: schedulers ranked within their knowledge group, and how far each is from the best of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tvwrl.experiments import (
    CEILING,
    FLOOR,
    UNPLACED,
    Rows,
    bootstrap_interval,
    complete_only,
    incomplete,
    paired_bootstrap,
    share_closed,
    table_of,
)
from tvwrl.schedulers import GROUPS
from tvwrl.types import Float

Estimate = tuple[float, tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """A scheduler on a task; rewards are plain numbers, the interval is of 95 %. All of them are NaN, but for `rank`,
    `unplaced` and `milliseconds`, if it left workloads unplaced in any sequence."""

    scheduler: str
    played: str  # its name, with the margin if that is tuned
    tuned: bool
    ours: bool  # one of this project's rules or agents
    knowledge: str
    rank: int  # within its group of knowledge, from 1; equals share the better one
    reward: Estimate
    behind: Estimate  # the best of its group
    closed: float
    closed_each: Float  # (sequences,) the same of each sequence, by the means of FLOOR and CEILING; empty without them
    overshoot: float
    machines: float
    wait: float
    unplaced: float
    moves: float  # per workload; NaN where none may move
    milliseconds: float
    rewards: Float  # (sequences,)
    note: str = ""  # what a reader has to know of it
    incomplete: str = ""  # what it did not place, in words

    @property
    def label(self) -> str:
        """Its name in tables."""
        name = f"{self.played}, tuned" if self.tuned else self.scheduler
        return f"{name} ({self.note})" if self.note else name

    @property
    def is_best(self) -> bool:
        """Whether it is the best of its group, which a scheduler that left workloads unplaced never is."""
        return self.rank == 1 and not self.incomplete


def summaries(rows: Rows, tasks: Sequence[str]) -> dict[str, list[Line]]:
    """task -> its schedulers by knowledge group, the best of each group first; tasks without rows are left out."""
    found: dict[str, dict[str, Rows]] = {}
    for row in rows:
        found.setdefault(row["task"], {}).setdefault(f"{row['scheduler']}{row['tuned']}", []).append(row)
    return {task: _lines(list(found[task].values())) for task in tasks if task in found}


def _lines(of: Sequence[Rows]) -> list[Line]:
    """One task's lines; `of`: the rows of each scheduler."""
    of = [complete_only(table_of(rows).sort("sequence"), by=["scheduler"]).to_dicts() for rows in of]
    rewards = {rows[0]["scheduler"]: _column(rows, "reward") for rows in of if not rows[0]["tuned"]}
    lines = []
    for group in GROUPS:
        own = [rows for rows in of if rows[0]["knowledge"] == group]
        own.sort(key=lambda rows: (_place(rows), rows[0]["scheduler"], rows[0]["tuned"]))
        places = [_place(rows) for rows in own]
        best = _column(own[0], "reward") if own else np.empty(0)
        lines += [_line(rows, places.index(place) + 1, best, rewards) for rows, place in zip(own, places, strict=True)]
    return lines


def _place(rows: Rows) -> tuple[float, float]:
    """Sorts schedulers by falling mean reward; those that left workloads unplaced come last, the fewest first."""
    left = float(_column(rows, UNPLACED).sum())
    return left, 0.0 if left else -float(_column(rows, "reward").mean())


def _line(rows: Rows, rank: int, best: Float, rewards: Mapping[str, Float]) -> Line:
    reward, first = _column(rows, "reward"), rows[0]
    behind, *interval = paired_bootstrap(reward, best)
    ends = [rewards.get(name) for name in (FLOOR, CEILING)]
    trio = None if any(end is None for end in ends) else np.stack([*ends, reward], axis=1)  # type: ignore[list-item]
    return Line(
        first["scheduler"],
        first["played"],
        first["tuned"],
        first["ours"],
        first["knowledge"],
        rank,
        (float(reward.mean()), bootstrap_interval(reward)),
        (behind, (interval[0], interval[1])),
        float("nan") if trio is None else float(share_closed(trio[None])[0]),
        _closed_each(trio),
        overshoot=float(_column(rows, "overshoot_pct").mean()),
        machines=float(_column(rows, "machines_used").mean()),
        wait=float(_column(rows, "wait_mean").mean()),
        unplaced=float(_column(rows, UNPLACED).mean()),
        moves=float(_column(rows, "moves_per_workload").mean()),
        milliseconds=float(_column(rows, "decision_ms").mean()),
        rewards=reward,
        note=first["note"],
        incomplete=incomplete(_column(rows, UNPLACED)),
    )


def _closed_each(trio: Float | None) -> Float:
    """(n,) percent of the way from the mean of column 0 of `trio` (n, 3) to that of column 1 that column 2 is."""
    if trio is None:
        return np.empty(0)
    worst, best = trio[:, :2].mean(axis=0)
    return np.asarray(100 * (trio[:, 2] - worst) / (best - worst)) if best > worst else np.full(len(trio), np.nan)


def _column(rows: Rows, name: str) -> Float:
    found = [row.get(name) for row in rows]
    return np.array([np.nan if value is None else value for value in found], dtype=np.float64)
