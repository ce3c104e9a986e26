"""The run-time classifier: the class of a workload, predicted from its request and its usage so far."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tvwrl.ec.representations import Population
from tvwrl.forecasting import (
    LONGEST,
    Layers,
    Parameters,
    forward,
    layers_from_lists,
    layers_to_lists,
    masked,
    prefix_features,
    train_layers,
)
from tvwrl.types import Float, Int

SHARE_UNSEEN = 0.15  # share of the training examples in which the workload has not run yet
SHARE_HIDDEN = 0.2  # share of the metadata hidden in training, as values may be missing later
PREFIXES = 4  # training examples taken from one window


@dataclass(eq=False)
class RuntimeClassifier(Parameters):
    """Two dense ReLU layers and softmax, trained with Adam on the cross-entropy (paper: EC Prediction).

    Inputs are the metadata (P,), unknown ones as 0 beside a mask, and `prefix_features` of the slots seen so far: none
    at all, or any number. Trained on random beginnings of random windows of the workloads, in units as the
    environment shows them. Follows scikit-learn: `fit`, `predict`, `predict_proba`, `classes_`, `random_state`.
    """

    hidden: int = 32
    examples: int = 12_000
    epochs: int = 25
    peak_units: int = 6
    quantised: bool = True
    random_state: int = 0

    def fit(self, series: Sequence[Float], metadata: Float, labels: Int) -> RuntimeClassifier:
        """Learn from n workloads: `series` n of (length, D) units, `metadata` (n, P) with NaN, `labels` (n,) >= 1."""
        self.classes_ = np.unique(labels)
        rng = np.random.default_rng(self.random_state)
        windows = np.arange(max(self.examples // PREFIXES, len(series))) % len(series)
        parts = [self._examples([series[i] for i in part], rng) for part in np.array_split(windows, 10)]
        chosen = np.repeat(windows, PREFIXES)
        known = metadata[chosen]
        known[rng.random(known.shape) < SHARE_HIDDEN] = np.nan
        inputs = np.concatenate([masked(known), np.concatenate(parts)], axis=1)
        spread = inputs.std(axis=0)
        self.shift_, self.width_ = inputs.mean(axis=0), np.where(spread > 1e-6, spread, 1.0)
        self.layers_ = self._train((inputs - self.shift_) / self.width_, labels[chosen])
        return self

    def _train(self, inputs: Float, labels: Int) -> Layers:
        from sklearn.neural_network import MLPClassifier

        if len(self.classes_) == 1:
            return [(np.zeros((inputs.shape[1], 1)), np.zeros(1))]
        network = MLPClassifier(
            (self.hidden, self.hidden),
            batch_size=min(512, len(inputs)),
            learning_rate_init=3e-3,
            max_iter=self.epochs,
            random_state=self.random_state,
        )
        layers = train_layers(network, inputs, labels)
        if len(self.classes_) == 2:  # one logistic output there: the same as a softmax over it and 0
            weights, bias = layers[-1]
            layers[-1] = (np.hstack([np.zeros_like(weights), weights]), np.append(0.0, bias))
        return layers

    def _examples(self, series: Sequence[Float], rng: np.random.Generator) -> Float:
        """(n * PREFIXES, F) features of random beginnings of one random window of each of n series."""
        begin = [int(rng.integers(len(one))) for one in series]
        length = np.array([min(LONGEST, len(one) - b) for one, b in zip(series, begin, strict=True)], np.int64)
        demand = np.zeros((len(series), length.max(initial=0), series[0].shape[1] if len(series) else 1))
        for window, one, b, slots in zip(demand, series, begin, length, strict=True):
            window[:slots] = self.shown(one[b : b + slots])
        seen = np.exp(rng.uniform(0.0, np.log(length)[:, None], (len(series), PREFIXES))).round().astype(np.int64)
        seen[rng.random(seen.shape) < SHARE_UNSEEN] = 0
        features: Float = prefix_features(demand)[np.arange(len(series))[:, None], seen].reshape(seen.size, -1)
        return features

    def predict_proba(self, metadata: Float, features: Float) -> Float:
        """(..., K) probability of each of `classes_`: `metadata` (..., P), `features` (..., F) of the slots seen."""
        values = (np.concatenate([masked(metadata), features], axis=-1) - self.shift_) / self.width_
        logits = forward(self.layers_, values)
        odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
        probability: Float = odds / odds.sum(axis=-1, keepdims=True)
        return probability

    def predict(self, metadata: Float, features: Float) -> Int:
        """(...) the most probable class."""
        labels: Int = self.classes_[self.predict_proba(metadata, features).argmax(axis=-1)]
        return labels

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists from which `from_dict` makes an equal object."""
        fitted = {"classes": self.classes_.tolist(), "shift": self.shift_.tolist(), "width": self.width_.tolist()}
        return {"parameters": self.get_params(), **fitted, "layers": layers_to_lists(self.layers_)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> RuntimeClassifier:
        """The classifier that `to_dict` described."""
        classifier = cls(**content["parameters"])
        classifier.classes_ = np.array(content["classes"], np.int64)
        classifier.shift_, classifier.width_ = np.array(content["shift"]), np.array(content["width"])
        classifier.layers_ = layers_from_lists(content["layers"], len(classifier.shift_))
        scale, outputs = np.array([classifier.shift_, classifier.width_]), len(classifier.layers_[-1][1])
        if outputs != len(classifier.classes_) or not np.isfinite(scale).all():
            raise ValueError(f"{outputs} outputs for {len(classifier.classes_)} classes, or a scale is not finite")
        return classifier

    def shown(self, units: Float) -> Float:
        """Demand (..., D) as the environment shows it."""
        from tvwrl.traces import quantise

        return quantise(units, self.peak_units) if self.quantised else np.minimum(units, self.peak_units)


SEEN = (0, 1, 2, 4, 8, 16, 32, 64, LONGEST)  # numbers of slots seen
HELD_OUT = 0.3  # share of the workloads of every class
SPLITS = 10  # times that workloads are held out, drawn anew
MOST_ASKED = 500  # most held-out workloads of a split that are asked about
WINDOWS = 8  # random windows of each held-out workload
BINS = 10  # bins of the predicted probability
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A mean over repeated splits, and the ends of its interval, which holds the true one with CONFIDENCE."""

    mean: float
    low: float
    high: float

    @classmethod
    def over_splits(cls, values: Float, held_out: int, share: float = HELD_OUT) -> Interval:
        """Of (splits,) values, NaN left out, each measured on a `share` of the workloads.

        Splits share workloads, so their spread alone would make the interval too narrow: Nadeau and Bengio's (2003)
        correction adds to it what the share held out says. Where all splits are equal, it reaches as far as the rule of
        three says of so many workloads (or applications) `held_out` in all splits together: what never happened in n
        trials may happen in 3 of n.
        """
        from scipy.stats import t

        known = values[np.isfinite(values)]
        if not len(known):
            return cls(np.nan, np.nan, np.nan)
        mean = float(known.mean())
        if len(known) == 1:
            return cls(mean, np.nan, np.nan)
        if not np.ptp(known):
            reach = min(1.0, 3 / held_out)
            return cls(mean, mean - reach, mean + reach)
        error = np.sqrt((1 / len(known) + share / (1 - share)) * known.var(ddof=1))
        reach = float(t.ppf((1 + CONFIDENCE) / 2, len(known) - 1) * error)
        return cls(mean, mean - reach, mean + reach)

    def to_list(self) -> list[float | None]:
        """Mean, low and high for JSON, None where unknown."""
        return [None if np.isnan(value) else value for value in self]

    @classmethod
    def from_list(cls, values: Sequence[float | None]) -> Interval:
        """What `to_list` described."""
        return cls(*(np.nan if value is None else value for value in values))


@dataclass(frozen=True)
class ClassifierReport:
    """Out of sample by workload, over SPLITS splits. Rows of `confusion` are true labels 1..k, columns predictions."""

    seen: list[int]  # slots seen
    accuracy: list[Interval]  # 0..1 at each; NaN = no window is that long
    commonest: float  # 0..1, accuracy of always predicting the commonest class, mean over splits
    advantage: Interval  # -1..1, accuracy over all lengths seen, less that of the commonest class
    confusion: Int  # (k, k) windows at all lengths seen, of all splits
    claimed: list[float]  # mean probability given to the answer, by bin of it
    reached: list[float]  # 0..1 how often it was right there
    counts: list[int]  # answers in each bin
    workloads: int  # held out in a split, mean over splits
    splits: int

    @property
    def recognisable(self) -> bool:
        """Whether the whole interval of the advantage lies above 0."""
        return bool(self.advantage.low > 0)

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: mean distance between claimed and reached, weighted by answers."""
        weight = np.array(self.counts) / max(sum(self.counts), 1)
        return float((weight * np.abs(np.array(self.claimed) - np.array(self.reached))).sum())

    def to_dict(self) -> dict[str, Any]:
        """For report.json; intervals are mean, low and high."""
        names = ("seen", "commonest", "claimed", "reached", "counts", "workloads", "splits", "calibration_error")
        content = {name: getattr(self, name) for name in names}
        intervals = {"accuracy": [a.to_list() for a in self.accuracy], "advantage": self.advantage.to_list()}
        return content | intervals | {"confusion": self.confusion.tolist()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> ClassifierReport:
        """What `to_dict` described."""
        kept = {name: value for name, value in content.items() if name != "calibration_error"}
        kept["accuracy"] = [Interval.from_list(a) for a in content["accuracy"]]
        kept["advantage"] = Interval.from_list(content["advantage"])
        return cls(**kept | {"confusion": np.array(content["confusion"], np.int64)})


@dataclass(frozen=True)
class _Split:
    """What the classifier answered about the workloads that one split held out."""

    right: Float  # (windows, seen) 1 or 0, NaN = the window is shorter
    truth: Int  # (windows,)
    answer: Int  # (windows, seen)
    claim: Float  # (windows, seen) probability of the answer
    commonest: float  # 0..1
    asked: frozenset[int]  # workloads, or applications where those are known: what is independent


def report_classifier(
    population: Population,
    labels: Int,
    random_state: int = 0,
    splits: int = SPLITS,
    progress: Callable[[], Any] = lambda: None,
) -> ClassifierReport | None:
    """Train on 70 % of the workloads of every class and predict others, `splits` times; None if none can be held out.

    Of classes of two or three, one workload is held out. Where workloads belong to fewer applications, whole
    applications are, as replicas tell of each other: 30 % of them, whatever their classes.

    `progress` is called after each split.
    """
    found = []
    for number in range(splits):
        split = _ask(population, labels, random_state, number)
        if split is None:
            return None
        found.append(split)
        progress()
    truth, answer = np.concatenate([s.truth for s in found]), np.concatenate([s.answer for s in found])
    right, claim = np.concatenate([s.right for s in found]), np.concatenate([s.claim for s in found])
    known = np.isfinite(right)
    confusion = np.zeros((labels.max(), labels.max()), np.int64)
    np.add.at(confusion, (np.broadcast_to(truth[:, None], answer.shape)[known] - 1, answer[known] - 1), 1)
    place = np.minimum((claim[known] * BINS).astype(int), BINS - 1)
    used = [b for b in range(BINS) if (place == b).any()]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice")  # no window is that long
        accuracy = np.array([np.nanmean(s.right, axis=0) for s in found])  # (splits, seen)
    commonest = np.array([s.commonest for s in found])
    held_out = round(len(truth) / WINDOWS / splits)
    trials = len(frozenset[int]().union(*(s.asked for s in found)))
    return ClassifierReport(
        seen=list(SEEN),
        accuracy=[Interval.over_splits(column, trials) for column in accuracy.T],
        commonest=float(commonest.mean()),
        advantage=Interval.over_splits(np.array([float(np.nanmean(s.right)) for s in found]) - commonest, trials),
        confusion=confusion,
        claimed=[float(claim[known][place == b].mean()) for b in used],
        reached=[float(right[known][place == b].mean()) for b in used],
        counts=[int((place == b).sum()) for b in used],
        workloads=held_out,
        splits=splits,
    )


def _ask(population: Population, labels: Int, random_state: int, number: int) -> _Split | None:
    """Hold workloads out, teach a classifier the others, and ask it; None if no class can spare one."""
    rng = np.random.default_rng([random_state, number])
    held = _held_out(labels, population.application, rng)
    if not held.any():
        return None
    asked = np.sort(rng.permutation(np.flatnonzero(held))[:MOST_ASKED])
    taught = population.select(np.flatnonzero(~held))
    seen: dict[str, Any] = {"peak_units": population.peak_units, "quantised": population.quantised}
    classifier = RuntimeClassifier(random_state=random_state, **seen)
    classifier.fit(taught.series, taught.metadata, labels[~held])
    truth, probability = _predict(classifier, population.select(asked), labels[asked], rng)
    answer = classifier.classes_[np.nan_to_num(probability, nan=-1.0).argmax(axis=2)]  # (windows, seen)
    known = np.isfinite(probability[:, :, 0])
    right = np.where(known, answer == truth[:, None], np.nan)
    common = truth == np.bincount(labels[~held]).argmax()  # asked as often as the classifier is, of the same windows
    commonest = float(np.broadcast_to(common[:, None], known.shape)[known].mean()) if known.any() else np.nan
    together = population.application
    independent = frozenset((asked if together is None else together[asked]).tolist())
    return _Split(right, truth, answer, np.nan_to_num(probability).max(axis=2), commonest, independent)


def _held_out(labels: Int, application: Int | None, rng: np.random.Generator) -> Any:
    """(n,) mask of the workloads that a split holds out: some of every class, or of whole applications."""
    held = np.zeros(len(labels), np.bool_)
    if application is not None:
        order = rng.permutation(np.unique(application))
        held[np.isin(application, order[: max(int(HELD_OUT * len(order)), int(len(order) > 1))])] = True
        return held
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        held[members[: max(int(HELD_OUT * len(members)), int(len(members) > 1))]] = True
    return held


def _predict(
    classifier: RuntimeClassifier, asked: Population, labels: Int, rng: np.random.Generator
) -> tuple[Int, Float]:
    """(W,) true labels and (W, len(SEEN), K) probabilities of random windows; NaN where a window is too short."""
    truth, probability = [], []
    for series, metadata, label in zip(asked.series, asked.metadata, labels, strict=True):
        for _ in range(WINDOWS):
            begin = int(rng.integers(max(1, len(series) - LONGEST + 1)))
            demand = classifier.shown(series[begin : begin + LONGEST])
            fits = [seen for seen in SEEN if seen <= len(demand)]
            own = np.full((len(SEEN), len(classifier.classes_)), np.nan)
            features = prefix_features(demand[None])[0, fits]
            own[: len(fits)] = classifier.predict_proba(np.broadcast_to(metadata, (len(fits), len(metadata))), features)
            truth.append(label)
            probability.append(own)
    return np.array(truth), np.array(probability)
