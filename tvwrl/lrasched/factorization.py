"""What both learnt models share: checks of hyper-parameters and targets, and the factors that they start from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.checks import within
from tvwrl.compiled import inner, njit
from tvwrl.types import Float, InputError, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def check_parameters(model: Any, positive: tuple[str, ...]) -> None:
    """Check that every field of a dataclass is a finite number >= 0, or > 0 if in `positive`, and whole if an int.

    Raises InputError with field, value and limit.
    """
    for field in fields(model):
        value: Any = getattr(model, field.name)
        whole = field.type in ("int", int)
        kinds = (int, np.integer) if whole else (int, float, np.number)
        good = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
        if not good or (field.name in positive and value == 0):
            limit = f"must be a {'whole ' * whole}number {'> 0' if field.name in positive else '>= 0'}"
            raise InputError(f"{field.name} is {value!r}: {limit}")


def check_targets(y: Any, rows: int) -> Float:
    """`y` as an array (rows,). Raises InputError for another shape, NaN or infinity."""
    target = np.asarray(y, np.float64)
    if target.shape != (rows,):
        raise InputError(f"y has shape {target.shape}: must be ({rows},), one target per row of X")
    if not np.isfinite(target).all():
        row = int(np.argmin(np.isfinite(target)))
        raise InputError(f"y: row {row} is {target[row]}: must be finite")
    return target


def draw_factors(seeds: Iterable[tuple[int, ...]], sigma: float, factors: int) -> Float:
    """(seeds, factors) drawn from N(0, sigma), each row from its own seed, so that it does not depend on the others."""
    rows = [np.random.default_rng(seed).normal(0.0, sigma, factors) for seed in seeds]
    return np.array(rows).reshape(len(rows), factors)


@njit(inline="always", error_model="numpy")
def closed_form(z: float, root: float, alpha: float, beta: float, lambda1: float, lambda2: float) -> float:
    """The parameter for a state z and `root` = sqrt(n) (Eq. 5 to 7); free of branches, so that loops vectorise."""
    parameter: float = -np.copysign(max(abs(z) - lambda1, 0.0), z) / ((beta + root) / alpha + lambda2)
    return parameter


@njit(inline="always", error_model="numpy")
def update_state(theta: float, z: float, root: float, gradient: float, alpha: float) -> tuple[float, float]:
    """z and sqrt(n) of one coordinate after a gradient taken at its parameter `theta` (Algorithm 2)."""
    after = np.sqrt(root * root + gradient * gradient)
    return z + gradient - (after - root) / alpha * theta, after


@inner(error_model="numpy")
def predict_row(index: Int, value: Float, linear: Float, factors: Float, sums: Float) -> float:
    """Prediction for one row (Eq. 2); leaves sum_l v_lf x_l of every factor f in `sums` (h,).

    Features beyond the known ones count as zero.
    """
    known, h = factors.shape[1], factors.shape[2]
    guess: float = linear[0, 0]
    sums[:] = 0.0
    squares = 0.0
    for k in range(len(index)):
        j, x = index[k], value[k]
        if j >= known:
            continue
        guess += linear[0, 1 + j] * x
        for f in range(h):
            part = factors[0, j, f] * x
            sums[f] += part
            squares += part * part
    for f in range(h):
        squares -= sums[f] * sums[f]
    return guess - 0.5 * squares


@njit(error_model="numpy")
def predict_rows(start: Int, index: Int, value: Float, linear: Float, factors: Float, out: Float) -> None:
    """Writes a prediction for every row into `out` (rows,)."""
    sums = np.empty(factors.shape[2])
    for i in range(len(out)):
        out[i] = predict_row(index[start[i] : start[i + 1]], value[start[i] : start[i + 1]], linear, factors, sums)


@njit(error_model="numpy")
def learn_rows(
    start: Int,
    index: Int,
    value: Float,
    target: Float,
    order: Int,
    linear: Float,
    factors: Float,
    rates: tuple[float, ...],
) -> None:
    """Learns the rows in `order` from their `target` (rows,); all gradients of a row precede its steps.

    `rates` (8,): alpha, beta, lambda1, lambda2 of the weights, then the same of the factors.
    """
    h = factors.shape[2]
    sums = np.empty(h)
    alpha_w, beta_w, lambda1_w, lambda2_w, alpha_v, beta_v, lambda1_v, lambda2_v = rates
    for i in order:
        first, last = start[i], start[i + 1]
        slope = 2.0 * (predict_row(index[first:last], value[first:last], linear, factors, sums) - target[i])
        for k in range(first - 1, last):  # k = first - 1 is the intercept, whose feature is always 1
            c, x = (0, 1.0) if k < first else (1 + index[k], value[k])
            linear[1, c], linear[2, c] = update_state(linear[0, c], linear[1, c], linear[2, c], slope * x, alpha_w)
            linear[0, c] = closed_form(linear[1, c], linear[2, c], alpha_w, beta_w, lambda1_w, lambda2_w)
        for k in range(first, last):
            j, x = index[k], value[k]
            v, z, root = factors[0, j], factors[1, j], factors[2, j]
            for f in range(h):
                # Paper: x_l (sum_l v_lf x_l - v_lf x_l^2). Here, following Eq. 2: x_l sum_l v_lf x_l - v_lf x_l^2.
                gradient = slope * (x * sums[f] - v[f] * x * x)
                z[f], root[f] = update_state(v[f], z[f], root[f], gradient, alpha_v)
                v[f] = closed_form(z[f], root[f], alpha_v, beta_v, lambda1_v, lambda2_v)


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
        if rows.features > self.features_:  # new ones have zero weight and random factors (3.2.2, after its [25])
            new = range(self.features_, rows.features)
            v = draw_factors(((self.random_state, feature) for feature in new), self.sigma, self.factors)
            # the z that Eq. 7 turns back into v while n = 0
            z = -(v * (self.beta_v / self.alpha_v + self.lambda2_v) + np.sign(v) * self.lambda1_v)
            self._factors = np.concatenate([self._factors, np.stack([v, z, np.zeros_like(v)])], axis=1)
            self._linear = np.concatenate([self._linear, np.zeros((3, len(new)))], axis=1)
        names = [f"{name}_{of}" for of in "wv" for name in ("alpha", "beta", "lambda1", "lambda2")]
        rates = tuple(float(getattr(self, name)) for name in names)
        for order in orders:
            learn_rows(rows.start, rows.index, rows.value, target, order, self._linear, self._factors, rates)


@njit
def predict_pairs(
    rows: Int,  # (pairs,) row of each pair, >= 0
    columns: Int,  # (pairs,) column of each pair, >= 0
    mean: float,  # added to every prediction
    row_bias: Float,  # (R,) b_row
    column_bias: Float,  # (C,) b_column
    row_factors: Float,  # (R, h) p_row
    column_factors: Float,  # (C, h) q_column
    out: Float,  # (pairs,) receives the predictions
) -> None:
    """Writes mean + b_row + b_column + p_row . q_column of each pair into `out`.

    A row or column beyond the arrays contributes neither bias nor factors.
    """
    for i in range(len(out)):
        r, c = rows[i], columns[i]
        known_row, known_column = r < len(row_bias), c < len(column_bias)
        guess = mean
        if known_row:
            guess += row_bias[r]
        if known_column:
            guess += column_bias[c]
        if known_row and known_column:
            for f in range(row_factors.shape[1]):
                guess += row_factors[r, f] * column_factors[c, f]
        out[i] = guess


@njit
def learn_pairs(
    rows: Int,  # (pairs,) row of each pair, 0 to R - 1
    columns: Int,  # (pairs,) column of each pair, 0 to C - 1
    target: Float,  # (pairs,) what is to be predicted
    order: Int,  # (n,) pairs, in the order in which steps are taken
    mean: float,  # added to every prediction; not learnt
    row_bias: Float,  # (R,) updated in place
    column_bias: Float,  # (C,) updated in place
    row_factors: Float,  # (R, h) updated in place
    column_factors: Float,  # (C, h) updated in place
    rates: tuple[float, float],  # learning rates of the rows and of the columns
    decay: float,  # L2 weight of all parameters
) -> None:
    """One gradient step on the squared error of each pair in `order`."""
    row_rate, column_rate = rates
    for i in order:
        r, c = rows[i], columns[i]
        error = target[i] - mean - row_bias[r] - column_bias[c]
        for f in range(row_factors.shape[1]):
            error -= row_factors[r, f] * column_factors[c, f]
        row_bias[r] += row_rate * (error - decay * row_bias[r])
        column_bias[c] += column_rate * (error - decay * column_bias[c])
        for f in range(row_factors.shape[1]):
            p, q = row_factors[r, f], column_factors[c, f]
            row_factors[r, f] += row_rate * (error * q - decay * p)
            column_factors[c, f] += column_rate * (error * p - decay * q)


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
