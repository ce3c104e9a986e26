"""How well a predictor fills in what was not measured: applications arrive, two cells of each known, others hidden."""

from __future__ import annotations

import numpy as np

from tvwrl.lrasched.predictors import Predictor
from tvwrl.lrasched.profiles import Profiles
from tvwrl.types import Float


def held_out_errors(
    predictor: Predictor, history: Profiles, arriving: Profiles, seed: int, measured: int = 2, later: int = 0
) -> Float:
    """(applications, configurations) predicted minus true performance of `arriving`, NaN where a cell was known.

    The predictor is fitted on `history`, then takes the applications in turn: `measured` cells of each, drawn with
    `seed`, are learnt, the others predicted; then `later` more cells are learnt, as the application runs on.
    Both profiles have the same configurations.
    """
    rng = np.random.default_rng(seed)
    predictor.fit(history)
    grid = arriving.grid()
    errors = np.full_like(grid, np.nan)
    for i, row in enumerate(grid):
        cells = rng.permutation(np.nonzero(~np.isnan(row))[0])
        known, rest, more = cells[:measured], np.sort(cells[measured:]), cells[measured : measured + later]
        number = len(history.applications) + i
        predictor.learn(number, known, row[known])
        errors[i, rest] = predictor.predict(number, rest) - row[rest]
        if len(more):
            predictor.learn(number, more, row[more])
    return errors


def rmse(errors: Float) -> float:
    """Root mean square of what is not NaN."""
    return float(np.sqrt(np.nanmean(errors**2)))
