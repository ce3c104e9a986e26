"""Any scheduler with PISM: of the machines that it prefers, take the one with the lowest score (6.1.3)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.checks import at_least
from tvwrl.interference.categories import categories, shares
from tvwrl.interference.observations import CATEGORIES, MonitoredMachines, uniform_machines
from tvwrl.interference.score import InterferenceScore
from tvwrl.schedulers import Scheduler
from tvwrl.simulation import MACHINE, RUNNING, RUNS, SEQUENCE, START, Cluster
from tvwrl.types import InputError, Placement, Workload

CANDIDATES = 10  # number of machines of which PISM takes the one with the lowest score (6.1.3)


class WithInterference(Scheduler):
    """The scheduler `inner`, whose choice is replaced by the machine with the lowest score among those it prefers.

    The simulator has no services: every machine is assumed to run one instance of each service that the score knows.
    Workloads are the batch work, categorised by their use so far (`categories.categories`).

    Parameters
    ----------
    inner : Scheduler
        The scheduler.
    score : InterferenceScore
        What says how much a machine's services suffer.
    count : int, optional
        Candidates, >= 1; default: 10, but at most half of the machines, so that `inner` still matters.

    Raises
    ------
    InputError
        For a score without thresholds of categories, or count < 1.

    Examples
    --------
    >>> WithInterference(make_scheduler("spread"), InterferenceScore.load(Path("score.npz")))  # doctest: +SKIP
    """

    def __init__(self, inner: Scheduler, score: InterferenceScore, count: int | None = None) -> None:
        if score.thresholds is None:
            raise InputError("this interference score has no category thresholds: it cannot categorise workloads")
        at_least(1, candidates=count)
        self.name = f"{inner.name}+pism"
        self.looks_at_grid, self.needs_forecasts = inner.looks_at_grid, inner.needs_forecasts
        self.knowledge = inner.knowledge._replace(note=f"{inner.knowledge.note}; scores of interference")
        self._inner, self._score, self._asked, self._thresholds = inner, score, count, score.thresholds

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Start an episode."""
        self._inner.reset(cluster, rng)
        self._score.restart()
        simulation = cluster.simulation
        sequence = simulation.state.counters[cluster.b, SEQUENCE]
        self._largest = cluster.capacity.max(axis=0)
        demand, step = simulation.sequences.demand[sequence], simulation.scenario.step_seconds
        self._category = categories(demand, self._largest, step, self._thresholds)
        if len(self._category) > 1 and (self._category[:, 0] == self._category[0, 0]).all():
            warnings.warn(
                f"{self.name}: all workloads start in one category of the score's thresholds, so it hardly "
                "distinguishes machines: fit a score on this trace",
                stacklevel=2,
            )
        count = len(cluster.machines)
        self._count = self._asked or min(CANDIDATES, max(2, count // 2))
        self._machines = uniform_machines(np.zeros((count, CATEGORIES), np.int32), len(self._score.services))

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """The inner scheduler's placements, each on the candidate with the lowest score."""
        waiting = list(pending)
        for choice in self._inner.schedule(cluster, pending):
            offered = self._inner.alternatives(cluster, waiting, choice, self._count)
            seconds = float(cluster.slot * cluster.simulation.scenario.step_seconds)
            category = int(self._category[choice.workload.index, 0])
            machine = self._score.choose(self._seen(cluster, seconds), seconds, category, offered)
            waiting = [workload for workload in waiting if workload is not choice.workload]
            yield Placement(choice.workload, machine)

    def _seen(self, cluster: Cluster, seconds: float) -> MonitoredMachines:
        """The machines as the score sees them now: what runs on each, by its latest category, and their usage."""
        state, b = cluster.simulation.state, cluster.b
        running = state.workloads[b, : state.counters[b, RUNNING], RUNS]
        lasted = np.maximum(cluster.measured - state.workloads[b, running, START], 0)
        composition = self._machines.composition
        composition[:] = 0
        np.add.at(composition, (state.workloads[b, running, MACHINE], self._category[running, lasted]), 1)
        cpu, memory = shares(cluster.load, self._largest)
        cores, size = shares(cluster.capacity, self._largest)
        return self._machines._replace(
            cores=cores,
            memory=size,
            cpu=cpu,
            batch_cpu=cpu,
            used_memory=memory,
            last_report=np.full(len(size), seconds),
        )
