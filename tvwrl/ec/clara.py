"""K-Medoids over dynamic time warping of more series than an n x n matrix has room for: CLARA."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from tqdm import tqdm

from tvwrl.checks import at_least, within
from tvwrl.ec.dtw import distance_scale, dtw_distances, mean_distance, nearest
from tvwrl.ec.k_medoids import KMedoids
from tvwrl.ec.series import checked_series
from tvwrl.types import Float, Int


class Clara(NamedTuple):
    """What `clara` found."""

    medoid_indices: Int  # (k,) places of the medoids among the series, rising
    labels: Int  # (n,) 0..k-1, the nearest medoid
    loss: float  # mean distance to the nearest medoid
    scale: Float  # (D,) what distances per resource were divided by


def clara(
    series: Sequence[Float],
    k: int,
    *,
    radius: int | None = None,
    samples: int = 5,
    sample_size: int = 200,
    n_init: int = 10,
    scale: Float | None = None,
    random_state: int | np.random.RandomState | None = None,
    threads: int | None = None,
) -> Clara:
    """K-Medoids on `samples` random subsets of `sample_size` series; the medoids of least loss over all n are kept.

    `series` n of (length, D), `radius` as in `dtw_distances`. A subset contains the best medoids so far, is clustered
    from `n_init` starts, and costs its own square matrix and one search of the nearest medoid for all series.
    `scale` (D,) defaults to `distance_scale` of the first subset. k may come out smaller if series are equal, with a
    ConvergenceWarning. Kaufman and Rousseeuw 1990, Finding Groups in Data, chapter 3 (their sample_size is 40 + 2 k).
    """
    series = checked_series(series)
    within(1, len(series), k=k)
    sample_size = min(sample_size, len(series))
    at_least(k, sample_size=sample_size)
    at_least(1, samples=samples)
    rng, best = check_random_state(random_state), None
    for _ in tqdm(range(samples), desc="CLARA", disable=None, leave=False):
        kept = np.empty(0, np.int64) if best is None else best.medoid_indices
        rest = np.setdiff1d(np.arange(len(series)), kept)
        subset = np.sort(np.concatenate([kept, rng.choice(rest, sample_size - len(kept), replace=False)]))
        members = [series[i] for i in subset]
        lengths = [len(one) for one in members]
        distances = dtw_distances(members, radius=radius, threads=threads)
        scale = distance_scale(distances, lengths) if scale is None else scale
        mean = mean_distance(distances, lengths, lengths, scale)
        model = KMedoids(k, metric="precomputed", n_init=n_init, random_state=rng.randint(2**31 - 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a subset may have fewer distinct series than all
            medoids = subset[model.fit(mean).medoid_indices_]
        labels, distance = nearest(series, [series[i] for i in medoids], scale, radius, threads=threads)
        if best is None or distance.mean() < best.loss:
            best = Clara(medoids, labels, float(distance.mean()), scale)
    assert best is not None
    if len(best.medoid_indices) < k:
        message = f"{len(best.medoid_indices)} distinct classes for k={k}: series are equal"
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return best
