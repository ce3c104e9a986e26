"""A plan: how many replicas of which application go to which machine, and why the others go to none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvwrl.types import Int, summary


@dataclass(frozen=True, eq=False)
class Plan:
    """Rows (application, machine, replicas), each pair once, replicas >= 1; machines 0 .. `machines` - 1 are open.

    `planning.referee.validate` checks and measures it.
    """

    algorithm: str
    application: Int  # (R,) index into the instance
    machine: Int  # (R,) index into the fleet, from 0; `Fleet.names_of` has the names
    replicas: Int  # (R,) >= 1
    machines: int
    seconds: float = 0.0  # of the solve, processor time without compilation
    reasons: dict[int, str] = field(default_factory=dict)  # application -> why some of its replicas have no machine
    migrations: int = 0  # moves that the planner made of replicas it had placed
    details: dict[str, Any] = field(default_factory=dict)  # facts of one kind of planner, for the rows

    def __repr__(self) -> str:
        sizes = {"replicas": int(self.replicas.sum()), "machines": self.machines}
        return summary(self, algorithm=self.algorithm, **sizes, seconds=self.seconds)

    @classmethod
    def of(
        cls, algorithm: str, application: Int, machine: Int, replicas: Int, seconds: float = 0.0, **more: Any
    ) -> Plan:
        """From rows, all (R,) as in `Plan`, with machines open up to the last that one of them names.

        Nothing is checked: see `referee.validate`.

        >>> Plan.of("FF", np.array([0, 1]), np.array([0, 2]), np.array([3, 1])).machines
        3
        """
        return cls(algorithm, application, machine, replicas, int(machine.max(initial=-1)) + 1, seconds, **more)

    @classmethod
    def of_counts(cls, algorithm: str, counts: Int) -> Plan:
        """From replicas by application and machine (A, M)."""
        application, machine = np.nonzero(counts)
        return cls.of(algorithm, application, machine, counts[application, machine])

    @classmethod
    def of_replicas(cls, algorithm: str, application: Int, machine: Int, seconds: float = 0.0, **more: Any) -> Plan:
        """From the application and the machine of each replica, both (N,); a machine below 0: it is not placed."""
        pairs = np.column_stack([application, machine])[machine >= 0]
        rows, count = np.unique(pairs, axis=0, return_counts=True)
        return cls.of(algorithm, rows[:, 0], rows[:, 1], count, seconds, **more)
