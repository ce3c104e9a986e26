"""Beginnings of windows: what a forecaster may know, as a fixed number of inputs, and what came after.

Letters: n windows, m beginnings, L slots of the longest window, J segments, D resources, V levels of demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import njit
from tvwrl.forecasting.segments import HORIZON, SEGMENTS
from tvwrl.traces import Windows
from tvwrl.types import Bool, Float, Float32, Int

RECENT = 4  # last slots that are seen as they were
PER_RESOURCE = 8 + RECENT
LONGEST = 120  # slots of the longest window that workloads are cut to, about
FARTHEST = 5.0  # standard deviations to which inputs are cut
PER_WINDOW = 6  # beginnings of a window that a forecaster learns from


def prefix_features(demand: Float) -> Float:
    """(N, L + 1, 1 + D * PER_RESOURCE) features of the first 0, 1, ..., L slots of `demand` (N, L, D).

    The logarithm of the slots seen; per resource mean, standard deviation, least, most, mean absolute change, slope,
    autocorrelation one slot apart, last, and the last `RECENT` slots. All are 0 before the first slot.
    """
    count, slots, resources = demand.shape
    out = np.zeros((count, slots + 1, 1 + resources * PER_RESOURCE))
    out[:, 1:, 0] = np.log1p(np.arange(1, slots + 1.0)) / np.log1p(LONGEST)
    _fill_prefix_features(np.ascontiguousarray(demand, np.float64), out)
    return out


@njit
def _fill_prefix_features(demand: Float, out: Float) -> None:
    """Everything but the slots seen.

    `demand`: (N, L, D)
    `out`: (N, L + 1, 1 + D * PER_RESOURCE); see `prefix_features`
    """
    count, slots, resources = demand.shape
    for i in range(count):
        for d in range(resources):
            total = squares = follows = change = timed = 0.0
            least = most = before = demand[i, 0, d] if slots else 0.0
            for t in range(slots):
                now = demand[i, t, d]
                seen = t + 1.0
                total += now
                squares += now**2
                follows += now * before if t else 0.0
                change += abs(now - before)
                timed += now * seen
                least, most = min(least, now), max(most, now)
                pairs = max(seen - 1.0, 1.0)
                mean = total / seen
                variance = max(squares / seen - mean**2, 0.0)
                together = (follows / pairs - mean**2) / variance if variance > 1e-9 else 0.0
                covariance = timed / seen - mean * (seen + 1.0) / 2.0  # with the time
                row = out[i, t + 1, 1 + d :: resources]
                row[0], row[1], row[2], row[3] = mean, np.sqrt(variance), least, most
                row[4] = change / pairs
                row[5] = covariance / max((seen**2 - 1.0) / 12.0, 0.25)  # slope
                row[6] = min(max(together, -1.0), 1.0) if seen > 2 else 0.0
                row[7] = now
                for back in range(1, min(RECENT, t) + 1):
                    row[7 + back] = demand[i, t - back, d]
                before = now


def scale_of(inputs: Float32) -> tuple[Float32, Float32]:
    """(I,) means and standard deviations of inputs (m, I); 1 for those that are constant."""
    spread = inputs.std(axis=0)
    return inputs.mean(axis=0), np.where(spread > 1e-6, spread, 1.0).astype(np.float32)


def scaled(inputs: Float32, shift: Float32, width: Float32) -> Float32:
    """(m, I) inputs in standard deviations from the mean, cut off far away."""
    found: Float32 = np.clip((inputs - shift) / width, -FARTHEST, FARTHEST).astype(np.float32)
    return found


def masked(metadata: Float) -> Float:
    """(..., 2 P) values, 0 where unknown, and a mask, 1 where known."""
    known = np.isfinite(metadata)
    masked: Float = np.concatenate([np.where(known, metadata, 0.0), known], axis=-1)
    return masked


@dataclass(frozen=True, eq=False)
class Beginnings:
    """The first slots of some windows, at least one each, with all that was declared.

    The demand of a workload's first slot counts as known while it waits, as it does for best-fit.

    Parameters
    ----------
    windows : Windows
        (n,) windows.
    row : array of int
        (m,) the window of each beginning, 0..n - 1.
    seen : array of int
        (m,) slots seen of it, 1..length.

    Examples
    --------
    >>> none = np.zeros(1, int)
    >>> window = Windows(np.ones((1, 3, 2)), np.array([3]), np.zeros((1, 4)), np.zeros(1), none, none)  # of 3 slots
    >>> Beginnings.every(window).seen
    array([1, 2, 3])
    """

    windows: Windows
    row: Int
    seen: Int

    @classmethod
    def draw(cls, windows: Windows, rng: np.random.Generator, each: int = PER_WINDOW) -> Beginnings:
        """Some beginnings of every window: its first slot, and lengths whose logarithms are drawn evenly.

        Parameters
        ----------
        windows : Windows
            (n,) windows.
        rng : numpy.random.Generator
            What draws the lengths.
        each : int
            Beginnings of a window, >= 1.
        """
        length = windows.length[:, None]
        seen = np.exp(rng.uniform(0, np.log(length), (len(windows), each))).round().astype(np.int64)
        seen[:, 0] = 1
        return cls(windows, np.repeat(np.arange(len(windows)), each), seen.ravel())

    @classmethod
    def every(cls, windows: Windows) -> Beginnings:
        """All beginnings of all windows, by window and then by length.

        Parameters
        ----------
        windows : Windows
            (n,) windows.
        """
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

    @property
    def deviation(self) -> Float:
        """(m, D) units: standard deviation of the demand seen."""
        first = 1 + self.windows.demand.shape[-1]  # after the slots seen and the means
        deviation: Float = self._prefixes[self.row, self.seen, first : 2 * first - 1]
        return deviation

    @cached_property
    def _prefixes(self) -> Float:
        return prefix_features(self.windows.demand).astype(np.float32)

    @staticmethod
    def input_count(resources: int, past: bool = False) -> int:
        """I, the number of `inputs`.

        Parameters
        ----------
        resources : int
            D, the number of resources.
        past : bool, default False
            Whether what the application used before is among them.
        """
        seen = 1 + resources * PER_RESOURCE + len(SEGMENTS) * (2 * resources + 1)
        before = len(SEGMENTS) * (3 * resources + 1) if past else 0
        return before + seen + 2 * (resources + 2) + 2  # what was declared, with a mask; the time

    def inputs(self, slots_per_day: float, past: bool = False) -> Float32:
        """(m, I) `prefix_features`, `yesterday`, what was declared (0 where it was not, with a mask), and the time.

        Parameters
        ----------
        slots_per_day : float
            Slots in a day.
        past : bool, default False
            Begin with what the application used before (`before`).
        """
        angle = 2 * np.pi * (self.windows.clock[self.row] + self.seen / slots_per_day)
        declared = masked(self.windows.metadata)[self.row]
        parts: list[npt.NDArray[np.floating]] = [self.before()] if past else []
        parts += [self._prefixes[self.row, self.seen], self.yesterday(max(1, round(slots_per_day)))]
        parts += [declared, np.sin(angle)[:, None], np.cos(angle)[:, None]]
        inputs: Float32 = np.concatenate(parts, axis=1, dtype=np.float32)
        return inputs

    @property
    def told(self) -> Bool:
        """(m,) whether something is known of what the application used before."""
        told: Bool = self._told[self.row]
        return told

    @cached_property
    def _told(self) -> Bool:
        return self.windows.told

    def before(self) -> Float32:
        """(m, 3 J D + J) what the application used in the hours of each segment on the days before the window: the
        largest and the mean usage, means over the days of which something is known; the largest of the latest of these
        days; and the share of the days that they are. 0 where none is.
        """
        resources = self.windows.demand.shape[-1]
        out = np.zeros((len(self), len(SEGMENTS) * (3 * resources + 1)), np.float32)
        past = self.windows.past
        if past is not None:
            _fill_before(past, self.windows.clock, self.row, self.seen, np.array(SEGMENTS), out)
        return out

    def yesterday(self, day: int) -> Float32:
        """(m, 2 J D + J) largest and mean demand in the same slots of the day before, segment by segment, and whether
        they were all seen; 0 where they were not.

        Parameters
        ----------
        day : int
            Slots in a day.
        """
        resources = self.windows.demand.shape[-1]
        out = np.zeros((len(self), len(SEGMENTS) * (2 * resources + 1)), np.float32)
        _fill_yesterday(self._demand, self.row, self.seen, day, np.array(SEGMENTS), out)
        return out

    @cached_property
    def _demand(self) -> Float32:
        return self.windows.demand.astype(np.float32)

    @cached_property
    def _padded(self) -> Float:
        return np.pad(self.windows.demand, ((0, 0), (0, HORIZON), (0, 0)))

    def ahead(self, first: int, last: int) -> Float:
        """(m, slots, D) units: demand after the last slot seen, 0 once the workload ended.

        Parameters
        ----------
        first : int
            Slots ahead of the first slot.
        last : int
            Slots ahead of the last slot, which is included.
        """
        slots = self.seen[:, None] - 1 + np.arange(first, last + 1)
        found: Float = self._padded[self.row[:, None], np.minimum(slots, self._padded.shape[1] - 1)]
        return found


@dataclass(frozen=True)
class Outcomes:
    """What came after m beginnings; demand is in units, 0 where the workload had ended.

    Parameters
    ----------
    most : array of float
        (m, J, D) largest demand in a segment.
    mean : array of float
        (m, J, D) mean demand in a segment.
    peak : array of float
        (m, D) largest demand of the rest, the last slot seen included.
    alive : array of bool
        (m, J) whether it ran at the segment's first slot.

    Examples
    --------
    >>> level, _ = Outcomes.of(beginnings).levels(forecaster.levels, forecaster.peak_units)  # doctest: +SKIP
    """

    most: Float
    mean: Float
    peak: Float
    alive: Bool

    @classmethod
    def of(cls, beginnings: Beginnings) -> Outcomes:
        """What came after some beginnings. This is the future: only fitting and judging may look at it.

        Parameters
        ----------
        beginnings : Beginnings
            m beginnings.
        """
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
        """(m, J, D) levels of `most` and (m, D) of `peak`; 0 only where it had ended, even if it needed nothing.

        Parameters
        ----------
        levels : int
            V, the number of levels.
        peak_units : int
            Units of the highest level.
        """
        most, peak = (levels_of(units, levels, peak_units) for units in (self.most, self.peak))
        return np.maximum(most, self.alive[..., None]), np.maximum(peak, 1)


@njit
def _fill_yesterday(demand: Float32, row: Int, seen: Int, day: int, segments: Int, out: Float32) -> None:
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


@njit
def _fill_before(past: Float32, clock: Float, row: Int, seen: Int, segments: Int, out: Float32) -> None:
    """See `Beginnings.before`.

    `past`: (n, days, day, D) of the windows, the latest day first, NaN where unknown
    `clock`: (n,) time of day at a window's first slot, share of a day
    `row`, `seen`: (m,) as of `Beginnings`
    `segments`: (J, 2) slots ahead, first and last
    `out`: (m, 3 J D + J)
    """
    _, days, day, resources = past.shape
    each = len(segments)
    for i in range(len(row)):
        now = int(np.floor(clock[row[i]] * day + 1e-6)) + seen[i] - 1
        for j in range(each):
            first, end = segments[j][0], min(segments[j][1], segments[j][0] + day - 1)
            told = 0
            for before in range(days):
                known = 0
                for ahead in range(first, end + 1):
                    known += not np.isnan(past[row[i], before, (now + ahead) % day, 0])
                if not known:
                    continue
                told += 1
                for d in range(resources):
                    most = total = np.float32(0.0)
                    for ahead in range(first, end + 1):
                        value = past[row[i], before, (now + ahead) % day, d]
                        if not np.isnan(value):
                            most = max(most, value)
                            total += value
                    place = j * resources + d
                    out[i, place] += most
                    out[i, place + each * resources] += total / np.float32(known)
                    if told == 1:
                        out[i, place + 2 * each * resources] = most
            if told:
                for place in range(j * resources, (j + 1) * resources):
                    out[i, place] /= np.float32(told)
                    out[i, place + each * resources] /= np.float32(told)
                out[i, 3 * each * resources + j] = np.float32(told / days)


def outcome_levels(drawn: Sequence[Beginnings], levels: int, peak_units: int) -> tuple[Int, Int, Float32]:
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
