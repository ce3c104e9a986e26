"""Online matrix factorization of applications x configurations with biases: the baseline of LRASched (its [13])."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.checks import within
from tvwrl.lrasched.matrix_factorization_kernels import learn_pairs, predict_pairs
from tvwrl.lrasched.models import check_parameters, check_targets, draw_factors
from tvwrl.types import Float, InputError, Int


@dataclass
class MatrixFactorization:
    """Predicts mean + b_a + b_c + p_a . q_c for application a in configuration c; learns by gradient descent.

    `mean` is that of the targets of `fit`. Larger numbers of applications or configurations than before are new ones,
    which start with bias 0 and factors from N(0, sigma). The paper gives neither formula nor rates; without biases a
    plain mean would beat this baseline.

    Attributes after fitting: `mean_`, `biases_` and `factors_`, each a list of applications' and configurations'.
    """

    factors: int = 4
    """h, dimensions of the factorization, >= 0; 0 leaves the biases alone."""
    learning_rate: float = 0.055
    decay: float = 0.001
    """L2 regularization of biases and factors."""
    steadiness: float = 0.0
    """0..1: how much less `partial_fit` changes configurations than applications; 1 folds new applications in, that is,
    changes applications only."""
    sigma: float = 0.02
    """Standard deviation of the initial factors."""
    passes: int = 40
    """Passes of `fit`, each in a new random order."""
    random_state: int = 0
    """Seed of initial factors and orders."""

    def __post_init__(self) -> None:
        check_parameters(self, positive=("learning_rate", "passes"))
        within(0, 1, steadiness=self.steadiness)
        self._reset()

    def _reset(self) -> None:
        self.mean_ = 0.0
        self.biases_: list[Float] = [np.zeros(0), np.zeros(0)]
        self.factors_: list[Float] = [np.zeros((0, self.factors)), np.zeros((0, self.factors))]

    def fit(self, X: Any, y: Any) -> MatrixFactorization:
        """Learn from scratch: `X` (n, 2) numbers of application and configuration, `y` (n,) performance."""
        pairs = self._pairs(X)
        target = check_targets(y, len(pairs))
        self._reset()
        self.mean_ = float(target.mean()) if len(target) else 0.0
        rng = np.random.default_rng(self.random_state)
        self._learn(pairs, target, (rng.permutation(len(pairs)) for _ in range(self.passes)), 0.0)
        return self

    def partial_fit(self, X: Any, y: Any, passes: int = 1) -> MatrixFactorization:
        """Continue learning from pairs in their order, `passes` times."""
        pairs = self._pairs(X)
        orders = (np.arange(len(pairs)) for _ in range(passes))
        self._learn(pairs, check_targets(y, len(pairs)), orders, self.steadiness)
        return self

    def predict(self, X: Any) -> Float:
        """(n,) predictions for `X` (n, 2); an unseen application or configuration adds neither bias nor factors."""
        pairs, out = self._pairs(X), np.empty(len(X))
        (b_a, b_c), (p, q) = self.biases_, self.factors_
        predict_pairs(pairs[:, 0], pairs[:, 1], self.mean_, b_a, b_c, p, q, out)
        return out

    def _learn(self, pairs: Int, target: Float, orders: Iterable[Int], steadiness: float) -> None:
        for side in (0, 1):
            known, needed = len(self.biases_[side]), int(pairs[:, side].max(initial=-1)) + 1
            new = range(known, max(known, needed))
            drawn = draw_factors(((self.random_state, side, i) for i in new), self.sigma, self.factors)
            self.factors_[side] = np.vstack([self.factors_[side], drawn])
            self.biases_[side] = np.concatenate([self.biases_[side], np.zeros(len(new))])
        (b_a, b_c), (p, q) = self.biases_, self.factors_
        rates = self.learning_rate, self.learning_rate * (1.0 - steadiness)
        for order in orders:
            learn_pairs(pairs[:, 0], pairs[:, 1], target, order, self.mean_, b_a, b_c, p, q, rates, self.decay)

    @staticmethod
    def _pairs(X: Any) -> Int:
        pairs = np.asarray(X)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
            raise InputError(f"X has shape {pairs.shape} and type {pairs.dtype}: must be (n, 2) whole numbers")
        if (pairs < 0).any():
            raise InputError(f"X holds {pairs.min()}: applications and configurations are numbered from 0")
        return pairs.astype(np.int64)
