"""The scheduler interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np

from tvwrl.schedulers.knowledge import Knowledge
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import Int, Placement, Workload, summary


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

    def __repr__(self) -> str:
        return summary(self, name=self.name, knows=self.knowledge.group)

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
