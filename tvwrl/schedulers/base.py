"""The scheduler interface, and greedy schedulers composed of an order, a filter and a score."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from tvwrl.simulation.cluster import Cluster, Mask
from tvwrl.types import Float, Placement, Workload

Filter = Callable[[Cluster, Workload], Mask]  # (M,) machines that may take the workload
Score = Callable[[Cluster, Workload], Float]  # (M,) higher is better


class Scheduler(Protocol):
    """Decides which machine gets a waiting workload."""

    name: str
    looks_at_grid: bool  # whether the simulation must draw label grids for it
    needs_forecasts: bool  # whether it must add up forecasts of demand

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Forget the last episode."""
        ...

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterable[Placement]:
        """Placements for the current slot; each is applied before the next one is asked for."""
        ...


class Greedy:
    """First in, first out: the head of the queue goes to the machine with the best score among those that pass.

    If none passes the queue waits. Ties go to the machine with the lowest number.
    """

    looks_at_grid = False
    needs_forecasts = False

    def __init__(self, name: str, passes: Filter, score: Score) -> None:
        self.name, self._passes, self._score = name, passes, score

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Nothing to forget."""

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """Place from the head until one has to wait."""
        for workload in pending:
            passing = self._passes(cluster, workload)
            if not passing.any():
                return
            score = np.where(passing, self._score(cluster, workload), -np.inf)
            yield Placement(workload, int(score.argmax()))
