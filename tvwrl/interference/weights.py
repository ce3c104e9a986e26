"""How much each service counts for its machine's score: the four weightings of Section 5.4.2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvwrl.checks import one_of
from tvwrl.interference.observations import Observations
from tvwrl.types import Float, Int

LEAST = 0.01  # least weight, share of the mean: with weight 0 throughout a machine would have no score


def _measured(observations: Observations, measure: Callable[[Float, Float], float]) -> Float:
    """(services,) `measure` of each service's response times and batch CPU; 0 for fewer than two records."""

    def of(rows: Int) -> float:
        return measure(observations.response_ms[rows], observations.batch_cpu[rows]) if len(rows) > 1 else 0.0

    with np.errstate(invalid="ignore", divide="ignore"):
        return np.array([of(rows) for rows in observations.by_service()])


WEIGHTINGS: dict[str, Callable[[Observations], Float]] = {
    "fair": lambda seen: np.ones(len(seen.services)),
    # cores that an instance of the service requested
    "cpu-quota": lambda seen: seen.quota.astype(np.float64),
    # correlation of response time and CPU use of batch work; negative values count as 0
    "corr": lambda seen: _measured(seen, lambda ms, cpu: float(np.corrcoef(ms, cpu)[0, 1])),
    # coefficient of variation of response time
    "cv": lambda seen: _measured(seen, lambda ms, cpu: float(ms.std() / ms.mean())),
}


def service_weights(name: str, observations: Observations) -> Float:
    """(services,) weights > 0 with mean 1. Raises InputError for an unknown name."""
    one_of(WEIGHTINGS, weighting=name)
    found = WEIGHTINGS[name](observations)
    found = np.where(np.isfinite(found) & (found > 0), found, 0.0)
    mean = found.mean()
    found = np.maximum(found, LEAST * mean) if mean > 0 else np.ones_like(found)
    weights: Float = found / found.mean()
    return weights
