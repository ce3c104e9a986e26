"""The kinds of machines in a fleet: those of one capacity and cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.planning.instance import Fleet
from tvwrl.types import Float, Int

ROUNDING = 2e-6, 1e-8  # shares of the cheapest machine's cost and of a plan's: twice what HiGHS takes for nothing
FINEST = 1e-4  # share of the cheapest machine's cost: of finer steps, rounding may look like one
EXACT = 1e-9  # gap at which HiGHS is told to stop, as a share: so that it is the step below that counts


def slack(costs: Float, cost: float, each: float = 0.0) -> float:
    """What a cost near `cost` may differ by from another and be equal.

    Half of the step in which sums of the prices `costs` > 0, and of `each` for a move, can differ at all: with prices
    0.40 and 0.75 all sums are multiples of 0.05. Without such a step, what only rounding explains.
    """
    step = _step(costs, each)
    return step / 2 if step else rounding(costs, cost)


def rounding(costs: Float, cost: float) -> float:
    """What only rounding explains, of a cost near `cost` of machines at the prices `costs`."""
    return ROUNDING[0] * float(costs.min()) + ROUNDING[1] * abs(cost)


def next_sum(costs: Float, bound: float) -> float:
    """What no sum of the prices that is at least `bound` is less than."""
    step = _step(costs, 0.0)
    return float(np.ceil((bound - rounding(costs, bound)) / step) * step) if step and np.isfinite(bound) else bound


def _step(costs: Float, each: float) -> float:
    """The largest number that all prices are multiples of, to rounding; 0 if it is too small to tell."""
    cheapest = float(costs.min())
    step, sums = 0.0, [*np.unique(costs / cheapest).tolist(), *([each / cheapest] if each else [])]
    for price in sums:  # Euclid
        while price > FINEST / 2:
            step, price = price, step - price * np.floor(step / price + FINEST / 4)
    if step < FINEST or any(abs(price / step - round(price / step)) > 1e-6 for price in sums):
        return 0.0
    return float(step) * cheapest


CHEAPEST_SECONDS = 1.0  # most that looking for the cheapest machines may take


@dataclass(frozen=True)
class Kinds:
    """T kinds of machines."""

    capacity: Float  # (T, D)
    cost: Float  # (T,)
    of: Int  # (F,) kind of each machine listed
    most: Float  # (T,) machines that there are; infinite of the kind that an open fleet goes on with

    @classmethod
    def among(cls, fleet: Fleet) -> Kinds:
        """Those of the machines that a fleet lists."""
        rows, of = np.unique(np.column_stack([fleet.capacity, fleet.costs]), axis=0, return_inverse=True)
        of = of.ravel()
        most = np.bincount(of).astype(np.float64)
        if not fleet.fixed:
            most[of[-1]] = np.inf
        return cls(rows[:, :-1], rows[:, -1], of, most)

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def largest_first(self) -> Int:
        """(T,) kinds by falling capacity, as a share of the largest of each resource."""
        order: Int = np.argsort(-(self.capacity / self.capacity.max(axis=0)).mean(axis=1), kind="stable")
        return order

    def cheapest(self, demand: Float) -> Int | None:
        """(T,) machines of each kind, at least one, that have `demand` (D,) at the least cost; None if too few.

        If a second is too short to find the least, at a low one: `least_cost` says what none costs less than.
        """
        return self._cheapest(demand)[0]

    def least_cost(self, demand: Float) -> float:
        """What no machines that have `demand` (D,) cost less than; 0 where nothing is known of it."""
        return self._cheapest(demand)[1]

    def _cheapest(self, demand: Float) -> tuple[Int | None, float]:
        """See `cheapest` and `least_cost`."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        if len(self) == 1:
            count = max(np.ceil(np.round((demand / self.capacity[0]).max(), 9)), 1.0)
            if count > self.most[0]:
                return None, 0.0
            return np.array([count], dtype=np.int64), float(count * self.cost[0])
        found = milp(
            self.cost / self.cost.min(),  # the solver's tolerances are absolute
            integrality=np.ones(len(self)),
            bounds=Bounds(0, self.most),
            constraints=LinearConstraint(np.vstack([self.capacity.T, np.ones(len(self))]), lb=[*demand, 1.0]),
            options={"time_limit": CHEAPEST_SECONDS, "mip_rel_gap": EXACT},
        )
        if found.x is None:
            return None, 0.0
        bound = found.mip_dual_bound  # the cost of what was found, unless its time ran out
        least = 0.0 if bound is None or not np.isfinite(bound) else next_sum(self.cost, bound * self.cost.min())
        return np.rint(found.x).astype(np.int64), max(least, 0.0)

    def nearest(self, demand: Float, opened: Int, cost: float) -> Int | None:
        """(T,) machines that have `demand` (D,) for less than `cost`, and differ the least from `opened` (T,)."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        kinds, one = len(self), np.eye(len(self))
        rows = [  # of y, the machines, and of z >= |y - opened|
            LinearConstraint(np.hstack([self.capacity.T, np.zeros((len(demand), kinds))]), lb=demand),
            LinearConstraint(np.hstack([one, -one]), ub=opened),
            LinearConstraint(np.hstack([one, one]), lb=opened),
            LinearConstraint(np.concatenate([self.cost, np.zeros(kinds)])[None], ub=cost - slack(self.cost, cost)),
        ]
        found = milp(
            np.repeat([0.0, 1.0], kinds),
            integrality=np.repeat([1, 0], kinds),
            bounds=Bounds(0, np.concatenate([self.most, np.full(kinds, np.inf)])),
            constraints=rows,
            options={"time_limit": 1.0},
        )
        return None if found.x is None else np.rint(found.x[:kinds]).astype(np.int64)

    def first(self, count: Int, of: Int | None = None) -> Int:
        """Numbers of the first `count` (T,) machines of each kind, the largest kinds first.

        `of` (M,): the kind of each machine; default: of those listed.
        """
        of = self.of if of is None else of
        return np.concatenate([np.flatnonzero(of == t)[: count[t]] for t in self.largest_first])
