"""What a search with a time budget keeps: the clock, and the best plan so far."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tvwrl.planning.instance import Fleet
from tvwrl.planning.plan import Plan
from tvwrl.types import Int

Progress = Callable[..., None]  # share of the time gone, 0 to 1, and machines of the best plan
Rows = tuple[Int, Int, Int]  # applications, machines, replicas there
Save = Callable[[Callable[[], Plan]], None]  # takes what makes the plan: saying why replicas are left over takes long


class Clock:
    def __init__(self, seconds: float, progress: Progress | None) -> None:
        self.began, self.start, self.seconds = time.process_time(), time.monotonic(), seconds
        self._progress = progress

    def elapsed(self) -> float:
        """Elapsed share of the time."""
        return (time.monotonic() - self.start) / self.seconds if self.seconds else 1.0

    def report(self, machines: int) -> None:
        if self._progress is not None:
            self._progress(min(self.elapsed(), 1.0), machines)


class BestSoFar:
    """The best plan so far: the fewest replicas left over, then the least cost of machines and moves."""

    def __init__(self, made: Callable[[Rows], Plan], clock: Clock, save: Save | None) -> None:
        self._made, self._clock, self._save = made, clock, save
        self.left, self.cost, self.machines = np.inf, np.inf, 0
        self.rows: Rows | None = None

    def offer(self, left: int, cost: float, machines: int, rows: Callable[[], Rows]) -> bool:
        """Take a plan if it is better."""
        if (left, cost) >= (self.left, self.cost):
            return False
        self.left, self.cost, self.machines, self.rows = left, cost, machines, rows()
        if self._save is not None:
            self._save(self.plan)
        self._clock.report(machines)
        return True

    def plan(self) -> Plan:
        assert self.rows is not None
        return self._made(self.rows)


def cost_of(fleet: Fleet, used: Int) -> float:
    """Cost of the machines `used` (n,), those beyond the last listed like it."""
    return float(fleet.costs[np.minimum(used, len(fleet.costs) - 1)].sum())
