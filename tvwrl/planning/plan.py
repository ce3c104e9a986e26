"""A plan: how many replicas of which application go to which machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.types import Int, summary


@dataclass(frozen=True, eq=False)
class Plan:
    """Rows (application, machine, replicas), each pair once, replicas >= 1; machines 0 .. `machines` - 1 are open."""

    algorithm: str
    application: Int  # (R,) index into the instance
    machine: Int  # (R,) index into the fleet
    replicas: Int  # (R,) >= 1
    machines: int
    seconds: float = 0.0  # of the solve, processor time

    def __repr__(self) -> str:
        sizes = {"replicas": int(self.replicas.sum()), "machines": self.machines}
        return summary(self, algorithm=self.algorithm, **sizes, seconds=self.seconds)

    @classmethod
    def of(cls, algorithm: str, application: Int, machine: Int, replicas: Int, seconds: float = 0.0) -> Plan:
        """From rows, all (R,) as in `Plan`, with machines open up to the last that one of them names.

        Nothing is checked: see `referee.validate`.

        >>> Plan.of("FF", np.array([0, 1]), np.array([0, 2]), np.array([3, 1])).machines
        3
        """
        return cls(algorithm, application, machine, replicas, int(machine.max(initial=-1)) + 1, seconds)

    @classmethod
    def of_counts(cls, algorithm: str, counts: Int) -> Plan:
        """From replicas by application and machine (A, M)."""
        application, machine = np.nonzero(counts)
        return cls.of(algorithm, application, machine, counts[application, machine])
