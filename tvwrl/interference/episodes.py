"""What monitoring would see of services beside the workloads of episodes. Simulated: no episode has services.

Every machine runs one instance of each of `PER_MACHINE` services, which use no CPU themselves; a law (`laws`) makes
their response times. A workload presses on bandwidth by its cores times its memory, on the cache by its memory, both
times a trait of its own that no category tells: assumed.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tvwrl.interference.categories import Thresholds
from tvwrl.interference.laws import Pressures
from tvwrl.interference.observations import CATEGORIES
from tvwrl.interference.workloads import CORES, categories, shares
from tvwrl.interference.world import NAMED, PER_MACHINE, Seen, Site
from tvwrl.types import Episode, Float, Machines

TRAIT = 0.5  # assumed: standard deviation of the logarithm


def site_of(machines: int, rng: np.random.Generator) -> Site:
    """`machines` of the largest size, each with one instance of every service."""
    names = (*NAMED, *(f"service{number}" for number in range(len(NAMED), PER_MACHINE)))
    return Site(
        services=names,
        quota=np.array([NAMED.get(name, 2.0 ** rng.integers(0, 6)) for name in names]),
        first=np.arange(machines + 1) * PER_MACHINE,
        service=np.tile(np.arange(PER_MACHINE), machines),
        use=np.zeros(machines * PER_MACHINE),
        lots=np.linspace(0, 1, machines + 1)[1:],
        cores=CORES,
        memory=100.0,
    )


def look_at(
    episodes: Sequence[Episode], machines: Machines, step_seconds: int, thresholds: Thresholds, seed: int
) -> Seen:
    """The machines in every slot up to each episode's last arrival, one episode after the other.

    `seed`: of the workloads' traits. Compositions are what a scheduler would count, pressures what the law sees.
    """
    parts = [_look_at(episode, machines, step_seconds, thresholds, seed) for episode in episodes]
    composition = np.concatenate([counts for counts, _ in parts])
    bandwidth, cache, cpu = (np.concatenate([sums[number] for _, sums in parts]) for number in range(3))
    cores = np.maximum(shares(machines.capacity, machines.capacity.max(axis=0))[0], 1e-9)  # 0: switched off
    return Seen(
        seconds=step_seconds * np.arange(float(len(cpu))),
        composition=composition,
        batch_cpu=cpu,
        pressures=Pressures(bandwidth=bandwidth, cache=cache, queue=cpu / cores, cpu=cpu / cores),
    )


def _look_at(
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
    """> 0, the same whenever a workload of that name of the trace comes."""
    return float(np.exp(TRAIT * np.random.default_rng([seed, zlib.crc32(name.encode())]).normal()))
