"""Series of usage, checked, and windows cut from them, as classifiers and forecasters are shown them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.traces.splits import UNSEEN
from tvwrl.traces.statistics import DAY_SECONDS
from tvwrl.types import Bool, Float, Float32, InputError, Int, Trace

STANDS_IN = 95.0  # percentile of lifetime peak over first demand that stands in for undeclared requests


def checked_series(
    series: Sequence[npt.ArrayLike], resources: int | None = None, what: str = "workload", least: float = -np.inf
) -> list[Float]:
    """The series as float arrays (length, D) of finite values >= `least`, with lengths >= 1 and one D (`resources`).

    Raises InputError naming the first series, slot and resource for which that does not hold.
    """
    if len(series) == 0:
        raise InputError(f"no series: at least one {what} is needed")
    result: list[Float] = []
    for i, one in enumerate(series):
        try:
            values = np.asarray(one, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{what} {i}: its series is not an array of numbers ({error})") from None
        if resources is None and values.ndim == 2:
            resources = values.shape[1]
        if values.ndim != 2 or values.size == 0 or values.shape[1] != resources:
            wanted = "D" if resources is None else resources
            raise InputError(f"{what} {i}: its series has shape {values.shape}, must be (length, {wanted}), neither 0")
        bad = ~(np.isfinite(values) & (values >= least))
        if bad.any():
            slot, resource = np.argwhere(bad)[0]
            limit = "finite" if least == -np.inf else f"finite and >= {least:g}"
            raise InputError(
                f"{what} {i}, slot {slot}, resource {resource}: usage is {values[slot, resource]}, must be {limit}; "
                "fill or cut gaps first"
            )
        result.append(values)
    return result


@dataclass(frozen=True)
class Window:
    """A workload cut from a series: where from, and what it needs."""

    workload: int
    source_slot: int
    demand: Float  # (length, D) units
    fold: int = UNSEEN  # of its series where it was cut for training; UNSEEN where for validation or test
    told_before: int | None = None  # slot up to which earlier usage may be told; None: its first one


@dataclass(frozen=True, eq=False)
class Windows:
    """What is known of windows, with any leading axes (...); windows shorter than L slots are padded."""

    demand: Float  # (..., L, D) units, 0 after the end
    length: Int  # (...) slots, 1..L
    metadata: Float  # (..., D + 2) as of `metadata_of`
    clock: Float  # (...) time of day at the first slot, as a share of a day, 0 <= clock < 1
    fold: Int  # (...) fold of its training series: 0..FOLDS - 1; UNSEEN: it is in none
    series: Int  # (...) number of its workload in the trace
    application: Int = None  # type: ignore[assignment]  # (...) number of a workload of the same application, its own
    # where it has none; that is the default
    past: Float32 | None = None  # (..., days, day, D) usage before, as of `EarlierUsage`; None: nothing is told of it

    def __post_init__(self) -> None:
        if self.application is None:
            object.__setattr__(self, "application", self.series)

    def __len__(self) -> int:
        return len(self.length)

    def __iter__(self) -> Iterator[Windows]:
        """One by one along the first of several leading axes."""
        return (self[row] for row in range(len(self)))

    def __getitem__(self, rows: Any) -> Windows:
        """The windows at some places of the leading axes, by any index of an array."""
        return Windows(**{name: part[rows] for name, part in self._parts().items()})

    def without_folds(self) -> Windows:
        """The same windows as if nothing had been fitted on them: one forecaster learns from all."""
        return replace(self, fold=np.full_like(self.fold, UNSEEN))

    def reshape(self, *leading: int) -> Windows:
        """The same windows with other leading axes."""
        axes = self.length.ndim
        parts = self._parts().items()
        return Windows(**{name: part.reshape(*leading, *part.shape[axes:]) for name, part in parts})

    def _parts(self) -> dict[str, Any]:
        """Every array that there is, by the name of its field."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def told(self) -> Bool:
        """(...) whether something is known of what the application used before."""
        if self.past is None:
            return np.zeros(self.length.shape, np.bool_)
        return np.asarray(np.isfinite(self.past).any(axis=(-3, -2, -1)))


def metadata_of(trace: Trace, workloads: Int, unit: Float) -> Float:
    """(..., D + 2) what is declared of workloads (...): requests in units, priority, scheduling class; NaN = not."""
    declared = (trace.priority[workloads][..., None], trace.scheduling_class[workloads][..., None])
    metadata: Float = np.concatenate((trace.request[workloads] / unit, *declared), axis=-1)
    return metadata


def peak_over_first(windows: Sequence[Window]) -> Float:
    """(D,) 1 or more: 95 % of the windows never need more than this times their demand in the first slot.

    For each resource, windows without demand in the first slot do not count; 1 if none is left.
    """
    first = np.array([window.demand[0] for window in windows])
    peak = np.array([window.demand.max(axis=0) for window in windows])
    ratios = [peak[counts, d] / first[counts, d] for d, counts in enumerate(first.T > 0)]
    factor: Float = np.array([np.percentile(ratio, STANDS_IN) if ratio.size else 1.0 for ratio in ratios])
    return factor


def stack_windows(windows: Sequence[Window], trace: Trace, unit: Float, past: Float32 | None = None) -> Windows:
    """The n windows, at least one, of a trace in one table (n,); `unit` (D,) is the input value of one unit, `past`
    what is told of earlier usage."""
    length = np.array([len(window.demand) for window in windows], dtype=np.int64)
    demand = np.zeros((len(windows), int(length.max()), len(trace.resources)))
    for row, window in zip(demand, windows, strict=True):
        row[: len(window.demand)] = window.demand
    series = np.array([window.workload for window in windows], dtype=np.int64)
    begin = np.array([window.source_slot for window in windows], dtype=np.int64)
    clock = begin * trace.slot_seconds % DAY_SECONDS / DAY_SECONDS
    fold = np.array([window.fold for window in windows], dtype=np.int64)
    application = first_of_application(trace)[series]
    return Windows(demand, length, metadata_of(trace, series, unit), clock, fold, series, application, past)


def first_of_application(trace: Trace) -> Int:
    """(n,) for each workload of a trace the first one of its application: itself, where it has none."""
    every = np.arange(len(trace))
    names, first, place = np.unique(np.asarray(trace.application, str), return_index=True, return_inverse=True)
    found: Int = np.where(names[place] == "", every, first[place])
    return found
