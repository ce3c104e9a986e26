"""The referee: computes what placements were worth day by day, from the pods' usage alone.

It shares no code with the simulation, so a fault there shows here. Letters: N pods, M machines, T slots of the record,
D = 2 resources (CPU first, then memory).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvwrl.types import Float, Int

DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 86400, 3600, 60
NEARLY = 0.1  # of a day that may be missing at the end of the record
TOLERANCE = 1e-9  # share of the capacity; rounding of sums is no overshoot


@dataclass(frozen=True, eq=False)
class Day:
    """What placements were worth on one day; a machine is in use while at least one pod runs there that may move."""

    needed: int  # most machines in use at a time
    in_use: float  # mean number of machines in use
    machine_hours: float
    cpu_over: float  # hours times machines whose load is above the limit
    memory_over: float
    requests_over: float  # hours times machines whose pods requested more than they have
    wait_mean: float  # minutes from arrival to start, of pods that arrived on this day; NaN: none did
    wait_p95: float
    arrived: int
    unplaced: int  # of these, not placed before the record ended
    hours: Float  # (M,) for which each machine was in use; their sum is `machine_hours`


@dataclass(frozen=True, eq=False)
class Judged:
    """Everything that the referee looks at, but for the placements."""

    demand: Sequence[Float]  # N of (length, D), shares of the reference machine
    arrival: Int  # (N,) slot
    request: Float  # (N, D) shares, NaN = not declared
    size: Float  # (M, D) shares
    background: Float  # (T, M, D) shares: load of what is never moved
    reserved: Float  # (T, M, D) shares: what that requested
    interval: int  # length of a slot, seconds
    limit: float = 1.0  # share of a machine's size above which load is overshoot

    @property
    def day_slots(self) -> int:
        """Slots of a day; all of the record if it is shorter."""
        return min(max(DAY_SECONDS // self.interval, 1), len(self.background))

    @property
    def days(self) -> int:
        """Whole days of the record, of which the last may lack a tenth; 1 if it is shorter."""
        return int((len(self.background) + NEARLY * self.day_slots) // self.day_slots)


def judge(judged: Judged, machine: Int, start: Int) -> list[Day]:
    """What each of the `days` was worth if pod i runs on `machine[i]` from slot `start[i]` on; -1: never placed.

    What a pod would still do after the end of the record does not count.
    """
    slots = len(judged.background)
    load, requests = judged.background.copy(), judged.reserved.copy()
    declared = np.nan_to_num(judged.request)
    for i in np.flatnonzero((start >= 0) & (start < slots)).tolist():
        end = min(int(start[i]) + len(judged.demand[i]), slots)
        load[start[i] : end, machine[i]] += judged.demand[i][: end - start[i]]
        requests[start[i] : end, machine[i]] += declared[i]
    busy = in_use(judged, machine, start)
    over = load > judged.size * (judged.limit + TOLERANCE)
    crowded = (requests > judged.size * (1 + TOLERANCE)).any(axis=2) & busy
    wait = np.where(start >= 0, (start - judged.arrival) * judged.interval / MINUTE_SECONDS, np.nan)
    wait[start >= slots] = np.nan  # placed only after the record: what it would have done counts nowhere
    return [_day(judged, day, busy, over, crowded, wait) for day in range(judged.days)]


def in_use(judged: Judged, machine: Int, start: Int) -> npt.NDArray[np.bool_]:
    """(T, M) whether a pod runs on each machine that may move, with placements as of `judge`."""
    slots = len(judged.background)
    change = np.zeros((slots + 1, len(judged.size)), np.int64)
    placed = np.flatnonzero((start >= 0) & (start < slots))
    length = np.array([len(judged.demand[i]) for i in placed.tolist()], np.int64)
    np.add.at(change, (start[placed], machine[placed]), 1)
    np.add.at(change, (np.minimum(start[placed] + length, slots), machine[placed]), -1)
    found: npt.NDArray[np.bool_] = change.cumsum(axis=0)[:slots] > 0
    return found


def _day(
    judged: Judged,
    day: int,
    busy: npt.NDArray[np.bool_],
    over: npt.NDArray[np.bool_],
    crowded: npt.NDArray[np.bool_],
    wait: Float,
) -> Day:
    rows = slice(day * judged.day_slots, (day + 1) * judged.day_slots)
    hours, count = judged.interval / HOUR_SECONDS, busy[rows].sum(axis=1)
    each = busy[rows].sum(axis=0) * hours
    today = (judged.arrival >= rows.start) & (judged.arrival < rows.stop)
    waits = wait[today & ~np.isnan(wait)]
    return Day(
        needed=int(count.max()),
        in_use=float(count.mean()),
        machine_hours=float(count.sum() * hours),
        cpu_over=float(over[rows, :, 0].sum() * hours),
        memory_over=float(over[rows, :, 1].sum() * hours),
        requests_over=float(crowded[rows].sum() * hours),
        wait_mean=float(waits.mean()) if len(waits) else float("nan"),
        wait_p95=float(np.percentile(waits, 95)) if len(waits) else float("nan"),
        arrived=int(today.sum()),
        unplaced=int((today & np.isnan(wait)).sum()),
        hours=each,
    )
