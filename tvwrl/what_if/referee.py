"""The referee: computes what placements were worth day by day, from the pods' usage alone.

It shares no code with the simulation, so a fault there shows here. Letters: N pods, M machines, T slots of the record,
D = 2 resources (CPU first, then memory).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.types import Float, Int

DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 86400, 3600, 60
NEARLY = 0.1  # of a day that may be missing at the end of the record
OFTEN = 2  # evictions of a pod that are not counted as many
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


class Segments(NamedTuple):
    """Where pods ran: k stretches of the life of one pod on one node, in slots `begin <= t < end` of the record."""

    pod: Int  # (k,) 0..N-1
    node: Int  # (k,) 0..M-1
    begin: Int  # (k,)
    end: Int  # (k,) at most T


def whole_lives(judged: Judged, machine: Int, start: Int) -> Segments:
    """One for each pod: i runs on `machine[i]` from slot `start[i]` to its end, or that of the record; -1: never."""
    slots = len(judged.background)
    pod = np.flatnonzero((start >= 0) & (start < slots))
    length = np.array([len(judged.demand[i]) for i in pod.tolist()], np.int64)
    return Segments(pod, machine[pod], start[pod], np.minimum(start[pod] + length, slots))


def judge(judged: Judged, machine: Int, start: Int, segments: Segments | None = None) -> list[Day]:
    """What each of the `days` was worth if pod i runs on `machine[i]` from slot `start[i]` on; -1: never placed.

    What a pod would still do after the end of the record does not count. `segments`: where pods ran that were moved;
    None: all stay where they began.
    """
    slots = len(judged.background)
    ran = whole_lives(judged, machine, start) if segments is None else segments
    load, first = judged.background.copy(), start.tolist()
    for i, m, begin, end in zip(*(column.tolist() for column in ran), strict=True):
        load[begin:end, m] += judged.demand[i][begin - first[i] : end - first[i]]
    requests = judged.reserved + _at_a_time(judged, ran, np.nan_to_num(judged.request)[ran.pod])
    busy = in_use(judged, ran)
    over = load > judged.size * (judged.limit + TOLERANCE)
    crowded = (requests > judged.size * (1 + TOLERANCE)).any(axis=2) & busy
    wait = np.where(start >= 0, (start - judged.arrival) * judged.interval / MINUTE_SECONDS, np.nan)
    wait[start >= slots] = np.nan  # placed only after the record: what it would have done counts nowhere
    return [_day(judged, day, busy, over, crowded, wait) for day in range(judged.days)]


def in_use(judged: Judged, ran: Segments) -> npt.NDArray[np.bool_]:
    """(T, M) whether a pod runs on each machine that may move."""
    found: npt.NDArray[np.bool_] = _at_a_time(judged, ran, np.ones((len(ran.pod), 1)))[:, :, 0] > 0
    return found


def _at_a_time(judged: Judged, ran: Segments, amount: Float) -> Float:
    """(T, M, c) sums of what is on each machine, of amounts (k, c) of the segments."""
    change = np.zeros((len(judged.background) + 1, len(judged.size), amount.shape[1]))
    np.add.at(change, (ran.begin, ran.node), amount)
    np.add.at(change, (ran.end, ran.node), -amount)
    found: Float = change.cumsum(axis=0)[:-1]
    return found


@dataclass(frozen=True)
class Churn:
    """What moves have done to the pods."""

    evictions: int
    evicted: int  # pods that were evicted at least once
    often: int  # pods that were evicted more than `OFTEN` times
    returns: int  # evictions after which a pod came to a node that it had been evicted from before
    emptied: int  # times that the last pod left a node from which one was evicted since it was last empty
    opened_again: int  # of these, how many were followed by a pod that came there


def churn(judged: Judged, ran: Segments) -> Churn:
    """Count what moves have done, from where pods ran: a pod with several segments was evicted between them."""
    order = np.lexsort((ran.begin, ran.pod))
    pod, node, begin = ran.pod[order], ran.node[order], ran.begin[order]
    came = np.append(False, pod[1:] == pod[:-1])  # by an eviction
    times = np.bincount(pod[came], minlength=1)
    left, returns = set[tuple[int, int]](), 0
    for k in np.flatnonzero(came).tolist():
        left.add((int(pod[k]), int(node[k - 1])))
        returns += (int(pod[k]), int(node[k])) in left
    emptied = opened = 0
    busy, moved = in_use(judged, ran), np.flatnonzero(came)
    for m in np.unique(node[moved - 1]).tolist():
        edges = np.diff(np.concatenate([[0], busy[:, m], [0]]))
        begins, ends = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
        leaving = begin[moved][node[moved - 1] == m]
        for first, last in zip(begins.tolist(), ends.tolist(), strict=True):
            if last < len(busy) and ((first < leaving) & (leaving <= last)).any():
                emptied += 1
                opened += bool((begins > last).any())
    return Churn(int(came.sum()), int((times > 0).sum()), int((times > OFTEN).sum()), returns, emptied, opened)


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
