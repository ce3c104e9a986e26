"""What predicts the performance of an application in configurations it was not measured in, all in one manner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tvwrl.lrasched.factorization_machine import FactorizationMachine, Rows
from tvwrl.lrasched.matrix_factorization import MatrixFactorization
from tvwrl.lrasched.profiles import Profiles, check_configurations, feature_rows
from tvwrl.types import Float, Int


class Predictor(Protocol):
    """Applications and configurations are numbers of the profiles; new applications follow on.

    `learn` and `predict` raise InputError for a configuration that the profiles given to `fit` do not have.
    """

    def fit(self, profiles: Profiles) -> None:
        """Learn offline, from applications that were profiled before."""

    def learn(self, application: int, configuration: Int, performance: Float) -> None:
        """Learn online that an application did so well, (k,), in these configurations, (k,)."""

    def predict(self, application: int, configuration: Int) -> Float:
        """(k,) performance of an application in configurations, 0..1."""


def pairs_of(application: int, configuration: Int) -> Int:
    """(k, 2) of one application."""
    return np.stack([np.full(len(configuration), application), configuration], axis=1).astype(np.int64)


def _cut(performance: Float) -> Float:
    """To 0..1; np.clip takes as long as the prediction."""
    return np.minimum(np.maximum(performance, 0.0), 1.0)


@dataclass
class ByFactorizationMachine:
    """The FTRL factorization machine on the features of Figure 4; what is learnt online is gone over `passes` times."""

    model: FactorizationMachine
    passes: int
    profiled: list[Int] = field(default_factory=list)  # configurations of each application, rising
    configurations: int = 0

    def fit(self, profiles: Profiles) -> None:
        self.configurations, grid = len(profiles.configurations), profiles.grid()
        self.profiled = [np.nonzero(known)[0] for known in ~np.isnan(grid)]
        rows = Rows.stack([self._rows(a, own) for a, own in enumerate(self.profiled)])
        self.model.fit(rows, np.concatenate([grid[a, own] for a, own in enumerate(self.profiled)]))

    def learn(self, application: int, configuration: Int, performance: Float) -> None:
        check_configurations(configuration, self.configurations)
        self._know(application)
        self.profiled[application] = np.union1d(self.profiled[application], configuration)
        self.model.partial_fit(self._rows(application, configuration), performance, self.passes)

    def predict(self, application: int, configuration: Int) -> Float:
        self._know(application)
        return _cut(self.model.predict(self._rows(application, configuration)))

    def _rows(self, application: int, configuration: Int) -> Rows:
        return feature_rows(application, configuration, self.profiled[application], self.configurations)

    def _know(self, application: int) -> None:
        while len(self.profiled) <= application:
            self.profiled.append(np.zeros(0, np.int64))


@dataclass
class ByMatrixFactorization:
    """Online matrix factorization; what is learnt online is gone over `passes` times."""

    model: MatrixFactorization
    passes: int
    configurations: int = 0

    def fit(self, profiles: Profiles) -> None:
        self.configurations = len(profiles.configurations)
        self.model.fit(profiles.pairs, profiles.performance)

    def learn(self, application: int, configuration: Int, performance: Float) -> None:
        check_configurations(configuration, self.configurations)
        self.model.partial_fit(pairs_of(application, configuration), performance, self.passes)

    def predict(self, application: int, configuration: Int) -> Float:
        check_configurations(configuration, self.configurations)
        return _cut(self.model.predict(pairs_of(application, configuration)))


@dataclass
class Means:
    """Plain means: of the configuration over all applications, of the application's own measurements, or, additive,
    the configuration's shifted by how far the application's measurements lie from theirs."""

    of_configuration: bool = True
    of_application: bool = True
    total: Float = field(default_factory=lambda: np.zeros(0))  # (configurations,) sums
    count: Float = field(default_factory=lambda: np.zeros(0))
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
            self.total[c] += y - own.get(c, 0.0)  # what is measured again takes the place of what was
            self.count[c] += c not in own
            own[c] = y

    def predict(self, application: int, configuration: Int) -> Float:
        check_configurations(configuration, len(self.total))
        everywhere = self.total.sum() / max(self.count.sum(), 1.0)
        usual = np.where(self.count > 0, self.total / np.maximum(self.count, 1.0), everywhere)
        guess = usual[configuration] if self.of_configuration else np.full(len(configuration), everywhere)
        known = self.own.get(application, {})
        if self.of_application and known:
            base = usual[list(known)] if self.of_configuration else everywhere
            guess = guess + np.mean(np.array(list(known.values())) - base)
        return _cut(guess)


def factorization_machine(seed: int = 0) -> ByFactorizationMachine:
    """The factorization machine as tuned on the simulated testbed (docs/lrasched.md)."""
    return ByFactorizationMachine(FactorizationMachine(random_state=seed), 20)


def matrix_factorization(seed: int = 0) -> ByMatrixFactorization:
    """The baseline, all of it moved by what is learnt online; tuned alike."""
    return ByMatrixFactorization(MatrixFactorization(random_state=seed), 20)


def folding_in(seed: int = 0) -> ByMatrixFactorization:
    """The baseline made stronger: what is learnt online moves the application alone; tuned alike."""
    model = MatrixFactorization(
        learning_rate=0.24, decay=0.0037, steadiness=1.0, sigma=0.1, passes=80, random_state=seed
    )
    return ByMatrixFactorization(model, 200)


def both_means(seed: int = 0) -> Means:
    """Level of the application and curve of the configurations, added; nothing is drawn, `seed` is for the likeness."""
    return Means()


PREDICTORS: dict[str, Callable[[int], Predictor]] = {
    "factorization-machine": factorization_machine,
    "matrix-factorization": folding_in,
    "means": both_means,
}
