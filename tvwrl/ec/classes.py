"""Equivalence classes: which workloads behave alike, and the class predicted for a workload at run time."""

from __future__ import annotations

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tvwrl.ec.classifier import RuntimeClassifier
from tvwrl.ec.clustering import LARGEST_K, SMALLEST_K, KSearch, search_k
from tvwrl.ec.representations import REPRESENTATIONS, Backends, Population, make_representation, representation_from
from tvwrl.forecasting import Parameters, prefix_features
from tvwrl.runs import write_json
from tvwrl.simulation import Scenario
from tvwrl.traces import FOLDS, UNSEEN, Windows, trace_hash
from tvwrl.types import Float, InputError, Int, Trace

FORMAT = 2  # 2: one more classifier per fold
CLASSES_FILE = "classes.json"
INITIALISATIONS = 50  # as in the paper
# What classes are made by where nobody says: found again with other seeds and workloads (docs/results/classes.md)
DEFAULT_CLASSES: Final = "aggregate"
OWN_LABELS = 40  # workloads of a sequence that get a label of their own where there are no classes


@dataclass(eq=False)
class EquivalenceClasses(Parameters):
    """Workloads clustered by how they are alike, and a classifier that predicts a workload's class while it runs.

    Follows scikit-learn: `fit`, `predict`, `labels_`, `random_state`. Labels are 1..k in rising order of the classes'
    mean demand over all resources, so that a label used as a number means something; 0 is kept for "nothing there".

    A classifier is surer of the series that it was trained on than of new ones. Therefore, for every fold of the
    training series, `fold_classifiers_` has one that never saw that fold, nor did the clustering that it learns.

    Parameters
    ----------
    representation : {"aggregate", "temporal", "dtw"}
        How alike workloads are.
    n_classes : int, optional
        Number of classes; default: that of `ks` with the highest mean silhouette.
    n_init : int
        Starts of K-Means and K-Medoids for each number of classes; the paper has 50.
    radius : int, optional
        Half-width of the band of dynamic time warping, slots; default: no band.
    ks : sequence of int
        Numbers of classes to choose from; the paper has 3 to 15.
    random_state : int
        Seed of all that is drawn.
    backends : Backends
        Libraries that compute.

    Attributes
    ----------
    k : int
        Number of classes. A file or a checkpoint keeps this, the classifiers, `fitted_on_` and what `predict` needs.
    labels_ : array of int
        (n,) label of every workload that was clustered.
    medoids_ : array of int
        (k,) the most central workload of each class.
    search_ : KSearch or None
        Silhouettes of the numbers of classes.
    classifier_ : RuntimeClassifier
        What labels workloads while they run.
    fold_classifiers_ : dict
        By fold, the one that never saw it.
    fitted_on_ : dict
        Facts about the trace and its units.

    Examples
    --------
    >>> classes = EquivalenceClasses("temporal").fit(population_of(sampler))  # doctest: +SKIP
    >>> classes.predict([series])  # labels 1..k of series (length, D) in units  # doctest: +SKIP
    """

    representation: str = "temporal"
    n_classes: int | None = None
    n_init: int = INITIALISATIONS
    radius: int | None = None
    ks: Sequence[int] = tuple(range(SMALLEST_K, LARGEST_K + 1))
    random_state: int = 0
    backends: Backends = Backends()  # noqa: RUF009 it is frozen

    def fit(
        self,
        population: Population,
        fitted_on: dict[str, Any] | None = None,
        progress: Callable[[], Any] = lambda: None,
        examples: int = 12_000,
    ) -> EquivalenceClasses:
        """Cluster the workloads, then train the classifiers.

        Where fewer workloads are distinct than classes wanted, each of these is a class, with a warning.

        Parameters
        ----------
        population : Population
            The workloads.
        fitted_on : dict, optional
            Facts to keep in `fitted_on_`.
        progress : callable
            Is called after each initialisation.
        examples : int
            Beginnings of workloads that each classifier learns from.

        Raises
        ------
        InputError
            If k is to be chosen and there are too few workloads to choose from.
        """
        self.cluster(population, progress)
        self.train_classifier(population, fitted_on, examples)
        return self

    def train_classifier(
        self, population: Population, fitted_on: dict[str, Any] | None = None, examples: int = 12_000
    ) -> None:
        """Train the classifiers alone.

        `classifier_` learns the labels of the workloads that were clustered; those of `fold_classifiers_` learn the
        labels of clusterings of the other folds, into as many classes.

        Parameters
        ----------
        population : Population
            The workloads that were clustered.
        fitted_on : dict, optional
            Facts to keep in `fitted_on_`.
        examples : int
            Beginnings of workloads that each classifier learns from.
        """
        from scipy.optimize import linear_sum_assignment

        shown: dict[str, Any] = {"peak_units": population.peak_units, "quantised": population.quantised}

        def taught(known: Population, labels: Int) -> RuntimeClassifier:
            classifier = RuntimeClassifier(examples=examples, random_state=self.random_state, **shown)
            return classifier.fit(known.series, known.metadata, labels)

        self.classifier_ = taught(population, self.labels_)
        self.fold_classifiers_: dict[int, RuntimeClassifier] = {}
        for fold in np.setdiff1d(population.fold, [UNSEEN]).tolist():
            rest = np.flatnonzero(population.fold != fold)
            if len(rest):
                others, again = population.select(rest), replace(self, n_classes=self.k)
                with warnings.catch_warnings():  # fewer workloads, fewer are alike
                    warnings.filterwarnings("ignore", ".* classes were requested, but only")
                    again.cluster(others)
                overlap = np.zeros((again.k, self.k))  # a label is named as the one that it overlaps most
                np.add.at(overlap, (again.labels_ - 1, self.labels_[rest] - 1), 1)
                names = linear_sum_assignment(overlap, maximize=True)[1] + 1
                self.fold_classifiers_[fold] = taught(others, names[again.labels_ - 1])
        slots: dict[str, Any] = {"resources": list(population.resources), "step_seconds": population.step_seconds}
        self.fitted_on_ = slots | shown | {"workloads": len(population)} | (fitted_on or {})

    def classifier_for(self, fold: int) -> RuntimeClassifier:
        """The classifier that saw no series of a fold.

        Parameters
        ----------
        fold : int
            The fold; UNSEEN has the classifier of all training series.
        """
        return self.fold_classifiers_.get(fold, self.classifier_)

    def cluster(self, population: Population, progress: Callable[[], Any] = lambda: None) -> None:
        """Cluster alone: sets `labels_`, `medoids_` and `search_`.

        Parameters
        ----------
        population : Population
            The workloads.
        progress : callable
            Is called after each initialisation.
        """
        found = make_representation(self.representation, self.radius, self.backends, self.random_state).fit(population)
        kinds = found.kinds()
        distinct = int(kinds.max()) + 1
        self.search_: KSearch | None = None
        if self.n_classes is not None and distinct <= max(self.n_classes, 2):
            if distinct < self.n_classes:
                found_only = f"only {distinct} of {len(kinds)} workloads are distinct: there are {distinct} classes"
                warnings.warn(f"{self.n_classes} classes were requested, but {found_only}", stacklevel=3)
            groups = kinds if self.n_classes > 1 else np.zeros_like(kinds)
        elif self.n_classes == 1:
            groups = np.zeros_like(kinds)
        else:
            ks = self.ks if self.n_classes is None else [self.n_classes]
            self.search_ = search_k(found, ks, self.n_init, self.random_state, progress)
            groups = self.search_.groups
        found.settle(groups)
        if len(found.rows_) < len(population):
            groups = found.predict(population.series)
        level = np.array([one.mean(axis=0).sum() for one in population.series])
        self.k = int(groups.max()) + 1
        mean = np.array([level[groups == g].mean() for g in range(self.k)])
        order = np.argsort(mean, kind="stable")
        self._rank = np.argsort(order)
        self.labels_: Int = self._rank[groups] + 1
        self.medoids_: Int = found.rows_[found.medoids_[order]]
        self.representation_ = found

    def clustering_to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists from which `restore_clustering` has what `cluster` found."""
        arrays = {"rank": self._rank, "labels": self.labels_, "medoids": self.medoids_}
        content: dict[str, Any] = {name: array.tolist() for name, array in arrays.items()}
        search = None if self.search_ is None else self.search_.to_dict()
        return content | {"k": self.k, "search": search, "fitted": self.representation_.to_dict()}

    def restore_clustering(self, content: dict[str, Any]) -> None:
        """Set what `cluster` sets, as `clustering_to_dict` described it.

        Parameters
        ----------
        content : dict
            What it gave.
        """
        self._rank, self.labels_, self.medoids_ = (
            np.array(content[n], np.int64) for n in ("rank", "labels", "medoids")
        )
        self.k, self.representation_ = content["k"], representation_from(content["fitted"])
        self.search_ = None if content["search"] is None else KSearch.from_dict(content["search"])

    def predict(self, series: Sequence[Float]) -> Int:
        """(n,) labels of whole series: that of the nearest centre or medoid.

        Parameters
        ----------
        series : sequence of array
            n of (length, D) units.
        """
        labels: Int = self._rank[self.representation_.predict(series)] + 1
        return labels

    def label_table(self, windows: Windows, every: int = 1) -> npt.NDArray[np.uint8]:
        """(..., L + 1) label of every window after 0, 1, ..., L slots, predicted from those slots alone.

        0 where no slot is left to predict for. A window is labelled by the classifier that never saw its fold, so that
        labels are as uncertain in training sequences as in those of unseen series. Labels of waiting workloads come
        from the metadata alone; those of running ones are predicted anew after 1, 1 + `every`, ... slots (Algorithm 1,
        line 8). What a workload uses does not depend on its machine, so the table is made ahead of the episode.

        Parameters
        ----------
        windows : Windows
            The windows, with any leading axes.
        every : int
            Slots between two predictions, >= 1.
        """
        slots = windows.demand.shape[-2]
        labels = np.zeros((*windows.length.shape, slots + 1), np.uint8)
        due = np.concatenate([[0], np.arange(1, slots + 1, every)])
        rows = windows.reshape(-1, windows.length.shape[-1])
        blocks = labels.reshape(*rows.length.shape, slots + 1)
        for own, shown in zip(blocks, rows, strict=True):
            alive = due <= shown.length[:, None]  # labels after the end of a workload are never used
            predicted = np.zeros(alive.shape, np.uint8)
            features = prefix_features(shown.demand)[:, due]
            for fold in np.unique(shown.fold).tolist():
                asked = alive & (shown.fold == fold)[:, None]
                known = shown.metadata[np.nonzero(asked)[0]]
                predicted[asked] = self.classifier_for(fold).predict(known, features[asked])
            own[:, 0] = predicted[:, 0]
            own[:, 1:] = np.repeat(predicted[:, 1:], every, axis=1)[:, :slots]
        return labels

    def check_fits(self, trace: Trace, scenario: Scenario) -> None:
        """Refuse classes that cannot be used here; warn of what makes results mean something else.

        Parameters
        ----------
        trace : Trace
            The trace to use them on.
        scenario : Scenario
            The scenario to use them in.

        Raises
        ------
        InputError
            For classes of other resources, slots or split.
        """
        made = self.fitted_on_
        needed = {"resources": list(trace.resources), "step_seconds": scenario.step_seconds, "split": scenario.split}
        for field, asked in needed.items():
            if (own := made.get(field, asked)) != asked:
                difference = f"with {field} {own}, but here it is {asked}"
                raise InputError(f"the classes were made {difference}: make classes for this with tvwrl classes")
        notes = []
        if made.get("hash") not in (None, trace_hash(trace)):
            meaning = f"workloads of '{trace.name}' get the class that their requests and units of demand resemble"
            notes.append(f"of another trace ('{made.get('trace')}'): {meaning}")
        if made.get("of") == "all":
            notes.append("of all workloads, those of the test sequences too: these are not unseen then")
        same = {"peak_units": scenario.peak_units, "quantised": scenario.quantise, "sample": scenario.sample}
        for field, used in same.items():
            if made.get(field, used) != used:
                notes.append(f"with {field} {made[field]}, but here it is {used}: their classifier sees other units")
        for note in notes:
            warnings.warn(f"the classes were made {note}", stacklevel=3)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists from which `from_dict` makes an equal object."""
        asked = self.get_params() | {"ks": list(self.ks)}
        del asked["backends"]
        fitted = {"k": self.k, "rank": self._rank.tolist(), "fitted_on": self.fitted_on_}
        pieces = {"fitted": self.representation_.to_dict(), "classifier": self.classifier_.to_dict()}
        pieces["fold_classifiers"] = {str(fold): one.to_dict() for fold, one in self.fold_classifiers_.items()}
        return {"format": FORMAT, "asked": asked, **fitted, **pieces}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> EquivalenceClasses:
        """The classes that `to_dict` described, ready to predict.

        Parameters
        ----------
        content : dict
            What `to_dict` gave.
        """
        classes = cls(**content["asked"])
        classes.k, classes.fitted_on_ = int(content["k"]), content["fitted_on"]
        classes._rank = np.array(content["rank"], np.int64)
        classes.representation_ = representation_from(content["fitted"])
        classes.classifier_ = RuntimeClassifier.from_dict(content["classifier"])
        made = {fold: RuntimeClassifier.from_dict(one) for fold, one in content["fold_classifiers"].items()}
        classes.fold_classifiers_ = {int(fold): one for fold, one in made.items()}
        every = [classes.classifier_, *classes.fold_classifiers_.values()]
        labels = np.unique(np.concatenate([one.classes_ for one in every]))
        if len({len(one.shift_) for one in every}) > 1 or not set(classes.fold_classifiers_) <= set(range(FOLDS)):
            raise ValueError(
                f"classifiers of folds {', '.join(made)}: needed are folds 0 to {FOLDS - 1}, of equal inputs"
            )
        if (count := classes.representation_.size) != classes.k:
            raise ValueError(f"k is {classes.k}, but there are {count} centres or medoids")
        if sorted(classes._rank) != list(range(classes.k)) or not set(labels) <= set(range(1, classes.k + 1)):
            raise ValueError(f"k is {classes.k}, ranks are {classes._rank.tolist()}, labels {labels.tolist()}")
        if not {"resources", "step_seconds"} <= set(classes.fitted_on_):
            raise KeyError("resources, step_seconds")
        return classes

    def save(self, path: Path) -> None:
        """Write a classes file (JSON), whole.

        Parameters
        ----------
        path : Path
            The file.
        """
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: Path) -> EquivalenceClasses:
        """Read a classes file.

        Parameters
        ----------
        path : Path
            The file.

        Raises
        ------
        InputError
            For one that is missing, damaged or of another version.
        """
        try:
            content = json.loads(path.read_text())
        except OSError as error:
            raise InputError(f"no classes file {path}: {error.strerror}; make one with tvwrl classes") from None
        except ValueError:
            raise InputError(f"{path} is not a classes file: it is not JSON") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else None
            again = "; make it again with tvwrl classes" if found is not None else ""
            raise InputError(f"{path} is not a classes file of format {FORMAT} (format: {found}){again}")
        try:
            return cls.from_dict(content)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path} is damaged: {type(error).__name__} {error}") from None


