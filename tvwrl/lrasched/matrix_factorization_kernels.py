"""Compiled loops of matrix factorization: predictions and stochastic gradient steps for pairs of row and column.

Arguments that both loops share:

- `rows`, `columns` (pairs,): the row and the column of each pair.
- `mean`: added to every prediction.
- `row_bias` (R,), `column_bias` (C,) and `row_factors` (R, h), `column_factors` (C, h): the parameters.
"""

from __future__ import annotations

from tvwrl.compiled import njit


@njit
def predict_pairs(rows, columns, mean, row_bias, column_bias, row_factors, column_factors, out):  # type: ignore[no-untyped-def]
    """Writes mean + b_row + b_column + p_row . q_column of each pair into `out` (pairs,).

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
def learn_pairs(rows, columns, target, order, mean, row_bias, column_bias, row_factors, column_factors, rates, decay):  # type: ignore[no-untyped-def]
    """One gradient step on the squared error of each pair in `order`, from its `target` (pairs,).

    `rates`: learning rate of the rows, of the columns; `decay`: L2 weight of all parameters.
    """
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
