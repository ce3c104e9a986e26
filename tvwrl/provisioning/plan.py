"""A plan: how many replicas of which application go to which machine."""

from __future__ import annotations

from dataclasses import dataclass

from tvwrl.types import Int


@dataclass(frozen=True, eq=False)
class Plan:
    """Rows (application, machine, replicas), each pair once, replicas >= 1; machines 0 .. `machines` - 1 are open."""

    algorithm: str
    application: Int  # (R,) index into the instance
    machine: Int  # (R,) index into the fleet
    replicas: Int  # (R,) >= 1
    machines: int
    seconds: float = 0.0  # of the solve, processor time
