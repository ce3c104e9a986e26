"""What a scheduler returns for a problem: a machine for every replica, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvwrl.flow.problem import Problem
from tvwrl.types import Int


@dataclass(frozen=True, eq=False)
class Assignment:
    """Machines of all replicas, and what it took to find them; `flow.referee.validate` checks and measures it."""

    scheduler: str
    machine: Int  # (R,) machine of each replica, or NOWHERE
    migrations: int = 0  # moves of replicas that already had a machine
    seconds: float = 0.0  # processor time without compilation
    reasons: dict[int, str] = field(default_factory=dict)  # application -> why some of its replicas have no machine
    details: dict[str, Any] = field(default_factory=dict)  # scheduler-specific facts, for the rows


Scheduler = Callable[[Problem], Assignment]  # every scheduler of paper 002: Aladdin+H and the baselines
