"""Compiled loops of the two models: the factorization machine by FTRL-Proximal, and matrix factorization by SGD.

State of the factorization machine, p features, h factors: `linear` (3, 1 + p) holds w, z, sqrt(n) of w_0 and of every
feature; `factors` (3, p, h) holds v, z, sqrt(n). w and v are the closed forms (5) to (7) of their z and n, kept so
that a prediction need not compute them again; only coordinates that a row touches change. `rates` (8,): alpha, beta,
lambda1, lambda2 of w, then of v. Rows are CSR: row i has the features index[start[i]:start[i + 1]], each once.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, inline="always", error_model="numpy")
def closed_form(z, root, alpha, beta, lambda1, lambda2):  # type: ignore[no-untyped-def]
    """Eq. 5 to 7: the parameter that z and sqrt(n) stand for; without a branch, so that a loop of it is vectorised."""
    return -np.copysign(max(abs(z) - lambda1, 0.0), z) / ((beta + root) / alpha + lambda2)


@njit(cache=True, inline="always", error_model="numpy")
def stepped(theta, z, root, gradient, alpha):  # type: ignore[no-untyped-def]
    """Algorithm 2 for one coordinate: z and sqrt(n) after a gradient at parameter `theta`."""
    after = np.sqrt(root * root + gradient * gradient)
    return z + gradient - (after - root) / alpha * theta, after


@njit(cache=True, error_model="numpy")
def predict_row(index, value, linear, factors, sums):  # type: ignore[no-untyped-def]
    """Eq. 2 of one row; leaves sum_l v_lf x_l of each factor in `sums` (h,). Unknown features count as zero weight."""
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


@njit(cache=True, error_model="numpy")
def predict_rows(start, index, value, linear, factors, out):  # type: ignore[no-untyped-def]
    """Predictions of CSR rows into `out` (rows,)."""
    sums = np.empty(factors.shape[2])
    for i in range(len(out)):
        out[i] = predict_row(index[start[i] : start[i + 1]], value[start[i] : start[i + 1]], linear, factors, sums)


@njit(cache=True, error_model="numpy")
def learn_rows(start, index, value, target, order, linear, factors, rates):  # type: ignore[no-untyped-def]
    """Algorithms 1 and 2 over CSR rows in `order`. Every gradient of a row is taken at the parameters before it."""
    h = factors.shape[2]
    sums = np.empty(h)
    alpha_w, beta_w, lambda1_w, lambda2_w, alpha_v, beta_v, lambda1_v, lambda2_v = rates
    for i in order:
        first, last = start[i], start[i + 1]
        slope = 2.0 * (predict_row(index[first:last], value[first:last], linear, factors, sums) - target[i])
        for k in range(first - 1, last):  # the first is w_0, whose x is 1
            c, x = (0, 1.0) if k < first else (1 + index[k], value[k])
            linear[1, c], linear[2, c] = stepped(linear[0, c], linear[1, c], linear[2, c], slope * x, alpha_w)
            linear[0, c] = closed_form(linear[1, c], linear[2, c], alpha_w, beta_w, lambda1_w, lambda2_w)
        for k in range(first, last):
            j, x = index[k], value[k]
            v, z, root = factors[0, j], factors[1, j], factors[2, j]
            for f in range(h):
                # Paper: x_l (sum_l v_lf x_l - v_lf x_l^2). Here, as Eq. 2 has it: x_l sum_l v_lf x_l - v_lf x_l^2.
                gradient = slope * (x * sums[f] - v[f] * x * x)
                z[f], root[f] = stepped(v[f], z[f], root[f], gradient, alpha_v)
                v[f] = closed_form(z[f], root[f], alpha_v, beta_v, lambda1_v, lambda2_v)


@njit(cache=True)
def predict_pairs(rows, columns, mean, row_bias, column_bias, row_factors, column_factors, out):  # type: ignore[no-untyped-def]
    """mean + b_row + b_column + p_row . q_column of each pair into `out` (pairs,); unknown rows or columns (beyond the
    arrays, or below 0) have neither bias nor factors."""
    for i in range(len(out)):
        r, c = rows[i], columns[i]
        known_row, known_column = 0 <= r < len(row_bias), 0 <= c < len(column_bias)
        guess = mean
        if known_row:
            guess += row_bias[r]
        if known_column:
            guess += column_bias[c]
        if known_row and known_column:
            for f in range(row_factors.shape[1]):
                guess += row_factors[r, f] * column_factors[c, f]
        out[i] = guess


@njit(cache=True)
def learn_pairs(rows, columns, target, order, mean, row_bias, column_bias, row_factors, column_factors, rates, decay):  # type: ignore[no-untyped-def]
    """Stochastic gradient descent on squared loss with L2 weight `decay`, pair after pair in `order`; `rates`: learning
    rates of rows and of columns."""
    of_rows, of_columns = rates
    for i in order:
        r, c = rows[i], columns[i]
        error = target[i] - mean - row_bias[r] - column_bias[c]
        for f in range(row_factors.shape[1]):
            error -= row_factors[r, f] * column_factors[c, f]
        row_bias[r] += of_rows * (error - decay * row_bias[r])
        column_bias[c] += of_columns * (error - decay * column_bias[c])
        for f in range(row_factors.shape[1]):
            p, q = row_factors[r, f], column_factors[c, f]
            row_factors[r, f] += of_rows * (error * q - decay * p)
            column_factors[c, f] += of_columns * (error * p - decay * q)
