"""The scheduler interface, and schedulers that serve the head of the queue first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tvwrl.schedulers.knowledge import Knowledge
from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.types import Float, Int, Placement, Workload

Filter = Callable[[Cluster, Workload], Mask]  # (M,) machines that may take the workload
Score = Callable[[Cluster, Workload], Float]  # (M,) higher is better


class Scheduler(ABC):
    """Decides which machine gets a waiting workload.

    Example, a scheduler that always takes the first machine::

        class First(HeadOfQueue):
            name, knowledge = "first", CURRENT_LOAD

            def choose(self, cluster, workload):
                return 0
    """

    name: str
    knowledge: Knowledge  # what it may know
    looks_at_grid = False  # whether the simulation must draw label grids for it
    needs_forecasts = False  # whether the simulation must sum forecasts of demand by machine

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare for a new episode on `cluster`. Stateless schedulers need not override this."""
        return

    @abstractmethod
    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterable[Placement]:
        """Placements for the current slot; each is applied before the next one is asked for."""

    def alternatives(self, cluster: Cluster, waiting: Sequence[Workload], choice: Placement, count: int) -> Int:
        """(n <= count,) different machines for the workload of `choice`: the chosen one, then the next best in order.

        By default the scheduler is asked again with the machines found so far switched off, until it would wait.
        """
        machines = [choice.machine]
        while len(machines) < min(count, len(cluster.machines)):
            placements = self.schedule(cluster.without(machines), waiting)
            machine = next((p.machine for p in placements if p.workload is choice.workload), None)
            if machine is None or machine in machines:
                break
            machines.append(machine)
        return np.array(machines, dtype=np.int64)


class HeadOfQueue(Scheduler):
    """First in, first out: places the head of the queue, again and again, until it has to wait."""

    @abstractmethod
    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """The machine for the head of the queue; None if it waits."""

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        for workload in pending:
            machine = self.choose(cluster, workload)
            if machine is None:
                return
            yield Placement(workload, machine)


class Greedy(HeadOfQueue):
    """The head of the queue goes to the machine with the best score among those that pass the filter."""

    def __init__(self, name: str, knowledge: Knowledge, passes: Filter, score: Score) -> None:
        self.name, self.knowledge, self._passes, self._score = name, knowledge, passes, score

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        return best(self._passes(cluster, workload), self._score(cluster, workload))


def best(passing: Mask, score: Float) -> int | None:
    """The machine with the highest score (M,) among those that pass (M,), the first of equals; None if none passes."""
    return int(np.where(passing, score, -np.inf).argmax()) if passing.any() else None
