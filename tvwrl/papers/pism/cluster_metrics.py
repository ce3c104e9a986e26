"""What a simulated cluster was like: predicted and observed scores of machines, and response times of services."""

from __future__ import annotations

import numpy as np

from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.testbed.deployment import Deployment
from tvwrl.interference.testbed.snapshots import Snapshots
from tvwrl.papers.pism.clusters import K, Learnt
from tvwrl.papers.pism.published import TAIL_HEAVY
from tvwrl.types import Float

QUANTILES = (0, 50, 75, 90, 99)  # percent (Figure 15)
SERVICES = ("checkout", "browse_product", "coupon")


def score_metrics(
    deployment: Deployment, learnt: Learnt, predictor: LevelPredictor, seen: Snapshots, times: Float
) -> dict[str, float]:
    """Predicted and observed scores of machines; `times` (T, R) ms of service instances."""
    rows = np.tile(deployment.service, len(times))
    level = learnt.levels.level(rows, times.ravel()).reshape(times.shape).astype(float)
    machine = np.tile(deployment.machine, len(times))
    when = np.repeat(np.arange(len(times)), times.shape[1])
    predicted = predictor.levels_of(rows, seen.composition[when, machine]).reshape(times.shape)
    known = (level > 0) & ~np.isnan(predicted)
    weight = np.where(known, learnt.weight, 0.0)
    first = deployment.first[:-1]
    total = np.maximum(np.add.reduceat(weight, first, axis=1), 1e-9)
    scores = {
        name: np.add.reduceat(np.where(known, part, 0.0) * weight, first, axis=1) / total
        for name, part in (("score", level), ("predicted", predicted))
    }
    found = {name: float(score.mean()) for name, score in scores.items()}
    found["within"] = 100.0 * float((np.abs(level - predicted) <= 2)[known].mean())
    for name, score in scores.items():
        shares = np.histogram(np.clip(score, 1.0, K), bins=np.linspace(1.0, K, 11))[0] / score.size
        found |= {f"{name}_{bucket}": 100.0 * float(share) for bucket, share in enumerate(shares)}
    return found


def service_metrics(deployment: Deployment, learnt: Learnt, seen: Snapshots, times: Float) -> dict[str, float]:
    """Utilisation of machines, response times of `SERVICES` and slowdown of all; `times` (T, R) ms."""
    cpu = seen.pressures.cpu
    found = {"utilisation": 100.0 * float(cpu.mean())}
    found |= {f"utilisation_p{q}": 100.0 * float(np.percentile(cpu, q)) for q in (5, 25, 50, 75, 95)}
    for name in SERVICES:
        own = times[:, deployment.service == deployment.services.index(name)]
        found |= {f"{name}_mean": float(own.mean())}
        found |= {f"{name}_p{q}": float(np.percentile(own, q)) for q in QUANTILES}
    slowdown = times / learnt.responses.base[deployment.service]
    return found | {"slowdown": float(slowdown.mean()), "slowdown_p99": float(np.percentile(slowdown, 99))}


def mean_and_tail(deployment: Deployment, times: Float) -> Float:
    """(2, S) mean and 90th percentile of each service's response times (T, R); NaN for a service without instances."""
    service, services = deployment.service, len(deployment.services)
    count, tails = np.bincount(service, minlength=services), np.zeros(services)
    for s in np.unique(service):
        tails[s] = np.percentile(times[:, service == s], 90)
    mean = np.bincount(service, times.sum(axis=0), services) / np.where(count > 0, count * len(times), np.nan)
    tail = np.bincount(service, tails[service], services) / np.where(count > 0, count, np.nan)
    return np.stack([mean, tail])


def throughput(before: Float, now: Float) -> dict[str, float]:
    """Percent more requests of tail-heavy and tail-light services, mean over services; (2, S) as of `mean_and_tail`.

    A fixed number of requests is under way, so throughput is inverse to the mean response time. Tail-heavy: the
    `TAIL_HEAVY` of services with the highest ratio of 90th percentile to mean before.
    """
    known = np.flatnonzero(~np.isnan(before[0]))
    ratio = (before[1] / before[0])[known]
    heavy = known[np.argsort(ratio)[-max(1, round(TAIL_HEAVY * len(known))) :]]
    light = np.setdiff1d(known, heavy)
    more = 100.0 * (before[0] / now[0] - 1.0)
    return {"heavy": float(more[heavy].mean()), "light": float(more[light].mean()), "heaviest": float(ratio.max())}
