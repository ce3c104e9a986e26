"""K-Medoids: classes whose centres are members, from distances alone."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tvwrl.checks import at_least, one_of
from tvwrl.ec.medoid_kernels import swap_medoids
from tvwrl.types import Float, InputError, Int


class KMedoids(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Partitioning around medoids: the k samples whose summed distance to all samples' nearest one is least.

    Starts from random medoids, as the paper does, and swaps (FasterPAM). Follows scikit-learn's conventions.

    Parameters: `n_clusters` k; `metric` "euclidean" (X is (n, features)) or "precomputed" (X is (n, n) symmetric
    distances >= 0); `n_init` starts, of which the one of least loss is kept; `max_iter` passes over all samples per
    start; `backend` "tvwrl", "kmedoids" (FasterPAM of that package) or "sklearn-extra" (its PAM); `random_state`.

    Attributes: `labels_` (n,) 0..k-1; `medoid_indices_` (k,) samples, rising; `cluster_centers_` (k, features), None if
    precomputed; `inertia_` summed distance to the nearest medoid; `n_iter_` passes of the best start.
    Clusters that stay empty, because samples are equal, are left out with a ConvergenceWarning: k is then smaller.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: Literal["euclidean", "precomputed"] = "euclidean",
        n_init: int = 1,
        max_iter: int = 100,
        backend: str = "tvwrl",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.n_init = n_init
        self.max_iter = max_iter
        self.backend = backend
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.positive_only = self.metric == "precomputed"
        return tags

    def fit(self, X: Float, y: None = None) -> KMedoids:
        """Find medoids of X; raises InputError if there are fewer samples than clusters."""
        self._check_parameters()
        X = validate_data(self, X, dtype=np.float64)
        if self.n_clusters > len(X):
            raise InputError(f"n_clusters={self.n_clusters} is more than n_samples={len(X)}")
        distances = _checked_distances(X) if self.metric == "precomputed" else cdist(X, X)
        rng, best = check_random_state(self.random_state), np.inf
        for _ in range(self.n_init):
            start = rng.choice(len(X), self.n_clusters, replace=False)
            seed = int(rng.randint(2**31 - 1))
            medoids, passes, done = _BACKENDS[self.backend](distances, start, self.max_iter, seed)
            loss = distances[:, medoids].min(axis=1).sum()
            if loss < best or best == np.inf:
                best, kept = loss, (np.sort(medoids), passes, done)
        medoids, self.n_iter_, done = kept
        if not done:
            _warn(f"no end after max_iter={self.max_iter} passes: a swap could still lower the loss")
        self._keep(X, distances, medoids)
        return self

    def _keep(self, X: Float, distances: Float, medoids: Int) -> None:
        """Set the results, without medoids that no sample is nearest to."""
        used, labels = np.unique(distances[:, medoids].argmin(axis=1), return_inverse=True)
        if len(used) < self.n_clusters:
            _warn(f"{len(used)} distinct clusters for n_clusters={self.n_clusters}: samples are equal")
        self.labels_: Int = labels.astype(np.int64)
        self.medoid_indices_: Int = medoids[used]
        self.cluster_centers_ = None if self.metric == "precomputed" else X[self.medoid_indices_]
        self.inertia_ = float(distances[:, self.medoid_indices_].min(axis=1).sum())

    def predict(self, X: Float) -> Int:
        """(n,) nearest medoid; if precomputed, X is (n, n_fit) distances to the samples of `fit`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        distances = X[:, self.medoid_indices_] if self.metric == "precomputed" else cdist(X, self.cluster_centers_)
        labels: Int = distances.argmin(axis=1)
        return labels

    def _check_parameters(self) -> None:
        at_least(1, n_clusters=self.n_clusters, n_init=self.n_init, max_iter=self.max_iter)
        one_of(("euclidean", "precomputed"), metric=self.metric)
        one_of(_BACKENDS, backend=self.backend)


def _checked_distances(X: Float) -> Float:
    """X if it can be distances among its samples."""
    if X.shape[0] != X.shape[1]:
        raise InputError(f"precomputed distances have shape {X.shape}: must be square")
    if X.min() < 0:
        i, j = np.unravel_index(X.argmin(), X.shape)
        raise InputError(f"Negative values in data: distance {i}, {j} is {X[i, j]}, must be >= 0")
    apart = np.abs(X - X.T)
    i, j = np.unravel_index(apart.argmax(), X.shape)
    if apart[i, j] > 1e-9 * X.max():
        raise InputError(f"distance {i}, {j} is {X[i, j]} and {j}, {i} is {X[j, i]}: must be symmetric")
    return np.ascontiguousarray(X)


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=3)


def _own(distances: Float, start: Int, max_iter: int, seed: int) -> tuple[Int, int, bool]:
    """Medoids, passes taken, and whether no swap is left."""
    medoids = start.astype(np.int64)
    if len(medoids) == 1:  # no second nearest medoid to swap by
        return distances.sum(axis=1).argmin(keepdims=True), 1, True
    passes, done = swap_medoids(distances, medoids, max_iter)
    return medoids, passes, done


def _kmedoids(distances: Float, start: Int, max_iter: int, seed: int) -> tuple[Int, int, bool]:
    try:
        import kmedoids
    except ImportError as error:
        raise ImportError("the backend 'kmedoids' needs that package (GPL-3.0): pip install kmedoids") from error
    found = kmedoids.fasterpam(distances, start.astype(np.uint64), max_iter=max_iter, n_cpu=1)
    return found.medoids.astype(np.int64), found.n_iter, found.n_iter < max_iter


def _sklearn_extra(distances: Float, start: Int, max_iter: int, seed: int) -> tuple[Int, int, bool]:
    """It takes no medoids to start from, so it draws its own."""
    try:
        from sklearn_extra.cluster import KMedoids as TheirKMedoids
    except (ImportError, ValueError) as error:  # ValueError: built against another numpy
        raise ImportError("the backend 'sklearn-extra' needs scikit-learn-extra: pip install 'tvwrl[sklx]'") from error
    found = TheirKMedoids(
        len(start), metric="precomputed", method="pam", init="random", max_iter=max_iter, random_state=seed
    ).fit(distances)
    return found.medoid_indices_.astype(np.int64), max(int(found.n_iter_), 1), found.n_iter_ < max_iter


_BACKENDS = {"tvwrl": _own, "kmedoids": _kmedoids, "sklearn-extra": _sklearn_extra}
