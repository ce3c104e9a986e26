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
import numpy.typing as npt
from tqdm import tqdm

from tvwrl.checks import at_least, within
from tvwrl.interference.categories import Thresholds
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
from tvwrl.interference.testbed.laws import LAWS, Pressures
from tvwrl.interference.testbed.responses import draw_response_model
from tvwrl.interference.testbed.simulation import PlacementRule, Snapshots, simulate, take_snapshots
from tvwrl.interference.workloads import CORES, categories, shares
from tvwrl.types import Episode, Float, Machines

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


TRAIT = 0.5  # assumed: standard deviation of the logarithm


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
    parts = [_one_episode(episode, machines, step_seconds, thresholds, seed) for episode in episodes]
    composition = np.concatenate([counts for counts, _ in parts])
    bandwidth, cache, cpu = (np.concatenate([sums[number] for _, sums in parts]) for number in range(3))
    cores = np.maximum(shares(machines.capacity, machines.capacity.max(axis=0))[0], 1e-9)  # 0: switched off
    return Snapshots(
        seconds=step_seconds * np.arange(float(len(cpu))),
        composition=composition,
        batch_cpu=cpu,
        pressures=Pressures(bandwidth=bandwidth, cache=cache, queue=cpu / cores, cpu=cpu / cores),
    )


def _one_episode(
    episode: Episode, machines: Machines, step_seconds: int, thresholds: Thresholds, seed: int
) -> tuple[npt.NDArray[np.int32], Float]:
    """Compositions (T, M, 60) and sums over workloads (3, T, M): pressure on bandwidth and cache, cores in use."""
    slots = int(episode.arrival.max(initial=0)) + 1
    composition = np.zeros((slots, len(machines), CATEGORIES), np.int32)
    sums = np.zeros((3, slots, len(machines)))
    largest = machines.capacity.max(axis=0)
    for i in np.flatnonzero(episode.start >= 0):
        m, begin = episode.machine[i], episode.start[i]
        demand = episode.demand[i][: max(slots - begin, 0)]
        there = slice(begin, begin + len(demand))
        category = categories(demand[None], largest, step_seconds, thresholds)[0]
        composition[np.arange(slots)[there], m, category] += 1
        cpu, memory = shares(demand, largest)
        heavy = memory * _trait(str(episode.source_workload[i]), seed)
        sums[:, there, m] += np.stack([cpu * heavy, heavy, cpu])
    return composition, sums


def _trait(name: str, seed: int) -> float:
    """> 0, the same for every workload that stems from the same workload of the trace."""
    return float(np.exp(TRAIT * np.random.default_rng([seed, zlib.crc32(name.encode())]).normal()))
