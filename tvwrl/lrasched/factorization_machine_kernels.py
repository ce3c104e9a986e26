"""Compiled loops of the factorization machine: predictions and FTRL-Proximal steps (paper 000, Algorithms 1 and 2).

Arguments that the loops share, for p features and h factors:

- `start` (rows + 1,), `index` (entries,), `value` (entries,): sparse rows; row i has the features
  index[start[i]:start[i + 1]], each once, with the values beside them.
- `linear` (3, 1 + p): parameter w, state z and sqrt(n) of the intercept w_0 (column 0) and of every feature.
- `factors` (3, p, h): parameter v, state z and sqrt(n) of every factor.

w and v are the closed forms (5) to (7) of their z and n. They are stored because a prediction reads them far more often
than a step changes them: a step changes only the coordinates of its row.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inner, njit


@njit(inline="always", error_model="numpy")
def closed_form(z, root, alpha, beta, lambda1, lambda2):  # type: ignore[no-untyped-def]
    """The parameter for a state z and `root` = sqrt(n) (Eq. 5 to 7); free of branches, so that loops vectorise."""
    return -np.copysign(max(abs(z) - lambda1, 0.0), z) / ((beta + root) / alpha + lambda2)


@njit(inline="always", error_model="numpy")
def update_state(theta, z, root, gradient, alpha):  # type: ignore[no-untyped-def]
    """z and sqrt(n) of one coordinate after a gradient taken at its parameter `theta` (Algorithm 2)."""
    after = np.sqrt(root * root + gradient * gradient)
    return z + gradient - (after - root) / alpha * theta, after


@inner(error_model="numpy")
def predict_row(index, value, linear, factors, sums):  # type: ignore[no-untyped-def]
    """Prediction for one row (Eq. 2); leaves sum_l v_lf x_l of every factor f in `sums` (h,).

    Features beyond the known ones count as zero.
    """
    known, h = factors.shape[1], factors.shape[2]
    guess = linear[0, 0]
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
def predict_rows(start, index, value, linear, factors, out):  # type: ignore[no-untyped-def]
    """Writes a prediction for every row into `out` (rows,)."""
    sums = np.empty(factors.shape[2])
    for i in range(len(out)):
        out[i] = predict_row(index[start[i] : start[i + 1]], value[start[i] : start[i + 1]], linear, factors, sums)


@njit(error_model="numpy")
def learn_rows(start, index, value, target, order, linear, factors, rates):  # type: ignore[no-untyped-def]
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
