"""How long services take in the simulation, and what monitoring tells of it: the law's only door to the scorer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tvwrl.interference.laws import (
    ANCHORS,
    ERMS_SENSITIVITY,
    LEAST_SENSITIVE,
    MOST_SENSITIVE,
    NOISE,
    Law,
    Means,
    anchored,
)
from tvwrl.interference.observations import Observations
from tvwrl.interference.world import Seen, Site
from tvwrl.types import Float, Int

BASES = (2.0, 200.0)  # ms undisturbed, assumed: between these, evenly in the logarithm


@dataclass(frozen=True, eq=False)
class Behaviour:
    """A law and the S services under it. Response time = base (1 + sensitivity g) times log-normal noise."""

    law: Law
    mean: Means  # of pressures, in which the law sees them
    base: Float  # (S,) ms, > 0
    sensitivity: Float  # (S,) > 0
    noise: Float  # (S,) standard deviation of the logarithm

    def slowdown(self, seen: Seen) -> Float:
        """(T, M) g: slowdown - 1 of a service of sensitivity 1."""
        return self.law.slowdown(seen.pressures, self.mean)

    def alike(self) -> Behaviour:
        """The same, all services being as sensitive as the measured one: who knows which suffer knows nothing more."""
        return replace(self, sensitivity=np.ones_like(self.sensitivity), noise=np.full_like(self.noise, NOISE))

    def response_ms(self, site: Site, seen: Seen, rng: np.random.Generator) -> Float:
        """(T, R) mean response time of every service instance at the times of `seen`."""
        slow = self.slowdown(seen)[:, site.machine]
        chance = np.exp(self.noise[site.service] * rng.normal(size=slow.shape))
        times: Float = self.base[site.service] * (1.0 + self.sensitivity[site.service] * slow) * chance
        return times


def draw_behaviour(law: Law, site: Site, seen: Seen, rng: np.random.Generator) -> Behaviour:
    """Services as sensitive as Erms' microservices differ; checkout and coupon at their anchors under `seen`.

    `seen`: the cluster under the default scheduler. browse_product is as sensitive as the measured service.
    """
    count, mean = len(site.services), seen.pressures.means()
    base = np.exp(rng.uniform(np.log(BASES[0]), np.log(BASES[1]), count))
    median, scatter = ERMS_SENSITIVITY
    sensitivity = np.clip(median * np.exp(scatter * rng.normal(size=count)), LEAST_SENSITIVE, MOST_SENSITIVE)
    noise = np.full(count, NOISE)
    slow = law.slowdown(seen.pressures, mean).ravel()
    for name, (low, high) in ANCHORS.items():
        s = site.services.index(name)
        base[s], sensitivity[s], noise[s] = anchored(slow, low, high)
    sensitivity[site.services.index("browse_product")] = 1.0
    return Behaviour(law, mean, base, sensitivity, noise)


def observe(site: Site, seen: Seen, response_ms: Float, times: Int | slice = slice(None)) -> Observations:
    """Records of every service instance at `times` of `seen`: what a scorer may know."""
    ms = response_ms[times]
    count = len(ms)
    machine = np.tile(site.machine, count)
    when = np.repeat(np.arange(count), len(site.service))
    return Observations(
        seconds=seen.seconds[times][when],
        machine=machine,
        service=np.tile(site.service, count),
        response_ms=ms.ravel(),
        composition=seen.composition[times][when, machine],
        batch_cpu=seen.batch_cpu[times][when, machine],
        services=site.services,
        quota=site.quota,
        real=False,
    )
