"""Which machines are alike, and what it costs a task to flow to them: the group vertices of Sections 3.2 and 3.3."""

from __future__ import annotations

import numpy as np

from tvwrl.types import Float, Int

BASE = 100.0  # Eq. 8
WIDEST = 100.0  # a ratio is so many times the fleet's mean at most: resources may be 0


def characteristics(amount: Float, typical: Float) -> Float:
    """(n, D - 1) ratios of resources to the first (RAM to CPU), of `amount` (n, D), in shares of `typical` (D - 1,).

    Paper: one ratio. Here: with more resources each has its own, divided by the fleet's mean.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = amount[:, 1:] / amount[:, :1] / typical
    found: Float = np.clip(np.nan_to_num(ratio, nan=1.0, posinf=WIDEST), 0.0, WIDEST)
    return found


def group_machines(ratio: Float, groups: int, seed: int, centres: Float | None = None) -> tuple[Int, Float]:
    """K-means of machines (Eq. 6): the group of each row of `ratio` (n, D - 1), and the centres (G, D - 1).

    G is `groups`, or fewer if there are not so many different machines. From `centres`, if given, else at random.
    """
    from sklearn.cluster import KMeans

    rows, of, count = np.unique(ratio.round(9), axis=0, return_inverse=True, return_counts=True)
    groups = min(groups, len(rows))
    if ratio.shape[1] == 0 or groups == 1:
        return np.zeros(len(ratio), dtype=np.int64), np.average(rows, axis=0, weights=count)[None]
    if centres is not None and len(centres) == groups:
        means = KMeans(groups, init=centres, n_init=1)
    else:
        means = KMeans(groups, n_init=10, random_state=seed)
    means.fit(rows, sample_weight=count)
    group: Int = means.labels_[of.ravel()].astype(np.int64)
    return group, means.cluster_centers_


def flow_costs(ratio: Float, centres: Float) -> Float:
    """(V, G) costs from tasks to groups: 100^(x - 1) for the x-th nearest centre (Eq. 7, 8); ties go to the first."""
    distance = np.linalg.norm(ratio[:, None] - centres[None], axis=2)
    rank = np.argsort(np.argsort(distance, axis=1, kind="stable"), axis=1, kind="stable")
    cost: Float = np.power(BASE, rank)
    return cost
