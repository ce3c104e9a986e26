"""Groups of similar machines, and the costs of flow from tasks to them (group vertices, Sections 3.2 and 3.3)."""

from __future__ import annotations

import numpy as np

from tvwrl.types import Float, Int

BASE = 100.0  # Eq. 8
MAX_RATIO = 100.0  # times the fleet's mean, as resources may be 0


def characteristics(amount: Float, typical: Float) -> Float:
    """(n, D - 1) ratios of resources to the first (RAM to CPU) in `amount` (n, D), divided by `typical` (D - 1,).

    Paper: one ratio, of two resources. Here: D - 1 ratios, each divided by the fleet's mean.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = amount[:, 1:] / amount[:, :1] / typical
    found: Float = np.clip(np.nan_to_num(ratio, nan=1.0, posinf=MAX_RATIO), 0.0, MAX_RATIO)
    return found


def group_machines(ratio: Float, groups: int, seed: int, centres: Float | None = None) -> tuple[Int, Float]:
    """Groups (n,) of machines with these ratios (n, D - 1), and their centres (G, D - 1), by K-means (Eq. 6).

    G is `groups`, or the number of different machines if that is smaller. K-means starts from `centres`, if given, or
    at random.
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
    """(V, G) costs of flow: 100^(x - 1) to the group with the x-th nearest centre (Eq. 7, 8); ties go to the first."""
    distance = np.linalg.norm(ratio[:, None] - centres[None], axis=2)
    rank = np.argsort(np.argsort(distance, axis=1, kind="stable"), axis=1, kind="stable")
    cost: Float = np.power(BASE, rank)
    return cost
