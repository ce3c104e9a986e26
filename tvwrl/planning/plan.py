"""A plan: how many replicas of which application go to which machine, and why the others go to none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvwrl.types import Int, summary


@dataclass(frozen=True, eq=False)
class Plan:
    """How many replicas of which application go to which machine, and why the others go to none.

    Rows (application, machine, replicas) name each pair once; machines 0 .. `machines` - 1 are open. `validate` checks
    and measures a plan.

    Parameters
    ----------
    algorithm : str
        The planner's name.
    application : Int
        (R,) Number of an application of the instance.
    machine : Int
        (R,) Number of a machine of the fleet, from 0; `Fleet.names_of` has the names.
    replicas : Int
        (R,) >= 1.
    machines : int
        How many are open.
    seconds : float
        Processor time of the planner, without compilation.
    reasons : dict of int to str
        Application -> why some of its replicas have no machine.
    migrations : int
        Moves that the planner made of replicas it had placed.
    details : dict
        Facts of one kind of planner, for the rows.

    Examples
    --------
    Three replicas of the first application on the first machine, one of the second on the third:

    >>> Plan.of("mine", np.array([0, 1]), np.array([0, 2]), np.array([3, 1]))
    <Plan algorithm='mine', replicas=4, machines=3, seconds=0.0>
    """

    algorithm: str
    application: Int
    machine: Int
    replicas: Int
    machines: int
    seconds: float = 0.0
    reasons: dict[int, str] = field(default_factory=dict)
    migrations: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = {"replicas": int(self.replicas.sum()), "machines": self.machines}
        return summary(self, algorithm=self.algorithm, **sizes, seconds=self.seconds)

    @classmethod
    def of(
        cls, algorithm: str, application: Int, machine: Int, replicas: Int, seconds: float = 0.0, **more: Any
    ) -> Plan:
        """From rows, with machines open up to the last that one of them names. Nothing is checked: see `validate`.

        Parameters
        ----------
        algorithm : str
            The planner's name.
        application, machine, replicas : Int
            (R,) As of the class.
        seconds : float
            As of the class.
        **more
            Other fields of the class.
        """
        return cls(algorithm, application, machine, replicas, int(machine.max(initial=-1)) + 1, seconds, **more)

    @classmethod
    def of_counts(cls, algorithm: str, counts: Int) -> Plan:
        """From a table of replicas.

        Parameters
        ----------
        algorithm : str
            The planner's name.
        counts : Int
            (A, M) Replicas by application and machine.
        """
        application, machine = np.nonzero(counts)
        return cls.of(algorithm, application, machine, counts[application, machine])

    @classmethod
    def of_replicas(cls, algorithm: str, application: Int, machine: Int, seconds: float = 0.0, **more: Any) -> Plan:
        """From the machine of each replica.

        Parameters
        ----------
        algorithm : str
            The planner's name.
        application : Int
            (N,) Of each replica.
        machine : Int
            (N,) Of each replica; below 0: it is not placed.
        seconds : float
            As of the class.
        **more
            Other fields of the class.
        """
        pairs = np.column_stack([application, machine])[machine >= 0]
        rows, count = np.unique(pairs, axis=0, return_counts=True)
        return cls.of(algorithm, rows[:, 0], rows[:, 1], count, seconds, **more)
