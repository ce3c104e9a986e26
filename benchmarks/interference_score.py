"""Time of scoring one batch task against many machines, cold and warm, and of placing instances one by one.

Trees are learnt from generated observations as deep as they are in use. Cold: nothing of the last call is in the
processor's cache; warm: the same call again. Times are processor time of one core, medians and least of --repeats.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tyro
from timing import measure

from tvwrl.interference import placement_kernels as kernels
from tvwrl.interference.observations import CATEGORIES, Levels, MonitoredMachines, Observations, idle_machines
from tvwrl.interference.placement_kernels import place_instances
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.score import InterferenceScore
from tvwrl.interference.score_kernels import score_machines
from tvwrl.markdown import markdown_table
from tvwrl.schedulers.load_scores import no_history

PER_MACHINE = 20
KINDS = {
    "random": kernels.RANDOM,
    "spread": kernels.SPREAD,
    "stack": kernels.STACK,
    "LoadAware": kernels.LOAD_AWARE,
}


def learnt(services: int, rng: np.random.Generator) -> LevelPredictor:
    """Trees of services slowed by a random mixture of categories."""
    records = 600 * services
    composition = rng.poisson(1.0, (records, CATEGORIES))
    service = np.arange(records) % services
    harm = rng.random((services, CATEGORIES)) ** 3
    ms = (5.0 + (composition * harm[service]).sum(axis=1)) * np.exp(0.2 * rng.normal(size=records))
    names = tuple(map(str, range(services)))
    cpu = composition.sum(axis=1).astype(np.float64)
    zeros = np.zeros(records)
    seen = Observations(zeros, zeros.astype(int), service, ms, composition, cpu, names, np.ones(services))
    return LevelPredictor().fit(seen, Levels.of(seen))


def cluster(count: int, services: int, rng: np.random.Generator) -> MonitoredMachines:
    """Machines with `PER_MACHINE` services and about 60 batch instances each."""
    cpu = rng.uniform(20.0, 60.0, count)
    composition = rng.poisson(1.0, (count, CATEGORIES)).astype(np.int32)
    service = rng.integers(0, services, count * PER_MACHINE)
    idle = idle_machines(96.0, 1000.0, np.arange(count + 1) * PER_MACHINE, service)
    return idle._replace(cpu=cpu, composition=composition)


def main(machines: int = 10_000, services: int = 150, repeats: int = 50) -> None:
    """Print two tables."""
    rng = np.random.default_rng(0)
    trees = learnt(services, rng).trees_
    large = cluster(machines, services, rng)
    weight, which, out = np.ones(len(large.service)), np.arange(machines), np.empty(machines)
    score_machines(large, trees, weight, 0, which, out)
    scale, names = np.linspace(1.0, 10.0, 50), tuple(map(str, range(services)))
    score = InterferenceScore(trees, np.ones(services), names, 10, scale, 10 * scale)
    score.of(large, 0.0, 0)
    calls: dict[str, Callable[[int], object]] = {
        "mean levels": lambda category: score_machines(large, trees, weight, category, which, out),
        "scores 0 to 100": lambda category: score.of(large, 0.0, category),
    }
    took: dict[tuple[str, str], list[float]] = {(what, how): [] for what in calls for how in ("cold", "warm")}
    wash = np.zeros(8_000_000)  # larger than the processor's caches
    for repeat in range(repeats):
        for (what, how), times in took.items():
            if how == "cold":
                wash += 1.0
            times.append(1000 * measure(calls[what], repeat % CATEGORIES).cpu)
    body = [[*about, f"{np.median(times):.2f}", f"{min(times):.2f}"] for about, times in took.items()]
    print(f"One task against {machines} machines with {PER_MACHINE} services each, ms:\n")
    print(markdown_table(("what", "cache", "median", "least"), body) + "\n")

    small, history, placed = cluster(600, services, rng), no_history(600), np.empty(20, np.int64)
    weight, body = np.ones(len(small.service)), []
    for name, kind in KINDS.items():
        cells = [name]
        for candidates in (1, 10):
            free = small._replace(cpu=small.cpu.copy(), used_memory=np.zeros(600), composition=small.composition.copy())
            settings = candidates, 0.0, rng, placed

            def place(
                free: MonitoredMachines = free, kind: int = kind, settings: tuple[object, ...] = settings
            ) -> None:
                for task in range(20):
                    place_instances(free, trees, weight, history, kind, task, 0.001, 0.001, *settings)

            times = [measure(place).cpu / (20 * len(placed)) for _ in range(repeats + 1)][1:]  # the first compiles
            cells.append(f"{1 / np.median(times):,.0f}")
        body.append(cells)
    print("Instances placed per second on 600 machines, 20 of a task (30 times real time needs 18,000):\n")
    print(markdown_table(("scheduler", "alone", "with PISM, 10 candidates"), body))


if __name__ == "__main__":
    tyro.cli(main)
