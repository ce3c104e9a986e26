"""What a simulated cluster was like: scores of machines, predicted and observed, and response times of services."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.interference.levels import Levels
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.testbed.arrivals import Arrivals
from tvwrl.interference.testbed.deployment import Deployment
from tvwrl.interference.testbed.responses import ResponseModel
from tvwrl.interference.testbed.snapshots import Snapshots
from tvwrl.types import Float

K = 10
QUANTILES = (0, 50, 75, 90, 99)  # Figure 15
SERVICES = ("checkout", "browse_product", "coupon")
HEAVY = 0.093  # of the services (Table 3)


class World(NamedTuple):
    """What is the same for every scheduler of a seed."""

    deployment: Deployment
    hour: Arrivals
    default: Snapshots  # the first period, under the default scheduler


class Judge(NamedTuple):
    """What turns the cluster as it was into figures."""

    world: World
    response_model: ResponseModel
    levels: Levels
    weight: Float  # (R,) of service instances


def figures(
    judge: Judge, predictor: LevelPredictor, seen: Snapshots, rng: np.random.Generator
) -> tuple[dict[str, float], Float]:
    """A row's figures; and mean and 90th percentile (2, S) of each service's response times. `rng`: of their noise."""
    deployment = judge.world.deployment
    times = judge.response_model.response_ms(deployment, seen, rng)
    rows = np.tile(deployment.service, len(times))
    level = judge.levels.level(rows, times.ravel()).reshape(times.shape).astype(float)
    machine = np.tile(deployment.machine, len(times))
    when = np.repeat(np.arange(len(times)), times.shape[1])
    predicted = predictor.levels_of(rows, seen.composition[when, machine]).reshape(times.shape)
    known = (level > 0) & ~np.isnan(predicted)
    weight = np.where(known, judge.weight, 0.0)
    score, told = (
        np.add.reduceat(np.where(known, part, 0.0) * weight, deployment.first[:-1], axis=1)
        / np.maximum(np.add.reduceat(weight, deployment.first[:-1], axis=1), 1e-9)
        for part in (level, predicted)
    )
    cpu = seen.pressures.cpu
    found = {
        "score": float(score.mean()),
        "predicted": float(told.mean()),
        "within": 100.0 * float((np.abs(level - predicted) <= 2)[known].mean()),
        "utilisation": 100.0 * float(cpu.mean()),
    }
    found |= {f"utilisation_p{q}": 100.0 * float(np.percentile(cpu, q)) for q in (5, 25, 50, 75, 95)}
    for name, part in (("score", score), ("predicted", told)):
        shares = np.histogram(np.clip(part, 1.0, K), bins=np.linspace(1.0, K, 11))[0] / part.size
        found |= {f"{name}_{bucket}": 100.0 * float(share) for bucket, share in enumerate(shares)}
    for name in SERVICES:
        own = times[:, deployment.service == deployment.services.index(name)]
        found |= {f"{name}_mean": float(own.mean())}
        found |= {f"{name}_p{q}": float(np.percentile(own, q)) for q in QUANTILES}
    undisturbed = judge.response_model.base[deployment.service]
    found["slowdown"] = float((times / undisturbed).mean())
    found["slowdown_p99"] = float(np.percentile(times / undisturbed, 99))
    return found, np.stack([_by_service(deployment, part) for part in (times, *_tails(deployment, times))])


def _by_service(deployment: Deployment, times: Float) -> Float:
    """(S,) mean over times and instances; NaN for a service without instances."""
    count = np.bincount(deployment.service, minlength=len(deployment.services)) * len(times)
    total = np.bincount(deployment.service, times.sum(axis=0), len(deployment.services))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _tails(deployment: Deployment, times: Float) -> list[Float]:
    """[(1, R)] each service's 90th percentile, repeated for its instances."""
    tail = np.zeros(len(deployment.services))
    for s in np.unique(deployment.service):
        tail[s] = np.percentile(times[:, deployment.service == s], 90)
    return [tail[deployment.service][None]]


def throughput(before: Float, now: Float) -> dict[str, float]:
    """Percent more requests of tail-heavy and tail-light services, mean over services; (2, S): mean RT, P90.

    A fixed number of requests under way: throughput is that number over the mean response time, so it grows as the
    mean response time falls. Tail-heavy: the `HEAVY` of services with the highest P90 over mean before.
    """
    known = np.flatnonzero(~np.isnan(before[0]))
    ratio = (before[1] / before[0])[known]
    heavy = known[np.argsort(ratio)[-max(1, round(HEAVY * len(known))) :]]
    light = np.setdiff1d(known, heavy)
    more = 100.0 * (before[0] / now[0] - 1.0)
    return {"heavy": float(more[heavy].mean()), "light": float(more[light].mean()), "heaviest": float(ratio.max())}
