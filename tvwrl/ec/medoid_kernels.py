"""Compiled loops of K-Medoids: FasterPAM's swaps of medoids."""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inner, njit


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
