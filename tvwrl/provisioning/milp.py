"""The integer linear programme of Section 3.2 of paper 001, solved by HiGHS, for up to 2,000 applications.

Replicas of an application are alike, so the sum of x_irn over its replicas r is one integer variable x_in; that says
the same with fewer symmetries. Further: machines are opened in order (y_n >= y_{n+1}), the floor stands in Eq. 1 where
the paper prints a ceiling, self limits are in nu_i, and z_in and (2d-2f) are there only where a limit can bind. Where
all of those limits would be too many for memory, the programme begins without them and takes up those that its plans
break, round by round: what any round proves holds for all limits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.checks import positive
from tvwrl.provisioning.bounds import lower_bound
from tvwrl.provisioning.bounds.counting import most_per_machine
from tvwrl.provisioning.instance import Fleet, Instance
from tvwrl.provisioning.plan import Plan
from tvwrl.provisioning.referee import validate
from tvwrl.provisioning.solver import run_milp
from tvwrl.types import Float, InputError, Int

Bool = npt.NDArray[np.bool_]

MOST_APPLICATIONS = 2_000
MOST_ENTRIES = 20_000_000  # of the matrix, some 4 GB in the solver
MOST_AT_ONCE = MOST_ENTRIES  # up to which it begins with all limits
LIGHT = 1e-5  # share of a machine; a smaller demand could hide in the tolerance of the solver
NAME = "MILP"


@dataclass(frozen=True)
class Solved:
    """The best plan found and a proof of how good it is."""

    plan: Plan  # called "MILP"; the start's rows if nothing better was found
    bound: int  # no plan uses fewer machines
    status: str  # "optimal", "time limit", or "too large": nothing, or no further limit, would have fitted into memory


def solve(instance: Instance, fleet: Fleet, start: Plan, seconds: float) -> Solved:
    """Look for a plan of fewer machines than `start`, a plan of all replicas by any planner, within `seconds` > 0.

    Raises InputError for more than 2,000 applications, fixed fleets, and a start that breaks a rule.
    """
    if len(instance) > MOST_APPLICATIONS:
        raise InputError(f"{len(instance)} applications: the integer programme is for {MOST_APPLICATIONS} at most")
    if fleet.fixed:
        raise InputError("the integer programme minimises machines: it needs a fleet that is not fixed")
    positive(seconds=seconds)
    if not (verdict := validate(instance, fleet, start)).feasible:
        raise InputError(f"the initial plan is infeasible: {verdict.examples[0]}")
    begun, deadline = time.process_time(), time.monotonic() + seconds
    best = replace(start, algorithm=NAME)
    bound = lower_bound(instance, fleet).machines
    programme = _Programme(instance, fleet, best.machines - 1) if bound < best.machines else None
    status = "optimal"
    while programme is not None:
        status = "too large" if programme.entries > MOST_ENTRIES else "time limit"
        if status == "too large" or time.monotonic() >= deadline:
            break
        found, proved = programme.solve(deadline - time.monotonic(), bound)
        bound = max(bound, min(proved, best.machines))
        if found is not None and validate(instance, fleet, found).feasible:
            best = found
        if bound == best.machines:
            status = "optimal"
            break
        if found is None or not programme.take_up(found):  # out of time
            break
    return Solved(replace(best, seconds=time.process_time() - begun), bound, status)


class _Programme:
    """Variables x (A, N), then z (B, N) of the applications whose presence limits others, then y (N,)."""

    def __init__(self, instance: Instance, fleet: Fleet, machines: int) -> None:
        self._instance, self._machines = instance, machines
        self._capacity: Float = fleet.rows(machines)
        self._most: Int = most_per_machine(instance, fleet)
        a = instance.affinity
        i = np.repeat(np.arange(len(instance)), np.diff(a.start))
        binding = np.flatnonzero((a.limit < self._most[a.to]) & (a.to != i))
        self._arcs = i[binding], a.to[binding].astype(np.int64), a.limit[binding].astype(np.int64)
        self._take(np.ones(len(binding), np.bool_))
        if self.entries > MOST_AT_ONCE:
            self._take(np.zeros(len(binding), np.bool_))

    def _take(self, active: Bool) -> None:
        """Let the limits `active` (E,) be those of the programme."""
        self._active = active
        self._i, self._j, self._limit = (part[active] for part in self._arcs)
        self._limiting: Int = np.unique(self._i)
        applications, machines, limiting = len(self._most), self._machines, len(self._limiting)
        self._z, self._y = applications * machines, (applications + limiting) * machines
        dimensions = self._instance.demand[0].size
        self.entries = machines * (applications * (1 + dimensions) + 4 * limiting + 2 * len(self._i) + dimensions + 2)

    def take_up(self, plan: Plan) -> bool:
        """Take up the limits that a plan breaks; False if there are none."""
        from scipy.sparse import csr_array

        i, j, limit = self._arcs
        held = csr_array((plan.replicas, (plan.application, plan.machine)), (len(self._most), self._machines))
        together = (held > 0)[i].multiply(held[j])  # (E, N): replicas of j where i is
        broken = together.max(axis=1).toarray().ravel() > limit
        self._take(self._active | broken)
        return bool(broken.any())

    def solve(self, seconds: float, least: int) -> tuple[Plan | None, int]:
        """A plan, if one of so few machines was found, and the machines that were proved to be needed."""
        from scipy.optimize import Bounds

        n = self._machines
        open_at_least = (np.arange(n) < least).astype(np.float64)
        low = np.concatenate([np.zeros(self._y), open_at_least])
        high = np.concatenate([np.repeat(self._most, n), np.ones(self._y - self._z + n)])
        cost = np.concatenate([np.zeros(self._y), np.ones(n)])
        found = run_milp(
            cost,
            integrality=np.ones(len(cost)),
            bounds=Bounds(low, high),
            constraints=[
                self._placed(),
                *self._loads(),
                *self._opened(),
                *self._present(),
                *self._limits(),
                self._in_order(),
            ],
            options={"time_limit": seconds},
        )
        if found.status == 2:  # infeasible: so few machines are too few
            return None, n + 1
        bound = found.mip_dual_bound
        proved = int(np.ceil(bound - 1e-6)) if bound is not None and np.isfinite(bound) else least
        return (None if found.x is None else self._plan(found.x)), proved

    def _plan(self, x: Float) -> Plan:
        counts = np.rint(x[: self._z]).astype(np.int64).reshape(-1, self._machines)
        if (self._capacity == self._capacity[0]).all():
            counts = counts[:, counts.any(axis=0)]  # which of equal machines is empty makes no difference
        application, machine = np.nonzero(counts)
        return Plan(NAME, application, machine, counts[application, machine], int(machine.max()) + 1)

    def _rows(self, terms: list[tuple[Int, Int, Any]], low: Any, high: Any, count: int) -> Any:
        """A constraint of `count` rows from terms (row, column, coefficient)."""
        from scipy.optimize import LinearConstraint
        from scipy.sparse import csr_array

        rows = np.concatenate([row.ravel() for row, _, _ in terms])
        columns = np.concatenate([column.ravel() for _, column, _ in terms])
        values = np.concatenate([np.broadcast_to(value, row.shape).ravel() for row, _, value in terms])
        matrix = csr_array((values.astype(np.float64), (rows, columns)), shape=(count, self._y + self._machines))
        return LinearConstraint(matrix, low, high)

    def _x(self, applications: Int) -> Int:
        """(n, N) columns of x."""
        columns: Int = applications[:, None] * self._machines + np.arange(self._machines)
        return columns

    def _placed(self) -> Any:
        """(2b): every replica is on a machine."""
        columns = self._x(np.arange(len(self._instance)))
        rows = np.broadcast_to(np.arange(len(columns))[:, None], columns.shape)
        return self._rows([(rows, columns, 1)], self._instance.replicas, self._instance.replicas, len(columns))

    def _loads(self) -> list[Any]:
        """(2c): no machine is overloaded, and closed machines hold nothing.

        As shares of the largest capacity, because the solver's tolerance is absolute.
        """
        n, columns = self._machines, self._x(np.arange(len(self._instance)))
        machine, largest = np.broadcast_to(np.arange(n), columns.shape), self._capacity.max(axis=0)
        y = self._y + np.arange(n)
        return [
            self._rows(
                [
                    (machine, columns, self._instance.demand[:, h, d][:, None] / largest[d]),
                    (np.arange(n), y, -self._capacity[:, d] / largest[d]),
                ],
                -np.inf,
                0,
                n,
            )
            for h, d in np.ndindex(self._instance.demand.shape[1:])
        ]

    def _opened(self) -> list[Any]:
        """What (2c) misses: applications that need next to nothing are on open machines only, too."""
        light = np.flatnonzero((self._instance.peak < LIGHT * self._capacity.max(axis=0)).all(axis=1))
        if not len(light):
            return []
        x = self._x(light)
        rows, y = np.arange(x.size).reshape(x.shape), np.broadcast_to(self._y + np.arange(self._machines), x.shape)
        return [self._rows([(rows, x, 1), (rows, y, -self._most[light][:, None])], -np.inf, 0, x.size)]

    def _present(self) -> list[Any]:
        """(2d, 2e): z says whether a limiting application is there."""
        if not len(self._limiting):
            return []
        x = self._x(self._limiting)
        z = self._z + self._x(np.arange(len(self._limiting)))
        rows, count = np.arange(x.size).reshape(x.shape), x.size
        most = self._most[self._limiting][:, None]
        return [
            self._rows([(rows, x, 1), (rows, z, -most)], -np.inf, 0, count),
            self._rows([(rows, z, 1), (rows, x, -1)], -np.inf, 0, count),
        ]

    def _limits(self) -> list[Any]:
        """(2f): beside i there are at most a_ij of j."""
        if not len(self._i):
            return []
        x = self._x(self._j)
        z = self._z + self._x(np.searchsorted(self._limiting, self._i))
        rows = np.arange(x.size).reshape(x.shape)
        most = self._most[self._j]
        high = np.repeat(most, self._machines)
        return [self._rows([(rows, x, 1), (rows, z, (most - self._limit)[:, None])], -np.inf, high, x.size)]

    def _in_order(self) -> Any:
        """Machines are opened in order."""
        row = np.arange(self._machines - 1)
        return self._rows([(row, self._y + row, 1), (row, self._y + row + 1, -1)], 0, np.inf, len(row))
