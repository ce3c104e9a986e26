"""Online matrix factorization with biases of applications x configurations: the baseline of paper 000 (its [13])."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.lrasched.kernels import learn_pairs, predict_pairs
from tvwrl.lrasched.parameters import check_parameters
from tvwrl.types import Float, InputError, Int


@dataclass
class MatrixFactorization:
    """mean + b_a + b_c + p_a . q_c of application a and configuration c, by stochastic gradient descent.

    The paper gives neither formula nor rates. Biases are there because without them the baseline would be beaten by a
    mean. The mean is that of the rows of `fit`. Both sides grow as larger numbers appear: biases 0, factors N(0,
    sigma).
    """

    factors: int = 4
    """>= 0; 0 = biases alone."""
    learning_rate: float = 0.055
    decay: float = 0.001
    """L2 regularization of biases and factors."""
    steadiness: float = 0.0
    """0..1: how much slower `partial_fit` moves configurations than applications; 1 = only applications move, new ones
    are folded in."""
    sigma: float = 0.02
    """Standard deviation of the first factors."""
    passes: int = 40
    """Passes of `fit`, each in a new random order."""
    random_state: int = 0

    def __post_init__(self) -> None:
        check_parameters(self, positive=("learning_rate", "passes"))
        if self.steadiness > 1:
            raise InputError(f"steadiness is {self.steadiness}: must be a number from 0 to 1")
        self._forget()

    def _forget(self) -> None:
        self.mean_ = 0.0
        self.biases_: list[Float] = [np.zeros(0), np.zeros(0)]  # of applications, of configurations
        self.factors_: list[Float] = [np.zeros((0, self.factors)), np.zeros((0, self.factors))]

    def fit(self, X: Any, y: Any) -> MatrixFactorization:
        """Learn from nothing: `X` (n, 2) numbers of application and configuration, `y` (n,) performance."""
        pairs, target = self._checked(X, y)
        self._forget()
        self.mean_ = float(target.mean()) if len(target) else 0.0
        rng = np.random.default_rng(self.random_state)
        self._learn(pairs, target, (rng.permutation(len(pairs)) for _ in range(self.passes)), 0.0)
        return self

    def partial_fit(self, X: Any, y: Any, passes: int = 1) -> MatrixFactorization:
        """Learn on from pairs in their order, `passes` times."""
        pairs, target = self._checked(X, y)
        self._learn(pairs, target, (np.arange(len(pairs)) for _ in range(passes)), self.steadiness)
        return self

    def predict(self, X: Any) -> Float:
        """(n,) predictions of `X` (n, 2); an application or configuration never seen has neither bias nor factors."""
        pairs, out = self._pairs(X), np.empty(len(X))
        (b_a, b_c), (p, q) = self.biases_, self.factors_
        predict_pairs(pairs[:, 0], pairs[:, 1], self.mean_, b_a, b_c, p, q, out)
        return out

    def _learn(self, pairs: Int, target: Float, orders: Iterable[Int], steadiness: float) -> None:
        for side in (0, 1):
            known, needed = len(self.biases_[side]), int(pairs[:, side].max(initial=-1)) + 1
            new = range(known, max(known, needed))
            draws = [
                np.random.default_rng((self.random_state, side, i)).normal(0, self.sigma, self.factors) for i in new
            ]
            self.factors_[side] = np.vstack([self.factors_[side], np.array(draws).reshape(len(new), self.factors)])
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
        return pairs.astype(np.int64)

    def _checked(self, X: Any, y: Any) -> tuple[Int, Float]:
        pairs, target = self._pairs(X), np.asarray(y, np.float64)
        if (pairs < 0).any():
            raise InputError(f"X holds {pairs.min()}: applications and configurations are numbered from 0")
        if target.shape != (len(pairs),) or not np.isfinite(target).all():
            raise InputError(f"y of shape {target.shape}: must be {len(pairs)} finite numbers, one per row of X")
        return pairs, target
