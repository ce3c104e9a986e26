"""What a pod that is not running yet will probably use at first: nobody has measured it, and requests are guesses."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tvwrl.serve.observed import Observed
from tvwrl.types import Float

ASSUMED = np.array([0.1, 200 * 2**20])  # cores and bytes: what Kubernetes' scores assume where nothing is requested


class ExpectedDemand:
    """Usage to expect of a newcomer, from what runs now.

    1. What its replicas use now, on average.
    2. If none runs: its request, times what pods use of theirs now (the median, at most all of it).
    3. If it requests nothing: the median of all pods; in an empty cluster, what Kubernetes' scores assume.
    """

    def __init__(self, observed: Observed) -> None:
        now, count = observed.usage[:, -1], observed.running
        usage, request = now[:count], observed.request[:count]
        self._usage, self._members = usage, defaultdict[str, list[int]](list)
        for i, owner in enumerate(observed.owner[:count]):
            self._members[owner].append(i)
        self._members.pop("", None)
        share = np.divide(usage, request, out=np.full_like(usage, np.nan), where=request > 0)
        self._share = np.minimum(_median(share, np.ones(2)), 1.0)
        self._usual = _median(usage, ASSUMED)

    def of(self, owner: str, request: Float) -> Float:
        """(2,) cores and bytes, for a pod of that owner with that request (2,), NaN where there is none."""
        replicas = _mean(self._usage[self._members.get(owner, [])])
        by_request = np.where(np.isnan(request), self._usual, request * self._share)
        found: Float = np.where(np.isnan(replicas), by_request, replicas)
        return found


def _mean(usage: Float) -> Float:
    """(2,) mean of the rows that are known; NaN if none is."""
    known = np.isfinite(usage)
    total = np.where(known, usage, 0.0).sum(axis=0)
    mean: Float = np.divide(total, known.sum(axis=0), out=np.full(2, np.nan), where=known.any(axis=0))
    return mean


def _median(values: Float, otherwise: Float) -> Float:
    """(2,) median of the rows that are known; `otherwise` (2,) where none is."""
    found = [np.median(column[np.isfinite(column)]) if np.isfinite(column).any() else np.nan for column in values.T]
    return np.where(np.isnan(found), otherwise, found)
