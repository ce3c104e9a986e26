"""Forecasters by a workload's own past alone: whether it still runs follows from how long training windows ran.

Letters: m beginnings, J segments, D resources, V levels of demand.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from tvwrl.forecasting.base import Forecaster
from tvwrl.forecasting.beginnings import Beginnings, levels_of
from tvwrl.forecasting.segments import HORIZON, SEGMENTS, Distribution
from tvwrl.types import Float, Int


@dataclass(eq=False)
class NaiveForecaster(Forecaster):
    """What a running workload needs follows from its own past; whether it runs, from how long training windows ran.

    No window is censored, so the Kaplan-Meier estimate of survival is the share that lived on.
    """

    peak_units: int = 6
    step_seconds: int = 1800
    random_state: int = 0

    def _fit(self, drawn: list[Beginnings]) -> None:
        lengths = np.concatenate([part.windows.length[np.unique(part.row)] for part in drawn])
        self.survivors_ = np.bincount(lengths)[::-1].cumsum()[::-1]  # (L + 1,) windows of at least 0, 1, ... slots

    @abstractmethod
    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        """While it runs: (m, J, D, V) probabilities of levels 1..V of the largest demand in a segment, and (m, J, D)
        expected demand, shares of the peak."""

    def _rest(self, beginnings: Beginnings, running: Float) -> Float:
        """(m, D, V) probabilities of levels 1..V of the largest demand from now on: those of the last segment."""
        rest: Float = running[:, -1]
        return rest

    def survival(self, seen: Int) -> Float:
        """(m, HORIZON) probability of running 1, 2, ... slots after the last of those `seen` (m,)."""
        longest = len(self.survivors_)
        survivors = np.append(self.survivors_, 0)  # nobody lives longer than the longest
        slots = np.minimum(np.asarray(seen)[:, None] + np.arange(HORIZON + 1), longest)
        alive = survivors[slots]
        share: Float = (alive[:, 1:] + 0.5) / (alive[:, :1] + 1.0)  # never sure: nobody may have lived as long
        return share

    def _predict(self, beginnings: Beginnings) -> Distribution:
        running, expected = self._running(beginnings)
        survival = self.survival(beginnings.seen)
        alive = np.stack([survival[:, first - 1] for first, _ in SEGMENTS], axis=1)[:, :, None]
        part = np.stack([survival[:, first - 1 : last].mean(axis=1) for first, last in SEGMENTS], axis=1)[:, :, None]
        most = np.concatenate([np.broadcast_to(1 - alive, expected.shape)[..., None], running * alive[..., None]], -1)
        rest = self._rest(beginnings, running)
        peak = at_least(rest, levels_of(beginnings.last, self.levels, self.peak_units))
        parts = (most.astype(np.float32), peak.astype(np.float32), (part * expected).astype(np.float32))
        return Distribution(*parts, self.values_)

    def _certain(self, units: Float) -> Float:
        """(..., V) probabilities of a demand (...) in units that is sure."""
        level = np.maximum(levels_of(units, self.levels, self.peak_units), 1)
        return np.asarray(level[..., None] == np.arange(1, self.levels + 1), np.float64)


def at_least(running: Float, level: Int) -> Float:
    """(..., V + 1) probabilities of levels 0..V from those of levels 1..V (..., V); what is below `level` (...)
    counts as that level."""
    rising = np.concatenate([np.zeros_like(running[..., :1]), running.cumsum(axis=-1)], axis=-1)
    rising = np.where(np.arange(rising.shape[-1]) < level[..., None], 0.0, rising)
    chances: Float = np.diff(rising, axis=-1, prepend=0.0)
    return chances


@dataclass(eq=False)
class LastValue(NaiveForecaster):
    """It stays as it is."""

    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        last = np.repeat(beginnings.last[:, None], len(SEGMENTS), axis=1)
        return self._certain(last), last / self.peak_units


@dataclass(eq=False)
class MeanAndDeviation(NaiveForecaster):
    """A normal distribution with mean and standard deviation of the last `hours`."""

    hours: float = 2.0

    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        from scipy.special import ndtr

        share = beginnings.windows.demand / self.peak_units
        sums, squares = (np.cumsum(np.pad(x, ((0, 0), (1, 0), (0, 0))), axis=1) for x in (share, share**2))
        slots = max(1, round(self.hours * 3600 / self.step_seconds))
        first = np.maximum(beginnings.seen - slots, 0)
        count = (beginnings.seen - first)[:, None]
        mean, square = (
            (total[beginnings.row, beginnings.seen] - total[beginnings.row, first]) / count for total in (sums, squares)
        )
        deviation = np.sqrt(np.maximum(square - mean**2, 1e-8))
        edges = (self.values_[1:-1] + self.values_[2:]) / 2  # between neighbouring levels
        below = np.concatenate([ndtr((edges - mean[..., None]) / deviation[..., None]), np.ones((*mean.shape, 1))], -1)
        chances = np.diff(below, axis=-1, prepend=0.0)
        each = len(SEGMENTS)
        return np.repeat(chances[:, None], each, axis=1), np.repeat(mean[:, None], each, axis=1)


@dataclass(eq=False)
class Percentiles(NaiveForecaster):
    """The largest demand of a segment is distributed as in all stretches of as many slots that were seen."""

    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        demand, row, seen = beginnings.windows.demand, beginnings.row, beginnings.seen
        parts = [self._seen(demand, last - first + 1, row, seen) for first, last in SEGMENTS]
        mean = np.cumsum(demand, axis=1)[row, seen - 1] / seen[:, None] / self.peak_units
        return np.stack(parts, axis=1), np.repeat(mean[:, None], len(SEGMENTS), axis=1)

    def _seen(self, demand: Float, slots: int, row: Int, seen: Int) -> Float:
        """(m, D, V) how often each level was the largest of so many slots in a row; of all slots if fewer were seen."""
        reach = min(slots, demand.shape[1])
        padded = np.pad(demand, ((0, 0), (reach - 1, 0), (0, 0)))
        largest = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=1).max(axis=-1)
        each = self._certain(largest)
        counts = np.cumsum(each * (np.arange(demand.shape[1]) >= reach - 1)[:, None, None], axis=1)[row, seen - 1]
        counts = np.where((seen >= reach)[:, None, None], counts, each[row, seen - 1])
        shares: Float = counts / counts.sum(axis=-1, keepdims=True)
        return shares


@dataclass(eq=False)
class SameHourYesterday(NaiveForecaster):
    """As in the same slots of the day before; as in the last slot where a workload is not that old."""

    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        shape = len(beginnings), len(SEGMENTS), self.resources_
        wide = shape[1] * shape[2]
        found = beginnings.yesterday(max(1, round(self.slots_per_day)))
        known = found[:, 2 * wide :, None] > 0
        last = beginnings.last[:, None]
        most, mean = (
            np.where(known, part.reshape(shape), last) for part in (found[:, :wide], found[:, wide : 2 * wide])
        )
        return self._certain(most), mean / self.peak_units
