"""How much classes depend on chance: on the seed of the clustering, and on which workloads there happen to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.ec.clustering import search_k
from tvwrl.ec.representations import Representation
from tvwrl.types import Int

SEEDS, RESAMPLES = 5, 10  # clusterings with other seeds; of other samples
KEPT = 0.8  # share of the workloads in a sample
STABLE = 0.8  # least mean adjusted Rand index of classes that are called stable


@dataclass(frozen=True)
class Stability:
    """Adjusted Rand indices of the classes found with those found again: 1 = the same, 0 = as alike as by chance."""

    seeds: tuple[float, ...]  # the same workloads, other seeds
    resamples: tuple[float, ...]  # samples of KEPT of the workloads, which both clusterings divide

    @property
    def over_seeds(self) -> float:
        """Mean, at most 1."""
        return float(np.mean(self.seeds))

    @property
    def over_resamples(self) -> float:
        """Mean, at most 1."""
        return float(np.mean(self.resamples))

    @property
    def least(self) -> float:
        """The smaller of the two means."""
        return min(self.over_seeds, self.over_resamples)

    @property
    def stable(self) -> bool:
        """Whether both means reach STABLE."""
        return self.least >= STABLE

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Stability:
        """What `to_dict` described."""
        return cls(tuple(content["seeds"]), tuple(content["resamples"]))

    def to_dict(self) -> dict[str, Any]:
        """For report.json."""
        return {"seeds": list(self.seeds), "resamples": list(self.resamples)}


def adjusted_rand(one: Int, other: Int) -> float:
    """How alike two divisions (n,) of the same workloads are (Hubert and Arabie 1985), whatever their labels.

    >>> adjusted_rand(np.array([1, 1, 2, 2]), np.array([5, 5, 3, 3]))
    1.0
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(one, other))


def stability(
    representation: Representation,
    labels: Int,
    initialisations: int,
    random_state: int = 0,
    progress: Callable[[], Any] = lambda: None,
) -> Stability:
    """Cluster again, with SEEDS other seeds, then RESAMPLES samples of the workloads, and compare with `labels`.

    Every time into as many classes as there are: how stable the choice of k is, is another question. `labels` (r,) are
    of the workloads `representation.rows_`; `progress` is called after each clustering.
    """
    k, count = len(np.unique(labels)), len(labels)
    seeds = np.random.SeedSequence([random_state, 1]).generate_state(SEEDS + RESAMPLES)
    found: list[float] = []
    for number, seed in enumerate(seeds.tolist()):
        chosen = np.arange(count)
        if number >= SEEDS:
            drawn = np.random.default_rng(seed).permutation(count)
            chosen = np.sort(drawn[: max(2, round(KEPT * count))])
        again = representation if number < SEEDS else representation.select(chosen)
        found.append(adjusted_rand(labels[chosen], _divided(again, k, initialisations, seed)))
        progress()
    return Stability(tuple(found[:SEEDS]), tuple(found[SEEDS:]))


def _divided(representation: Representation, k: int, initialisations: int, seed: int) -> Int:
    """Groups: each distinct workload one where there are no more of them than groups wanted."""
    kinds = representation.kinds()
    if int(kinds.max()) < k or k < 2:
        return kinds if k > 1 else np.zeros_like(kinds)
    return search_k(representation, [k], initialisations, seed).groups