class ConstantLabels(ABC):
    """Labels that workloads have from the start to the end."""

    @abstractmethod
    def _constant(self, windows: Windows) -> Int:
        """(..., N) the label of each workload."""

    def label_table(self, windows: Windows, every: int = 1) -> npt.NDArray[np.uint8]:
        """(..., N, L + 1) labels, the same at all times.

        Parameters
        ----------
        windows : Windows
            (..., N) workloads.
        every : int
            Makes no difference.
        """
        own = self._constant(windows).astype(np.uint8)
        return np.broadcast_to(own[..., None], (*own.shape, windows.demand.shape[-2] + 1)).copy()


class OwnLabels(ConstantLabels):
    """No classes: every workload of a sequence has its own label 1..k, in turn if there are more than k.

    Parameters
    ----------
    k : int
        Number of labels, 1 to 253.

    Examples
    --------
    >>> OwnLabels(3).to_dict()
    {'own_labels': 3}
    """

    def __init__(self, k: int) -> None:
        self.k = k

    def _constant(self, windows: Windows) -> Int:
        return np.broadcast_to(np.arange(windows.length.shape[-1]) % self.k + 1, windows.length.shape)

    def to_dict(self) -> dict[str, Any]:
        """The number of labels."""
        return {"own_labels": self.k}


