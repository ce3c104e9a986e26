"""K-Medoids: groups around members, from distances alone."""

from __future__ import annotations

import warnings

import numpy as np

from tvwrl.checks import one_of
from tvwrl.compiled import inner, njit
from tvwrl.ec.backends import load_backend
from tvwrl.types import Float, Int


@inner(nogil=True)
def _assign(distances, medoids, first, second, owner, removal):  # type: ignore[no-untyped-def]
    """Assign every sample to its nearest medoid.

    Args:
        distances: (n, n) between samples.
        medoids: (k,) samples.
        first: (n,) to fill with the distance to the nearest medoid.
        second: (n,) to fill with the distance to the second nearest.
        owner: (n,) to fill with the nearest medoid, 0..k-1.
        removal: (k,) to fill with what the loss grows by if the medoid goes.
    """
    removal[:] = 0.0
    for o in range(len(distances)):
        first[o], second[o] = np.inf, np.inf
        for c in range(len(medoids)):
            apart = distances[medoids[c], o]
            if apart < first[o]:
                first[o], second[o], owner[o] = apart, first[o], c
            elif apart < second[o]:
                second[o] = apart
        removal[owner[o]] += second[o] - first[o]


@njit(nogil=True)
def swap_medoids(distances, medoids, max_iter):  # type: ignore[no-untyped-def]
    """FasterPAM: improve `medoids` (k,), k > 1, in place; returns whether no further swap lowers the loss.

    `distances` (n, n) are symmetric. Every sample in turn is tried in place of all medoids at once, in O(n), and the
    best swap is taken at once (Schubert and Rousseeuw 2021, https://doi.org/10.1016/j.is.2021.101804).
    """
    n = len(distances)
    first, second = np.empty(n), np.empty(n)
    owner, removal = np.zeros(n, np.int64), np.empty(len(medoids))
    _assign(distances, medoids, first, second, owner, removal)
    last = -1
    for _ in range(max_iter):
        swapped = False
        for candidate in range(n):
            if candidate == last:  # all others were tried since the last swap
                return True
            if (medoids == candidate).any():
                continue
            change, shared = removal.copy(), 0.0
            for o in range(n):
                apart = distances[candidate, o]
                if apart < first[o]:
                    shared += apart - first[o]
                    change[owner[o]] += first[o] - second[o]
                elif apart < second[o]:
                    change[owner[o]] += apart - second[o]
            leaving = change.argmin()
            if change[leaving] + shared < -1e-12 * first.sum():  # a smaller change is rounding: swaps could repeat
                medoids[leaving], last, swapped = candidate, candidate, True
                _assign(distances, medoids, first, second, owner, removal)
        if not swapped:
            return True
    return False


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
