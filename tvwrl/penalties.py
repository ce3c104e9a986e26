"""The four penalties of TVW-RL (paper: "Rewards Design for RL") and the price of moves, one function per equation.

Each returns a number >= 0 for one machine, resource and slot; the reward is minus their sum. The price of moves, which
the paper does not have, is the fifth: K_m for each move, in the slot in which it is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvwrl.checks import at_least, within
from tvwrl.compiled import njit
from tvwrl.types import Float, InputError

Weight = float | tuple[float, ...]

TERMS = ("contention", "under_utilisation", "overshoot", "wait", "moves")
MOST = {
    "K_c": 1e12,
    "K_u": 10.0,
    "K_o": 1e12,
    "K_w": 1e12,
    "K_m": 1e12,
}  # beyond, sums are no numbers or lose what is small


@dataclass(frozen=True)
class PenaltyWeights:
    """Weights of the penalties; the defaults are the paper's, but for K_m, which the paper does not have.

    K_c, K_u and K_o are one number or one per resource; K_u is an exponent, and 0 switches its term off.
    """

    K_c: Weight = 0.1  # contention
    K_u: Weight = 3.0  # under-utilisation (exponent)
    K_o: Weight = 30000.0  # overshoot
    K_w: float = 50.0  # wait
    K_m: float = 1000.0  # a move; see docs/explanation/moves.md for what it stands for

    def __post_init__(self) -> None:
        for name in MOST:
            value = getattr(self, name)
            parts = np.atleast_1d(np.array(value, dtype=object))
            if any(one is None or isinstance(one, bool | str) for one in parts):
                raise InputError(f"penalty weight {name} is {value!r}: must be a number")
            if isinstance(value, Sequence):
                object.__setattr__(self, name, tuple(float(v) for v in value))
            at_least(0, **{f"penalty weight {name}": value})
            within(0, MOST[name], **{f"penalty weight {name}": value})
        for name, what in (("K_w", "the queue"), ("K_m", "a move")):
            if np.ndim(value := getattr(self, name)) != 0:
                raise InputError(f"penalty weight {name} is {value}: must be one number ({what} has no resource)")

    def per_resource(self, resources: int) -> Float:
        """(4, D): rows K_c, K_u, K_o, K_w (the last equal in all columns); K_m is charged by moves, not by slots."""
        rows = []
        for name in ("K_c", "K_u", "K_o", "K_w"):
            value = np.asarray(getattr(self, name), dtype=np.float64)
            if value.ndim and len(value) != resources:
                raise InputError(f"penalty weight {name} has {len(value)} values for {resources} resources")
            rows.append(np.broadcast_to(value, (resources,)))
        return np.array(rows)


@njit(inline="always")
def contention(load: float, square: float) -> float:
    """Sum over pairs i < j of u_i u_j, from the load sum(u) and the sum of squares sum(u^2) (P_C without K_c)."""
    return 0.5 * (load * load - square)


@njit(inline="always")
def under_utilisation(unused: float, exponent: float) -> float:
    """|U|^{K_u} (P_U); exponent 0 switches it off. Small whole exponents avoid the slow general power."""
    if exponent == 0.0:
        return 0.0
    if exponent == 3.0:
        return unused * unused * unused
    if exponent == 2.0:
        return unused * unused
    if exponent == 1.0:
        return unused
    power: float = unused**exponent
    return power


@njit(inline="always")
def overshoot(first_times: int, weight: float) -> float:
    """K_o for each first overshoot (P_O)."""
    return weight * first_times


@njit(inline="always")
def wait(queue: int, weight: float) -> float:
    """K_w |Q_t| (P_W); the queue is what has arrived and is not placed by the end of the slot."""
    return weight * queue
