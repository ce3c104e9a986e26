"""Predictors that PISM is compared with: from the CPU use of batch work, and a constant level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.interference.levels import Levels
from tvwrl.interference.observations import Observations
from tvwrl.interference.predictor import DEPTH, LEAF, services_with_levels
from tvwrl.types import Float

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor


@dataclass
class UtilisationPredictor:
    """The paper's baseline (6.3.1): the level of a response time that is linear in the CPU that batch work uses.

    Fitted: `line_` (services, 2) ms and ms per core.
    """

    def fit(self, observations: Observations, levels: Levels) -> UtilisationPredictor:
        """Least squares by service."""
        self._levels = levels
        self.line_ = np.full((len(observations.services), 2), np.nan)
        for s, rows, _ in services_with_levels(observations, levels):
            design = np.stack([np.ones(len(rows.seconds)), rows.batch_cpu], axis=1)
            self.line_[s] = np.linalg.lstsq(design, rows.response_ms, rcond=None)[0]
        return self

    def predict(self, observations: Observations) -> Float:
        """(N,) levels 1..k."""
        constant, slope = self.line_[observations.service].T
        level = self._levels.level(observations.service, constant + slope * observations.batch_cpu)
        return np.where(level > 0, level, np.nan)


@dataclass
class UtilisationTree:
    """A stronger baseline than the paper's: trees as of `LevelPredictor`, of the CPU use of batch work instead of the
    composition. Fitted: `trees_` by service."""

    leaf: int = LEAF
    random_state: int = 0

    def fit(self, observations: Observations, levels: Levels) -> UtilisationTree:
        """A tree by service."""
        from sklearn.tree import DecisionTreeRegressor

        self.trees_: dict[int, DecisionTreeRegressor] = {}
        for s, rows, level in services_with_levels(observations, levels):
            tree = DecisionTreeRegressor(max_depth=DEPTH, min_samples_leaf=self.leaf, random_state=self.random_state)
            self.trees_[s] = tree.fit(rows.batch_cpu[:, None], level)
        return self

    def predict(self, observations: Observations) -> Float:
        """(N,) levels in [1, k]."""
        found = np.full(len(observations.service), np.nan)
        for s, tree in self.trees_.items():
            own = np.flatnonzero(observations.service == s)
            if len(own):
                found[own] = tree.predict(observations.batch_cpu[own, None])
        return found


@dataclass
class MiddleLevel:
    """Always the middle level: the least that a predictor has to beat."""

    def fit(self, observations: Observations, levels: Levels) -> MiddleLevel:
        """Nothing to learn."""
        self._levels = levels
        return self

    def predict(self, observations: Observations) -> Float:
        """(N,) the lower of the two middle levels, or the middle one."""
        known = ~np.isnan(self._levels.bounds[observations.service, 0])
        return np.where(known, float((self._levels.k + 1) // 2), np.nan)
