"""The workloads to divide, and three measures of how alike they are: aggregate and temporal features, time warping.

Each represents a population for clustering, and predicts the group of a new series: the nearest centre or medoid.
Groups are numbers 0..k-1 of the n workloads `rows_` of the population: all, or a sample of many. `to_dict` keeps what
`predict` needs, as plain numbers and lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tvwrl.checks import one_of
from tvwrl.ec.features import FeatureScaler, aggregate_features, temporal_features
from tvwrl.traces import DAY_SECONDS, Run, SequenceSampler, average_slots, first_of_application, metadata_of
from tvwrl.types import Float, InputError, Int, Strings, Trace, summary

MOST_WARPED = 2000  # most series of which all distances are computed; beyond, a sample finds the medoids (CLARA)
ALIKE = 9  # decimals to which the features of equal workloads agree, whatever the order of summation


@dataclass(frozen=True)
class Population:
    """n workloads, each with its longest stretch of usage without a gap.

    Parameters
    ----------
    resources : tuple of str
        (D,) names of the resources.
    workload_id : array of str
        (n,) names of the workloads.
    series : list of array
        n of (length, D) units, >= 0.
    metadata : array of float
        (n, D + 2) requests in units, priority and scheduling class; NaN if not declared.
    fold : array of int
        (n,) 0..FOLDS - 1; UNSEEN: in none, so that whatever is fitted per fold sees it every time.
    step_seconds : int
        Length of a slot, seconds.
    peak_units : int
        What the environment cuts demand to.
    quantised : bool
        Whether the environment rounds demand to whole units.
    unit : array of float, optional
        (D,) share of the trace's machine that one unit is; default: unknown.
    begin : array of int, optional
        (n,) seconds from the trace's start to the series' first slot; default: unknown.
    application : array of int, optional
        (n,) the application of each workload, 0..; those of the same series count as one. Default: each is alone, or
        nothing is known of applications.

    Examples
    --------
    >>> population_of(sampler)  # doctest: +SKIP
    <Population workloads=210, step_seconds=1800, resources=('cpu', 'mem')>
    """

    resources: tuple[str, ...]
    workload_id: Strings
    series: list[Float]
    metadata: Float
    fold: Int
    step_seconds: int
    peak_units: int
    quantised: bool = True
    unit: Float | None = None
    begin: Int | None = None
    application: Int | None = None

    def __len__(self) -> int:
        return len(self.series)

    def __repr__(self) -> str:
        return summary(self, workloads=len(self), step_seconds=self.step_seconds, resources=self.resources)

    @property
    def slots_per_day(self) -> int:
        """Slots of the series in a day, at least 1."""
        return max(1, round(DAY_SECONDS / self.step_seconds))

    def select(self, chosen: Sequence[int] | Int) -> Population:
        """Some of the workloads.

        Parameters
        ----------
        chosen : sequence of int
            Their numbers, 0..n - 1.
        """
        index = np.asarray(chosen, np.int64)
        series = [self.series[i] for i in index]
        by_workload = {name: getattr(self, name)[index] for name in ("workload_id", "metadata", "fold")}
        begin = None if self.begin is None else self.begin[index]
        application = None if self.application is None else self.application[index]
        return replace(self, series=series, begin=begin, application=application, **by_workload)


def population_of(sampler: SequenceSampler, runs: Sequence[Run] | None = None) -> Population:
    """Collect workloads of a sampler's trace, in its slots and units.

    Parameters
    ----------
    sampler : SequenceSampler
        What has the trace, the unit and the folds.
    runs : sequence of Run, optional
        Stretches of the trace to take; default: those for training.

    Returns
    -------
    Population
        Of each workload its longest run.

    Raises
    ------
    InputError
        If no run covers a slot.

    Examples
    --------
    >>> population = population_of(SequenceSampler(open_trace("google"), Scenario()))  # doctest: +SKIP
    >>> classes = EquivalenceClasses("temporal", n_classes=6).fit(population)  # doctest: +SKIP
    """
    trace, ratio, scenario = sampler.trace, sampler.ratio, sampler.scenario
    longest: dict[int, Run] = {}
    for run in sampler.runs["train"] if runs is None else runs:
        if run.rows >= ratio and (run.workload not in longest or run.rows > longest[run.workload].rows):
            longest[run.workload] = run
    if not longest:
        raise InputError(f"no workload of trace '{trace.name}' covers one slot of {scenario.step_seconds} s")
    series = []
    for run in longest.values():
        rows = trace.usage[run.first : run.first + run.rows - run.rows % ratio]
        series.append(average_slots(rows, ratio, scenario.sample) / sampler.unit)
    chosen = np.array(list(longest), np.int64)
    metadata = metadata_of(trace, chosen, sampler.unit)
    fold = sampler.fold[chosen]
    environment = scenario.step_seconds, scenario.peak_units, scenario.quantise
    begin = np.array([trace.slot[run.first] for run in longest.values()], np.int64) * trace.slot_seconds
    known = sampler.unit, begin, _shared_applications(trace, chosen, series)
    return Population(trace.resources, trace.workload_id[chosen], series, metadata, fold, *environment, *known)


def _shared_applications(trace: Trace, chosen: Int, series: Sequence[Float]) -> Int | None:
    """(n,) the application of each workload, 0.. in their order here; None if no two belong to the same one.

    Workloads of the same series, unless it is constant, count as one application: a series that is there twice, under
    two names, would be learnt from and then held out. The order in the trace makes no difference, so that the same
    workloads in another order give the same folds.
    """
    application, seen = first_of_application(trace)[chosen], dict[bytes, int]()
    for i, one in enumerate(series):
        if np.ptp(one, axis=0).any() and (same := seen.setdefault(one.tobytes(), i)) != i:
            application[application == application[i]] = application[same]
    names, first, place = np.unique(application, return_index=True, return_inverse=True)
    number: Int = first.argsort().argsort()[place.reshape(-1)]
    return None if len(names) == len(chosen) else number


@dataclass(frozen=True)
class Backends:
    """Libraries that compute; results are the same. tvwrl is the fastest; the others are optional dependencies."""

    features: Literal["tvwrl", "tsfresh"] = "tvwrl"
    """Library for temporal features."""
    dtw: Literal["tvwrl", "tslearn"] = "tvwrl"
    """Library for dynamic time warping."""
    k_medoids: Literal["tvwrl", "kmedoids", "sklearn-extra"] = "tvwrl"
    """Library for K-Medoids."""


class FeatureRepresentation:
    """Euclidean distance between features scaled to [0, 1], K-Means with k-means++."""

    def __init__(self, name: str, backends: Backends = Backends()) -> None:
        self.name, self.backends = name, backends

    def _features(self, series: Sequence[Float]) -> tuple[Float, list[str]]:
        if self.name == "aggregate":
            return aggregate_features(series, self.resources)
        return temporal_features(series, self.resources, self.slots_per_day, self.backends.features)

    def fit(self, population: Population) -> FeatureRepresentation:
        """Compute and scale the features: `scaled_` (n, F), `names_` (F,)."""
        self.resources, self.slots_per_day = population.resources, population.slots_per_day
        self.features_, self.names_ = self._features(population.series)
        self._scale()
        return self

    def _scale(self) -> None:
        self.scaler_ = FeatureScaler()
        self.scaled_: Float = self.scaler_.fit_transform(self.features_).round(ALIKE)
        self.rows_ = np.arange(len(self.scaled_))

    def select(self, chosen: Int) -> FeatureRepresentation:
        """The same of some of the workloads `rows_`, given by their places in it, scaled to these alone."""
        made = FeatureRepresentation(self.name, self.backends)
        made.resources, made.slots_per_day = self.resources, self.slots_per_day
        made.features_, made.names_ = self.features_[chosen], self.names_
        made._scale()
        return made

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.centres_)

    def kinds(self) -> Int:
        """(n,) numbers of the distinct rows of features."""
        return np.unique(self.scaled_, axis=0, return_inverse=True)[1].reshape(-1)

    def distances(self, chosen: Int) -> Float:
        """(c, c) Euclidean."""
        from scipy.spatial.distance import cdist

        between: Float = cdist(self.scaled_[chosen], self.scaled_[chosen])
        return between

    def cluster(self, k: int, random_state: int) -> Int:
        """(n,) groups of K-Means."""
        from sklearn.cluster import KMeans

        groups: Int = KMeans(k, n_init=1, random_state=random_state).fit(self.scaled_).labels_.astype(np.int64)
        return groups

    def settle(self, groups: Int) -> None:
        """Keep the centre of each group, `centres_` (k, F), and its most central workload, `medoids_` (k,)."""
        members = [np.flatnonzero(groups == g) for g in range(groups.max() + 1)]
        self.centres_ = np.array([self.scaled_[m].mean(axis=0) for m in members])
        apart = [((self.scaled_[m] - c) ** 2).sum(axis=1) for m, c in zip(members, self.centres_, strict=True)]
        self.medoids_ = np.array([m[a.argmin()] for m, a in zip(members, apart, strict=True)])

    def scaled(self, series: Sequence[Float]) -> Float:
        """(n, F) features of series, scaled as those that were fitted."""
        features: Float = self.scaler_.transform(self._features(series)[0])
        return features

    def predict(self, series: Sequence[Float]) -> Int:
        """(n,) group of the nearest centre."""
        scaled = self.scaled(series)
        nearest: Int = ((scaled[:, None] - self.centres_) ** 2).sum(axis=2).argmin(axis=1)
        return nearest

    def to_dict(self) -> dict[str, Any]:
        """Scaler, names of the features and centres."""
        place = {"resources": list(self.resources), "slots_per_day": self.slots_per_day}
        fitted = {"names": self.names_, "scaler": self.scaler_.to_dict(), "centres": self.centres_.tolist()}
        return {"name": self.name, **place, **fitted}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> FeatureRepresentation:
        """What `to_dict` described, ready to predict."""
        made = cls(content["name"])
        made.resources, made.slots_per_day = tuple(content["resources"]), content["slots_per_day"]
        made.names_, made.scaler_ = content["names"], FeatureScaler.from_dict(content["scaler"])
        made.centres_ = np.array(content["centres"])
        return made


class DTWRepresentation:
    """Dynamic time warping per resource, normalised and averaged over resources; K-Medoids."""

    name = "dtw"

    def __init__(self, radius: int | None = None, backends: Backends = Backends(), random_state: int = 0) -> None:
        self.radius, self.backends, self.random_state = radius, backends, random_state

    def fit(self, population: Population) -> DTWRepresentation:
        """Compute all distances, `distances_` (n, n), and the scale of each resource, `scale_` (D,)."""
        from tvwrl.ec.dtw import dtw_distances

        count = len(population)
        drawn = np.random.default_rng(self.random_state).permutation(count)[:MOST_WARPED]
        self.rows_ = np.sort(drawn)
        self.series_ = [population.series[i] for i in self.rows_]
        self._scale(dtw_distances(self.series_, radius=self.radius, backend=self.backends.dtw))
        return self

    def _scale(self, between: Float) -> None:
        """`between` (D, n, n): distances of each resource."""
        from tvwrl.ec.dtw import distance_scale, mean_distance

        self._between, lengths = between, np.array([len(one) for one in self.series_])
        self.scale_: Float = distance_scale(between, lengths)
        self.distances_: Float = mean_distance(between, lengths, lengths, self.scale_).round(ALIKE)

    def select(self, chosen: Int) -> DTWRepresentation:
        """The same of some of the workloads `rows_`, given by their places in it, scaled to these alone."""
        made = DTWRepresentation(self.radius, self.backends, self.random_state)
        made.rows_, made.series_ = np.arange(len(chosen)), [self.series_[i] for i in chosen]
        made._scale(np.ascontiguousarray(self._between[:, chosen][:, :, chosen]))
        return made

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.medoid_series_)

    def kinds(self) -> Int:
        """(n,) numbers of the workloads between which there is a distance."""
        first = (self.distances_ <= 0).argmax(axis=1)
        return np.unique(first, return_inverse=True)[1].reshape(-1)

    def distances(self, chosen: Int) -> Float:
        """(c, c) mean over resources of the normalised distances."""
        between: Float = self.distances_[np.ix_(chosen, chosen)]
        return between

    def cluster(self, k: int, random_state: int) -> Int:
        """(n,) groups of K-Medoids."""
        from tvwrl.ec.clustering import k_medoids

        medoids = k_medoids(self.distances_, k, random_state, self.backends.k_medoids)
        groups: Int = self.distances_[:, medoids].argmin(axis=1)
        return groups

    def settle(self, groups: Int) -> None:
        """Keep the medoid of each group: `medoids_` (k,) and their series."""
        members = [np.flatnonzero(groups == g) for g in range(groups.max() + 1)]
        self.medoids_ = np.array([m[self.distances_[np.ix_(m, m)].sum(axis=0).argmin()] for m in members])
        self.medoid_series_ = [self.series_[i] for i in self.medoids_]

    def predict(self, series: Sequence[Float]) -> Int:
        """(n,) group of the nearest medoid."""
        from tvwrl.ec.dtw import nearest

        groups: Int = nearest(series, self.medoid_series_, self.scale_, self.radius)[0]
        return groups

    def to_dict(self) -> dict[str, Any]:
        """Scale and the medoids' series."""
        medoids = [one.round(6).tolist() for one in self.medoid_series_]
        return {"name": self.name, "radius": self.radius, "scale": self.scale_.tolist(), "medoids": medoids}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> DTWRepresentation:
        """What `to_dict` described, ready to predict."""
        made = cls(content["radius"])
        made.scale_ = np.array(content["scale"])
        made.medoid_series_ = [np.array(one) for one in content["medoids"]]
        return made


Representation = FeatureRepresentation | DTWRepresentation
TITLES = {  # what people call them, for pictures
    "aggregate": "aggregate features",
    "temporal": "temporal features",
    "dtw": "dynamic time warping",
}
REPRESENTATIONS = tuple(TITLES)


def make_representation(
    name: str, radius: int | None = None, backends: Backends = Backends(), random_state: int = 0
) -> Representation:
    """The representation of that name. Raises InputError for an unknown one."""
    one_of(REPRESENTATIONS, representation=name)
    return DTWRepresentation(radius, backends, random_state) if name == "dtw" else FeatureRepresentation(name, backends)


def representation_from(content: dict[str, Any]) -> Representation:
    """The representation that `to_dict` described."""
    kind = DTWRepresentation if content["name"] == "dtw" else FeatureRepresentation
    return kind.from_dict(content)
