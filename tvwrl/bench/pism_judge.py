"""What a simulated cluster was like: scores of machines, predicted and observed, and response times of services."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.interference.arrivals import Arrivals
from tvwrl.interference.levels import Levels
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.services import Behaviour
from tvwrl.interference.world import Seen, Site
from tvwrl.types import Float

K = 10
QUANTILES = (0, 50, 75, 90, 99)  # Figure 15
SERVICES = ("checkout", "browse_product", "coupon")
HEAVY = 0.093  # of the services (Table 3)


class World(NamedTuple):
    """What is the same for every scheduler of a seed."""

    site: Site
    hour: Arrivals
    default: Seen  # the first period, under the default scheduler


class Judge(NamedTuple):
    """What turns the cluster as it was into figures."""

    world: World
    behaviour: Behaviour
    levels: Levels
    weight: Float  # (R,) of service instances


def figures(
    judge: Judge, predictor: LevelPredictor, seen: Seen, rng: np.random.Generator
) -> tuple[dict[str, float], Float]:
    """A row's figures; and mean and 90th percentile (2, S) of each service's response times. `rng`: of their noise."""
    site = judge.world.site
    times = judge.behaviour.response_ms(site, seen, rng)
    rows = np.tile(site.service, len(times))
    level = judge.levels.level(rows, times.ravel()).reshape(times.shape).astype(float)
    machine = np.tile(site.machine, len(times))
    when = np.repeat(np.arange(len(times)), times.shape[1])
    predicted = predictor.levels_of(rows, seen.composition[when, machine]).reshape(times.shape)
    known = (level > 0) & ~np.isnan(predicted)
    weight = np.where(known, judge.weight, 0.0)
    score, told = (
        np.add.reduceat(np.where(known, part, 0.0) * weight, site.first[:-1], axis=1)
        / np.maximum(np.add.reduceat(weight, site.first[:-1], axis=1), 1e-9)
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
        own = times[:, site.service == site.services.index(name)]
        found |= {f"{name}_mean": float(own.mean())}
        found |= {f"{name}_p{q}": float(np.percentile(own, q)) for q in QUANTILES}
    undisturbed = judge.behaviour.base[site.service]
    found["slowdown"] = float((times / undisturbed).mean())
    found["slowdown_p99"] = float(np.percentile(times / undisturbed, 99))
    return found, np.stack([_by_service(site, part) for part in (times, *_tails(site, times))])


def _by_service(site: Site, times: Float) -> Float:
    """(S,) mean over times and instances; NaN for a service without instances."""
    count = np.bincount(site.service, minlength=len(site.services)) * len(times)
    total = np.bincount(site.service, times.sum(axis=0), len(site.services))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _tails(site: Site, times: Float) -> list[Float]:
    """[(1, R)] each service's 90th percentile, repeated for its instances."""
    tail = np.zeros(len(site.services))
    for s in np.unique(site.service):
        tail[s] = np.percentile(times[:, site.service == s], 90)
    return [tail[site.service][None]]


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
