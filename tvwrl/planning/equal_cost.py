"""When costs are equal: what they may differ by and be the same, but for rounding."""

from __future__ import annotations

import numpy as np

from tvwrl.types import Float

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
