"""The integer linear programme of Section 3.2 of the provisioning paper, solved by HiGHS, for up to 2,000 applications.

Replicas of an application are alike, so the sum of x_irn over its replicas r is one integer variable x_in; that says
the same with fewer symmetries. Further: machines of a kind are opened in order (y_n >= y_{n+1}), the floor stands in
Eq. 1 where the paper prints a ceiling, self limits are in nu_i, and z_in and (2d-2f) are there only where a limit can
bind. Where all of those limits would be too many for memory, the programme begins without them and takes up those that
its plans break, round by round: what any round proves holds for all limits.

The paper minimises machines. Here: what they cost, 1 each where no prices are given, on machines of any kinds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.checks import positive
from tvwrl.planning.base import MILP
from tvwrl.planning.bounds_on_machines import lower_bound, most_per_machine
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.kinds import EXACT, Kinds, next_sum, slack
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.planning.solver import minimise
from tvwrl.types import Float, InputError, Int

Bool = npt.NDArray[np.bool_]

MOST_APPLICATIONS = 2_000
MOST_ENTRIES = 20_000_000  # of the matrix, some 4 GB in the solver
MOST_AT_ONCE = MOST_ENTRIES  # up to which it begins with all limits
LIGHT = 1e-5  # share of a machine; a smaller demand could hide in the tolerance of the solver


@dataclass(frozen=True)
class Solved:
    """The best plan found and a proof of how good it is."""

    plan: Plan  # called "MILP"; the start's rows if nothing better was found
    bound: float  # no plan of all replicas costs less
    status: str  # "optimal", "time limit", or "too large": nothing, or no further limit, would have fitted into memory


def solve(instance: Instance, fleet: Fleet, start: Plan, seconds: float, bound: float = 0.0) -> Solved:
    """Look for a plan that costs less than `start`, a plan of all replicas by any planner, within `seconds` > 0.

    `bound`: what no plan costs less than, as far as it is known

    Raises InputError for more than 2,000 applications, and a start that breaks a rule or leaves replicas over.

    >>> solve(instance, fleet, make_plan(problem, "FF"), seconds=10.0).status  # doctest: +SKIP
    'optimal'
    """
    if len(instance) > MOST_APPLICATIONS:
        raise InputError(f"{len(instance)} applications: the integer programme is for {MOST_APPLICATIONS} at most")
    positive(seconds=seconds)
    unit = float(fleet.costs.min())
    if unit != 1.0:  # so that tolerances mean the same, whatever the currency
        solved = solve(instance, replace(fleet, cost=fleet.costs / unit), start, seconds, bound / unit)
        return replace(solved, bound=solved.bound * unit)
    problem = PlanningProblem(instance, fleet)
    verdict = validate(problem, start)
    if not verdict.feasible:
        raise InputError(f"the initial plan is infeasible: {verdict.examples[0]}")
    if verdict.missing:
        raise InputError(f"the initial plan leaves {verdict.missing} replicas over: it must place all")
    begun, deadline = time.process_time(), time.monotonic() + seconds
    best, cost = replace(start, algorithm=MILP), verdict.cost
    bound = max(bound, lower_bound(problem, deadline=deadline).cost)
    status = "optimal"
    same = slack(fleet.costs, cost)
    programme = _Programme(instance, fleet, cost) if cost > bound + same else None
    while programme is not None:
        status = "too large" if programme.entries > MOST_ENTRIES else "time limit"
        if status == "too large" or time.monotonic() >= deadline:
            break
        found, proved = programme.solve(deadline - time.monotonic(), bound)
        bound = max(bound, min(proved, cost))
        if found is not None and (judged := validate(problem, found)).feasible and judged.cost < cost:
            best, cost = found, judged.cost
        if cost <= bound + same:
            status = "optimal"
            break
        if found is None or not programme.take_up(found):  # out of time
            break
    bound = cost if status == "optimal" else min(bound, cost)
    return Solved(replace(best, seconds=time.process_time() - begun), bound, status)


class _Programme:
    """Variables x (A, N), then z (B, N) of the applications whose presence limits others, then y (N,).

    The N machines are those that a plan cheaper than `cost` may have, kind by kind.
    """

    def __init__(self, instance: Instance, fleet: Fleet, cost: float) -> None:
        self._instance, self._most = instance, most_per_machine(instance, fleet)
        kinds, replicas = Kinds.among(fleet), int(instance.replicas.sum())
        self._prices = fleet.costs
        aim = cost - slack(fleet.costs, cost)
        count = np.minimum(np.minimum(kinds.most, np.floor(aim / kinds.cost + 1e-9)), replicas).astype(np.int64)
        self._kind: Int = np.repeat(np.arange(len(kinds)), count)
        self._cost: Float = kinds.cost[self._kind]
        self._numbers = np.concatenate([_numbers(kinds, fleet, t, int(n)) for t, n in enumerate(count)])
        self._capacity: Float = fleet.capacity[np.minimum(self._numbers, len(fleet.capacity) - 1)]
        self._machines, self._aim = len(self._kind), aim
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

    def solve(self, seconds: float, least: float) -> tuple[Plan | None, float]:
        """A plan, if one was found that is cheaper, and what was proved that none costs less than."""
        n = self._machines
        if not n:
            return None, np.inf
        low = np.zeros(self._y + n)
        if (self._kind == self._kind[0]).all():
            low[self._y :] = np.arange(n) < np.ceil(least / self._cost[0] - 1e-6)
        high = np.concatenate([np.repeat(self._most, n), np.ones(self._y - self._z + n)])
        cost = np.concatenate([np.zeros(self._y), self._cost])
        x, bound = minimise(cost, low, high, self._constraints(least), seconds, EXACT)
        return (None if x is None else self._plan(x)), max(next_sum(self._prices, bound), least)

    def _plan(self, x: Float) -> Plan:
        counts = np.rint(x[: self._z]).astype(np.int64).reshape(-1, self._machines)
        application, machine = np.nonzero(counts)
        return Plan.of(MILP, application, self._numbers[machine], counts[application, machine])

    def _constraints(self, least: float) -> list[Any]:
        """(2b) to (2f), and machines opened in order. Variables are numbered (A + B + 1, N): x, z and y."""
        from scipy.optimize import LinearConstraint
        from scipy.sparse import csr_array, eye_array, kron

        n, most, instance = self._machines, self._most, self._instance
        z = len(most) + np.arange(len(self._limiting))  # numbers of z; that of y comes after them
        y = len(most) + len(z)
        light = np.flatnonzero((self._instance.peak < LIGHT * self._capacity.max(axis=0)).all(axis=1))
        all_placed = kron(eye_array(len(most), y + 1), np.ones((1, n)))
        alike = np.flatnonzero(self._kind[1:] == self._kind[:-1])
        opened = csr_array(eye_array(n - 1, n) - eye_array(n - 1, n, k=1))[alike]
        in_order = [LinearConstraint(kron(eye_array(1, y + 1, k=y), opened), 0, np.inf)] if len(alike) else []
        price = kron(eye_array(1, y + 1, k=y), self._cost[None])
        beside = z[np.searchsorted(self._limiting, self._i)]
        on_each_machine = [
            # What (2c) misses: applications that need next to nothing are on open machines only, too.
            (self._pairs(light, 1, y, -most[light]), np.zeros(len(light))),
            # (2d), (2e): z says whether a limiting application is there.
            (self._pairs(self._limiting, 1, z, -most[self._limiting]), np.zeros(len(z))),
            (self._pairs(z, 1, self._limiting, -1), np.zeros(len(z))),
            # (2f): beside i there are at most a_ij of j.
            (self._pairs(self._j, 1, beside, most[self._j] - self._limit), most[self._j]),
        ]
        return [
            LinearConstraint(all_placed, instance.replicas, instance.replicas),
            *self._loads(),
            *(LinearConstraint(kron(c, eye_array(n)), -np.inf, np.repeat(high, n)) for c, high in on_each_machine),
            *in_order,
            LinearConstraint(price, min(least, self._aim), self._aim),
        ]

    def _pairs(self, first: Int, weight: Any, second: Int | int, other: Any) -> Any:
        """(n, A + B + 1) constraints, row by row: `weight` times the first variable and `other` times the second."""
        from scipy.sparse import csr_array

        rows, width = np.arange(len(first)), len(self._most) + len(self._limiting) + 1
        values = [np.broadcast_to(value, rows.shape) for value in (weight, other)]
        columns = [np.broadcast_to(column, rows.shape) for column in (first, second)]
        where = (np.tile(rows, 2), np.concatenate(columns))
        return csr_array((np.concatenate(values).astype(np.float64), where), shape=(len(rows), width))

    def _loads(self) -> list[Any]:
        """(2c): no machine is overloaded, and closed machines hold nothing.

        As shares of the largest capacity, because the solver's tolerance is absolute.
        """
        from scipy.optimize import LinearConstraint
        from scipy.sparse import csr_array, diags_array, eye_array, hstack, kron

        n, largest = self._machines, self._capacity.max(axis=0)
        demand, capacity, nothing = (
            self._instance.demand / largest,
            self._capacity / largest,
            csr_array((n, self._y - self._z)),
        )
        return [
            LinearConstraint(
                hstack([kron(demand[None, :, h, d], eye_array(n)), nothing, diags_array(-capacity[:, d])]), -np.inf, 0
            )
            for h, d in np.ndindex(demand.shape[1:])
        ]


def _numbers(kinds: Kinds, fleet: Fleet, t: int, count: int) -> Int:
    """(count,) numbers of machines of kind t in the fleet; beyond those listed, of the kind that it goes on with."""
    listed = np.flatnonzero(kinds.of == t)[:count]
    return np.concatenate([listed, len(fleet.capacity) + np.arange(count - len(listed))])
