"""Any scheduler of the simulator with PISM: of its best machines, the one where services would suffer least (6.1.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.interference.candidates import candidates
from tvwrl.interference.categories import Thresholds
from tvwrl.interference.machines import Machines
from tvwrl.interference.observations import CATEGORIES
from tvwrl.interference.score import InterferenceScore
from tvwrl.schedulers import KNOWLEDGE, Knowledge, Scheduler
from tvwrl.simulation import kernels as k
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import Float, InputError, Int, Placement, Workload

CANDIDATES = 10
CORES = 104.0  # of a machine: two of the paper's processors, with 26 cores of two threads each


class WithInterference:
    """The scheduler `inner`, whose choice gives way to that one of its best machines with the lowest score.

    The simulator has no services: every machine is taken to run one instance of each service that the score knows. Its
    workloads are the batch work. The category of one is what it uses in its first slot, or declared where it did, for
    that is what a scheduler may know: CPU in cores of a machine that has `cores` of them (the largest of the cluster),
    memory in percent of it, and a makespan of at least one slot.
    """

    def __init__(
        self, inner: Scheduler, score: InterferenceScore, count: int = CANDIDATES, cores: float = CORES
    ) -> None:
        """Raises InputError for a score without thresholds of categories, or fewer than one candidate."""
        if score.thresholds is None:
            raise InputError("this interference score has no thresholds: workloads cannot be told into categories")
        if count < 1:
            raise InputError(f"candidates is {count}: must be at least 1")
        self.name = f"{inner.name}+pism"
        self.looks_at_grid, self.needs_forecasts = inner.looks_at_grid, inner.needs_forecasts
        known: Knowledge = getattr(inner, "knowledge", None) or KNOWLEDGE[inner.name]
        self.knowledge = known._replace(note=f"{known.note}; scores of interference")
        self._inner, self._score, self._count, self._cores = inner, score, count, cores
        self._thresholds: Thresholds = score.thresholds

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget the last episode."""
        self._inner.reset(cluster, rng)
        self._score.restart()
        simulation = cluster.simulation
        sequence = simulation.state.counters[cluster.b, k.SEQUENCE]
        first = simulation.sequences.demand[sequence, :, 0]
        asked = simulation.sequences.request[sequence]
        self._category = self._categories(np.where(np.isfinite(asked), asked, first), cluster)
        count, services = len(cluster.machines), len(self._score.services)
        self._first = np.arange(count + 1) * services
        self._service = np.tile(np.arange(services, dtype=np.int32), count)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """What the scheduler places, each where the score is lowest among its candidates."""
        waiting = list(pending)
        for choice in self._inner.schedule(cluster, pending):
            offered = candidates(self._inner, cluster, waiting, choice, self._count)
            seconds = float(cluster.slot * cluster.simulation.scenario.step_seconds)
            category = int(self._category[choice.workload.index])
            machine = self._score.choose(self._machines(cluster, seconds), seconds, category, offered)
            waiting = [workload for workload in waiting if workload is not choice.workload]
            yield Placement(choice.workload, machine)

    def _categories(self, use: Float, cluster: Cluster) -> Int:
        """(N,) of workloads that use (N, D) units."""
        share = use / cluster.capacity.max(axis=0)
        seconds = np.full(len(share), float(cluster.simulation.scenario.step_seconds))
        return self._thresholds.category(share[:, 0] * self._cores, 100 * share[:, -1], seconds)

    def _machines(self, cluster: Cluster, seconds: float) -> Machines:
        """The machines as a score sees them, now."""
        simulation, b = cluster.simulation, cluster.b
        running = simulation.state.workloads[b, : simulation.state.counters[b, k.RUNNING], k.RUNS]
        composition = np.zeros((len(cluster.machines), CATEGORIES), np.int32)
        np.add.at(composition, (simulation.state.workloads[b, running, k.MACHINE], self._category[running]), 1)
        largest = cluster.capacity.max(axis=0)
        share, size = cluster.load / largest, cluster.capacity / largest
        cpu = share[:, 0] * self._cores
        return Machines(
            cores=size[:, 0] * self._cores,
            memory=100 * size[:, -1],
            cpu=cpu,
            batch_cpu=cpu,
            used_memory=100 * share[:, -1],
            composition=composition,
            heard=np.full(len(size), seconds),
            first=self._first,
            service=self._service,
            quota=np.ones(len(self._service)),
        )
