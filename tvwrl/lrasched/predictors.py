"""Predictors of the performance of an application in configurations that it was not measured in."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tvwrl.lrasched.factorization import FactorizationMachine, MatrixFactorization, Rows
from tvwrl.lrasched.profiles import Profiles, check_configurations, feature_rows
from tvwrl.types import Float, Int


class Predictor(Protocol):
    """Learns from whole profiles, then online from single measurements.

    Applications and configurations go by their numbers in the profiles; new applications take the numbers after them.
    `learn` and `predict` raise InputError for a configuration that the profiles given to `fit` do not have.

    >>> predictor = PREDICTORS["factorization-machine"](0)
    >>> predictor.fit(profiles)                                                    # of 100 applications
    >>> predictor.learn(100, np.array([3, 7]), np.array([0.4, 0.8]))               # the new application's first two
    >>> predictor.predict(100, np.arange(20))                                      # and the 20 configurations of it
    """

    def fit(self, profiles: Profiles) -> None:
        """Learn from scratch, from earlier applications."""

    def learn(self, application: int, configuration: Int, performance: Float) -> None:
        """Learn the performance (k,) that was measured of an application in configurations (k,)."""

    def predict(self, application: int, configuration: Int) -> Float:
        """(k,) predicted performance of an application in configurations (k,), 0..1."""


def _clip(performance: Float) -> Float:
    """Clip to 0..1; np.clip would take as long as the prediction itself."""
    return np.minimum(np.maximum(performance, 0.0), 1.0)


@dataclass
class FactorizationMachinePredictor:
    """The FTRL factorization machine on the features of Figure 4; learns each new measurement `passes` times."""

    model: FactorizationMachine
    passes: int
    profiled: list[Int] = field(default_factory=list)  # measured configurations of each application, ascending
    configurations: int = 0

    def fit(self, profiles: Profiles) -> None:
        self.configurations, grid = len(profiles.configurations), profiles.grid()
        self.profiled = [np.nonzero(known)[0] for known in ~np.isnan(grid)]
        rows = Rows.stack([self._rows(a, own) for a, own in enumerate(self.profiled)])
        self.model.fit(rows, np.concatenate([grid[a, own] for a, own in enumerate(self.profiled)]))

    def learn(self, application: int, configuration: Int, performance: Float) -> None:
        check_configurations(configuration, self.configurations)
        self._add(application)
        self.profiled[application] = np.union1d(self.profiled[application], configuration)
        self.model.partial_fit(self._rows(application, configuration), performance, self.passes)

    def predict(self, application: int, configuration: Int) -> Float:
        self._add(application)
        return _clip(self.model.predict(self._rows(application, configuration)))

    def _rows(self, application: int, configuration: Int) -> Rows:
        return feature_rows(application, configuration, self.profiled[application], self.configurations)

    def _add(self, application: int) -> None:
        while len(self.profiled) <= application:
            self.profiled.append(np.zeros(0, np.int64))


@dataclass
class MatrixFactorizationPredictor:
    """Online matrix factorization; learns each new measurement `passes` times."""

    model: MatrixFactorization
    passes: int
    configurations: int = 0

    def fit(self, profiles: Profiles) -> None:
        self.configurations = len(profiles.configurations)
        self.model.fit(profiles.pairs, profiles.performance)

    def learn(self, application: int, configuration: Int, performance: Float) -> None:
        self.model.partial_fit(self._pairs(application, configuration), performance, self.passes)

    def predict(self, application: int, configuration: Int) -> Float:
        return _clip(self.model.predict(self._pairs(application, configuration)))

    def _pairs(self, application: int, configuration: Int) -> Int:
        check_configurations(configuration, self.configurations)
        return np.stack([np.full(len(configuration), application), configuration], axis=1).astype(np.int64)


@dataclass
class Means:
    """Plain means: of the configuration over all applications, of the application's own measurements, or both added:
    the configuration's mean, shifted by how far the application's measurements lie from such means on average."""

    of_configuration: bool = True
    of_application: bool = True
    total: Float = field(default_factory=lambda: np.zeros(0))  # (configurations,) sum of performance
    count: Float = field(default_factory=lambda: np.zeros(0))  # (configurations,) measurements
    own: dict[int, dict[int, float]] = field(default_factory=dict)  # application -> configuration -> performance

    def fit(self, profiles: Profiles) -> None:
        m = len(profiles.configurations)
        self.total = np.bincount(profiles.configuration, profiles.performance, m).astype(np.float64)
        self.count = np.bincount(profiles.configuration, minlength=m).astype(np.float64)
        self.own = {}
        for a, c, y in zip(profiles.application, profiles.configuration, profiles.performance, strict=True):
            self.own.setdefault(int(a), {})[int(c)] = float(y)

    def learn(self, application: int, configuration: Int, performance: Float) -> None:
        check_configurations(configuration, len(self.total))
        own = self.own.setdefault(application, {})
        for c, y in zip(configuration.tolist(), performance.tolist(), strict=True):
            self.total[c] += y - own.get(c, 0.0)  # a repeated measurement replaces the first
            self.count[c] += c not in own
            own[c] = y

    def predict(self, application: int, configuration: Int) -> Float:
        check_configurations(configuration, len(self.total))
        overall = self.total.sum() / max(self.count.sum(), 1.0)
        mean = np.where(self.count > 0, self.total / np.maximum(self.count, 1.0), overall)
        guess = mean[configuration] if self.of_configuration else np.full(len(configuration), overall)
        known = self.own.get(application, {})
        if self.of_application and known:
            base = mean[list(known)] if self.of_configuration else overall
            guess = guess + np.mean(np.array(list(known.values())) - base)
        return _clip(guess)


def factorization_machine(seed: int = 0) -> FactorizationMachinePredictor:
    """The paper's model, tuned on the simulated testbed (docs/explanation/sizing.md)."""
    return FactorizationMachinePredictor(FactorizationMachine(random_state=seed), 20)


