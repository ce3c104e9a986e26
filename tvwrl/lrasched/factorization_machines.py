"""A factorization machine that learns online by FTRL-Proximal and takes new features at any time (LRASched, 3.2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.lrasched.factorization_machine_kernels import learn_rows, predict_rows
from tvwrl.lrasched.models import check_parameters, check_targets, draw_factors
from tvwrl.types import Float, InputError, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Rows:
    """A sparse table: row i has the features index[start[i]:start[i + 1]], each once, with the values beside them."""

    start: Int  # (n + 1,) first entry of each row, then the number of entries
    index: Int  # (entries,) feature, >= 0
    value: Float  # (entries,) finite
    features: int  # columns of the table, >= 0

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
        """The rows of a scipy CSR or a dense (n, p) array. Raises InputError for another shape, NaN or infinity."""
        if isinstance(table, cls):
            return table
        from scipy.sparse import csr_array

        given: Any = table if hasattr(table, "tocsr") else np.asarray(table, dtype=np.float64)
        if given.ndim != 2:
            raise InputError(f"X has shape {given.shape}: must be rows of features, (n, p)")
        sparse = csr_array(given, dtype=np.float64, copy=True)
        sparse.sum_duplicates()
        if not (finite := np.isfinite(sparse.data)).all():
            entry = np.argmin(finite)
            row, feature = (place[entry] for place in sparse.tocoo().coords)
            raise InputError(f"X: row {row}, feature {feature} is {sparse.data[entry]}: must be finite")
        return cls(sparse.indptr.astype(np.int64), sparse.indices.astype(np.int64), sparse.data, sparse.shape[1])


@dataclass
class FactorizationMachine:
    """Regression on sparse rows with pairwise interactions through factors, learnt online (LRASched, Eq. 1 to 10).

    Minimises the squared error (Eq. 4) by FTRL-Proximal with a learning rate per coordinate (Algorithms 1 and 2):
    alpha / (beta + sqrt(sum of its squared gradients)). Hyper-parameters ending in `_w` concern the intercept w_0 and
    the weights w, those ending in `_v` the factors.

    Attributes after fitting: `features_` (p), `intercept_` (w_0), `weights_` (p,), `factors_` (p, factors).

    The defaults were tuned on the simulated testbed (docs/explanation/sizing.md). With a larger alpha_v or a smaller
    beta_v the first steps of the factors can be so long, when few rows precede them, that predictions never recover.

    Paper: z starts at 0. Here: z starts where Eq. 7 returns a random draw. From 0 every factor would be 0 after the
    first row and stay there, because its gradient is a multiple of the factors.

    >>> machine = FactorizationMachine().fit([[1.0, 0.0], [0.0, 1.0]], [0.2, 0.8])
    >>> machine.partial_fit([[0.0, 1.0, 1.0]], [0.9]).features_
    3
    """

    factors: int = 4
    """h, dimensions of the factorization, >= 0; 0 makes a linear model."""
    alpha_w: float = 0.2
    beta_w: float = 0.015
    lambda1_w: float = 0.0
    lambda2_w: float = 0.001
    alpha_v: float = 0.8
    beta_v: float = 0.75
    lambda1_v: float = 0.0025
    lambda2_v: float = 0.002
    sigma: float = 0.012
    """Standard deviation of the initial factors, N(0, sigma)."""
    passes: int = 40
    """Passes of `fit` over its rows, each in a new random order; `partial_fit` keeps the order it is given."""
    random_state: int = 0
    """Seed of initial factors and orders; a feature's initial factors depend only on this and its number."""

    def __post_init__(self) -> None:
        check_parameters(self, positive=("alpha_w", "alpha_v", "passes"))
        self._reset()

    def _reset(self) -> None:
        self._linear = np.zeros((3, 1))
        self._factors = np.zeros((3, 0, self.factors))

    @property
    def features_(self) -> int:
        """p, the number of features seen so far."""
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
        """Learn from scratch: `X` (n, p) CSR or dense, `y` (n,) targets. Raises InputError unless both are finite."""
        rows = Rows.of(X)
        target = check_targets(y, len(rows))
        self._reset()
        rng = np.random.default_rng(self.random_state)
        self._learn(rows, target, (rng.permutation(len(rows)) for _ in range(self.passes)))
        return self

    def partial_fit(self, X: Any, y: Any, passes: int = 1) -> FactorizationMachine:
        """Continue learning from rows in their order, `passes` times; columns beyond the known become new features."""
        rows = Rows.of(X)
        self._learn(rows, check_targets(y, len(rows)), (np.arange(len(rows)) for _ in range(passes)))
        return self

    def predict(self, X: Any) -> Float:
        """(n,) predictions (Eq. 2) for `X` (n, any number of columns); an unseen feature counts as zero."""
        rows = Rows.of(X)
        out = np.empty(len(rows))
        predict_rows(rows.start, rows.index, rows.value, self._linear, self._factors, out)
        return out

    def _learn(self, rows: Rows, target: Float, orders: Iterable[Int]) -> None:
        if rows.features > self.features_:
            self._add_features(rows.features)
        w, v = ("alpha_w", "beta_w", "lambda1_w", "lambda2_w"), ("alpha_v", "beta_v", "lambda1_v", "lambda2_v")
        rates = tuple(float(getattr(self, name)) for name in w + v)
        for order in orders:
            learn_rows(rows.start, rows.index, rows.value, target, order, self._linear, self._factors, rates)

    def _add_features(self, features: int) -> None:
        """Add features of zero weight and random factors up to this number (LRASched, 3.2.2, after its [25])."""
        new = range(self.features_, features)
        v = draw_factors(((self.random_state, feature) for feature in new), self.sigma, self.factors)
        # the z that Eq. 7 turns back into v while n = 0
        z = -(v * (self.beta_v / self.alpha_v + self.lambda2_v) + np.sign(v) * self.lambda1_v)
        self._factors = np.concatenate([self._factors, np.stack([v, z, np.zeros_like(v)])], axis=1)
        self._linear = np.concatenate([self._linear, np.zeros((3, len(new)))], axis=1)
