"""Which service instances run on which machines, and how much CPU they use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.checks import at_least
from tvwrl.interference.observations import MonitoredMachines, idle_machines
from tvwrl.interference.testbed.arrivals import RECORDED_AT, Arrivals
from tvwrl.types import Float, Int

UTILISATION = 0.45  # mean share of the CPU that services and batch work use (Figure 13(b): 40 to 50 %)
SERVICE_SHARE = 0.12  # mean share of the CPU that services use (Figure 2: usually below 20 % of what they request)
MEMORY_ROOM = 2.0  # memory of a machine over what batch work uses on average: memory is never scarce
PER_MACHINE = 20  # service instances on a machine (Table 1)
NAMED = {"checkout": 8.0, "coupon": 11.0, "browse_product": 8.0}  # cores requested; the first two from Section 4
NAMED_SHARE = 0.35  # share of machines with an instance of one of them: 3,500 instances of checkout on 10,000 machines
LEAST_SERVICES = PER_MACHINE + len(NAMED)
UNEVENNESS = 0.8  # of the default scheduler's shares: utilisation from about 20 to 80 % across machines (Figure 2)
EVENING = 0.3  # assumed: how far services' CPU rises above its mean at 8 pm


@dataclass(frozen=True, eq=False)
class Deployment:
    """M equal machines and the instances of S services on them, which never move; row r is one instance."""

    services: tuple[str, ...]  # (S,)
    quota: Float  # (S,) cores that an instance requests, > 0
    first: Int  # (M + 1,) rows of machine m are first[m] .. first[m + 1] - 1
    service: Int  # (R,)
    use: Float  # (R,) mean cores in use over a day
    cumulative_share: Float  # (M,) rising to 1: of the instances that the default scheduler places on machines 0..m
    cores: float  # of each machine, > 0
    memory: float  # of each machine, > 0

    @property
    def count(self) -> int:
        """M."""
        return len(self.first) - 1

    @property
    def machine(self) -> Int:
        """(R,) machine of each row."""
        return np.repeat(np.arange(self.count), np.diff(self.first))

    def rows_of(self, service: str) -> Int:
        """(n,) rows of a service's instances."""
        return np.flatnonzero(self.service == self.services.index(service))

    def service_cpu(self, seconds: Float) -> Float:
        """(T, M) cores that services use at `seconds` (T,) after the hour of the day at which arrivals begin."""
        hour = RECORDED_AT + seconds / 3600
        daily = 1.0 + EVENING * np.cos(2 * np.pi * (hour - 20.0) / 24)
        return np.outer(daily, np.bincount(self.machine, self.use, self.count))

    def machines(self) -> MonitoredMachines:
        """The machines without batch work; `cpu` does not yet hold what services use."""
        return idle_machines(self.cores, self.memory, self.first, self.service)


def draw_services(count: int, rng: np.random.Generator) -> tuple[tuple[str, ...], Float]:
    """Names of `count` services, those of `NAMED` first, and the cores that an instance of each requests (count,)."""
    names = (*NAMED, *(f"service{number}" for number in range(len(NAMED), count)))
    return names, np.array([NAMED.get(name, 2.0 ** rng.integers(0, 6)) for name in names])  # 1 .. 32, Section 6.3.2


def draw_deployment(
    machines: int, services: int, arrivals: Arrivals, seconds: int, rng: np.random.Generator
) -> Deployment:
    """Random services on machines, `PER_MACHINE` instances each, and machines sized for `arrivals` of `seconds`.

    Machines have so many cores that batch work and services use `UTILISATION` of them on average. A machine runs at
    most one instance of a service; checkout, coupon and browse_product run on `NAMED_SHARE` of the machines each, the
    popularity of the others falls with the square root of their rank. Raises InputError for fewer than
    `LEAST_SERVICES` services or no machines.
    """
    at_least(1, machines=machines)
    at_least(LEAST_SERVICES, services=services)
    names, quota = draw_services(services, rng)
    rank = np.arange(1, services - len(NAMED) + 1) ** -0.5
    rows = []
    for machine in range(machines):
        own = np.flatnonzero((rng.random(len(NAMED)) < NAMED_SHARE) | (np.arange(len(NAMED)) == machine))
        others = rng.choice(len(rank), PER_MACHINE - len(own), replace=False, p=rank / rank.sum())
        rows.append(np.sort(np.concatenate([own, others + len(NAMED)])))
    service = np.concatenate(rows)
    cores = arrivals.cores() / (seconds * machines) / (UTILISATION - SERVICE_SHARE)
    busy = quota[service] * np.exp(0.5 * rng.normal(size=len(service)))
    shares = rng.uniform(1 - UNEVENNESS, 1 + UNEVENNESS, machines)
    memory_in_use = float((arrivals.instances * arrivals.memory * arrivals.makespan).sum()) / (seconds * machines)
    return Deployment(
        services=names,
        quota=quota,
        first=np.arange(machines + 1) * PER_MACHINE,
        service=service,
        use=busy * (SERVICE_SHARE * cores * machines / busy.sum()),
        cumulative_share=np.cumsum(shares / shares.sum()),
        cores=cores,
        memory=MEMORY_ROOM * memory_in_use,
    )
