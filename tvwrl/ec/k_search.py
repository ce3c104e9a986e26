"""How many classes: the k whose mean silhouette over many initialisations is highest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.ec.representations import Representation
from tvwrl.types import Float, InputError, Int

SMALLEST_K, LARGEST_K = 3, 15  # paper
SAMPLE = 2000  # most workloads whose silhouette is computed; of more, a sample of this size


@dataclass(frozen=True)
class KSearch:
    """Silhouettes of every number of classes that was tried, and the groups of the best one."""

    ks: list[int]
    silhouettes: Float  # (len(ks), initialisations) mean over workloads, -1..1
    k: int
    groups: Int  # (n,) 0..k-1 of `Representation.rows_`, from the initialisation with the highest silhouette at k

    @property
    def mean(self) -> Float:
        """(len(ks),) mean over the initialisations."""
        average: Float = self.silhouettes.mean(axis=1)
        return average

    def to_dict(self) -> dict[str, Any]:
        """For report.json."""
        spread = {str(k): [round(float(v), 6) for v in row] for k, row in zip(self.ks, self.silhouettes, strict=True)}
        return {"k": self.k, "silhouettes": spread}


def search_k(
    representation: Representation,
    ks: Sequence[int],
    initialisations: int,
    random_state: int = 0,
    progress: Callable[[], Any] = lambda: None,
) -> KSearch:
    """Cluster for every k in `ks` from `initialisations` starts each; `progress` is called after each.

    Paper, EC Creation: k from 3 to 15, 50 initialisations, the highest mean silhouette. Only k below the number of
    distinct workloads can be tried. Raises InputError if there is none.
    """
    count, distinct = len(representation.rows_), int(representation.kinds().max()) + 1
    tried = [k for k in ks if 2 <= k < distinct]
    if not tried:
        raise InputError(
            f"{representation.name}: {count} workloads, {distinct} of them distinct, cannot be divided into "
            f"{_named(ks)} classes: at least {min(ks, default=2) + 1} distinct ones are needed; ask for fewer classes"
        )
    sample = _sample(count, random_state)
    within = representation.distances(sample)
    scores = np.empty((len(tried), initialisations))
    best: dict[int, tuple[float, Int]] = {}
    for row, k in enumerate(tried):
        for i in range(initialisations):
            groups = representation.cluster(k, _seed(random_state, i))
            score = scores[row, i] = silhouette(within, groups[sample])
            if k not in best or score > best[k][0]:
                best[k] = (float(score), groups)
            progress()
    k = tried[int(scores.mean(axis=1).argmax())]
    return KSearch(tried, scores, k, best[k][1])


def silhouette(distances: Float, groups: Int) -> float:
    """Mean silhouette (Rousseeuw 1987) of `groups` (n,) under `distances` (n, n); 0 for members of groups of one.

    Equal to scikit-learn's; several times faster, because the same distances are used thousands of times.
    """
    member = np.eye(int(groups.max()) + 1)[groups]  # (n, k)
    size = member.sum(axis=0)
    sums = distances @ member
    rows = np.arange(len(groups))
    own = size[groups]
    inside = sums[rows, groups] / np.maximum(own - 1, 1)
    others = np.where(size > 0, sums / np.maximum(size, 1), np.inf)
    others[rows, groups] = np.inf
    nearest = others.min(axis=1)
    if not np.isfinite(nearest).all():
        return -1.0  # a single group: nothing to compare with
    widest = np.maximum(inside, nearest)
    values = np.where((own > 1) & (widest > 0), (nearest - inside) / np.where(widest > 0, widest, 1.0), 0.0)
    return float(values.mean())


def _seed(random_state: int, initialisation: int) -> int:
    """A seed below 2**32, which is what scikit-learn takes."""
    return int(np.random.SeedSequence([random_state, initialisation]).generate_state(1)[0])


def _sample(count: int, random_state: int) -> Int:
    if count <= SAMPLE:
        return np.arange(count)
    chosen: Int = np.sort(np.random.default_rng(random_state).choice(count, SAMPLE, replace=False))
    return chosen


def _named(ks: Sequence[int]) -> str:
    return str(ks[0]) if len(ks) == 1 else f"{min(ks)} to {max(ks)}" if ks else "no"