def matrix_factorization(seed: int = 0) -> MatrixFactorizationPredictor:
    """The paper's baseline, whose applications and configurations both learn online; tuned in the same way."""
    return MatrixFactorizationPredictor(MatrixFactorization(random_state=seed), 20)


def folding_in(seed: int = 0) -> MatrixFactorizationPredictor:
    """A stronger baseline, whose applications alone learn online; tuned in the same way."""
    model = MatrixFactorization(
        learning_rate=0.24, decay=0.0037, steadiness=1.0, sigma=0.1, passes=80, random_state=seed
    )
    return MatrixFactorizationPredictor(model, 200)


def both_means(seed: int = 0) -> Means:
    """The means of application and configuration, added; not random, `seed` makes it callable like the others."""
    return Means()


PREDICTORS: dict[str, Callable[[int], Predictor]] = {
    "factorization-machine": factorization_machine,
    "matrix-factorization": folding_in,
    "means": both_means,
}


def held_out_errors(
    predictor: Predictor, history: Profiles, arriving: Profiles, seed: int, measured: int = 2, later: int = 0
) -> Float:
    """(applications, configurations) predicted minus true performance of `arriving`, NaN where it was not predicted.

    The predictor is fitted on `history`, then takes the arriving applications in turn: it learns `measured`
    configurations of each, drawn with `seed`, and predicts the others; then it learns `later` more, as would be
    measured while the application runs. Both profiles have the same configurations.
    """
    rng = np.random.default_rng(seed)
    predictor.fit(history)
    grid = arriving.grid()
    errors = np.full_like(grid, np.nan)
    for i, row in enumerate(grid):
        order = rng.permutation(np.nonzero(~np.isnan(row))[0])
        known, rest, more = order[:measured], np.sort(order[measured:]), order[measured : measured + later]
        number = len(history.applications) + i
        predictor.learn(number, known, row[known])
        errors[i, rest] = predictor.predict(number, rest) - row[rest]
        if len(more):
            predictor.learn(number, more, row[more])
    return errors


def rmse(errors: Float) -> float:
    """Root mean square of the errors that are not NaN."""
    return float(np.sqrt(np.nanmean(errors**2)))


def seconds_of_prediction(predictor: Predictor, application: int, repeats: int = 200) -> float:
    """Median seconds to predict the performance of one application in one configuration."""
    took = []
    configuration = np.array([0])
    for _ in range(repeats):
        begin = time.perf_counter()
        predictor.predict(application, configuration)
        took.append(time.perf_counter() - begin)
    return float(np.median(took))
