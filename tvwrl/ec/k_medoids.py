"""K-Medoids: groups around members, from distances alone."""

from __future__ import annotations

import warnings

import numpy as np

from tvwrl.checks import one_of
from tvwrl.ec.backends import load_backend
from tvwrl.ec.medoid_kernels import swap_medoids
from tvwrl.types import Float, Int


def k_medoids(distances: Float, k: int, random_state: int = 0, backend: str = "tvwrl", passes: int = 100) -> Int:
    """Medoids (k,), ascending: samples chosen so that the distances of all samples to their nearest one sum to little.

    Found from a random start; another start may find a smaller sum.

    `distances` (n, n) are symmetric and >= 0, 1 <= k <= n. Swaps medoids (FasterPAM) in at most `passes` passes over
    all samples, and warns if one more could help. `backend` "kmedoids" is FasterPAM of that package, "sklearn-extra"
    PAM of scikit-learn-extra. Medoids that no sample is nearest to, because samples are equal, are left out with a
    warning: k is then smaller.

    Raises:
        InputError: an unknown backend, or one whose package is not installed.
    """
    one_of(_BACKENDS, backend=backend)
    rng = np.random.RandomState(random_state)
    start = rng.choice(len(distances), k, replace=False)
    medoids, done = _BACKENDS[backend](distances, start, passes, int(rng.randint(2**31 - 1)))
    if not done:
        warnings.warn(f"K-Medoids: no end after {passes} passes: a swap could still lower the loss", stacklevel=2)
    medoids = np.sort(medoids)
    used = np.unique(distances[:, medoids].argmin(axis=1))
    if len(used) < k:
        warnings.warn(f"K-Medoids: {len(used)} groups instead of {k}: samples are equal", stacklevel=2)
    chosen: Int = medoids[used]
    return chosen


def _own(distances: Float, start: Int, passes: int, seed: int) -> tuple[Int, bool]:
    """Medoids, and whether no swap is left."""
    if len(start) == 1:  # no second nearest medoid to swap by
        return distances.sum(axis=1).argmin(keepdims=True), True
    medoids = start.astype(np.int64)
    done: bool = swap_medoids(np.ascontiguousarray(distances), medoids, passes)
    return medoids, done


def _kmedoids(distances: Float, start: Int, passes: int, seed: int) -> tuple[Int, bool]:
    found = load_backend("kmedoids").fasterpam(distances, start.astype(np.uint64), max_iter=passes, n_cpu=1)
    return found.medoids.astype(np.int64), found.n_iter < passes


def _sklearn_extra(distances: Float, start: Int, passes: int, seed: int) -> tuple[Int, bool]:
    """It takes no medoids to start from, so it draws its own."""
    model = (
        load_backend("sklearn-extra")
        .KMedoids(len(start), metric="precomputed", method="pam", init="random", max_iter=passes, random_state=seed)
        .fit(distances)
    )
    return model.medoid_indices_.astype(np.int64), model.n_iter_ < passes


_BACKENDS = {"tvwrl": _own, "kmedoids": _kmedoids, "sklearn-extra": _sklearn_extra}
