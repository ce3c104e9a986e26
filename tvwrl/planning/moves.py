"""Which running replicas a plan moves, from where to where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import NOWHERE
from tvwrl.types import Int


@dataclass(frozen=True, eq=False)
class Moves:
    """N rows: so many replicas of an application leave one machine for another."""

    application: Int  # (N,)
    start: Int  # (N,) machine; NOWHERE: they did not run before
    end: Int  # (N,) machine; NOWHERE: the plan leaves them without one
    replicas: Int  # (N,) >= 1


def moves_between(running: Plan, plan: Plan) -> Moves:
    """From what runs to a plan, with as few moves as possible.

    Replicas of an application are alike: those that leave machines go in turn, by rising numbers, to where the plan has
    more of them. Moves are as many as the referee counts.
    """
    kinds = np.concatenate([running.application, plan.application])
    places = np.concatenate([running.machine, plan.machine])
    signed = np.concatenate([-running.replicas, plan.replicas])
    pairs, of = np.unique(np.column_stack([kinds, places]), axis=0, return_inverse=True)
    more = np.bincount(of.ravel(), weights=signed, minlength=len(pairs)).astype(np.int64)
    rows: list[tuple[int, int, int, int]] = []
    pairs, more = pairs[more != 0], more[more != 0]
    start = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))  # pairs are sorted by application
    for own in np.split(np.arange(len(pairs)), start[1:]) if len(pairs) else ():
        rows += _matched(int(pairs[own[0], 0]), [(int(pairs[k, 1]), int(more[k])) for k in own])
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Moves(table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def _matched(i: int, changes: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Moves of an application from machines that have fewer of it to those that have more."""
    less, more = ([[m, abs(n)] for m, n in changes if (n > 0) == grown] for grown in (False, True))
    rows = []
    while less and more:
        count = min(less[0][1], more[0][1])
        rows.append((i, less[0][0], more[0][0], count))
        for side in (less, more):
            side[0][1] -= count
            if not side[0][1]:
                side.pop(0)
    return rows + [(i, m, NOWHERE, n) for m, n in less] + [(i, NOWHERE, m, n) for m, n in more]