class GivenLabels(ConstantLabels):
    """Labels known from the start, of workloads of one trace: to measure what classes are worth, not for use.

    Parameters
    ----------
    labels : array of int
        (N,) label 1..k of each workload of the trace.

    Examples
    --------
    >>> GivenLabels(np.array([1, 2, 1])).k
    2
    """

    def __init__(self, labels: Int) -> None:
        self.labels, self.k = labels, int(labels.max())

    def _constant(self, windows: Windows) -> Int:
        found: Int = self.labels[windows.series]
        return found

    def to_dict(self) -> dict[str, Any]:
        """The labels."""
        return {"given_labels": self.labels.tolist()}


Classes = EquivalenceClasses | OwnLabels | GivenLabels


def classes_from(content: dict[str, Any]) -> Classes:
    """Restore classes from plain numbers and lists, as a checkpoint holds them.

    Parameters
    ----------
    content : dict
        What `to_dict` of the classes gave.

    Returns
    -------
    EquivalenceClasses, OwnLabels or GivenLabels
        Equal classes.

    Examples
    --------
    >>> classes_from({"own_labels": 3}).k
    3
    """
    if "given_labels" in content:
        return GivenLabels(np.array(content["given_labels"], np.int64))
    return OwnLabels(content["own_labels"]) if "own_labels" in content else EquivalenceClasses.from_dict(content)


def find_classes(name: str, trace: Trace, scenario: Scenario) -> Classes | str:
    """Find the classes that a value of `--ec` stands for.

    Parameters
    ----------
    name : str
        A file or folder of `tvwrl classes`; or aggregate, temporal or dtw, to make classes by; or none.
    trace : Trace
        The trace that they must fit.
    scenario : Scenario
        The scenario that they must fit.

    Returns
    -------
    EquivalenceClasses or OwnLabels or str
        The classes of the file, or the name itself.

    Raises
    ------
    InputError
        For anything else, and for classes that do not fit.

    Examples
    --------
    >>> find_classes("temporal", trace, scenario)  # doctest: +SKIP
    'temporal'
    """
    if name in (*REPRESENTATIONS, "none"):
        return name
    path = Path(name)
    if not path.exists():
        raise InputError(f"ec is {name}: no such file, and not one of {', '.join(REPRESENTATIONS)}, none")
    classes = EquivalenceClasses.load(path / CLASSES_FILE if path.is_dir() else path)
    classes.check_fits(trace, scenario)
    return classes
