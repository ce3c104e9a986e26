"""Accuracy of the run-time classifier on unseen workloads: by slots seen, confusion, calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.ec.classifier import RuntimeClassifier
from tvwrl.ec.population import Population
from tvwrl.forecasting import LONGEST, prefix_features
from tvwrl.types import Float, Int

SEEN = (0, 1, 2, 4, 8, 16, 32, 64, LONGEST)  # numbers of slots seen
HELD_OUT = 0.3  # share of the workloads of every class
WINDOWS = 8  # random windows of each held-out workload
BINS = 10  # bins of the predicted probability


@dataclass(frozen=True)
class ClassifierReport:
    """Out of sample by workload. Rows of `confusion` are true labels 1..k, columns predicted ones."""

    seen: list[int]  # slots seen
    accuracy: list[float]  # 0..1 at each; NaN = no window is that long
    commonest: float  # 0..1, accuracy of always predicting the commonest class
    confusion: Int  # (k, k) windows at all lengths seen
    claimed: list[float]  # mean probability given to the answer, by bin of it
    reached: list[float]  # 0..1 how often it was right there
    counts: list[int]  # answers in each bin
    workloads: int  # held out

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: mean distance between claimed and reached, weighted by answers."""
        weight = np.array(self.counts) / max(sum(self.counts), 1)
        return float((weight * np.abs(np.array(self.claimed) - np.array(self.reached))).sum())

    def to_dict(self) -> dict[str, Any]:
        """For report.json."""
        content = {name: getattr(self, name) for name in ("seen", "commonest", "claimed", "reached", "counts")}
        accuracy = [None if np.isnan(a) else a for a in self.accuracy]
        more = {"workloads": self.workloads, "calibration_error": self.calibration_error}
        return content | {"accuracy": accuracy, "confusion": self.confusion.tolist()} | more


def report_classifier(population: Population, labels: Int, random_state: int = 0) -> ClassifierReport | None:
    """Train on 70 % of the workloads of every class and predict the rest; None if nothing can be held out."""
    rng = np.random.default_rng(random_state)
    held = np.zeros(len(labels), np.bool_)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        held[members[: int(HELD_OUT * len(members))]] = True
    if not held.any():
        return None
    taught, asked = population.select(np.flatnonzero(~held)), population.select(np.flatnonzero(held))
    classifier = RuntimeClassifier(
        peak_units=population.peak_units, quantised=population.quantised, random_state=random_state
    )
    classifier.fit(taught.series, taught.metadata, labels[~held])
    truth, probability = _predict(classifier, asked, labels[held], rng)
    answer = classifier.classes_[np.nan_to_num(probability, nan=-1.0).argmax(axis=2)]  # (windows, seen)
    known = np.isfinite(probability[:, :, 0])
    right = answer == truth[:, None]
    confusion = np.zeros((labels.max(), labels.max()), np.int64)
    np.add.at(confusion, (np.broadcast_to(truth[:, None], answer.shape)[known] - 1, answer[known] - 1), 1)
    claim = np.where(known, np.nan_to_num(probability).max(axis=2), 0.0)[known]
    place = np.minimum((claim * BINS).astype(int), BINS - 1)
    used = [b for b in range(BINS) if (place == b).any()]
    counts = np.bincount(labels[~held])
    return ClassifierReport(
        seen=list(SEEN),
        accuracy=[float(right[k, i].mean()) if (k := known[:, i]).any() else np.nan for i in range(len(SEEN))],
        commonest=float((labels[held] == counts.argmax()).mean()),
        confusion=confusion,
        claimed=[float(claim[place == b].mean()) for b in used],
        reached=[float(right[known][place == b].mean()) for b in used],
        counts=[int((place == b).sum()) for b in used],
        workloads=len(asked),
    )


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
