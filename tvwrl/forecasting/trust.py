"""How far networks are believed: the less, the more unlike everything they learnt from a workload is.

Letters: m beginnings, I inputs, P prototypes, K kinds, J segments, D resources, V levels of demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.compiled import njit
from tvwrl.forecasting.beginnings import Beginnings, Outcomes
from tvwrl.forecasting.scores import probability_integral, share_below
from tvwrl.forecasting.segments import SEGMENTS, Distribution
from tvwrl.types import Bool, Float, Float32, Int

PROTOTYPES = 512  # beginnings that new ones are compared with
SHARES = (0.5, 0.8, 0.95, 0.99)  # of held-out beginnings: the kinds end where so many are less unlike
USUAL = (1.0, 1.0, 0.7, 0.3, 0.0)  # (K,) weight of the networks where nothing was held out
USUAL_GROUPS = 1.0  # held-out applications that the usual weight counts as
MARGIN = 1.05  # CRPS of the networks alone, over that of the best mixture, up to which they are believed
COVERED, LEAST = 0.88, 100  # of the outcomes of held-out parts, that many at least, in 90 % intervals
WIDENINGS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12)
RESERVE = 0.03  # widening where nothing of the trace itself was held out: the next one may be unlike all of them


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What was forecast of beginnings that a fit had not seen, and what came."""

    beginnings: Beginnings
    networks: Distribution
    drift: Distribution
    unlike: Float32  # (m,) how unlike the fit's own beginnings they are


