"""What an application used before: in the hours of the days before, the workload itself and its replicas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tvwrl.compiled import njit
from tvwrl.traces.statistics import DAY_SECONDS
from tvwrl.traces.windows import Window, first_of_application
from tvwrl.types import Bool, Float, Float32, Int, Trace

DAYS = 2  # before a window that are told: more are seldom known where series are short


class EarlierUsage:
    """Usage of the applications of a trace in the `DAYS` days before some moment, by the hours of the day.

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
    (n, 2, 48, 2)
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
        """(n, DAYS, day, D) units: usage in each slot of the day, in the last 24 hours before each window began first.

        The mean of the workload of the window and of all others of its application that ran in the slot; NaN where none
        did.

        Parameters
        ----------
        windows : sequence of Window
            n windows.
        """
        out = np.full((len(windows), DAYS, self.day, len(self._unit)), np.nan, np.float32)
        for row, window in zip(out, windows, strict=True):
            slot, usage = self._of(int(self._application[window.workload]))
            begun = window.source_slot if window.told_before is None else window.told_before
            first, last = np.searchsorted(slot, [begun // self._ratio - DAYS * self.day, begun // self._ratio])
            hour = _hour(slot[first:last], self._ratio * self._trace.slot_seconds, self.day)
            _fill(begun // self._ratio, slot[first:last], hour, usage[first:last], row)
        return out

    def _of(self, application: int) -> tuple[Int, Float]:
        """(T,) slots of the environment, rising, and (T, D) mean usage of an application's workloads in them."""
        if application not in self._known:
            slots, usage = zip(*(self._series(i) for i in self._members[application].tolist()), strict=True)
            self._known[application] = _mean_by_slot(np.concatenate(slots), np.concatenate(usage))
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


def _mean_by_slot(slot: Int, usage: Float) -> tuple[Int, Float]:
    """(T,) the slots (R,), rising, each once, and (T, D) the mean usage (R, D) in them."""
    order = np.argsort(slot, kind="stable")
    found, first = np.unique(slot[order], return_index=True)
    if not len(found):
        return found, usage
    count = np.diff(np.append(first, len(slot)))
    return found, np.add.reduceat(usage[order], first, axis=0) / count[:, None]


def _hour(slot: Int, step_seconds: int, day: int) -> Int:
    """(R,) slots of the day, 0..day - 1, in which slots (R,) begin; they need not divide a day."""
    hour: Int = slot * step_seconds % DAY_SECONDS * day // DAY_SECONDS
    return hour


@njit
def _fill(begun: int, slot: Int, hour: Int, usage: Float, out: Float32) -> None:
    """Put usage (R, D) of slots (R,) before slot `begun` into `out` (DAYS, day, D), by days before and hours."""
    days, day, resources = out.shape
    for r in range(len(slot)):  # where two slots are of one hour, the later one counts
        before = (begun - 1 - slot[r]) // day
        if 0 <= before < days:
            for d in range(resources):
                out[before, hour[r], d] = usage[r, d]


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
    step_seconds : int
        Length of a slot, seconds.

    Examples
    --------
    >>> demand = np.array([[[1.0], [2.0]], [[5.0], [5.0]]])
    >>> used = OwnersUsage(["web", "db"], np.array([0, 0]), demand, np.array([2, 2]), 28_800)
    >>> used.before("web", 1)[0, :, 0].tolist()
    [1.0, nan, nan]
    """

    def __init__(self, owner: Sequence[str], first: Int, demand: Float, length: Int, step_seconds: int) -> None:
        self._step, self._resources = step_seconds, demand.shape[2]
        self._day = max(1, round(DAY_SECONDS / step_seconds))  # slots
        self._rows: dict[str, tuple[Int, Float]] = {}
        members: dict[str, list[int]] = {}
        for i, name in enumerate(owner):
            if name:
                members.setdefault(name, []).append(i)
        for name, pods in members.items():
            slot = np.concatenate([first[i] + np.arange(length[i]) for i in pods])
            self._rows[name] = _mean_by_slot(slot, np.concatenate([demand[i, : length[i]] for i in pods]))

    def before(self, owner: str, first: int) -> Float32:
        """(DAYS, day, D) units: what pods of an owner used before some slot, as of `EarlierUsage.before`.

        Parameters
        ----------
        owner : str
            The owner.
        first : int
            The slot.
        """
        out = np.full((DAYS, self._day, self._resources), np.nan, np.float32)
        if owner in self._rows:
            slot, usage = self._rows[owner]
            begin, end = np.searchsorted(slot, [first - DAYS * self._day, first])
            _fill(first, slot[begin:end], _hour(slot[begin:end], self._step, self._day), usage[begin:end], out)
        return out
