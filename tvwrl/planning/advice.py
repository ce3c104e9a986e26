"""Which algorithm suits an instance and a time budget (the provisioning paper, 4.5, Section 6 and Figure 8), and why.

Candidates are run on samples of the applications, and their times are extrapolated to the whole instance by the growth
measured between samples. Table 4 gives the worst case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvwrl.checks import positive
from tvwrl.planning.best import SEARCH
from tvwrl.planning.bounds.counting import by_volume
from tvwrl.planning.instance import Fleet, Instance, check_fits
from tvwrl.planning.portfolio import PORTFOLIO, PORTFOLIO_SHARE
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.registry import plan
from tvwrl.planning.suite import warm_up
from tvwrl.types import Float

DOMINANT = 1.5  # a resource that needs so many times the machines of any other is the bottleneck (4.5)
DENSE, RESTRICTIVE = 0.01, 0.05  # density from which DotProduct is the node-centric choice, and orders look at affinity
SMALL = 1_600  # applications; fewer are sampled more coarsely
SAMPLES, SAMPLES_OF_SMALL = (1 / 16, 1 / 8, 1 / 4), (1 / 4, 1 / 2, 1.0)
MOST_GROWTH = 2.0  # largest power of A for extrapolation: small samples overstate the growth
LEAST_SECONDS = 1e-3  # shorter times are noise


@dataclass(frozen=True)
class Features:
    """Properties of an instance that the choice depends on."""

    applications: int
    replicas: int
    times: int
    density: float  # affinity limits by ordered pairs of different applications
    needed: dict[str, int]  # resource -> machines needed for its total demand (Eq. 4)
    dominant: str | None  # the resource that needs `DOMINANT` times as many machines as any other


@dataclass(frozen=True)
class Candidate:
    """An algorithm and its results on the samples."""

    algorithm: str
    why: str  # why it is a candidate
    worst_case: str  # Table 4, with all numbers in proportion to the applications A
    growth: float  # seconds grow like A to this power, measured
    seconds: float  # expected for the whole instance
    deviation_pct: float  # from Eq. 4, on the largest sample


@dataclass(frozen=True)
class Advice:
    """The recommended algorithm, and the measurements behind it."""

    features: Features
    candidates: tuple[Candidate, ...]
    sample: int  # applications of the largest sample
    algorithm: str
    reason: str


def advise(
    instance: Instance, fleet: Fleet, seconds: float, seed: int = 0, progress: Callable[[str], None] | None = None
) -> Advice:
    """The algorithm to use for an `instance` within `seconds` > 0 of planning; `seed`: of the samples. `progress` is
    called with the name of each candidate.

    Samples are planned on as many machines as they take, like the first of the fleet's largest. Raises InputError if
    seconds is not above 0, or an application fits no machine.
    """
    positive(seconds=seconds)
    check_fits(instance, fleet)
    features = features_of(instance, fleet)
    kind = Fleet(fleet.capacity.max(axis=0, keepdims=True))
    rng = np.random.default_rng(seed)
    shares = SAMPLES_OF_SMALL if len(instance) < SMALL else SAMPLES
    order = rng.permutation(len(instance))
    samples = [instance.only(np.sort(order[: max(2, round(share * len(instance)))])) for share in shares]
    candidates = []
    for name, why in names_for(features).items():
        if progress is not None:
            progress(name)
        candidates.append(_tried(name, why, samples, kind, len(instance)))
    algorithm, reason = _choice(candidates, features, seconds)
    return Advice(features, tuple(candidates), len(samples[-1]), algorithm, reason)


def features_of(instance: Instance, fleet: Fleet) -> Features:
    """Size, density and dominant resource of an instance."""
    most = fleet.capacity.max(axis=0)
    share = instance.total.max(axis=0) / most
    needed = dict(zip(instance.resources, np.ceil(share - 1e-6).astype(int).tolist(), strict=True))
    first = int(np.argmax(share))
    others = np.delete(share, first)
    dominates = len(others) > 0 and bool((share[first] >= DOMINANT * others).all())
    return Features(
        len(instance),
        int(instance.replicas.sum()),
        instance.demand.shape[1],
        instance.density,
        needed,
        instance.resources[first] if dominates else None,
    )


def names_for(features: Features) -> dict[str, str]:
    """Candidate algorithms (Figure 8), each with the reason why."""
    size = "Max" if features.dominant else "AvgExp"
    one = f"{features.dominant} dominates, so the largest share is the size (4.5)" if features.dominant else ""
    names = {"FF": "the fastest", "Medea-TP": "as fast, most neighbours first"}
    names[f"WFD-{size}"] = one or "the best that takes one application after another (Section 6)"
    if features.times == 1:  # with series they are too slow (Section 6)
        dense = features.density >= DENSE
        rule = "NCD-DotProduct" if dense else "LRASched-Fitness"
        names[rule] = f"in between; {'many' if dense else 'few'} affinity limits (Figure 8)"
    names["SpreadWFD-Avg-Decr2"] = "nearly the best, in less time"
    names["SpreadWFD-Avg-BinSearch"] = "the best of the paper"
    names[f"SpreadWFD-{size}-BinSearch"] = one or "the best of the paper, by another size"
    if features.density >= RESTRICTIVE:
        names["SpreadWFD-Avg-Hybrid0.5-BinSearch"] = "affinity is restrictive, so the order looks at it (4.5, Eq. 3)"
    return names | {name: "one of those that `best` begins with" for name in PORTFOLIO if name not in names}


def _tried(name: str, why: str, samples: list[Instance], fleet: Fleet, applications: int) -> Candidate:
    warm_up(PlanningProblem(samples[0], fleet), name)
    plans = [plan(part, fleet, name) for part in samples]
    seconds = np.array([max(made.seconds, LEAST_SECONDS) for made in plans])
    sizes = np.array([len(part) for part in samples], np.float64)
    growth = _growth(sizes, seconds)
    bound = by_volume(samples[-1], fleet)
    return Candidate(
        name,
        why,
        worst_case(name),
        growth,
        float(seconds[-1] * (applications / sizes[-1]) ** min(max(growth, 1.0), MOST_GROWTH)),
        100.0 * (plans[-1].machines - bound) / bound,
    )


def _growth(sizes: Float, seconds: Float) -> float:
    """The power of A by which seconds grow, by least squares of the logarithms."""
    x, y = np.log(sizes), np.log(seconds)
    spread = float(((x - x.mean()) ** 2).sum())
    return float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread else 1.0


def worst_case(name: str) -> str:
    """Table 4 where replicas R, applications L and machines n are all in proportion to A."""
    return "A^4" if name.startswith("Matching") else "A^3"


def _choice(candidates: list[Candidate], features: Features, seconds: float) -> tuple[str, str]:
    portfolio = [one.seconds for one in candidates if one.algorithm in PORTFOLIO]
    needed = sum(portfolio) / PORTFOLIO_SHARE
    if needed <= seconds:
        return SEARCH, (
            f"{seconds:g} s are more than {1 / PORTFOLIO_SHARE:g} times what its portfolio takes, "
            "so there is time to search on from the best of it"
        )
    affordable = [one for one in candidates if one.seconds <= seconds]
    if not affordable:
        fastest = min(candidates, key=lambda one: one.seconds)
        return fastest.algorithm, f"nothing is expected to end within {seconds:g} s; this is the fastest"
    best = min(affordable, key=lambda one: (round(one.deviation_pct, 3), one.seconds))
    return best.algorithm, (
        f"of those that should end within {seconds:g} s it came nearest to the bound on the sample; {best.why}"
    )
