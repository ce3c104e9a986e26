"""How demand drifts: a workload stays as it is, give or take what others changed by after as many slots.

Nothing here depends on who a workload is, so it holds for applications that were never seen. Letters: m beginnings, J
segments, D resources, V levels of demand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from tvwrl.forecasting.beginnings import Beginnings, Outcomes, levels_of
from tvwrl.forecasting.naive import NaiveForecaster
from tvwrl.forecasting.segments import SEGMENTS
from tvwrl.types import Float, Int

AGES = 6  # of a workload that are told apart: 1, 2-3, 4-7, ... slots seen
RESTLESS = (0.05, 0.35, 0.8)  # standard deviations, in levels, between workloads that are told apart
LEAN = 0.005  # applications of all ages or kinds that count beside those of one
MOST_APPLICATIONS = 100.0  # that a trace counts as
PRIOR_APPLICATIONS = 1.0  # that what ships with the package counts as


@dataclass(eq=False)
class Drift(NaiveForecaster):
    """The largest demand of a segment is the last one seen, changed as demand of training workloads did.

    Changes are counted in levels: by segment, by the slots seen, and by how restless a workload was so far. Every
    application counts alike.

    Parameters
    ----------
    peak_units : int
        What demand is a share of, units.
    step_seconds : int
        Length of a slot, seconds.
    random_state : int
        Not used.
    prior : dict, optional
        What `shares` of another one gave; it counts as `PRIOR_APPLICATIONS` more.

    Examples
    --------
    >>> Drift().fit(training_windows(sampler)).predict(Beginnings(windows, row, seen))  # doctest: +SKIP
    """

    prior: dict[str, Any] | None = field(default=None, repr=False)

    def _fit(self, drawn: list[Beginnings]) -> None:
        super()._fit(drawn)
        segments, levels = len(SEGMENTS), self.levels
        shape = AGES, len(RESTLESS) + 1, 2 * levels + 1
        most, peak = np.zeros((segments, *shape)), np.zeros(shape)
        largest, mean = np.zeros(segments), np.zeros(segments)
        for part in drawn:
            outcome, (age, restless, last) = Outcomes.of(part), self._kinds(part)
            levels_most, levels_peak = outcome.levels(levels, self.peak_units)
            weight = _weights(part)
            for d in range(last.shape[1]):
                for j in range(segments):
                    runs = outcome.alive[:, j]
                    change = levels_most[runs, j, d] - last[runs, d] + levels
                    np.add.at(most[j], (age[runs], restless[runs, d], change), weight[runs])
                rise = np.maximum(levels_peak[:, d] - last[:, d], 0)
                np.add.at(peak, (age, restless[:, d], rise + levels), weight)
            units = outcome.alive[..., None] * weight[:, None, None] / self.peak_units
            largest += (outcome.most * units).sum(axis=(0, 2))
            mean += (outcome.mean * units).sum(axis=(0, 2))
        if self.prior is not None:
            most += PRIOR_APPLICATIONS * self.resources_ * np.array(self.prior["most"])
            peak += PRIOR_APPLICATIONS * self.resources_ * np.array(self.prior["peak"])
        self.most_, self.peak_ = most, peak
        self.ratio_ = mean / np.maximum(largest, 1e-9)  # of mean to largest demand in a segment
        self._set_chances()

    def _set_chances(self) -> None:
        self._most, self._peak = _smooth(self.most_), _smooth(self.peak_)

    def _kinds(self, beginnings: Beginnings) -> tuple[Int, Int, Int]:
        """(m,) age, (m, D) restlessness and (m, D) level of the last demand seen, from 1 on."""
        age = np.minimum(np.log2(beginnings.seen).astype(np.int64), AGES - 1)
        restless = np.digitize(beginnings.deviation / self.peak_units * self.levels, RESTLESS)
        last = levels_of(beginnings.last, self.levels, self.peak_units)
        return age, restless, np.maximum(last, 1)

    def _running(self, beginnings: Beginnings) -> tuple[Float, Float]:
        age, restless, last = self._kinds(beginnings)
        changes = self._most[:, age[:, None], restless].transpose(1, 0, 2, 3)  # (m, J, D, 2 V + 1)
        running = self._moved(changes, last[:, None])
        return running, running @ self.values_[1:] * self.ratio_[:, None]

    def _rest(self, beginnings: Beginnings, running: Float) -> Float:
        age, restless, last = self._kinds(beginnings)
        return self._moved(self._peak[age[:, None], restless], last)

    def _moved(self, changes: Float, last: Int) -> Float:
        """(..., V) probabilities of levels 1..V from those of changes (..., 2 V + 1) from a level (...)."""
        levels = self.levels
        below = np.cumsum(changes, axis=-1)
        place = np.clip(np.arange(1, levels) - last[..., None] + levels, 0, 2 * levels)
        place = np.broadcast_to(place, (*changes.shape[:-1], levels - 1))
        at_most = np.take_along_axis(below, place, axis=-1)
        ones = np.ones((*at_most.shape[:-1], 1))
        found: Float = np.diff(np.concatenate([at_most, ones], axis=-1), axis=-1, prepend=0.0)
        return found

    def shares(self) -> dict[str, Any]:
        """What another one may take as its `prior`: changes as lists, in shares of all beginnings."""
        every = self.peak_.sum()
        return {"most": (self.most_ / every).tolist(), "peak": (self.peak_ / every).tolist()}

    def counts(self) -> dict[str, Any]:
        """Plain numbers and lists from which `filled` makes an equal object."""
        parts = {"most": self.most_, "peak": self.peak_, "ratio": self.ratio_, "survivors": self.survivors_}
        return {name: part.tolist() for name, part in parts.items()}

    def filled(self, content: dict[str, Any], resources: int, values: Any) -> Self:
        """This one, with what `counts` gave of another. Raises ValueError for what does not fit together."""
        self.resources_, self.values_, self.without_, self._learnt = resources, values, {}, None
        self.most_, self.peak_, self.ratio_, self.survivors_ = (
            np.array(content[name], np.float64) for name in ("most", "peak", "ratio", "survivors")
        )
        shape = AGES, len(RESTLESS) + 1, 2 * self.levels + 1
        wanted = {"most": (len(SEGMENTS), *shape), "peak": shape, "ratio": (len(SEGMENTS),)}
        for name, found in {"most": self.most_, "peak": self.peak_, "ratio": self.ratio_}.items():
            if found.shape != wanted[name] or not (np.isfinite(found).all() and (found >= 0).all()):
                raise ValueError(f"{name} of its drift has the shape {found.shape}: must be {wanted[name]}, all >= 0")
        survivors = self.survivors_
        if survivors.ndim != 1 or len(survivors) < 2 or not (survivors >= 0).all() or (np.diff(survivors) > 0).any():
            raise ValueError("survivors of its drift must be numbers of windows, none below 0 or above the one before")
        self._set_chances()
        return self


def _weights(drawn: Beginnings) -> Float:
    """(m,) of beginnings of a trace: every application counts alike, all together as so many applications."""
    applications = drawn.windows.application[drawn.row]
    _, place, count = np.unique(applications, return_inverse=True, return_counts=True)
    weights: Float = min(len(count), MOST_APPLICATIONS) / len(count) / count[place]
    return weights


def _smooth(counts: Float) -> Float:
    """(..., AGES, R, C) probabilities from counts: each kind leans on the same of all ages, that on all kinds."""
    every = counts.sum(axis=(-3, -2)) + 1e-3 * LEAN  # never quite 0
    every = every / every.sum(axis=-1, keepdims=True)
    restless = counts.sum(axis=-3)
    restless = (restless + LEAN * every[..., None, :]) / (restless.sum(axis=-1, keepdims=True) + LEAN)
    smooth: Float = (counts + LEAN * restless[..., None, :, :]) / (counts.sum(axis=-1, keepdims=True) + LEAN)
    return smooth
