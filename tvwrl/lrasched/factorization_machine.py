"""A factorization machine that learns row after row by FTRL-Proximal while features are added (paper 000, 3.2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.lrasched.kernels import learn_rows, predict_rows
from tvwrl.lrasched.parameters import check_parameters
from tvwrl.types import Float, InputError, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Rows:
    """Rows of features, sparse: row i has index[start[i]:start[i + 1]], each feature once."""

    start: Int  # (n + 1,)
    index: Int  # (entries,) >= 0
    value: Float  # (entries,) finite
    features: int  # columns of the table

    def __len__(self) -> int:
        return len(self.start) - 1

    @classmethod
    def stack(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, one after the other."""
        entries = np.concatenate([np.diff(part.start) for part in parts])
        index, value = (np.concatenate([getattr(part, name) for part in parts]) for name in ("index", "value"))
        start = np.concatenate([[0], np.cumsum(entries)])
        return cls(start, index, value, max(part.features for part in parts))

    @classmethod
    def of(cls, table: Rows | csr_array | Any) -> Rows:
        """Rows of a scipy CSR or of a dense (n, p) array. Raises InputError for another shape, or NaN or infinity."""
        if isinstance(table, cls):
            return table
        if hasattr(table, "tocsr"):
            sparse = table.tocsr()
            if not sparse.has_canonical_format:
                sparse = sparse.copy()
                sparse.sum_duplicates()
            start, index, value, features = sparse.indptr, sparse.indices, sparse.data, sparse.shape[1]
        else:
            dense = np.asarray(table, dtype=np.float64)
            if dense.ndim != 2:
                raise InputError(f"X has shape {dense.shape}: must be rows of features, (n, p)")
            row, index = np.nonzero(dense)  # NaN counts as not zero
            start, value, features = np.searchsorted(row, np.arange(len(dense) + 1)), dense[row, index], dense.shape[1]
        value = np.asarray(value, np.float64)
        if not np.isfinite(value).all():
            entry = int(np.argmin(np.isfinite(value)))
            row_number = int(np.searchsorted(start, entry, side="right")) - 1
            raise InputError(f"X: row {row_number}, feature {index[entry]} is {value[entry]}: must be finite")
        return cls(np.asarray(start, np.int64), np.asarray(index, np.int64), value, int(features))


@dataclass
class FactorizationMachine:
    """Regression on sparse rows with interactions of features through factors, learnt online (Eq. 1 to 10).

    The loss is squared error (Eq. 4), minimised by FTRL-Proximal with a learning rate per coordinate (Algorithms 1 and
    2). Parameters of the same names with `_w` concern w_0 and w, with `_v` the factors. A coordinate's learning rate is
    alpha / (beta + sqrt(sum of its squared gradients)).

    Attributes after fitting: `features_` (p), `intercept_` (w_0), `weights_` (p,), `factors_` (p, factors).

    Rates are those tuned on the simulated testbed (docs/lrasched.md). With a larger alpha_v or a smaller beta_v the
    first steps of factors can be so long, where few rows teach many, that predictions never come back.

    Paper: z starts at 0. Here: so that Eq. 7 returns the random draw; from 0 every factor would be 0 from the first row
    on, and stay there, as its gradient is made of factors.
    """

    factors: int = 4
    """h, dimensions of the factorization, >= 0; 0 = a linear model."""
    alpha_w: float = 0.2
    beta_w: float = 0.015
    lambda1_w: float = 0.0
    lambda2_w: float = 0.001
    alpha_v: float = 0.8
    beta_v: float = 0.75
    lambda1_v: float = 0.0025
    lambda2_v: float = 0.002
    sigma: float = 0.012
    """Standard deviation of the first factors, N(0, sigma)."""
    passes: int = 40
    """Passes of `fit` over its rows, each in a new random order; `partial_fit` takes every row once, as they come."""
    random_state: int = 0
    """Of first factors and orders: each feature's factors depend on this and its number alone."""

    def __post_init__(self) -> None:
        check_parameters(self, positive=("alpha_w", "alpha_v", "passes"))
        self._forget()

    def _forget(self) -> None:
        self._linear = np.zeros((3, 1))
        self._factors = np.zeros((3, 0, self.factors))

    @property
    def features_(self) -> int:
        """p, features seen so far."""
        return self._factors.shape[1]

    @property
    def intercept_(self) -> float:
        """w_0."""
        return float(self._linear[0, 0])

    @property
    def weights_(self) -> Float:
        """(p,) w."""
        return np.asarray(self._linear[0, 1:])

    @property
    def factors_(self) -> Float:
        """(p, factors) V."""
        return np.asarray(self._factors[0])

    def fit(self, X: Any, y: Any) -> FactorizationMachine:
        """Learn from nothing: `X` (n, p) CSR or dense, `y` (n,) targets; both finite, or InputError."""
        rows, target = Rows.of(X), self._targets(X, y)
        self._forget()
        rng = np.random.default_rng(self.random_state)
        self._learn(rows, target, (rng.permutation(len(rows)) for _ in range(self.passes)))
        return self

    def partial_fit(self, X: Any, y: Any, passes: int = 1) -> FactorizationMachine:
        """Learn on from rows in their order, `passes` times; columns beyond those known become new features."""
        rows = Rows.of(X)
        self._learn(rows, self._targets(rows, y), (np.arange(len(rows)) for _ in range(passes)))
        return self

    def predict(self, X: Any) -> Float:
        """(n,) predictions (Eq. 2) of `X` (n, any number of columns): a feature never seen has zero weight and no
        factors."""
        rows = Rows.of(X)
        out = np.empty(len(rows))
        predict_rows(rows.start, rows.index, rows.value, self._linear, self._factors, out)
        return out

    def _learn(self, rows: Rows, target: Float, orders: Iterable[Int]) -> None:
        if rows.features > self.features_:
            self._grow(rows.features)
        w, v = ("alpha_w", "beta_w", "lambda1_w", "lambda2_w"), ("alpha_v", "beta_v", "lambda1_v", "lambda2_v")
        rates = tuple(float(getattr(self, name)) for name in w + v)
        for order in orders:
            learn_rows(rows.start, rows.index, rows.value, target, order, self._linear, self._factors, rates)

    def _grow(self, features: int) -> None:
        """Add features of zero weight and random factors (paper 000, 3.2.2, after its [25])."""
        new = range(self.features_, features)
        draws = [
            np.random.default_rng((self.random_state, feature)).normal(0.0, self.sigma, self.factors) for feature in new
        ]
        v = np.array(draws).reshape(len(new), self.factors)
        # z that Eq. 7 turns back into v while n = 0
        z = -(v * (self.beta_v / self.alpha_v + self.lambda2_v) + np.sign(v) * self.lambda1_v)
        self._factors = np.concatenate([self._factors, np.stack([v, z, np.zeros_like(v)])], axis=1)
        self._linear = np.concatenate([self._linear, np.zeros((3, len(new)))], axis=1)

    @staticmethod
    def _targets(X: Any, y: Any) -> Float:
        """(n,) targets, checked."""
        target = np.asarray(y, np.float64)
        count = len(X) if isinstance(X, Rows) else np.shape(X)[0]
        if target.shape != (count,):
            raise InputError(f"y has shape {target.shape}: must be ({count},), one target per row of X")
        if not np.isfinite(target).all():
            row = int(np.argmin(np.isfinite(target)))
            raise InputError(f"y: row {row} is {target[row]}: must be finite")
        return target
