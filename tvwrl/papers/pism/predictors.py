"""Predictors of levels that figures compare: PISM's trees, others from the CPU use of batch work, a constant level."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tvwrl.interference import DEPTH, LEAF, LevelPredictor, Levels, Observations, services_with_levels
from tvwrl.types import Float

# Of records to learn from, their levels, and records to predict: (N,) levels in [1, k] of the latter, NaN for services
# that were not learnt; their response times are not read
Predictor = Callable[[Observations, Levels, Observations], Float]


def by_composition(
    known: Observations,
    levels: Levels,
    asked: Observations,
    leaf: int = LEAF,
    counts: bool = False,
    classes: bool = False,
) -> Float:
    """PISM's trees (`LevelPredictor`) of the composition."""
    return LevelPredictor(leaf, counts_alone=counts, classify=classes).fit(known, levels).predict(asked)


def by_line(known: Observations, levels: Levels, asked: Observations) -> Float:
    """The paper's baseline (6.3.1): the level of a response time that is linear in the CPU that batch work uses.

    Least squares by service.
    """
    line = np.full((len(known.services), 2), np.nan)  # ms, and ms per core
    for s, rows, _ in services_with_levels(known, levels):
        design = np.stack([np.ones(len(rows.seconds)), rows.batch_cpu], axis=1)
        line[s] = np.linalg.lstsq(design, rows.response_ms, rcond=None)[0]
    constant, slope = line[asked.service].T
    level = levels.level(asked.service, constant + slope * asked.batch_cpu)
    return np.where(level > 0, level, np.nan)


def by_utilisation(known: Observations, levels: Levels, asked: Observations, leaf: int = LEAF) -> Float:
    """A stronger baseline than the paper's: a tree by service as PISM's, of the CPU use of batch work alone."""
    from sklearn.tree import DecisionTreeRegressor

    found = np.full(len(asked.service), np.nan)
    for s, rows, level in services_with_levels(known, levels):
        own = np.flatnonzero(asked.service == s)
        if len(own):
            tree = DecisionTreeRegressor(max_depth=DEPTH, min_samples_leaf=leaf, random_state=0)
            found[own] = tree.fit(rows.batch_cpu[:, None], level).predict(asked.batch_cpu[own, None])
    return found


def always_the_middle(known: Observations, levels: Levels, asked: Observations) -> Float:
    """The lower of the two middle levels, or the middle one: the least that a predictor has to beat."""
    return np.where(np.isnan(levels.bounds[asked.service, 0]), np.nan, float((levels.k + 1) // 2))


COMPOSITION, LINEAR, TREE = "composition", "utilisation, linear", "utilisation, tree"
PREDICTORS: dict[str, Predictor] = {
    COMPOSITION: by_composition,
    "composition, counts alone": partial(by_composition, counts=True),
    "composition, classes": partial(by_composition, classes=True),
    LINEAR: by_line,
    TREE: by_utilisation,
    "always the middle": always_the_middle,
}
NGINX_LEAF = 3  # records in a leaf: a service has dozens of runs, not thousands
NGINX_PREDICTORS: dict[str, Predictor] = {
    "pods by kind (tree)": partial(by_composition, leaf=NGINX_LEAF),
    "number of pods (linear)": by_line,
    "number of pods (tree)": partial(by_utilisation, leaf=NGINX_LEAF),
    "always the middle level": always_the_middle,
}
