"""What a forecast is: the slots ahead in segments, the table that placement sums, and distributions of demand.

Letters: J segments, D resources, V levels of demand. Demand is a share of `peak_units` here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvwrl.types import Byte, Float, Float32, ForecastTable, InputError, Int

SEGMENTS = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 63))  # slots ahead, first and last
HORIZON = SEGMENTS[-1][1]
ROUNDED = 1e-5  # by how much numbers of 32 bits may miss a limit
ROUNDING = 1 / 400  # by how much a table may overstate a workload's peak, share of peak_units


@dataclass(frozen=True)
class Forecast:
    """Columns of a forecast: J segments, D resources, all as shares of `peak_units` (variances: of its square).

    A finished workload needs nothing: `most`, `spread` and `mean` count that case as demand 0.
    Forecasts add up: the expected load of a machine and its variance are sums over its workloads.

    Parameters
    ----------
    values : array of float
        (..., K) the columns.
    resources : int
        D, the number of resources.

    Examples
    --------
    >>> Forecast(np.zeros((5, columns(2))), 2).most.shape
    (5, 6, 2)
    """

    values: Float
    resources: int

    def _part(self, first: int, shape: tuple[int, ...]) -> Float:
        width = int(np.prod(shape))
        part: Float = self.values[..., first : first + width].reshape(*self.values.shape[:-1], *shape)
        return part

    @property
    def most(self) -> Float:
        """(..., J, D) expected largest demand within a segment."""
        return self._part(0, (len(SEGMENTS), self.resources))

    @property
    def spread(self) -> Float:
        """(..., J, D) variance of that."""
        return self._part(len(SEGMENTS) * self.resources, (len(SEGMENTS), self.resources))

    @property
    def mean(self) -> Float:
        """(..., J, D) expected demand, averaged over the slots of a segment."""
        return self._part(2 * len(SEGMENTS) * self.resources, (len(SEGMENTS), self.resources))

    @property
    def peak(self) -> Float:
        """(..., D) expected peak of the rest of its life, the current slot included."""
        return self._part(3 * len(SEGMENTS) * self.resources, (self.resources,))

    @property
    def peak_spread(self) -> Float:
        """(..., D) variance of that."""
        return self._part((3 * len(SEGMENTS) + 1) * self.resources, (self.resources,))

    @property
    def alive(self) -> Float:
        """(..., J) probability of running at a segment's first slot; summed: workloads still running then."""
        return self._part((3 * len(SEGMENTS) + 2) * self.resources, (len(SEGMENTS),))


def columns(resources: int) -> int:
    """K, the columns of a forecast for so many resources."""
    return (3 * len(SEGMENTS) + 2) * resources + len(SEGMENTS)


def steps(resources: int) -> Float32:
    """(K + D,) value of one unit of a table's whole numbers; the last D are of lifetime peaks."""
    parts = np.full(columns(resources) + resources, 1 / 200, np.float32)
    forecast = Forecast(np.arange(columns(resources), dtype=np.float64), resources)
    for variance in (forecast.spread, forecast.peak_spread):
        parts[variance.ravel().astype(np.int64)] = 1 / 1000  # at most a quarter
    return parts


def forecast_table(values: Byte, resources: int) -> ForecastTable:
    """A table of whole `steps` (S, N, L + 1, K + D): forecasts, then lifetime peaks."""
    named = Forecast(np.arange(columns(resources), dtype=np.float64), resources)
    lifetime = columns(resources) + np.arange(resources)
    return ForecastTable(values, steps(resources), np.stack([named.peak, named.peak_spread, lifetime]).astype(np.int64))


