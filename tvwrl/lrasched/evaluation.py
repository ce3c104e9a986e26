"""How accurate and how fast a predictor is when applications arrive of which only a few configurations are measured."""

from __future__ import annotations

import time

import numpy as np

from tvwrl.lrasched.predictors import Predictor
from tvwrl.lrasched.profiles import Profiles
from tvwrl.types import Float


def held_out_errors(
    predictor: Predictor, history: Profiles, arriving: Profiles, seed: int, measured: int = 2, later: int = 0
) -> Float:
    """(applications, configurations) predicted minus true performance of `arriving`, NaN where it was not predicted.

    The predictor is fitted on `history`, then takes the arriving applications in turn: it learns `measured`
    configurations of each, drawn with `seed`, and predicts the others; then it learns `later` more, as would be
    measured while the application runs. Both profiles have the same configurations.
    """
    rng = np.random.default_rng(seed)
    predictor.fit(history)
    grid = arriving.grid()
    errors = np.full_like(grid, np.nan)
    for i, row in enumerate(grid):
        order = rng.permutation(np.nonzero(~np.isnan(row))[0])
        known, rest, more = order[:measured], np.sort(order[measured:]), order[measured : measured + later]
        number = len(history.applications) + i
        predictor.learn(number, known, row[known])
        errors[i, rest] = predictor.predict(number, rest) - row[rest]
        if len(more):
            predictor.learn(number, more, row[more])
    return errors


def rmse(errors: Float) -> float:
    """Root mean square of the errors that are not NaN."""
    return float(np.sqrt(np.nanmean(errors**2)))


def seconds_of_prediction(predictor: Predictor, application: int, repeats: int = 200) -> float:
    """Median seconds to predict the performance of one application in one configuration."""
    took = []
    configuration = np.array([0])
    for _ in range(repeats):
        begin = time.perf_counter()
        predictor.predict(application, configuration)
        took.append(time.perf_counter() - begin)
    return float(np.median(took))
