"""An episode that was recorded, played again as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvwrl.schedulers import Continuation, Knowledge, Opinion, Runner, Scheduler
from tvwrl.simulation import Cluster
from tvwrl.types import Int, Placement, Workload


class Followed(Scheduler):
    """Does what was recorded: workload i goes to `machine[i]` in slot `start[i]`; -1: never.

    `behind`: the scheduler that was recorded, if it has a `leader`. That can say what it thinks, and goes on after
    alternatives.
    """

    def __init__(
        self, name: str, knowledge: Knowledge, machine: Int, start: Int, behind: Scheduler | None = None
    ) -> None:
        self.name, self.knowledge, self._machine, self._start = name, knowledge, machine, start
        self._behind = behind
        if behind is not None:
            self.leader = behind.leader
            self.looks_at_grid, self.needs_forecasts = behind.looks_at_grid, behind.needs_forecasts

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Prepare what goes on after alternatives."""
        if self.leader is not None:
            self.leader.reset(cluster, rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        for workload in pending:
            if self._start[workload.index] == cluster.slot:
                yield Placement(workload, int(self._machine[workload.index]))

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion | None:
        """See `Scheduler.opinion`."""
        return None if self.leader is None else self.leader.opinion(cluster, workload)

    def continuation(self, runner: Runner, actions: int) -> Continuation:
        """See `Scheduler.continuation`."""
        assert self._behind is not None, "nobody knows how this scheduler would go on"
        return self._behind.continuation(runner, actions)