@dataclass(frozen=True, eq=False)
class Trust:
    """How a forecast is mixed: from the networks, from `Drift`, and, where even that erred, from all levels alike.

    A beginning is of one of K kinds, by how unlike it is. Kinds, weights and widenings were chosen on beginnings that
    were held out, whole applications at a time where there are several.

    Parameters
    ----------
    ends : array of float
        (K - 1,) how unlike beginnings of a kind are at most, standard deviations of the inputs.
    weight : array of float
        (K, J) weight of the networks, 0..1; `Drift` has the rest.
    widening : array of float
        (K,) share of the probability of demand that is spread evenly over all levels.

    Examples
    --------
    >>> trust = Trust(np.array([2.0]), np.array([[1.0] * 6, [0.0] * 6]), np.zeros(2))
    >>> trust.kind(np.array([1.0, 3.0], np.float32)).tolist()
    [0, 1]
    """

    ends: Float
    weight: Float
    widening: Float

    def kind(self, unlike: Float32) -> Int:
        """(m,) kinds of beginnings that are so unlike (m,)."""
        found: Int = np.searchsorted(self.ends, unlike)
        return found

    def mixed(self, networks: Distribution, drift: Distribution, kind: Int) -> Distribution:
        """Mix two distributions of m beginnings of some kinds (m,)."""
        return mixture(networks, drift, self.weight[kind].astype(np.float32), self.widening[kind].astype(np.float32))

    @classmethod
    def unfounded(cls) -> Trust:
        """Where nothing could be held out, everything new is of the last kind."""
        weight = np.repeat(np.array(USUAL)[:, None], len(SEGMENTS), axis=1)
        return cls(np.zeros(len(SHARES)), weight, np.full(len(USUAL), RESERVE))

    @classmethod
    def fit(cls, folds: Sequence[HeldOut], groups: Sequence[HeldOut], peak_units: int) -> Trust:
        """Choose weights by CRPS and widenings by coverage.

        Parameters
        ----------
        folds : sequence of HeldOut
            By fold; where applications have several workloads, some of each may have been learnt from.
        groups : sequence of HeldOut
            Whole traces or applications that were left out.
        peak_units : int
            Units of the highest level.
        """
        if not (held := [*folds, *groups]):
            return cls.unfounded()
        ends = np.quantile(np.concatenate([part.unlike for part in folds or groups]), SHARES)
        terms = [_terms(part, peak_units) for part in held]
        kinds = [np.searchsorted(ends, part.unlike) for part in held]
        weight = np.stack([_weight(terms, kinds, kind) for kind in range(len(USUAL))])
        found = cls(ends, weight, np.zeros(len(USUAL)))
        widening = [found._widening(held, kinds, kind, peak_units) for kind in range(len(USUAL))]
        return cls(ends, weight, np.maximum(widening, 0.0 if folds else RESERVE))

    def _widening(self, held: Sequence[HeldOut], kinds: Sequence[Int], kind: int, peak_units: int) -> float:
        """The least widening of a kind with which 90 % intervals cover enough, on the mean of the held-out parts."""
        rows = [np.flatnonzero(own == kind) for own in kinds]
        parts = [(part, own) for part, own in zip(held, rows, strict=True) if len(own) >= LEAST]
        for share in WIDENINGS:
            covered = []
            for part, own in parts:
                count = len(own)
                wide = np.full(count, share, np.float32)
                weight = np.repeat(self.weight[kind][None], count, axis=0).astype(np.float32)
                mixed = mixture(part.networks[own], part.drift[own], weight, wide)
                level, _ = Outcomes.of(part.beginnings[own]).levels(mixed.most.shape[-1] - 1, peak_units)
                step = probability_integral(mixed.most.astype(np.float64), level)
                covered.append(float((share_below(step, 0.95) - share_below(step, 0.05)).mean()))
            if not covered or np.mean(covered) >= COVERED:
                return share
        return WIDENINGS[-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists from which `from_dict` makes an equal object."""
        return {name: getattr(self, name).tolist() for name in ("ends", "weight", "widening")}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Trust:
        """What `to_dict` described. Raises ValueError or LookupError for what does not fit together."""
        ends, weight, widening = (np.array(content[name], np.float64) for name in ("ends", "weight", "widening"))
        kinds = len(ends) + 1
        if not (ends.ndim == 1 and weight.shape == (kinds, len(SEGMENTS)) and widening.shape == (kinds,)):
            raise ValueError(f"trust has {kinds} kinds, but weights {weight.shape} and widenings {widening.shape}")
        shares = np.concatenate([weight.ravel(), widening])
        if not (np.isfinite(ends).all() and (np.diff(ends) >= 0).all() and (shares >= 0).all() and (shares <= 1).all()):
            raise ValueError("trust must have rising ends, and weights and widenings of 0 to 1")
        return cls(ends, weight, widening)


def prototypes_of(shown: Float32, rng: np.random.Generator) -> Float32:
    """(P, I) some of the inputs (m, I) that were learnt from."""
    return shown[np.sort(rng.choice(len(shown), min(PROTOTYPES, len(shown)), replace=False))]


def unlike(shown: Float32, prototypes: Float32) -> Float32:
    """(m,) distance of inputs (m, I) to the nearest of some prototypes (P, I)."""
    half: Float32 = shown @ prototypes.T - 0.5 * (prototypes**2).sum(axis=1)
    found: Float32 = np.sqrt(np.maximum((shown**2).sum(axis=1) - 2 * half.max(axis=1), 0))
    return found


def mixture(networks: Distribution, drift: Distribution, weight: Float32, widening: Float32) -> Distribution:
    """`weight` (m, J) of the networks, the rest of the drift, and of that demand a share `widening` (m,) evenly."""
    most, peak, mean = (part.copy() for part in (networks.most, networks.peak, networks.mean))
    drift_most, drift_peak, drift_mean = (
        np.ascontiguousarray(part, np.float32) for part in (drift.most, drift.peak, drift.mean)
    )
    _mix(most, peak, mean, drift_most, drift_peak, drift_mean, weight, widening, networks.values)
    return Distribution(most, peak, mean, networks.values)


@njit
def _mix(
    most: Float32,
    peak: Float32,
    mean: Float32,
    drift_most: Float32,
    drift_peak: Float32,
    drift_mean: Float32,
    weight: Float32,
    widening: Float32,
    values: Float32,
) -> None:
    """Mix in place; the peak has the weight of the last segment.

    `most`: (m, J, D, V + 1), `peak`: (m, D, V + 1), `mean`: (m, J, D); see `Distribution`
    `weight`: (m, J) of what is there
    `widening`: (m,) of demand that is spread evenly over the levels, of a peak over those that it may have
    """
    one = np.float32(1.0)
    count, segments, resources, wide = most.shape
    for i in range(count):
        share = widening[i]
        for d in range(resources):
            for j in range(segments):
                own = weight[i, j]
                total = before = np.float32(0.0)
                for v in range(wide):
                    most[i, j, d, v] = own * most[i, j, d, v] + (one - own) * drift_most[i, j, d, v]
                    total += most[i, j, d, v] if v else np.float32(0.0)
                    before += most[i, j, d, v] * values[v]
                mean[i, j, d] = own * mean[i, j, d] + (one - own) * drift_mean[i, j, d]
                if share > 0.0:
                    after = np.float32(0.0)
                    for v in range(1, wide):
                        most[i, j, d, v] = (one - share) * most[i, j, d, v] + share * total / np.float32(wide - 1)
                        after += most[i, j, d, v] * values[v]
                    mean[i, j, d] *= after / before if before > 0.0 else one
            own = weight[i, segments - 1]
            first = wide
            for v in range(wide):
                peak[i, d, v] = own * peak[i, d, v] + (one - own) * drift_peak[i, d, v]
                if drift_peak[i, d, v] > 0.0 and v < first:
                    first = v
            if share > 0.0 and first < wide:
                for v in range(wide):
                    even = share / np.float32(wide - first) if v >= first else np.float32(0.0)
                    peak[i, d, v] = (one - share) * peak[i, d, v] + even


def _terms(held: HeldOut, peak_units: int) -> tuple[Float, Float, Float, Int]:
    """(m, J) of the CRPS a - 2 b w + c w^2 of a mixture with weight w, and (m,) the applications."""
    outcome = Outcomes.of(held.beginnings)
    level, _ = outcome.levels(held.networks.most.shape[-1] - 1, peak_units)
    networks, drift = (
        np.cumsum(part.most.astype(np.float64), axis=-1)[..., :-1] for part in (held.networks, held.drift)
    )
    came: Bool = level[..., None] <= np.arange(networks.shape[-1])
    off, apart = drift - came, drift - networks
    a, b, c = ((one * other).mean(axis=(2, 3)) for one, other in ((off, off), (off, apart), (apart, apart)))
    return a, b, c, held.beginnings.windows.application[held.beginnings.row]


def _weight(terms: Sequence[tuple[Float, Float, Float, Int]], kinds: Sequence[Int], kind: int) -> Float:
    """(J,) weight of the networks in a kind: the best by CRPS, each held-out application counting alike."""
    sums = np.zeros((3, len(SEGMENTS)))
    for (*parts, application), own in zip(terms, kinds, strict=True):
        rows = np.flatnonzero(own == kind)
        if not len(rows):
            continue
        _, place, count = np.unique(application[rows], return_inverse=True, return_counts=True)
        weight = 1 / count[place]
        sums += np.stack([(part[rows] * weight[:, None]).sum(axis=0) for part in parts])
    a, b, c = sums
    if not c.any():
        return np.full(len(SEGMENTS), USUAL[kind])
    lean = USUAL_GROUPS * c / max(1.0, _groups(terms, kinds, kind))
    best = np.clip((b + lean * USUAL[kind]) / np.maximum(c + lean, 1e-12), 0.0, 1.0)
    alone, mixed = a - 2 * b + c, a - 2 * b * best + c * best**2
    chosen: Float = np.where(alone <= MARGIN * mixed, 1.0, best)
    return chosen


def _groups(terms: Sequence[tuple[Float, Float, Float, Int]], kinds: Sequence[Int], kind: int) -> int:
    """Held-out applications with beginnings of a kind."""
    return sum(len(np.unique(one[3][own == kind])) for one, own in zip(terms, kinds, strict=True))
