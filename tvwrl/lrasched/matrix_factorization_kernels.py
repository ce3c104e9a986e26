"""Compiled loops of matrix factorization: predictions and stochastic gradient steps for pairs of row and column.

R rows, C columns, h factors.
"""

from __future__ import annotations

from tvwrl.compiled import njit


@njit
def predict_pairs(  # type: ignore[no-untyped-def]
    rows,  # (pairs,) row of each pair, >= 0
    columns,  # (pairs,) column of each pair, >= 0
    mean,  # added to every prediction
    row_bias,  # (R,) b_row
    column_bias,  # (C,) b_column
    row_factors,  # (R, h) p_row
    column_factors,  # (C, h) q_column
    out,  # (pairs,) receives the predictions
):  # fmt: skip
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
def learn_pairs(  # type: ignore[no-untyped-def]
    rows,  # (pairs,) row of each pair, 0 to R - 1
    columns,  # (pairs,) column of each pair, 0 to C - 1
    target,  # (pairs,) what is to be predicted
    order,  # (n,) pairs, in the order in which steps are taken
    mean,  # added to every prediction; not learnt
    row_bias,  # (R,) updated in place
    column_bias,  # (C,) updated in place
    row_factors,  # (R, h) updated in place
    column_factors,  # (C, h) updated in place
    rates,  # learning rates of the rows and of the columns
    decay,  # L2 weight of all parameters
):  # fmt: skip
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
