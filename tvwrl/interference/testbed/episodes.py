"""Snapshots of machines during an episode of the simulator, as if services ran beside its workloads.

Assumed, for episodes have no services: every machine runs one instance of each of `PER_MACHINE` services, which use no
CPU themselves. The pressure of a workload on bandwidth is its cores times its memory, on the cache its memory, both
times a trait of the workload that its category does not reveal.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tvwrl.checks import at_least, within
from tvwrl.interference.categories import CORES, Thresholds, categories, shares
from tvwrl.interference.observations import CATEGORIES, Observations
from tvwrl.interference.testbed.arrivals import read_hour, replay_hour
from tvwrl.interference.testbed.deployment import (
    LEAST_SERVICES,
    PER_MACHINE,
    Deployment,
    draw_deployment,
    draw_services,
)
from tvwrl.interference.testbed.instance_kernels import DEFAULT
from tvwrl.interference.testbed.laws import LAWS, Pressures, draw_response_model
from tvwrl.interference.testbed.simulation import PlacementRule, Snapshots, simulate, take_snapshots
from tvwrl.types import Episode, Machines

WARM_UP_SECONDS = 1800  # after which machines are as full as they stay


@dataclass(frozen=True)
class TwoDays:
    """A cluster under the default scheduler for two days. Raises InputError for values out of range."""

    seed: int = 0
    data: Path | None = None  # folder of recorded batch tasks; None: synthetic ones
    machines: int = 40
    services: int = 150
    hours: int = 24  # length of a day
    truth: bool = False  # schedulers know true categories instead of classified ones
    report_seconds: int = 300  # between two records of a service instance

    def __post_init__(self) -> None:
        at_least(1, machines=self.machines, hours=self.hours)
        at_least(LEAST_SERVICES, services=self.services)
        within(1, 3600 * self.hours, report_seconds=self.report_seconds)


def observe_days(days: TwoDays, law: str, stream: int) -> tuple[Observations, Observations]:
    """Records of the first and of the second day if response times follow `law`.

    The batch work is the same under all laws. `stream` >= 0: of the random numbers that draw services and noise.
    """
    deployment, seen = _simulate_days(days)
    rng = np.random.default_rng([days.seed, stream])
    both = draw_response_model(LAWS[law], deployment, seen, rng).observe(seen, rng)
    second = both.seconds >= 3600.0 * days.hours
    return both.only(~second), both.only(second)


@lru_cache(maxsize=1)
def _simulate_days(days: TwoDays) -> tuple[Deployment, Snapshots]:
    rng = np.random.default_rng(days.seed)
    seconds = 2 * 3600 * days.hours
    hour = read_hour(days.data, days.truth, rng)
    arrivals = replay_hour(hour, days.machines, seconds // 60, rng)
    deployment = draw_deployment(days.machines, days.services, arrivals, seconds, rng)
    with tqdm(total=seconds // 60, desc="simulating two days", unit="min", disable=None, leave=False) as bar:
        record = simulate(deployment, arrivals, PlacementRule(DEFAULT), rng, watch=lambda *_: bar.update())
    every = np.arange(min(WARM_UP_SECONDS, seconds // 4), seconds, days.report_seconds, dtype=np.float64)
    return deployment, take_snapshots(record, every)


TRAIT = 0.5  # assumed: standard deviation of the logarithm of what windows of one workload of the trace share


def uniform_deployment(machines: int, rng: np.random.Generator) -> Deployment:
    """Equal machines of the largest size, each with one instance of every service."""
    names, quota = draw_services(PER_MACHINE, rng)
    return Deployment(
        services=names,
        quota=quota,
        first=np.arange(machines + 1) * PER_MACHINE,
        service=np.tile(np.arange(PER_MACHINE), machines),
        use=np.zeros(machines * PER_MACHINE),
        cumulative_share=np.linspace(0, 1, machines + 1)[1:],
        cores=CORES,
        memory=100.0,
    )


def episode_snapshots(
    episodes: Sequence[Episode], machines: Machines, step_seconds: int, thresholds: Thresholds, seed: int
) -> Snapshots:
    """The machines in every slot up to each episode's last arrival, one episode after the other.

    `seed`: of the workloads' traits. Schedulers know the compositions, only the law knows the pressures.
    """
    largest, counts, sums = machines.capacity.max(axis=0), [], []
    for episode in episodes:
        slots = int(episode.arrival.max(initial=0)) + 1
        composition = np.zeros((slots, len(machines), CATEGORIES), np.int32)
        total = np.zeros((3, slots, len(machines)))  # pressure on bandwidth and cache, cores in use
        for i in np.flatnonzero(episode.start >= 0):
            m, begin = episode.machine[i], episode.start[i]
            demand = episode.demand[i][: max(slots - begin, 0)]
            there = slice(begin, begin + len(demand))
            category = categories(demand[None], largest, step_seconds, thresholds)[0]
            composition[np.arange(slots)[there], m, category] += 1
            cpu, memory = shares(demand, largest)
            name = zlib.crc32(str(episode.source_workload[i]).encode())
            heavy = memory * float(np.exp(TRAIT * np.random.default_rng([seed, name]).normal()))
            total[:, there, m] += np.stack([cpu * heavy, heavy, cpu])
        counts.append(composition)
        sums.append(total)
    bandwidth, cache, cpu = np.concatenate(sums, axis=1)
    cores = np.maximum(shares(machines.capacity, largest)[0], 1e-9)  # 0: switched off
    return Snapshots(
        seconds=step_seconds * np.arange(float(len(cpu))),
        composition=np.concatenate(counts),
        batch_cpu=cpu,
        pressures=Pressures(bandwidth=bandwidth, cache=cache, queue=cpu / cores, cpu=cpu / cores),
    )
