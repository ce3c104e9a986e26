"""How well predicted levels or scores of machines agree with observed ones (Section 6.3)."""

from __future__ import annotations

import numpy as np

from tvwrl.types import Float

MIDDLE = 5.5  # of levels 1 to 10
NEAR = 2.0  # levels: "accurate with an absolute error of no more than 2"
SEVERE = (3.0, 8.0)  # a severe error is predicted below the first and observed above the second, or reverse


def accuracy(predicted: Float, observed: Float) -> dict[str, float]:
    """Agreement of n pairs of `predicted` and `observed` in [1, 10], in percent; NaN for shares of nothing.

    `within`: error of at most 2 levels; `exact`: less than half a level. BUSY is the upper half, > 5.5, IDLE the lower:
    `busy_precision`, `busy_recall`, `busy_f1`, and the same of IDLE. `read_as_low`: share of all pairs that are
    observed > 8 and predicted < 3; `read_as_high`: the reverse.
    """
    predicted, observed = np.asarray(predicted, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    error = np.abs(predicted - observed)
    busy, is_busy = predicted > MIDDLE, observed > MIDDLE
    low, high = SEVERE
    return {
        "within": _percent((error <= NEAR + 1e-9).sum(), len(error)),
        "exact": _percent((error < 0.5).sum(), len(error)),
        **_agreement("busy", busy, is_busy),
        **_agreement("idle", ~busy, ~is_busy),
        "read_as_low": _percent(((observed > high) & (predicted < low)).sum(), len(error)),
        "read_as_high": _percent(((observed < low) & (predicted > high)).sum(), len(error)),
    }


def _agreement(name: str, claimed: np.ndarray, true: np.ndarray) -> dict[str, float]:
    both = (claimed & true).sum()
    return {
        f"{name}_precision": _percent(both, claimed.sum()),
        f"{name}_recall": _percent(both, true.sum()),
        f"{name}_f1": _percent(2 * both, claimed.sum() + true.sum()),
    }


def _percent(part: int, whole: int) -> float:
    return 100.0 * float(part) / float(whole) if whole else float("nan")
