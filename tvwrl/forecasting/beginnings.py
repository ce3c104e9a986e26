"""Beginnings of windows: what a forecaster may know, and what came after.

Letters: n windows, m beginnings, L slots of the longest window, J segments, D resources, V levels of demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import njit
from tvwrl.forecasting.features import PER_RESOURCE, masked, prefix_features
from tvwrl.forecasting.segments import HORIZON, SEGMENTS
from tvwrl.traces import Windows
from tvwrl.types import Float, Int

PER_WINDOW = 6  # beginnings of a window that a forecaster learns from


@dataclass(frozen=True, eq=False)
class Beginnings:
    """The first `seen` slots of some windows, at least one each, with all that was declared.

    The demand of a workload's first slot counts as known while it waits, as it does for best-fit.
    """

    windows: Windows  # (n,)
    row: Int  # (m,) the window
    seen: Int  # (m,) slots seen, 1..length

    @classmethod
    def draw(cls, windows: Windows, rng: np.random.Generator, each: int = PER_WINDOW) -> Beginnings:
        """`each` beginnings of every window: its first slot, and lengths whose logarithms are drawn evenly."""
        length = windows.length[:, None]
        seen = np.exp(rng.uniform(0, np.log(length), (len(windows), each))).round().astype(np.int64)
        seen[:, 0] = 1
        return cls(windows, np.repeat(np.arange(len(windows)), each), seen.ravel())

    @classmethod
    def every(cls, windows: Windows) -> Beginnings:
        """All beginnings of all windows, by window and then by length."""
        row, before = np.nonzero(np.arange(windows.demand.shape[1]) < windows.length[:, None])
        return cls(windows, row, before + 1)

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, rows: Int | slice) -> Beginnings:
        return Beginnings(self.windows, self.row[rows], self.seen[rows])

    @property
    def fold(self) -> Int:
        """(m,) the fold of the window's series; UNSEEN where nothing was fitted on it."""
        fold: Int = self.windows.fold[self.row]
        return fold

    @property
    def last(self) -> Float:
        """(m, D) units: demand in the last slot seen."""
        last: Float = self.windows.demand[self.row, self.seen - 1]
        return last

    @cached_property
    def _prefixes(self) -> Float:
        return prefix_features(self.windows.demand).astype(np.float32)

    @staticmethod
    def input_count(resources: int) -> int:
        """I, the number of `inputs`."""
        seen = 1 + resources * PER_RESOURCE + len(SEGMENTS) * (2 * resources + 1)
        return seen + 2 * (resources + 2) + 2  # what was declared, with a mask; the time

    def inputs(self, slots_per_day: float) -> npt.NDArray[np.float32]:
        """(m, I) `prefix_features`, `yesterday`, what was declared (0 where it was not, with a mask), and the time."""
        angle = 2 * np.pi * (self.windows.clock[self.row] + self.seen / slots_per_day)
        declared = masked(self.windows.metadata)[self.row]
        parts: list[npt.NDArray[np.floating]] = [
            self._prefixes[self.row, self.seen],
            self.yesterday(max(1, round(slots_per_day))),
        ]
        parts += [declared, np.sin(angle)[:, None], np.cos(angle)[:, None]]
        inputs: npt.NDArray[np.float32] = np.concatenate(parts, axis=1, dtype=np.float32)
        return inputs

    def yesterday(self, day: int) -> npt.NDArray[np.float32]:
        """(m, 2 J D + J) largest and mean demand in the same slots of the day before, segment by segment, and whether
        they were all seen; 0 where they were not. `day`: slots in a day.
        """
        resources = self.windows.demand.shape[-1]
        out = np.zeros((len(self), len(SEGMENTS) * (2 * resources + 1)), np.float32)
        _fill_yesterday(self._demand, self.row, self.seen, day, np.array(SEGMENTS), out)
        return out

    @cached_property
    def _demand(self) -> npt.NDArray[np.float32]:
        return self.windows.demand.astype(np.float32)

    @cached_property
    def _padded(self) -> Float:
        return np.pad(self.windows.demand, ((0, 0), (0, HORIZON), (0, 0)))

    def ahead(self, first: int, last: int) -> Float:
        """(m, slots, D) units: demand `first` to `last` slots after the last one seen, 0 once the workload ended."""
        slots = self.seen[:, None] - 1 + np.arange(first, last + 1)
        found: Float = self._padded[self.row[:, None], np.minimum(slots, self._padded.shape[1] - 1)]
        return found


