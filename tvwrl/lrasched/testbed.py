"""A simulated testbed: four kinds of services whose performance depends on CPU, memory and collocation.

It replaces the paper's ten servers; label every result of it "simulated". For replicas of c cores and m GiB, of which d
share a machine of 16 cores and 32 GiB (the LRASched paper, 4.1):

    c' = min(c, 16 / d), m' = min(m, 32 / d)                              what a replica gets at most
    hit = min(1, m' / dataset) ** skew                                    share of requests served from memory
    work = hit + (1 - hit) miss                                           mean cost of a request; a hit costs 1
    contention = (1 + gain [d > 1]) / (1 + 0.0101 sensitivity (d - 1) ** steep)
    capacity = rate * c' / (1 + serial max(c' - 1, 0)) / work * contention                          requests/s
    performance = (1 + (load / capacity) ** 4) ** (-1 / 4)                served / offered requests, smooth minimum
    p99 = ln(100) 1000 work / (rate contention) / (1 - performance load / capacity)   ms, M/M/1, at most 1,000

With sensitivity 1 two on a machine cost 1 % of capacity and eight 30 % to 50 % (Figure 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvwrl.checks import at_least
from tvwrl.lrasched.profiles import Configuration, Profiles

CORES, MEMORY = 16.0, 32.0  # of a machine: cores, GiB
CPUS, MEMS, DEGREES = (0.5, 1.0, 2.0, 3.0, 4.0), (0.5, 1.0, 2.0, 4.0), (1, 2, 4, 8)
NOISE = 0.02  # relative standard deviation of a measurement
TIMEOUT_MS = 1000.0
SPREAD = np.array([0.2, 0.5, 0.3, 0.4])  # sigma of rate, dataset, miss, sensitivity


@dataclass(frozen=True)
class Service:
    """The parameters of a service's performance in the formulas above."""

    name: str
    rate: float  # requests/s of one core from memory
    serial: float  # share of work that more cores do not speed up
    dataset: float  # GiB
    skew: float  # how much of the load a small cache misses
    miss: float  # cost of a miss, in hits
    steep: float  # how fast contention rises with collocation
    gain: float = 0.0  # of throughput, where replicas on one machine talk to one another
    sensitivity: float = 1.0  # of throughput to collocation


SERVICES = (
    Service("cassandra", rate=4_000, serial=0.08, dataset=4.0, skew=0.5, miss=4.0, steep=2.2),
    Service("hbase", rate=3_000, serial=0.12, dataset=6.0, skew=0.7, miss=6.0, steep=2.1, gain=0.03),
    Service("memcached", rate=20_000, serial=0.25, dataset=3.0, skew=1.0, miss=8.0, steep=2.35),
    Service("apache", rate=1_500, serial=0.02, dataset=0.8, skew=0.3, miss=2.0, steep=1.95),
)


@dataclass(frozen=True)
class SimulatedApplication:
    """A service with a dataset of its own, under a load."""

    name: str
    service: Service
    load: float  # requests/s offered to a replica

    def capacity(self, configuration: Configuration) -> float:
        """Requests/s that a replica can serve."""
        s, d = self.service, configuration.collocation
        cpu = min(configuration.cpu, CORES / d)
        scaled = cpu / (1 + s.serial * max(cpu - 1, 0))
        return s.rate * scaled / self._work(configuration) * self._contention(d)

    def performance(self, configuration: Configuration) -> float:
        """Served share of the offered load, (0, 1)."""
        return float((1 + (self.load / self.capacity(configuration)) ** 4) ** -0.25)

    def p99_ms(self, configuration: Configuration) -> float:
        """99th percentile of response time, ms."""
        busy = self.performance(configuration) * self.load / self.capacity(configuration)
        alone = 1000 * self._work(configuration) / self.service.rate / self._contention(configuration.collocation)
        return float(min(np.log(100) * alone / (1 - busy), TIMEOUT_MS))

    def p99_goal_ms(self, configuration: Configuration, performance: float) -> float:
        """99th percentile at which replicas of this size, one on a machine, reach exactly this performance (0..1)."""
        busy = performance * (performance**-4 - 1) ** 0.25
        alone = 1000 * self._work(replace(configuration, collocation=1)) / self.service.rate
        return float(min(np.log(100) * alone / (1 - busy), TIMEOUT_MS))

    def measure(self, configuration: Configuration, rng: np.random.Generator, noise: float = NOISE) -> float:
        """Performance as a short profile measures it, with noise, (0, 1]."""
        return float(min(self.performance(configuration) * np.exp(rng.normal(0.0, noise)), 1.0))

    def _work(self, configuration: Configuration) -> float:
        mem = min(configuration.mem, MEMORY / configuration.collocation)
        hit = float(min(1.0, mem / self.service.dataset) ** self.service.skew)
        return hit + (1 - hit) * self.service.miss

    def _contention(self, degree: int) -> float:
        s = self.service
        loss = 0.0101 * s.sensitivity * float((degree - 1) ** s.steep)
        return (1 + s.gain * (degree > 1)) / (1 + loss)


def configurations(degrees: Sequence[int] = DEGREES) -> tuple[Configuration, ...]:
    """Every size with every degree of collocation, e.g. `2c-4g-x8`: 2 cores, 4 GiB, eight replicas on a machine."""
    return tuple(Configuration(f"{c:g}c-{m:g}g-x{d}", c, m, d) for d in degrees for c in CPUS for m in MEMS)


def draw_applications(count: int, seed: int, load: float | None = None) -> list[SimulatedApplication]:
    """Draw variations of the four services, in turn.

    Rate, dataset, cost of a miss and sensitivity to collocation vary by lognormal factors of sigma `SPREAD`. The load
    is a share of the capacity of the largest size, one on a machine: `load`, or uniform in 0.15..0.95.
    """
    at_least(1, applications=count)
    rng, largest, found = np.random.default_rng(seed), Configuration("largest", max(CPUS), max(MEMS)), []
    for i in range(count):
        base, (rate, dataset, miss, sensitivity) = SERVICES[i % len(SERVICES)], np.exp(rng.normal(0, 1, 4) * SPREAD)
        service = replace(
            base,
            rate=base.rate * rate,
            dataset=base.dataset * dataset,
            miss=1 + (base.miss - 1) * miss,
            sensitivity=base.sensitivity * sensitivity,
        )
        full = SimulatedApplication(f"{base.name}-{i:03d}", service, 1.0)
        share = rng.uniform(0.15, 0.95)
        found.append(replace(full, load=full.capacity(largest) * (share if load is None else load)))
    return found


def profile(
    applications: Sequence[SimulatedApplication], offered: Sequence[Configuration], seed: int, noise: float = NOISE
) -> Profiles:
    """Measure all applications in all these configurations."""
    rng = np.random.default_rng(seed)
    grid = np.array([[a.measure(c, rng, noise) for c in offered] for a in applications])
    return Profiles.of_grid([a.name for a in applications], [c.name for c in offered], grid)
