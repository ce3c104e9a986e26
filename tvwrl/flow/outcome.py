"""What a scheduler made of a problem: a machine for every replica, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvwrl.flow.problem import Problem
from tvwrl.types import Int


@dataclass(frozen=True, eq=False)
class Outcome:
    """Where replicas went. `flow.referee.judge` says how good that is."""

    scheduler: str
    machine: Int  # (R,) machine of each replica, NOWHERE if it has none
    migrations: int = 0  # moves of replicas that had a machine
    seconds: float = 0.0  # processor time, compiling left out
    reasons: dict[int, str] = field(default_factory=dict)  # application -> why replicas of it have no machine
    details: dict[str, Any] = field(default_factory=dict)  # what else is worth telling, for run.json


Place = Callable[[Problem], Outcome]  # every scheduler of paper 002, ours and the baselines
