"""LRASched's integer programme (Eq. 11 to 17), solved by HiGHS: as many whole applications as machines take.

Replicas of an application are alike, so the sum of X_ijn over its replicas j is one integer variable x_in. A machine's
q_n^k and Q_n are one variable: by Eq. 17 they are all 1 or count for nothing. (14) and (16) are then one row.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvwrl.checks import at_least, positive
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import fragments, validate
from tvwrl.planning.solver import minimise
from tvwrl.types import Float, InputError, Int

MOST_VARIABLES = 1_500_000  # applications x machines, some 4 GB in the solver
NAME = "MILP"


@dataclass(frozen=True)
class Admission:
    """The best plan found, and a proof of how good it is."""

    plan: Plan  # called "MILP"; the start's rows if nothing better was found
    value: float  # of (11)
    bound: float  # no plan is worth more
    status: str  # "optimal", "time limit", or "too large": nothing was tried, the bound is that of the volume

    @property
    def gap(self) -> float:
        """How much more than `value` a plan could be worth at most, as a share of it."""
        return (self.bound - self.value) / self.value if self.value else float(self.bound > 0)


@dataclass(frozen=True)
class Weights:
    """w_1 and w_2 of (11): what an application and a machine that is no fragment are worth."""

    application: float = 1.0  # >= 0
    machine: float = 0.0  # >= 0; 0 leaves (16) and (17) out

    def __post_init__(self) -> None:
        at_least(0, **{"weight of application": self.application, "weight of machine": self.machine})


def admit(instance: Instance, fleet: Fleet, start: Plan, seconds: float, weights: Weights | None = None) -> Admission:
    """Look for a plan worth more than `start`, any planner's for this fixed fleet, within `seconds` > 0.

    r_min of (16) is the least demand of any application, per dimension. Raises InputError for fleets that are not
    fixed, limits between different applications, and a start that breaks a rule.
    """
    weights = weights or Weights()
    if not fleet.fixed:
        raise InputError("the programme that places whole applications needs a fixed fleet")
    positive(seconds=seconds)
    check_limits(instance)
    if not (verdict := validate(PlanningProblem(instance, fleet), start)).feasible:
        raise InputError(f"the initial plan is infeasible: {verdict.examples[0]}")
    begun, deadline = time.process_time(), time.monotonic() + seconds
    best = _without_parts(instance, start)
    value = _value(instance, fleet, best, weights)
    bound = volume_bound(instance, fleet, seconds / 10, weights)
    status = "optimal" if bound <= value else "time limit"
    if status != "optimal" and len(instance) * len(fleet.capacity) > MOST_VARIABLES:
        status = "too large"
    left = deadline - time.monotonic()
    if status == "time limit" and left > 0:
        programme = _Programme(instance, fleet, weights)
        found, proved = programme.solve(left)
        bound = min(bound, proved)
        if found is not None and validate(PlanningProblem(instance, fleet), found).feasible:
            worth = _value(instance, fleet, found, weights)
            best, value = (found, worth) if worth > value else (best, value)
        status = "optimal" if bound <= value + 1e-6 else "time limit"
    return Admission(replace(best, seconds=time.process_time() - begun), value, max(bound, value), status)


def check_limits(instance: Instance) -> None:
    """Raise InputError for limits between different applications, which (13) does not have."""
    if (instance.affinity.to != instance.affinity.origin).any():
        raise InputError("milp: with a fixed fleet, only limits of an application on itself are supported")


def volume_bound(instance: Instance, fleet: Fleet, seconds: float, weights: Weights | None = None) -> float:
    """What (11) is worth at most if all machines were one (a knapsack with a dimension per time and resource)."""
    from scipy.optimize import LinearConstraint

    from tvwrl.packing.fit import enlarged

    weights = weights or Weights()
    total = fleet.capacity.sum(axis=0)
    needed = (instance.replicas[:, None, None] * instance.demand / total).reshape(len(instance), -1).T
    room = LinearConstraint(needed, -np.inf, enlarged(np.ones(len(needed))))
    _, proved = minimise(np.full(len(instance), -1.0), 0, 1, room, max(seconds, 0.1))
    most = min(len(instance), np.floor(-proved + 1e-6))
    return float(weights.application * most + weights.machine * len(fleet.capacity))


def _value(instance: Instance, fleet: Fleet, plan: Plan, weights: Weights) -> float:
    whole = validate(PlanningProblem(instance, fleet), plan).whole
    unbroken = len(fleet.capacity) - fragments(instance, fleet, plan) if weights.machine else 0
    return weights.application * whole + weights.machine * unbroken


def _without_parts(instance: Instance, plan: Plan) -> Plan:
    """The plan less the replicas of applications that it places in part (15)."""
    placed = np.bincount(plan.application, weights=plan.replicas, minlength=len(instance))
    whole = placed[plan.application] == instance.replicas[plan.application]
    return Plan.of(NAME, plan.application[whole], plan.machine[whole], plan.replicas[whole])


class _Programme:
    """Variables x (A, N), P (A,), and, where fragments count, Q (N,)."""

    def __init__(self, instance: Instance, fleet: Fleet, weights: Weights) -> None:
        self._instance, self._fleet, self._weights = instance, fleet, weights
        self._a, self._n = len(instance), len(fleet.capacity)
        self._fragments = self._n if weights.machine else 0

    def solve(self, seconds: float) -> tuple[Plan | None, float]:
        """A plan, if one was found, and what no plan is worth more than."""
        a, n, w = self._a, self._n, self._weights
        cost = np.concatenate([np.zeros(a * n), np.full(a, -w.application), np.full(self._fragments, -w.machine)])
        high = np.concatenate([self._most().ravel(), np.ones(a + self._fragments)])
        x, least = minimise(cost, 0, high, [self._whole(), *self._loads()], seconds)
        proved = -least
        if w.machine == 0 and w.application > 0:
            proved = w.application * np.floor(proved / w.application + 1e-6)  # applications are whole numbers
        return (None if x is None else self._plan(x)), float(proved)

    def _most(self) -> Int:
        """(A, N) replicas of each application on each machine at most: (13), and what fits it alone."""
        from tvwrl.packing.fit import replicas_that_fit

        most = np.minimum(self._instance.replicas, self._instance.affinity.own)[:, None]
        peak, capacity = self._instance.peak, self._fleet.capacity
        least: Int = np.minimum(most, replicas_that_fit(peak[:, None], capacity, capacity)).astype(np.int64)
        return least

    def _whole(self) -> Any:
        """(15): all replicas of an application or none."""
        from scipy.optimize import LinearConstraint
        from scipy.sparse import csr_array, diags_array, eye_array, hstack, kron

        sums = kron(eye_array(self._a), np.ones((1, self._n)))
        has = diags_array(-self._instance.replicas.astype(np.float64))
        return LinearConstraint(hstack([sums, has, csr_array((self._a, self._fragments))], format="csr"), 0, 0)

    def _loads(self) -> list[Any]:
        """(14) and (16): no machine is overloaded, and one that is no fragment keeps r_min free.

        As shares of the largest capacity, because the solver's tolerance is absolute.
        """
        from scipy.optimize import LinearConstraint
        from scipy.sparse import csr_array, eye_array, hstack, kron

        largest, rows = self._fleet.capacity.max(axis=0), []
        demand, capacity = self._instance.demand / largest, self._fleet.capacity / largest
        for h, d in np.ndindex(demand.shape[1:]):
            load = kron(demand[None, :, h, d], eye_array(self._n))
            least = eye_array(self._n) * demand[:, h, d].min() if self._fragments else csr_array((self._n, 0))
            matrix = hstack([load, csr_array((self._n, self._a)), least], format="csr")
            rows.append(LinearConstraint(matrix, -np.inf, capacity[:, d]))
        return rows

    def _plan(self, x: Float) -> Plan:
        counts = np.rint(x[: self._a * self._n]).astype(np.int64).reshape(self._a, self._n)
        counts[counts.sum(axis=1) != self._instance.replicas] = 0
        return Plan.of_counts(NAME, counts)