@dataclass(frozen=True)
class Distribution:
    """What m workloads will need: for each segment and resource the probabilities of V levels of demand.

    Level 0 is "ended". A level covers an equal share of `peak_units`, and stands for `values` of it.

    Parameters
    ----------
    most : array of float32
        (m, J, D, V + 1) probabilities of the largest demand in a segment; the last axis adds up to 1.
    peak : array of float32
        (m, D, V + 1) those of the largest demand of the rest of its life and of its last slot.
    mean : array of float32
        (m, J, D) expected demand, averaged over the slots of a segment.
    values : array of float32
        (V + 1,) share of `peak_units` that a level stands for, rising from 0 to at most 1.

    Examples
    --------
    >>> sure = np.zeros((1, 6, 1, 3), np.float32)
    >>> sure[..., 2] = 1
    >>> values = np.array([0, 0.5, 1], np.float32)
    >>> Distribution(sure, sure[:, 0], sure[..., 2], values).quantile(0.9).ravel().tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    most: Float32
    peak: Float32
    mean: Float32
    values: Float32

    def __len__(self) -> int:
        return len(self.most)

    def __getitem__(self, rows: Int | slice) -> Distribution:
        return Distribution(self.most[rows], self.peak[rows], self.mean[rows], self.values)

    @classmethod
    def joined(cls, parts: Sequence[Distribution], rows: Sequence[Int], values: Float32) -> Distribution:
        """One distribution of m beginnings from those of some of them each.

        Parameters
        ----------
        parts : sequence of Distribution
            The parts.
        rows : sequence of array of int
            The beginnings of each part, 0..m - 1, each beginning once.
        values : array of float32
            (V + 1,) of the whole.
        """
        order = np.argsort(np.concatenate(rows))
        most, peak, mean = (
            np.concatenate([getattr(part, name) for part in parts])[order] for name in ("most", "peak", "mean")
        )
        return cls(most, peak, mean, values)

    @property
    def alive(self) -> Float32:
        """(m, J) probability of running at a segment's first slot."""
        running: Float32 = 1 - self.most[..., 0].mean(axis=2)
        return running

    @classmethod
    def from_quantiles(
        cls, shares: Sequence[float], most: Float, peak: Float, mean: Float, alive: Float, values: Float32
    ) -> Distribution:
        """The distribution with these quantiles of demand while a workload runs, straight lines between them.

        Quantiles are cut to 0..1, and so are means above 1. What lies below the lowest or above the highest quantile is
        put on it; those of a model that lets them cross are to be sorted before. Where demand comes in whole units
        (`Scenario.quantise`), round them to whole units, as a level holds all that lies above the level before.

        Parameters
        ----------
        shares : sequence of float
            (Q,) probabilities of the quantiles, rising, each between 0 and 1.
        most : array of float
            (m, J, D, Q) quantiles of the largest demand in a segment, given that the workload still runs; share of
            `peak_units`.
        peak : array of float
            (m, D, Q) those of the largest demand from the last slot seen on, none below the demand in that slot.
        mean : array of float
            (m, J, D) expected demand in a segment, 0 for the time after the end; at least 0.
        alive : array of float
            (m, J) probability of running at a segment's first slot, 0..1.
        values : array of float32
            (V + 1,) as of `Distribution`: `values_` of a fitted forecaster.

        Raises
        ------
        InputError
            For shares that do not rise, quantiles that fall, arrays of another shape, and values that are not finite or
            out of their limits.

        Examples
        --------
        >>> values = np.array([0, 0.25, 0.75], np.float32)
        >>> most, peak = np.full((1, 6, 1, 2), 0.9), np.full((1, 1, 2), 0.9)
        >>> found = Distribution.from_quantiles((0.1, 0.9), most, peak, most[..., 0], np.full((1, 6), 0.8), values)
        >>> found.most[0, 0, 0].round(2).tolist()
        [0.2, 0.0, 0.8]
        """
        at = np.asarray(shares, np.float64)
        if at.ndim != 1 or not len(at) or (np.diff(at) <= 0).any() or at[0] <= 0 or at[-1] >= 1:
            raise InputError(f"shares of the quantiles are {list(shares)}: must rise, each between 0 and 1")
        count, segments, resources = mean.shape
        shapes = {
            "most": (most, (count, segments, resources, len(at))),
            "peak": (peak, (count, resources, len(at))),
            "mean": (mean, (count, len(SEGMENTS), resources)),
            "alive": (alive, (count, segments)),
        }
        for name, (given, shape) in shapes.items():
            if given.shape != shape:
                raise InputError(f"{name} has the shape {given.shape}: must be {shape}, as there are {len(at)} shares")
            if not np.isfinite(given).all():
                raise InputError(f"{name} has values that are not finite")
        for name, given in (("most", most), ("peak", peak)):
            if len(falls := np.argwhere(np.diff(given, axis=-1) < -ROUNDED)):
                *place, q = falls[0]
                before, after = (given[(*place, k)] for k in (q, q + 1))
                raise InputError(
                    f"{name} has quantiles that fall, from {before:g} to {after:g}: none may be below the one before; "
                    f"np.sort({name}, axis=-1) puts those that cross in order"
                )
        if (least := mean.min(initial=0.0)) < -ROUNDED:
            raise InputError(f"mean has the value {least:g}: must be at least 0")
        for chance in (alive.min(initial=0.0), alive.max(initial=0.0)):
            if not -ROUNDED <= chance <= 1 + ROUNDED:
                raise InputError(f"alive has the value {chance:g}: must be 0 to 1")
        running, rest = (_level_chances(at, np.asarray(part, np.float64), len(values) - 1) for part in (most, peak))
        runs = np.clip(alive, 0.0, 1.0)[..., None, None]
        ended = np.broadcast_to(1 - runs, (*running.shape[:-1], 1))
        none = np.zeros((*rest.shape[:-1], 1))
        most_chances, peak_chances = np.concatenate([ended, running * runs], -1), np.concatenate([none, rest], -1)
        return cls(
            most_chances.astype(np.float32),
            peak_chances.astype(np.float32),
            np.clip(mean, 0, 1).astype(np.float32),
            np.asarray(values, np.float32),
        )

    def forecast(self) -> Forecast:
        """Means and variances, as placement sums them."""
        parts = []
        for chances in (self.most, self.peak):
            expected = chances @ self.values
            parts += [expected, chances @ self.values**2 - expected**2]
        most, spread, peak, peak_spread = (part.reshape(len(self), -1) for part in parts)
        mean = self.mean.reshape(len(self), -1)
        columns = np.concatenate([most, spread, mean, peak, peak_spread, self.alive], axis=1)
        return Forecast(columns, self.most.shape[2])

    def quantile(self, share: float) -> Float32:
        """(m, J, D) the lowest value that a segment's largest demand stays within with some probability.

        Parameters
        ----------
        share : float
            The probability, 0..1.
        """
        level = (self.most.cumsum(axis=-1) < share - 1e-6).sum(axis=-1)
        found: Float32 = self.values[np.minimum(level, len(self.values) - 1)]
        return found


