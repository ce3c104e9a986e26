"""How batch work slows services on its machine: three laws, response times, and the observations to learn from.

The laws are hidden from every score.

Response time of service s on machine m = base_s (1 + sensitivity_s g(m)) times log-normal noise; g is one of `LAWS`, a
sum of piecewise-linear functions of pressures. The curves are fitted to measurements (`tvwrl reproduce pism-laws`);
assumptions that no public measurement supports are marked as such.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tvwrl.interference.observations import Observations
from tvwrl.types import Float

if TYPE_CHECKING:
    from tvwrl.interference.testbed.deployment import Deployment
    from tvwrl.interference.testbed.simulation import Snapshots

# Assumed: the pressure of a core in use on bandwidth, and of an instance on the cache, grows with the instance's memory
# to this power: about sixteenfold from the middle of the lowest class of memory to that of the highest
ELASTICITY = 0.7
TRAIT = 0.7  # assumed: standard deviation of the logarithm of a task's pressure beyond what its category explains
NOISE = 0.05  # assumed: standard deviation of the logarithm; repeated nginx runs have 0.01, production more


def intensities(memory: Float, rng: np.random.Generator) -> Float:
    """(N,) > 0 pressure on memory of instances that use `memory` (N,), in units of its mean (`Pressures.means`).

    Each task has a log-normal trait independent of its category: two tasks of one category typically differ by a factor
    of e. So no sum of counts by category equals the law, and no score can recover it exactly.
    """
    pressing: Float = memory**ELASTICITY * np.exp(TRAIT * rng.normal(size=len(memory)))
    return pressing


class Curve(NamedTuple):
    """Slowdown - 1 by pressure, linear up to `knee` and steeper or flatter from there."""

    knee: float  # > 0, in the measurement's own unit of pressure
    below: float  # >= 0 per unit
    above: float  # >= 0 per unit

    def at(self, pressure: Float) -> Float:
        """Slowdown - 1 at `pressure` (...) >= 0, in the unit of the measurement."""
        rise: Float = self.below * np.minimum(pressure, self.knee)
        return rise + self.above * np.maximum(pressure - self.knee, 0.0)


# Fitted; unit: workers of iBench beside TaoBench (99th percentile), pods of iBench or stress-ng beside nginx (mean)
TAOBENCH_BANDWIDTH = Curve(2.137, 0.0448, 0.2173)
TAOBENCH_CACHE = Curve(4.007, 0.1710, 0.1364)
NGINX_CPU = Curve(1.765, 0.0917, 0.3106)
NGINX_BANDWIDTH = Curve(2.700, 0.0788, 0.2430)
ERMS_SENSITIVITY = (0.82, 1.65)  # how much microservices are slowed: median, standard deviation of the logarithm


class Pressures(NamedTuple):
    """Pressures on services at T times on M machines, each (T, M)."""

    bandwidth: Float  # memory bandwidth that batch instances ask for, >= 0
    cache: Float  # last-level cache that they touch, >= 0
    queue: Float  # runnable batch work per core that services leave free, >= 0
    cpu: Float  # cores in use by all, over cores

    def means(self) -> Pressures:
        """Means () over machines and times: the units in which laws measure pressures."""
        return Pressures(*(np.asarray(part.mean()) for part in self))


@dataclass(frozen=True)
class Law:
    """A sum of curves of one pressure each; a mean pressure is `at_mean` in the measurement's unit.

    Assumed, for no measurement says where on its curve a cluster operates: the mean lies at the knee of the first
    curve, so that machines above and below average differ in kind. `scaled` moves it.
    """

    curves: tuple[tuple[str, Curve], ...]  # field of Pressures, curve
    at_mean: float  # > 0

    def slowdown(self, pressures: Pressures, mean: Pressures) -> Float:
        """(T, M) g: slowdown - 1 of a service of sensitivity 1."""
        total: Float = np.zeros_like(pressures.cpu)
        for field, curve in self.curves:
            total += curve.at(self.at_mean * getattr(pressures, field) / getattr(mean, field))
        return total

    def scaled(self, factor: float) -> Law:
        """The same law with `factor` times the pressure."""
        return Law(self.curves, self.at_mean * factor)


LAWS = {
    "memory": Law((("bandwidth", TAOBENCH_BANDWIDTH), ("cache", TAOBENCH_CACHE)), TAOBENCH_BANDWIDTH.knee),
    "queue": Law((("queue", NGINX_CPU), ("bandwidth", NGINX_BANDWIDTH)), NGINX_CPU.knee),
    "control": Law((("cpu", NGINX_CPU),), NGINX_CPU.knee),
}

# Published, under the default scheduler, ms (Sections 4, 5.4): checkout P10, P90; coupon's range of means, its CV < 0.2
ANCHORS = {"checkout": (146.0, 318.0), "coupon": (7.0, 9.0)}
QUANTILES = (0.1, 0.9)  # quantiles of response times that the anchors give
LEAST_SENSITIVE = 0.05  # lower bound of a microservice's slowdown - 1
MOST_SENSITIVE = 8.0  # over the measured service; the most sensitive microservice of Erms has 7.7


class Anchored(NamedTuple):
    """A service whose response times have the given quantiles."""

    base: float  # ms undisturbed, > 0
    sensitivity: float  # in (0, `MOST_SENSITIVE`]
    noise: float  # standard deviation of the logarithm, >= 0


def anchored(slowdown: Float, low: float, high: float) -> Anchored:
    """A service whose response times have the 10 and 90 % quantiles `low` and `high`, ms.

    `slowdown` (n,): g under the default scheduler. A sensitivity up to `MOST_SENSITIVE` explains as much of the spread
    as it can, noise (at least `NOISE`) the rest: the paper names other causes (network, other services) too.
    """
    from scipy.optimize import brentq

    noises = np.random.default_rng(0).normal(size=slowdown.size)  # the same in every trial, so that a root exists

    def spread(sensitivity: float, noise: float) -> tuple[float, float]:
        times = (1.0 + sensitivity * slowdown) * np.exp(noise * noises)
        first, last = np.quantile(times, QUANTILES)
        return float(first), float(last / first)

    sensitivity, noise = MOST_SENSITIVE, NOISE
    if spread(sensitivity, noise)[1] > high / low:
        least, most = spread(0.0, noise)[1], high / low
        sensitivity = brentq(lambda s: spread(s, noise)[1] - most, 0.0, sensitivity) if least < most else 0.0
    else:
        noise = brentq(lambda n: spread(sensitivity, n)[1] - high / low, noise, 1.0)
    return Anchored(low / spread(sensitivity, noise)[0], float(sensitivity), float(noise))


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


def draw_response_model(
    law: Law, deployment: Deployment, seen: Snapshots, rng: np.random.Generator, measured: Float | None = None
) -> ResponseModel:
    """Random services whose sensitivities differ as those of Erms' microservices: drawn from a log-normal distribution
    that is fitted to them, or from `measured` ones (n,), with replacement.

    checkout and coupon meet their published anchors (`laws.ANCHORS`) in `seen`, the cluster under the default
    scheduler; browse_product is as sensitive as the measured service.
    """
    count, mean = len(deployment.services), seen.pressures.means()
    base = np.exp(rng.uniform(np.log(BASES[0]), np.log(BASES[1]), count))
    median, scatter = ERMS_SENSITIVITY
    sensitivity = np.clip(median * np.exp(scatter * rng.normal(size=count)), LEAST_SENSITIVE, MOST_SENSITIVE)
    if measured is not None:
        sensitivity = np.clip(rng.choice(measured, count), LEAST_SENSITIVE, MOST_SENSITIVE)
    noise = np.full(count, NOISE)
    slow = law.slowdown(seen.pressures, mean).ravel()
    for name, (low, high) in ANCHORS.items():
        s = deployment.services.index(name)
        base[s], sensitivity[s], noise[s] = anchored(slow, low, high)
    sensitivity[deployment.services.index("browse_product")] = 1.0
    return ResponseModel(deployment, law, mean, base, sensitivity, noise)
