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
USUAL_APPLICATIONS = 1.0  # held-out ones that the usual weight counts as
UNLIKE = 3  # the first kind that whole applications which were left out tell of, too
MARGIN = 1.05  # CRPS of the networks alone, over that of the best mixture, up to which they are believed
COVERED, LEAST = 0.88, 100  # of the outcomes of held-out parts, that many at least, in 90 % intervals
WIDENINGS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12)
RESERVE = 0.08  # widening where no fold was held out: the next workload may be unlike all that were left out


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What was forecast of beginnings that a fit had not seen, and what came."""

    beginnings: Beginnings
    networks: Distribution
    drift: Distribution
    unlike: Float32  # (m,) how unlike the fit's own beginnings they are

    def of(self, chosen: Bool) -> HeldOut:
        """The chosen ones of the m beginnings (m,)."""
        rows = np.flatnonzero(chosen)
        return HeldOut(self.beginnings[rows], self.networks[rows], self.drift[rows], self.unlike[rows])


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
        (K, J + 1) weight of the networks for each segment and for the peak, 0..1; `Drift` has the rest.
    widening : array of float
        (K,) share of the probability of demand that is spread evenly over all levels.

    Examples
    --------
    >>> trust = Trust(np.array([2.0]), np.array([[1.0] * 7, [0.0] * 7]), np.zeros(2))
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
        weight = np.repeat(np.array(USUAL)[:, None], len(SEGMENTS) + 1, axis=1)
        return cls(np.full(len(SHARES), -1.0), weight, np.full(len(USUAL), RESERVE))

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
        if not folds and not groups:
            return cls.unfounded()
        ends = np.quantile(np.concatenate([part.unlike for part in folds or groups]), SHARES)
        evidence = []  # of each kind: what is like what was learnt from is judged by folds, what is unlike by both
        for kind in range(len(USUAL)):
            parts = [*folds, *groups] if kind >= UNLIKE or not folds else folds
            evidence.append([part.of(np.searchsorted(ends, part.unlike) == kind) for part in parts])
        weight = np.stack([_weight(parts, kind, peak_units) for kind, parts in enumerate(evidence)])
        widening = [_widening(parts, weight[kind], peak_units) for kind, parts in enumerate(evidence)]
        return cls(ends, weight, np.maximum(widening, 0.0 if folds else RESERVE))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists from which `from_dict` makes an equal object."""
        return {name: getattr(self, name).tolist() for name in ("ends", "weight", "widening")}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Trust:
        """What `to_dict` described. Raises ValueError or LookupError for what does not fit together."""
        ends, weight, widening = (np.array(content[name], np.float64) for name in ("ends", "weight", "widening"))
        kinds = len(ends) + 1
        if not (ends.ndim == 1 and weight.shape == (kinds, len(SEGMENTS) + 1) and widening.shape == (kinds,)):
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
    return np.round(found, 2)  # sums of other batches differ in the last digits


def mixture(networks: Distribution, drift: Distribution, weight: Float32, widening: Float32) -> Distribution:
    """`weight` (m, J + 1) of the networks, the rest of the drift, and of that demand a share `widening` (m,) evenly."""
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
    """Mix in place.

    `most`: (m, J, D, V + 1), `peak`: (m, D, V + 1), `mean`: (m, J, D); see `Distribution`
    `weight`: (m, J + 1) of what is there
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
            own = weight[i, segments]
            first = wide
            for v in range(wide):
                peak[i, d, v] = own * peak[i, d, v] + (one - own) * drift_peak[i, d, v]
                if drift_peak[i, d, v] > 0.0 and v < first:
                    first = v
            if share > 0.0 and first < wide:
                for v in range(wide):
                    even = share / np.float32(wide - first) if v >= first else np.float32(0.0)
                    peak[i, d, v] = (one - share) * peak[i, d, v] + even


def _terms(held: HeldOut, peak_units: int) -> Float:
    """(3, m, J + 1) terms of the CRPS a - 2 b w + c w^2 of a mixture with weight w, by segment and of the peak."""
    levels = held.networks.most.shape[-1] - 1
    found = []
    for name, level in zip(("most", "peak"), Outcomes.of(held.beginnings).levels(levels, peak_units), strict=True):
        networks, drift = (
            np.cumsum(getattr(part, name).astype(np.float64), axis=-1)[..., :-1] for part in (held.networks, held.drift)
        )
        came: Bool = level[..., None] <= np.arange(levels)
        off, apart = drift - came, drift - networks
        terms = np.stack(
            [(one * other).mean(axis=(-2, -1)) for one, other in ((off, off), (off, apart), (apart, apart))]
        )
        found.append(terms.reshape(3, len(level), -1))
    return np.concatenate(found, axis=2)


def _weight(parts: Sequence[HeldOut], kind: int, peak_units: int) -> Float:
    """(J + 1,) weight of the networks in a kind: the best by CRPS, each held-out application counting alike."""
    a, b, c = np.zeros((3, len(SEGMENTS) + 1))
    applications = 0
    for part in parts:
        application = part.beginnings.windows.application[part.beginnings.row]
        names, place, count = np.unique(application, return_inverse=True, return_counts=True)
        applications += len(names)
        if len(names):
            sums = (_terms(part, peak_units) / count[place][:, None]).sum(axis=1)
            a, b, c = a + sums[0], b + sums[1], c + sums[2]
    if not c.any():
        return np.full(len(SEGMENTS) + 1, USUAL[kind])
    lean = USUAL_APPLICATIONS * c / max(1, applications)
    best = np.clip((b + lean * USUAL[kind]) / np.maximum(c + lean, 1e-12), 0.0, 1.0)
    alone, mixed = a - 2 * b + c, a - 2 * b * best + c * best**2
    chosen: Float = np.where(alone <= MARGIN * mixed, 1.0, best)
    return chosen


def _widening(parts: Sequence[HeldOut], weight: Float, peak_units: int) -> float:
    """The least widening with which 90 % intervals cover enough, on the mean of the held-out parts."""
    large = [part for part in parts if len(part.unlike) >= LEAST]
    for share in WIDENINGS:
        covered = []
        for part in large:
            count = len(part.unlike)
            weights = np.repeat(weight[None], count, axis=0).astype(np.float32)
            mixed = mixture(part.networks, part.drift, weights, np.full(count, share, np.float32))
            level, _ = Outcomes.of(part.beginnings).levels(mixed.most.shape[-1] - 1, peak_units)
            step = probability_integral(mixed.most.astype(np.float64), level)
            covered.append(float((share_below(step, 0.95) - share_below(step, 0.05)).mean()))
        if not covered or np.mean(covered) >= COVERED:
            return share
    return WIDENINGS[-1]
