"""How well predicted levels or scores of machines agree with observed ones (Section 6.3)."""

from __future__ import annotations

import numpy as np

from tvwrl.types import Float

NEAR = 2.0  # of 10: "accurate with an absolute error of no more than 2"
SEVERE = (3.0, 8.0)  # of 10: read as less than the first where it is more than the second, or the reverse


def accuracy(predicted: Float, observed: Float, k: int = 10) -> dict[str, float]:
    """Shares in percent, of the n pairs of `predicted` and `observed` in [1, k]; NaN where there is nothing to share.

    `within`: error at most 2 levels (of k = 10; in proportion else); `exact`: less than half a
    level. BUSY is the upper half, > (k + 1) / 2:
    `busy_precision`, `busy_recall`, `busy_f1`, and likewise of IDLE. `read_as_low`: observed > 8 but predicted < 3
    (of k = 10; in proportion else), of all pairs; `read_as_high`: the reverse.
    """
    predicted, observed = np.asarray(predicted, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    error = np.abs(predicted - observed)
    middle, (low, high) = (k + 1) / 2, (bound * k / 10 for bound in SEVERE)
    busy, is_busy = predicted > middle, observed > middle
    return {
        "within": _percent((error <= NEAR * k / 10 + 1e-9).sum(), len(error)),
        "exact": _percent((error < 0.5).sum(), len(error)),
        **_agreement("busy", busy, is_busy),
        **_agreement("idle", ~busy, ~is_busy),
        "read_as_low": _percent(((observed > high) & (predicted < low)).sum(), len(error)),
        "read_as_high": _percent(((observed < low) & (predicted > high)).sum(), len(error)),
    }


def _agreement(name: str, said: np.ndarray, true: np.ndarray) -> dict[str, float]:
    both = (said & true).sum()
    return {
        f"{name}_precision": _percent(both, said.sum()),
        f"{name}_recall": _percent(both, true.sum()),
        f"{name}_f1": _percent(2 * both, said.sum() + true.sum()),
    }


def _percent(part: int, whole: int) -> float:
    return 100.0 * float(part) / float(whole) if whole else float("nan")
