"""Predicts the performance of an application from the curves of earlier ones that were measured like it.

The curve of each earlier application is corrected to agree with what was measured of the new one: it is conditioned on
these values as a Gaussian vector whose covariance is that of the earlier curves (kriging; Chiles and Delfiner,
Geostatistics, 2012, chapter 3.3). The prediction is their mean, in which curves count by how near they were before the
correction. The same for each earlier application, from the others, gives the errors that are to be expected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from tvwrl.types import Float, Int

EDGE = 1e-3  # of performance from 0 to 1, nearer to which its logit is not told apart
NEARNESS = (0.2, 0.4, 0.8, 1.6, 10.0)  # standard deviations within which a curve counts as near
SHRINKAGE = (0.01, 0.1, 0.5)  # of the variance of a measurement that is taken for noise
FAR = 1e-6  # how much a curve counts at least, so that an application unlike all is predicted too
FILLINGS = 3  # rounds in which cells that nobody measured are predicted


@dataclass(frozen=True)
class Scale:
    """Values in which curves of applications differ by shifts, and back."""

    name: str
    to: Callable[[Float], Float]
    back: Callable[[Float], Float]


def _logit(performance: Float) -> Float:
    near = np.clip(performance, EDGE, 1.0 - EDGE)
    return np.asarray(np.log(near / (1.0 - near)))


def _logistic(value: Float) -> Float:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(value, -50.0, 50.0))))


def _exp(value: Float) -> Float:
    return np.asarray(np.exp(np.clip(value, -300.0, 300.0)))


AS_IT_IS = Scale("as it is", np.asarray, np.asarray)
LOGARITHM = Scale("logarithm", lambda values: np.asarray(np.log(values)), _exp)
LOGIT = Scale("logit", _logit, _logistic)
SCALES = {one.name: one for one in (AS_IT_IS, LOGARITHM, LOGIT)}


def scales_of(performance: Float) -> tuple[Scale, ...]:
    """The scales in which values can be written: logit for those from 0 to 1, logarithm for those above 0."""
    found = [AS_IT_IS]
    if performance.min() > 0.0:
        found.append(LOGARITHM)
    if performance.min() >= 0.0 and performance.max() <= 1.0:
        found.append(LOGIT)
    return tuple(found)


@dataclass(frozen=True)
class Curves:
    """Predictions from earlier curves, with settings that say how they are used.

    `grid`: (A, C) performance of earlier applications on a scale, without gaps, A >= 2
    `nearness`: standard deviations within which a curve counts as near
    `shrinkage`: share of the variance of a measurement that is taken for noise
    """

    grid: Float
    nearness: float
    shrinkage: float

    def predict(self, measured: Int, values: Float) -> Float:
        """(C,) what is expected of an application with `values` (m,) in the `measured` configurations (m,)."""
        if not len(measured):
            return np.asarray(self.grid.mean(axis=0))
        gain = self._gain(self._covariance[None, :, measured], measured)[0]
        near = self._near(self.grid[:, measured], values[None], self._spread)[0]
        near /= near.sum()
        mean = near @ self.grid
        return np.asarray(mean + gain @ (values - mean[measured]))

    @cached_property
    def _covariance(self) -> Float:
        """(C, C) of the curves."""
        centred = self.grid - self.grid.mean(axis=0)
        return np.asarray(centred.T @ centred / max(len(self.grid) - 1, 1))

    @cached_property
    def _spread(self) -> Float:
        """(1,) standard deviation of the curves, over all configurations."""
        return np.asarray(np.sqrt(self.grid.var(axis=0).mean(keepdims=True)))

    def left_out(self, measured: Int) -> Float:
        """(A, C) what is predicted of each earlier application from its `measured` configurations by all others."""
        count, grid = len(self.grid), self.grid
        if not len(measured):
            return np.asarray((grid.sum(axis=0) - grid) / (count - 1))
        centred = grid - grid.mean(axis=0)
        cross = centred.T @ centred[:, measured]
        own = centred[:, :, None] * centred[:, None, measured] * (count / (count - 1))  # what each adds to the products
        gain = self._gain((cross[None] - own) / max(count - 2, 1), measured)  # (A, C, m)
        squares = (centred**2).sum() - (centred**2).sum(axis=1) * (count / (count - 1))
        spread = np.sqrt(np.maximum(squares, 0.0) / ((count - 1) * grid.shape[1]))
        near = self._near(grid[:, measured], grid[:, measured], spread)
        np.fill_diagonal(near, 0.0)
        mean = near / near.sum(axis=1, keepdims=True) @ grid
        error = grid[:, measured] - mean[:, measured]
        return np.asarray(mean + np.einsum("acm,am->ac", gain, error))

    def _gain(self, cross: Float, measured: Int) -> Float:
        """(..., C, m) how far an error at a measured configuration corrects the prediction at each."""
        within = cross[:, measured]
        diagonal = np.einsum("amm->am", within)
        noise = self.shrinkage * diagonal + 1e-12
        within = within + noise[:, :, None] * np.eye(len(measured))
        return np.asarray(np.linalg.solve(within, cross.transpose(0, 2, 1)).transpose(0, 2, 1))

    def _near(self, earlier: Float, values: Float, spread: Float) -> Float:
        """(n, A) how much each earlier curve counts for each of n applications; `spread` (n,) of the curves."""
        scale = self.nearness * spread[:, None] + 1e-12
        distance = ((values[:, None] - earlier[None]) ** 2).sum(axis=2) / scale**2
        return np.asarray(np.exp(-0.5 * distance) + FAR)


def filled(grid: Float) -> Float:
    """Predict the cells that nobody measured (NaN) from the other cells of their rows; each column has a value."""
    missing = np.isnan(grid)
    if not missing.any():
        return grid
    mean = np.nanmean(grid, axis=0)
    own = np.array([np.nanmean(row - mean) if not np.isnan(row).all() else 0.0 for row in grid])
    whole = np.where(missing, mean + own[:, None], grid)
    for _ in range(FILLINGS):
        model = Curves(whole, NEARNESS[-1], SHRINKAGE[1])
        guesses = [model.predict(np.flatnonzero(~gap), row[~gap]) for row, gap in zip(whole, missing, strict=True)]
        whole = np.where(missing, guesses, whole)
    return whole


def settings() -> list[tuple[float, float]]:
    """Nearness and shrinkage that are compared."""
    return list(product(NEARNESS, SHRINKAGE))
