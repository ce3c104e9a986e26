"""HiGHS, through scipy, without what it prints."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from tvwrl.types import Float

GAP = 1e-6  # share of the cost by which a solution may be from the best one


def minimise(
    cost: Float, low: Any, high: Any, constraints: Any, seconds: float, gap: float = GAP
) -> tuple[Float | None, float]:
    """Whole numbers (n,) from `low` to `high` of the least `cost` (n,) found in time, and what none costs less than.

    None if none were found; the bound is infinite if there are none.
    """
    from scipy.optimize import Bounds

    found = run_milp(
        cost,
        integrality=np.ones(len(cost)),
        bounds=Bounds(low, high),
        constraints=constraints,
        options={"time_limit": max(seconds, 0.01), "mip_rel_gap": gap},
    )
    if found.status == 2:
        return None, np.inf
    return found.x, -np.inf if found.mip_dual_bound is None else found.mip_dual_bound


def run_milp(cost: Any, **settings: Any) -> Any:
    """`scipy.optimize.milp`; HiGHS writes lines of debugging to standard output past Python, which are dropped."""
    from scipy.optimize import milp

    with _silent():
        return milp(cost, **settings)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Send what C code writes to standard output nowhere."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
