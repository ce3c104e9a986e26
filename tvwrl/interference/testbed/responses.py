"""Response times of services in the simulated cluster, and the observations that a score may learn from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tvwrl.interference.observations import Observations
from tvwrl.interference.testbed.deployment import Deployment
from tvwrl.interference.testbed.laws import (
    ANCHORS,
    ERMS_SENSITIVITY,
    LEAST_SENSITIVE,
    MOST_SENSITIVE,
    NOISE,
    Law,
    Pressures,
    anchored,
)
from tvwrl.interference.testbed.simulation import Snapshots
from tvwrl.types import Float

BASES = (2.0, 200.0)  # ms undisturbed, assumed: drawn between these, uniformly in the logarithm


@dataclass(frozen=True, eq=False)
class ResponseModel:
    """Response time of each of S services = base (1 + sensitivity g) times log-normal noise; the law gives g."""

    deployment: Deployment
    law: Law
    mean: Pressures  # of pressures: the units in which the law measures them
    base: Float  # (S,) ms, > 0
    sensitivity: Float  # (S,) > 0
    noise: Float  # (S,) standard deviation of the logarithm

    def slowdown(self, seen: Snapshots) -> Float:
        """(T, M) g: slowdown - 1 of a service of sensitivity 1."""
        return self.law.slowdown(seen.pressures, self.mean)

    def equally_sensitive(self) -> ResponseModel:
        """The same model with all services as sensitive as the measured one."""
        return replace(self, sensitivity=np.ones_like(self.sensitivity), noise=np.full_like(self.noise, NOISE))

    def response_ms(self, seen: Snapshots, rng: np.random.Generator) -> Float:
        """(T, R) mean response time of every service instance at the times of `seen`."""
        service = self.deployment.service
        slow = self.slowdown(seen)[:, self.deployment.machine]
        noise = np.exp(self.noise[service] * rng.normal(size=slow.shape))
        times: Float = self.base[service] * (1.0 + self.sensitivity[service] * slow) * noise
        return times

    def observe(self, seen: Snapshots, rng: np.random.Generator, every: int = 1) -> Observations:
        """A record per service instance at every `every`-th time of `seen`: all that a score may know."""
        ms = self.response_ms(seen, rng)[::every]
        machine = np.tile(self.deployment.machine, len(ms))
        when = every * np.repeat(np.arange(len(ms)), ms.shape[1])
        return Observations(
            seconds=seen.seconds[when],
            machine=machine,
            service=np.tile(self.deployment.service, len(ms)),
            response_ms=ms.ravel(),
            composition=seen.composition[when, machine],
            batch_cpu=seen.batch_cpu[when, machine],
            services=self.deployment.services,
            quota=self.deployment.quota,
        )


def draw_response_model(law: Law, deployment: Deployment, seen: Snapshots, rng: np.random.Generator) -> ResponseModel:
    """Random services whose sensitivities differ as those of Erms' microservices.

    checkout and coupon meet their published anchors (`laws.ANCHORS`) in `seen`, the cluster under the default
    scheduler; browse_product is as sensitive as the measured service.
    """
    count, mean = len(deployment.services), seen.pressures.means()
    base = np.exp(rng.uniform(np.log(BASES[0]), np.log(BASES[1]), count))
    median, scatter = ERMS_SENSITIVITY
    sensitivity = np.clip(median * np.exp(scatter * rng.normal(size=count)), LEAST_SENSITIVE, MOST_SENSITIVE)
    noise = np.full(count, NOISE)
    slow = law.slowdown(seen.pressures, mean).ravel()
    for name, (low, high) in ANCHORS.items():
        s = deployment.services.index(name)
        base[s], sensitivity[s], noise[s] = anchored(slow, low, high)
    sensitivity[deployment.services.index("browse_product")] = 1.0
    return ResponseModel(deployment, law, mean, base, sensitivity, noise)
