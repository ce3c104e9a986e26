"""Clustering: how many classes, by the highest mean silhouette, and K-Medoids, from distances alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.checks import one_of
from tvwrl.compiled import inner, njit
from tvwrl.ec.backends import load_backend
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

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> KSearch:
        """What `to_dict` described, without the groups, which it leaves out."""
        found = content["silhouettes"]
        return cls([int(k) for k in found], np.array(list(found.values())), content["k"], np.zeros(0, np.int64))

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
        named = str(ks[0]) if len(ks) == 1 else f"{min(ks)} to {max(ks)}" if ks else "no"
        raise InputError(
            f"{representation.name}: {count} workloads, {distinct} of them distinct, cannot be divided into "
            f"{named} classes: at least {min(ks, default=2) + 1} distinct ones are needed; ask for fewer classes"
        )
    sample = np.arange(count)
    if count > SAMPLE:
        sample = np.sort(np.random.default_rng(random_state).choice(count, SAMPLE, replace=False))
    within = representation.distances(sample)
    scores = np.empty((len(tried), initialisations))
    best: dict[int, tuple[float, Int]] = {}
    for row, k in enumerate(tried):
        for i in range(initialisations):
            seed = np.random.SeedSequence([random_state, i]).generate_state(1)[0]  # below 2**32, as scikit-learn needs
            groups = representation.cluster(k, int(seed))
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


@inner(nogil=True)
def _assign(distances: Float, medoids: Int, first: Float, second: Float, owner: Int, removal: Float) -> None:
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
def swap_medoids(distances: Float, medoids: Int, max_iter: int) -> bool:
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
    one_of(("tvwrl", "kmedoids", "sklearn-extra"), backend=backend)
    rng = np.random.RandomState(random_state)
    start = rng.choice(len(distances), k, replace=False)
    if backend == "kmedoids":
        found = load_backend("kmedoids").fasterpam(distances, start.astype(np.uint64), max_iter=passes, n_cpu=1)
        medoids, done = found.medoids.astype(np.int64), found.n_iter < passes
    elif backend == "sklearn-extra":  # it takes no medoids to start from, so it draws its own
        options = {"method": "pam", "init": "random", "max_iter": passes, "random_state": int(rng.randint(2**31 - 1))}
        model = load_backend("sklearn-extra").KMedoids(k, metric="precomputed", **options).fit(distances)
        medoids, done = model.medoid_indices_.astype(np.int64), model.n_iter_ < passes
    elif k == 1:  # no second nearest medoid to swap by
        medoids, done = distances.sum(axis=1).argmin(keepdims=True), True
    else:
        medoids = start.astype(np.int64)
        done = swap_medoids(np.ascontiguousarray(distances), medoids, passes)
    if not done:
        warnings.warn(f"K-Medoids: no end after {passes} passes: a swap could still lower the loss", stacklevel=2)
    medoids = np.sort(medoids)
    used = np.unique(distances[:, medoids].argmin(axis=1))
    if len(used) < k:
        warnings.warn(f"K-Medoids: {len(used)} groups instead of {k}: samples are equal", stacklevel=2)
    chosen: Int = medoids[used]
    return chosen
