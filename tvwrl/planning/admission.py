"""LRASched's integer programme (Eq. 11 to 17), solved by HiGHS: as many whole applications as machines take.

Replicas of an application are alike, so the sum of X_ijn over its replicas j is one integer variable x_in. A machine's
q_n^k and Q_n are one variable: by Eq. 17 they are all 1 or count for nothing. (14) and (16) are then one row. The paper
limits an application by itself alone (13). Here, limits between applications are as in (2d) to (2f) of the provisioning
paper, with a variable z_in that says whether any of i is on machine n.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvwrl.checks import at_least, positive
from tvwrl.planning.base import MILP
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import fragments, validate
from tvwrl.planning.solver import minimise
from tvwrl.types import Float, InputError, Int

MOST_VARIABLES = 1_500_000  # applications x machines, some 4 GB in the solver


@dataclass(frozen=True)
class Admission:
    """The best plan found, and a proof of how good it is."""

    plan: Plan  # called "MILP"; the start's rows if nothing better was found
    value: float  # of (11)
    bound: float  # no plan is worth more
    status: str  # "optimal", "time limit", or "too large": nothing was tried, the bound is that of the volume
    fragment_weight: float = 0.0  # w_2 / w_1

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
    fixed, and a start that breaks a rule.
    """
    weights = weights or Weights()
    if not fleet.fixed:
        raise InputError("the programme that places whole applications needs a fixed fleet")
    positive(seconds=seconds)
    if not (verdict := validate(PlanningProblem(instance, fleet), start)).feasible:
        raise InputError(f"the initial plan is infeasible: {verdict.examples[0]}")
    begun, deadline = time.process_time(), time.monotonic() + seconds
    # Less the replicas of applications that it places in part (15)
    placed = np.bincount(start.application, weights=start.replicas, minlength=len(instance))
    whole = placed[start.application] == instance.replicas[start.application]
    best = Plan.of(MILP, start.application[whole], start.machine[whole], start.replicas[whole])
    value = _value(instance, fleet, best, weights)
    bound = volume_bound(instance, fleet, seconds / 10, weights)
    status = "optimal" if bound <= value else "time limit"
    between = int((instance.affinity.to != instance.affinity.origin).sum())
    if status != "optimal" and (len(instance) + between) * len(fleet.capacity) > MOST_VARIABLES:
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
    weight = weights.machine / weights.application if weights.application else np.inf
    return Admission(replace(best, seconds=time.process_time() - begun), value, max(bound, value), status, weight)


def volume_bound(instance: Instance, fleet: Fleet, seconds: float, weights: Weights | None = None) -> float:
    """What (11) is worth at most if all machines were one (a knapsack with a dimension per time and resource)."""
    from scipy.optimize import LinearConstraint

    from tvwrl.packing import enlarged

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


class _Programme:
    """Variables x (A, N), P (A,), where fragments count Q (N,), then z (B, N) of the applications that limit others."""

    def __init__(self, instance: Instance, fleet: Fleet, weights: Weights) -> None:
        self._instance, self._fleet, self._weights = instance, fleet, weights
        self._a, self._n = len(instance), len(fleet.capacity)
        self._fragments = self._n if weights.machine else 0
        arcs = instance.affinity
        binding = (arcs.to != arcs.origin) & (
            arcs.limit < np.minimum(instance.replicas, instance.affinity.own)[arcs.to]
        )
        self._i, self._j, self._limit = (part[binding].astype(np.int64) for part in (arcs.origin, arcs.to, arcs.limit))
        self._limiting: Int = np.unique(self._i)

    def solve(self, seconds: float) -> tuple[Plan | None, float]:
        """A plan, if one was found, and what no plan is worth more than."""
        a, n, w = self._a, self._n, self._weights
        z = len(self._limiting) * n
        cost = np.concatenate([np.zeros(a * n), np.full(a, -w.application), np.full(self._fragments, -w.machine)])
        high = np.concatenate([self._most().ravel(), np.ones(a + self._fragments + z)])
        rows = [self._whole(), *self._loads(), *self._beside()]
        x, least = minimise(np.concatenate([cost, np.zeros(z)]), 0, high, rows, seconds)
        proved = -least
        if w.machine == 0 and w.application > 0:
            proved = w.application * np.floor(proved / w.application + 1e-6)  # applications are whole numbers
        return (None if x is None else self._plan(x)), float(proved)

    def _most(self) -> Int:
        """(A, N) replicas of each application on each machine at most: (13), and what fits it alone."""
        from tvwrl.packing import replicas_that_fit

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
        rest = csr_array((self._a, self._fragments + len(self._limiting) * self._n))
        return LinearConstraint(hstack([sums, has, rest], format="csr"), 0, 0)

    def _beside(self) -> list[Any]:
        """Limits between applications: x_in <= most_i z_in, and x_jn <= a_ij where z_in is 1."""
        from scipy.optimize import LinearConstraint
        from scipy.sparse import csr_array, eye_array, hstack, kron

        if not len(self._i):
            return []
        most, b, between = self._most().max(axis=1), len(self._limiting), self._a + self._fragments

        def rows(x: Int, z: Int, weight: Any) -> Any:
            """Row r: x of application x[r] on each machine, and `weight` times z number z[r] there."""
            turn, ones = np.arange(len(x)), np.ones(len(x))
            held = kron(csr_array((ones, (turn, x)), (len(x), self._a)), eye_array(self._n))
            there = kron(csr_array((weight * ones, (turn, z)), (len(x), b)), eye_array(self._n))
            return hstack([held, csr_array((len(x) * self._n, between)), there], format="csr")

        place = np.searchsorted(self._limiting, self._i)
        present = rows(self._limiting, np.arange(b), -most[self._limiting])
        limited = rows(self._j, place, np.maximum(most[self._j] - self._limit, 0))
        high = np.repeat(np.maximum(most[self._j], self._limit), self._n)
        return [LinearConstraint(present, -np.inf, 0), LinearConstraint(limited, -np.inf, high)]

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
            z = csr_array((self._n, len(self._limiting) * self._n))
            matrix = hstack([load, csr_array((self._n, self._a)), least, z], format="csr")
            rows.append(LinearConstraint(matrix, -np.inf, capacity[:, d]))
        return rows

    def _plan(self, x: Float) -> Plan:
        counts = np.rint(x[: self._a * self._n]).astype(np.int64).reshape(self._a, self._n)
        counts[counts.sum(axis=1) != self._instance.replicas] = 0
        return Plan.of_counts(MILP, counts)
