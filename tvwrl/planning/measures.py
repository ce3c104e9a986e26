"""Orders and scores: size measures (Table 1), affinity beside size (Eq. 3), scores of pairs (Table 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tvwrl.planning.packing_problem import PackingProblem
from tvwrl.types import Float, Int


class Size(NamedTuple):
    """A measure of applications (Table 1) and of machines (Table 2): the largest dimension, or a weighted sum.

    `tvwrl.packing.orders` computes it, and says how the weights follow from these numbers.
    """

    largest: bool = False
    epsilon: float = 0.0
    power: float = 0.0
    scale: float = 1.0
    per_application: bool = False  # demand of all replicas together rather than of one

    @property
    def constant(self) -> bool:
        """Whether its weights stay the same while machines fill up."""
        return self.epsilon == 0.0 and self.power == 0.0

    def of(self, problem: PackingProblem) -> Float:
        """(A,) sizes of the applications, >= 0."""
        from tvwrl.packing import weights

        weight = weights(self, problem.total, int(problem.replicas.sum()), problem.capacity)
        shares = problem.demand * weight
        size: Float = shares.max(axis=1) if self.largest else shares.sum(axis=1)
        return size * problem.replicas if self.per_application else size


SIZES = {
    "Avg": Size(),
    "Max": Size(largest=True),
    "AvgExp": Size(epsilon=0.01),
    "Surrogate": Size(power=1.0),
    "ExtendedSum": Size(power=-1.0, scale=0.0, per_application=True),
}


@dataclass(frozen=True)
class ByInput:
    """Applications as they are listed."""

    def order(self, problem: PackingProblem) -> Int:
        """(A,) all applications."""
        return np.arange(len(problem.replicas))


@dataclass(frozen=True)
class BySize:
    """Largest first, ties as listed. With alpha < 1 in [0, 1], part of the size is by affinity (Eq. 3)."""

    size: Size
    alpha: float = 1.0

    def order(self, problem: PackingProblem) -> Int:
        """(A,) all applications."""
        size = self.size.of(problem)
        if self.alpha < 1.0:
            size = self.alpha * _over_mean(size) + (1.0 - self.alpha) * _over_mean(problem.degree.astype(np.float64))
        return np.argsort(-size, kind="stable")


def _over_mean(values: Float) -> Float:
    mean = values.mean()
    return values / mean if mean > 0 else values


@dataclass(frozen=True)
class Pull:
    """A score of an application on a machine (Table 3): pull f_k = weight_k C_k^power, see `packing.filling.Score`."""

    power: int = 1
    squares: bool = False  # L2Norm: -sum (C - s)^2, of which 2 C s - s^2 tells applications apart
    of_totals: bool = False  # Fitness: over total demand and total residual

    def score(self, problem: PackingProblem) -> Any:
        """The same for kernels."""
        from tvwrl.packing import Score

        own = np.zeros(len(problem.sizes.demand))
        weight = np.ones(len(problem.capacity))
        if self.of_totals:
            weight = 1.0 / np.where(problem.total > 0, problem.total, 1.0)
        elif self.power > 0:
            weight = problem.capacity**-2.0
        if self.squares:
            own, weight = (problem.sizes.demand**2 * weight).sum(axis=1), 2.0 * weight
        demanded = (problem.total.astype(np.float32) / problem.capacity.astype(np.float32)).astype(np.float32)
        capacity = problem.capacity.astype(np.float32)
        return Score(weight, self.power, self.of_totals, own, self.squares, capacity, demanded)


SCORES = {
    "DotProduct": Pull(),
    "L2Norm": Pull(squares=True),
    "Fitness": Pull(of_totals=True),
    "TightFill": Pull(power=-1),
}