@dataclass(frozen=True)
class Outcomes:
    """What came after m beginnings; `most` and `peak` in units, 0 where the workload had ended."""

    most: Float  # (m, J, D) largest demand in a segment
    mean: Float  # (m, J, D) mean demand in a segment
    peak: Float  # (m, D) largest demand of the rest, the last slot seen included
    alive: npt.NDArray[np.bool_]  # (m, J) whether it ran at the segment's first slot

    @classmethod
    def of(cls, beginnings: Beginnings) -> Outcomes:
        """What came after these. This is the future: only fitting and judging may look at it."""
        segments = [beginnings.ahead(first, last) for first, last in SEGMENTS]
        rest = np.flip(np.maximum.accumulate(np.flip(beginnings.windows.demand, 1), axis=1), 1)
        left = beginnings.windows.length[beginnings.row] - beginnings.seen
        return cls(
            np.stack([slots.max(axis=1) for slots in segments], axis=1),
            np.stack([slots.mean(axis=1) for slots in segments], axis=1),
            rest[beginnings.row, beginnings.seen - 1],
            left[:, None] >= np.array([first for first, _ in SEGMENTS]),
        )

    def levels(self, levels: int, peak_units: int) -> tuple[Int, Int]:
        """(m, J, D) levels of `most` and (m, D) of `peak`; 0 only where it had ended, even if it needed nothing."""
        most, peak = (levels_of(units, levels, peak_units) for units in (self.most, self.peak))
        return np.maximum(most, self.alive[..., None]), np.maximum(peak, 1)


@njit
def _fill_yesterday(demand, row, seen, day, segments, out):  # type: ignore[no-untyped-def]
    """See `Beginnings.yesterday`.

    `demand`: (n, L, D) of the windows
    `row`, `seen`: (m,) as of `Beginnings`
    `day`: slots in a day
    `segments`: (J, 2) slots ahead, first and last
    `out`: (m, 2 J D + J)
    """
    resources, each = demand.shape[2], len(segments)
    means, knowns = each * resources, 2 * each * resources
    for i in range(len(row)):
        last = seen[i] - 1
        for j in range(each):
            first, end = segments[j]
            earliest = last
            for ahead in range(first, end + 1):
                earliest = min(earliest, last + ahead - day * -(-ahead // day))  # the same slot of the last day seen
            if earliest < 0:
                continue
            out[i, knowns + j] = 1.0
            for d in range(resources):
                most = total = np.float32(0.0)
                for ahead in range(first, end + 1):
                    value = demand[row[i], last + ahead - day * -(-ahead // day), d]
                    most = max(most, value)
                    total += value
                out[i, j * resources + d] = most
                out[i, means + j * resources + d] = total / np.float32(end - first + 1)


def outcome_levels(
    drawn: Sequence[Beginnings], levels: int, peak_units: int
) -> tuple[Int, Int, npt.NDArray[np.float32]]:
    """What came after all beginnings of some groups, m in all, to learn from.

    (m, J, D) levels of the largest demand in a segment, (m, D) of the peak, and (m, J, D) mean demand in a segment as a
    share of `peak_units`.
    """
    outcomes = [Outcomes.of(part) for part in drawn]
    most, peak = zip(*(one.levels(levels, peak_units) for one in outcomes), strict=True)
    mean = np.concatenate([one.mean for one in outcomes]) / peak_units
    return np.concatenate(most), np.concatenate(peak), mean.astype(np.float32)


def levels_of(units: Float, levels: int, peak_units: int) -> Int:
    """Demand in units (any shape) as levels: 0 for none, 1..`levels` for equal shares of `peak_units`."""
    found: Int = np.clip(np.ceil(np.round(units / peak_units * levels, 6)), 0, levels).astype(np.int64)
    return found
