"""What classes are worth to a linear forecaster: a model per class against one of all, and against random labels.

Linear models are fitted in closed form, so that hundreds of random divisions can be judged in the time in which one
LSTNet is trained. They favour classes: a network can tell from what it sees how a workload behaves, a linear model
cannot. Letters: u workloads that are long enough, D resources, F inputs of a forecast, P forecasts of a workload,
R of all.
Imports torch at once: import this module late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.ec.prediction_gain import MIN_TRAINING, divided_into_folds, without_nan
from tvwrl.ec.representations import Population
from tvwrl.forecasting import ForecastSettings, StandardisedSeries
from tvwrl.types import Float, InputError, Int

RIDGE = 0.1  # penalty of squared weights, beside the mean squared error of usage in standard deviations of its series
PERMUTATIONS = 199  # random divisions; the smallest p that can be reached is 1 in 200
FLAT = 1e-12  # a variance below this is rounding


@dataclass(frozen=True)
class LinearGain:
    """Correlations of forecast and usage, means over held-out workloads and resources; NaN if there are none."""

    by_class: float  # a model per class
    of_all: float  # one model
    last_value: float  # usage stays what it is
    permuted: tuple[float, ...]  # a model per class of labels that changed places at random
    window: int  # slots that a forecast sees
    horizon: int  # slots ahead

    @property
    def gain(self) -> float:
        """By how much models per class are better than one of all; below 0 where they are worse."""
        return self.by_class - self.of_all

    @property
    def p(self) -> float:
        """How often random classes gain as much, counting those found: 1 / (permutations + 1) to 1; NaN if unknown."""
        if np.isnan(self.by_class):
            return float("nan")
        return float((1 + (np.array(self.permuted) >= self.by_class).sum()) / (1 + len(self.permuted)))

    @property
    def least_p(self) -> float:
        """How often the best of the random divisions came up: often where applications are few, so p is never small."""
        found = np.array(self.permuted)
        return float((found == found.max()).mean()) if len(found) else 1.0

    @property
    def beats_last_value(self) -> bool:
        """Whether the model of all workloads forecasts anything; otherwise a gain over it means nothing."""
        return bool(self.of_all > max(self.last_value, 0.0))

    def to_dict(self) -> dict[str, Any]:
        """For report.json; a correlation that does not exist is None."""
        own = {name: getattr(self, name) for name in ("by_class", "of_all", "last_value", "gain", "p")}
        return without_nan(own) | {"permuted": list(self.permuted), "window": self.window, "horizon": self.horizon}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> LinearGain:
        """What `to_dict` described."""
        known = {name: np.nan if (r := content[name]) is None else r for name in ("by_class", "of_all", "last_value")}
        return cls(**known, permuted=tuple(content["permuted"]), window=content["window"], horizon=content["horizon"])


class LinearForecasts:
    """Inputs and outcomes of the forecasts of a population, and what is known of them without labels.

    Where workloads belong to fewer applications, whole applications are held out, as replicas tell of each other.
    A forecast is the last value seen plus a weighted sum of how far the values before it lie from it. So neither the
    level nor the size of a workload is learnt, and that series are in standard deviations tells nothing of the future.

    Raises InputError where series are too short, or all of one application.
    """

    def __init__(self, population: Population, settings: ForecastSettings) -> None:
        windows = StandardisedSeries(population.series, population.slots_per_day, settings.window, settings.horizon)
        self.settings, self.window = settings, windows.window
        self.usable = windows.usable  # (u,) workloads
        together = population.application
        self.application = None if together is None else together[windows.usable]  # (u,)
        if self.application is not None and not np.ptp(self.application):
            raise InputError("all workloads that are long enough are of one application, so none can be held out")
        self.fold = (  # (u,)
            divided_into_folds(population.series, windows.usable, settings)[windows.usable]
            if self.application is None
            else whole_folds(self.application, settings.folds, np.random.default_rng([settings.seed, 0]))
        )
        values, before = windows.values.numpy().astype(np.float64), np.arange(1 - windows.window, 0)
        rows = [windows.evaluation_rows(int(workload), settings.max_forecasts) for workload in windows.usable]
        self.count = np.array([len(own) for own in rows])  # (u,) forecasts P of each workload; R of all
        every, self.first = np.concatenate(rows), np.cumsum(self.count) - self.count
        self.last, self.outcome = values[every], values[every + windows.horizon]  # (R, D)
        inputs = (values[every[:, None] + before] - self.last[:, None]).reshape(len(every), -1)
        self.inputs = np.split(inputs, self.first[1:])  # u of (P, F)
        change = np.split(self.outcome - self.last, self.first[1:])
        # (u, F, F) and (u, F, D): all that a model needs of a workload; their mean weighs workloads alike
        self.squares = np.array([x.T @ x / len(x) for x in self.inputs])
        self.products = np.array([x.T @ y / len(x) for x, y in zip(self.inputs, change, strict=True)])
        self.of_all = self._by_class(
            np.ones(len(self.usable), np.int64), np.full((len(self.usable), values.shape[1]), np.nan), 1
        )

    def gain(
        self, labels: Int, permutations: int = PERMUTATIONS, progress: Callable[[], Any] = lambda: None
    ) -> LinearGain:
        """What `labels` (n,) gain, and so many random divisions, in which labels change places (`exchanged`).

        The seed of the settings draws them; `progress` is called after each.
        """
        own, rng, least = labels[self.usable], np.random.default_rng([self.settings.seed, 2]), self.settings.min_class
        permuted = []
        for _ in range(permutations):
            permuted.append(_mean(self._by_class(exchanged(own, self.application, rng), self.of_all, least)))
            progress()
        return LinearGain(
            by_class=_mean(self._by_class(own, self.of_all, least)),
            of_all=_mean(self.of_all),
            last_value=_mean(self._correlations(self.last)),
            permuted=tuple(permuted),
            window=self.window,
            horizon=self.settings.horizon,
        )

    def _by_class(self, labels: Int, otherwise: Float, least: int) -> Float:
        """(u, D) correlations of held-out workloads by models of their class in the other folds; `otherwise` (u, D)
        where a class has fewer than `least` workloads, or too few in the other folds, to learn from."""
        forecast, modelled = self.last.copy(), np.zeros(len(labels), np.bool_)
        for label in np.unique(labels):
            members = labels == label
            for fold in np.unique(self.fold) if members.sum() >= least else ():
                training, held_out = members & (self.fold != fold), np.flatnonzero(members & (self.fold == fold))
                if training.sum() < MIN_TRAINING or not len(held_out):
                    continue
                weights, modelled[held_out] = self._weights(training), True
                for i in held_out:
                    rows = slice(self.first[i], self.first[i] + self.count[i])
                    forecast[rows] += self.inputs[i] @ weights
        return np.where(modelled[:, None], self._correlations(forecast), otherwise)

    def _weights(self, training: Any) -> Float:
        """(F, D) least squares with a penalty, of the workloads of a mask (u,)."""
        squares, products = self.squares[training].mean(axis=0), self.products[training].mean(axis=0)
        weights: Float = np.linalg.solve(squares + RIDGE * np.eye(len(squares)), products)
        return weights

    def _correlations(self, forecast: Float) -> Float:
        """(u, D) `forecasting.correlations` of each workload: of (R, D) forecasts with usage, over its own rows."""

        def means(values: Float) -> Float:
            found: Float = np.add.reduceat(values, self.first) / self.count[:, None]
            return found

        actual = self.outcome - np.repeat(means(self.outcome), self.count, axis=0)
        spread_out = forecast - np.repeat(means(forecast), self.count, axis=0)
        both, own, other = means(actual * spread_out), means(actual**2), means(spread_out**2)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.where(other > FLAT, both / np.sqrt(own * other), 0.0)
        return np.where(own > FLAT, found, np.nan)


def whole_folds(application: Int, folds: int, rng: np.random.Generator) -> Int:
    """(u,) a fold for each workload, 0.., all of an application (u,) in one: the largest goes to the smallest fold.

    Examples
    --------
    >>> whole_folds(np.array([7, 7, 7, 8, 9]), 2, np.random.default_rng(0)).tolist()
    [0, 0, 0, 1, 1]
    """
    name, number, size = np.unique(application, return_inverse=True, return_counts=True)
    fold, filled = np.zeros(len(name), np.int64), np.zeros(min(folds, len(name)), np.int64)
    order = rng.permutation(len(name))
    for one in order[np.argsort(-size[order], kind="stable")]:
        fold[one] = filled.argmin()
        filled[fold[one]] += size[one]
    found: Int = fold[number.reshape(-1)]
    return found


def exchanged(labels: Int, application: Int | None, rng: np.random.Generator) -> Int:
    """(u,) labels that changed places at random: of workloads, or of whole applications (u,) where those are known.

    Applications of different sizes give each other their labels in the same proportions, so that workloads of
    one are as often alike as before; then classes can have other sizes.

    Examples
    --------
    >>> exchanged(np.array([1, 1, 2, 2]), np.array([0, 0, 1, 1]), np.random.default_rng(0)).tolist()
    [2, 2, 1, 1]
    """
    if application is None:
        return rng.permutation(labels)
    members = [np.flatnonzero(application == one) for one in np.unique(application)]
    found = np.empty_like(labels)
    for own, other in zip(members, rng.permutation(len(members)), strict=True):
        given = np.sort(labels[members[other]])
        found[own] = given[np.arange(len(own)) * len(given) // len(own)]
    return found


def _mean(found: Float) -> float:
    return float(np.nanmean(found)) if np.isfinite(found).any() else float("nan")