def _level_chances(shares: Float, quantiles: Float, levels: int) -> Float:
    """(..., V) probabilities of levels 1..V from `quantiles` (..., Q) of a share of the peak, at `shares` (Q,)."""
    sorted_ = np.round(np.sort(np.clip(quantiles, 0.0, 1.0), axis=-1), 6)
    edges = np.arange(1, levels) / levels
    flat = sorted_.reshape(-1, len(shares))
    at_most = np.empty((len(flat), levels))
    at_most[:, -1] = 1.0
    for v, edge in enumerate(edges):
        place = (flat <= edge + 1e-6).sum(axis=1)  # quantiles that lie within the level
        low, high = (
            flat[np.arange(len(flat)), np.maximum(place - 1, 0)],
            np.take_along_axis(flat, np.minimum(place, len(shares) - 1)[:, None], axis=1)[:, 0],
        )
        part = np.clip((edge - low) / np.maximum(high - low, 1e-9), 0.0, 1.0)
        begin, end = shares[np.maximum(place - 1, 0)], shares[np.minimum(place, len(shares) - 1)]
        inside = begin + part * (end - begin)
        at_most[:, v] = np.where(place == 0, 0.0, np.where(place == len(shares), 1.0, inside))
    found: Float = np.diff(at_most, axis=1, prepend=0.0).reshape(*sorted_.shape[:-1], levels)
    return found
