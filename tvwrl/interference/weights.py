"""How much each service counts for its machine's score: the four weightings of Section 5.4.2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvwrl.checks import one_of
from tvwrl.interference.observations import Observations
from tvwrl.types import Float, Int

LEAST = 0.01  # of the mean weight: with weight 0 throughout a machine would have no score


def fair(observations: Observations) -> Float:
    """Equal weights."""
    return np.ones(len(observations.services))


def cpu_quota(observations: Observations) -> Float:
    """Cores that an instance of the service requested."""
    return observations.quota.astype(np.float64)


def corr(observations: Observations) -> Float:
    """Correlation of response time and CPU use of batch work; negative values count as 0 (`service_weights`)."""
    return _measured(observations, lambda ms, cpu: float(np.corrcoef(ms, cpu)[0, 1]))


def cv(observations: Observations) -> Float:
    """Coefficient of variation of response time."""
    return _measured(observations, lambda ms, _: float(ms.std() / ms.mean()))


WEIGHTINGS: dict[str, Callable[[Observations], Float]] = {"fair": fair, "cpu-quota": cpu_quota, "corr": corr, "cv": cv}


def service_weights(name: str, observations: Observations) -> Float:
    """(services,) weights > 0 with mean 1. Raises InputError for an unknown name."""
    one_of(WEIGHTINGS, weighting=name)
    found = WEIGHTINGS[name](observations)
    found = np.where(np.isfinite(found) & (found > 0), found, 0.0)
    mean = found.mean() if len(found) else 1.0
    found = np.maximum(found, LEAST * mean) if mean > 0 else np.ones_like(found)
    weights: Float = found / found.mean() if len(found) else found
    return weights


def row_weights(service: Int, of_service: Float) -> Float:
    """(rows,) weights of services (rows,) on machines; 0 for unknown services."""
    known = (service >= 0) & (service < len(of_service))
    weights: Float = np.where(known, of_service[np.where(known, service, 0)], 0.0)
    return weights


def _measured(observations: Observations, measure: Callable[[Float, Float], float]) -> Float:
    """(services,) `measure` of each service's response times and batch CPU; 0 for fewer than two records."""
    found = np.zeros(len(observations.services))
    with np.errstate(invalid="ignore", divide="ignore"):
        for s, rows in enumerate(observations.by_service()):
            if len(rows) > 1:
                found[s] = measure(observations.response_ms[rows], observations.batch_cpu[rows])
    return found
