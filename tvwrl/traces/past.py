"""What an application used before: the same hours of earlier days, of the workload itself and of its replicas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tvwrl.compiled import njit
from tvwrl.traces.statistics import DAY_SECONDS
from tvwrl.traces.windows import Window, first_of_application
from tvwrl.types import Bool, Float, Float32, Int, Trace

LARGEST, USUAL = 0, 1  # places in what is told of an hour: over all earlier days, and their mean


class EarlierUsage:
    """Usage of the applications of a trace before some moment, by the hours of the day.

    Parameters
    ----------
    trace : Trace
        The trace.
    ratio : int
        Slots of the trace in a slot of the environment.
    unit : array of float
        (D,) input value of one unit.
    most : float
        Units that usage is cut to.
    sample : {"mean", "max"}
        What a slot of the environment takes from the trace's.
    hidden : array of bool, optional
        (R,) rows of the trace that nothing is told of.

    Examples
    --------
    >>> earlier = EarlierUsage(trace, 6, unit, most=6, sample="max")  # doctest: +SKIP
    >>> earlier.before(windows).shape  # doctest: +SKIP
    (n, 48, 2, 2)
    """

    def __init__(
        self, trace: Trace, ratio: int, unit: Float, most: float, sample: str, hidden: Bool | None = None
    ) -> None:
        self._hidden = np.zeros(len(trace.slot), np.bool_) if hidden is None else hidden
        self._trace, self._ratio, self._unit, self._most, self._sample = trace, ratio, unit, most, sample
        self.day = max(1, round(DAY_SECONDS / (trace.slot_seconds * ratio)))  # slots
        self._known: dict[int, tuple[Int, Float]] = {}

    @cached_property
    def _application(self) -> Int:
        return first_of_application(self._trace)

    @cached_property
    def _members(self) -> dict[int, Int]:
        order = np.argsort(self._application, kind="stable")
        names, first = np.unique(self._application[order], return_index=True)
        return dict(zip(names.tolist(), np.split(order, first[1:]), strict=True))

    def before(self, windows: Sequence[Window]) -> Float32:
        """(n, day, 2, D) units: largest and usual usage in each slot of the day, before each window began.

        NaN where there was none. Of the workload of the window and of all others of its application.

        Parameters
        ----------
        windows : sequence of Window
            n windows.
        """
        out = np.full((len(windows), self.day, 2, len(self._unit)), np.nan, np.float32)
        for row, window in zip(out, windows, strict=True):
            slot, usage = self._of(int(self._application[window.workload]))
            begun = window.source_slot if window.told_before is None else window.told_before
            count = int(np.searchsorted(slot, begun // self._ratio))
            seconds = slot[:count] * (self._ratio * self._trace.slot_seconds) % DAY_SECONDS
            _fill(seconds * self.day // DAY_SECONDS, usage[:count], row)
        return out

    def _of(self, application: int) -> tuple[Int, Float]:
        """(R,) slots of the environment, rising, and (R, D) usage of an application's workloads in them."""
        if application not in self._known:
            parts = [self._series(i) for i in self._members[application].tolist()]
            slot = np.concatenate([part[0] for part in parts])
            order = np.argsort(slot, kind="stable")
            self._known[application] = slot[order], np.concatenate([part[1] for part in parts])[order]
        return self._known[application]

    def _series(self, workload: int) -> tuple[Int, Float]:
        """The same of one workload; a slot that was not seen whole counts by what was seen of it."""
        begin, end = self._trace.offsets[workload : workload + 2]
        rows = begin + np.flatnonzero(~self._hidden[begin:end])
        slot, first = np.unique(self._trace.slot[rows] // self._ratio, return_index=True)
        if not len(slot):
            return slot, np.zeros((0, len(self._unit)))
        usage = np.asarray(self._trace.usage[rows], np.float64)
        if self._sample == "mean":
            count = np.diff(np.append(first, len(usage)))
            taken = np.add.reduceat(usage, first, axis=0) / count[:, None]
        else:
            taken = np.maximum.reduceat(usage, first, axis=0)
        return slot, np.minimum(taken / self._unit, self._most)


@njit
def _fill(hours: Int, usage: Float, out: Float32) -> None:
    """Largest and mean of `usage` (R, D) by the slots of the day `hours` (R,), into `out` (day, 2, D)."""
    day, _, resources = out.shape
    count = np.zeros(day)
    total = np.zeros((day, resources))
    for r in range(len(hours)):
        hour = hours[r]
        for d in range(resources):
            if count[hour] == 0 or usage[r, d] > out[hour, 0, d]:
                out[hour, 0, d] = usage[r, d]
            total[hour, d] += usage[r, d]
        count[hour] += 1
    for hour in range(day):
        for d in range(resources):
            if count[hour] > 0:
                out[hour, 1, d] = total[hour, d] / count[hour]


class OwnersUsage:
    """The same of pods in a cluster, by their owners (Deployment, StatefulSet, CronJob), from the metrics there are.

    Parameters
    ----------
    owner : sequence of str
        (n,) owner of each pod; "" is unknown.
    first : array of int
        (n,) its first slot, counted from midnight of some day.
    demand : array of float
        (n, L, D) units in its slots.
    length : array of int
        (n,) slots that were seen of it.
    day : int
        Slots in a day.

    Examples
    --------
    >>> demand = np.array([[[1.0], [2.0]], [[5.0], [5.0]]])
    >>> used = OwnersUsage(["web", "db"], np.array([0, 0]), demand, np.array([2, 2]), 3)
    >>> used.before("web", 1)[:, 0, 0].tolist()
    [1.0, nan, nan]
    """

    def __init__(self, owner: Sequence[str], first: Int, demand: Float, length: Int, day: int) -> None:
        self._day, self._resources = day, demand.shape[2]
        self._rows: dict[str, tuple[Int, Float]] = {}
        members: dict[str, list[int]] = {}
        for i, name in enumerate(owner):
            if name:
                members.setdefault(name, []).append(i)
        for name, pods in members.items():
            slot = np.concatenate([first[i] + np.arange(length[i]) for i in pods])
            order = np.argsort(slot, kind="stable")
            used: Float = np.concatenate([demand[i, : length[i]] for i in pods])
            self._rows[name] = slot[order], used[order]

    def before(self, owner: str, first: int) -> Float32:
        """(day, 2, D) units: what pods of an owner used before some slot; NaN where they used nothing.

        Parameters
        ----------
        owner : str
            The owner.
        first : int
            The slot.
        """
        out = np.full((self._day, 2, self._resources), np.nan, np.float32)
        if owner in self._rows:
            slot, usage = self._rows[owner]
            count = int(np.searchsorted(slot, first))
            _fill(slot[:count] % self._day, usage[:count], out)
        return out
