"""Classes from the level and variability of demand: K-Means on its mean and standard deviation per resource."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.types import Float, InputError, Int


class LevelVariabilityClasses:
    """K-Means over (mean, standard deviation) of each resource's demand in units, scaled to [0, 1].

    Follows scikit-learn: `fit`, `predict`, `labels_`, `random_state`. Labels are 1..k, in rising order of total
    level, so that a label used as a number means something; 0 is kept for "nothing there".

    Fitted attributes: `labels_` (n,), `centres_` (k, 2 D) in scaled features, `scale_` (2, 2 D) minimum and range,
    `request_centres_` (k, D) mean request in units of the members, `largest_` the class with most members.
    """

    def __init__(self, n_classes: int = 6, relabel_every: int = 1, random_state: int = 0) -> None:
        self.n_classes = n_classes
        self.relabel_every = relabel_every
        self.random_state = random_state

    @property
    def k(self) -> int:
        """Number of classes found, at most `n_classes`."""
        return len(self.centres_)

    def fit(self, demand: Sequence[Float], request: Float) -> LevelVariabilityClasses:
        """Learn classes from workloads: `demand` n arrays (length, D) units, `request` (n, D) units, NaN = unknown."""
        from sklearn.cluster import KMeans

        if len(demand) == 0:
            raise InputError("classes cannot be fitted: the set of training workloads is empty")
        features = np.array([np.concatenate([d.mean(axis=0), d.std(axis=0)]) for d in demand])
        features = features.round(9)  # equal demand of unequal length differs by rounding, which is no variability
        low, width = features.min(axis=0), np.ptp(features, axis=0)
        self.scale_ = np.array([low, np.where(width > 0, width, 1.0)])
        scaled = (features - self.scale_[0]) / self.scale_[1]
        k = min(self.n_classes, len(np.unique(scaled, axis=0)))
        means = KMeans(k, n_init=10, random_state=self.random_state).fit(scaled)
        resources = features.shape[1] // 2
        level = (means.cluster_centers_ * self.scale_[1] + self.scale_[0])[:, :resources].sum(axis=1)
        order = np.argsort(level, kind="stable")
        self.centres_: Float = means.cluster_centers_[order]
        rank = np.argsort(order)
        self.labels_: Int = rank[means.labels_] + 1
        self.largest_ = int(np.bincount(self.labels_).argmax())
        self.request_centres_ = np.array([_known_mean(request[self.labels_ == c + 1]) for c in range(k)])
        return self

    def predict(self, demand: Sequence[Float]) -> Int:
        """(n,) labels of workloads whose demand (length, D) so far is known."""
        features = np.array([np.concatenate([d.mean(axis=0), d.std(axis=0)]) for d in demand])
        return self._nearest(features)

    def predict_metadata(self, request: Float) -> Int:
        """(n,) labels of workloads not seen running, from their request (n, D) units; the largest class if unknown."""
        known = np.isfinite(request)[:, None, :] & np.isfinite(self.request_centres_)[None]
        apart = np.where(known, request[:, None, :] - self.request_centres_[None], 0.0)
        distance = np.where(known.any(axis=2), (apart**2).sum(axis=2), np.inf)
        nearest: Int = np.where(np.isfinite(distance).any(axis=1), distance.argmin(axis=1) + 1, self.largest_)
        return nearest

    def label_table(self, demand: Float, length: Int, request: Float) -> npt.NDArray[np.uint8]:
        """(S, N, L + 1) label of every workload after 0, 1, ..., L slots have been seen, and no slot more.

        `demand` (S, N, L, D) units, `length` (S, N), `request` (S, N, D). Predicted anew every `relabel_every`
        slots; what a workload uses does not depend on its machine, so the table can be made ahead of the episode.
        """
        slots = demand.shape[2]
        labels = np.empty((*length.shape, slots + 1), np.uint8)
        labels[:, :, 0] = self.predict_metadata(request.reshape(-1, request.shape[-1])).reshape(length.shape)
        seen = np.minimum(np.arange(1, slots + 1), length[..., None])[..., None]
        mean = np.cumsum(demand, axis=2) / seen
        spread = np.sqrt(np.maximum(np.cumsum(demand**2, axis=2) / seen - mean**2, 0.0))
        every = self.relabel_every
        due = np.arange(0, slots, every)
        features = np.concatenate([mean[:, :, due], spread[:, :, due]], axis=-1)
        predicted = self._nearest(features.reshape(-1, features.shape[-1])).reshape(features.shape[:-1])
        labels[:, :, 1:] = np.repeat(predicted, every, axis=2)[:, :, :slots]
        return labels

    def _nearest(self, features: Float) -> Int:
        """(n,) label of the nearest centre for features (n, 2 D)."""
        scaled = (features - self.scale_[0]) / self.scale_[1]
        squared = (self.centres_**2).sum(axis=1) - 2.0 * scaled @ self.centres_.T
        nearest: Int = squared.argmin(axis=1) + 1
        return nearest

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists from which `from_dict` makes an equal object."""
        return {
            "n_classes": self.n_classes,
            "relabel_every": self.relabel_every,
            "random_state": self.random_state,
            "scale": self.scale_.tolist(),
            "centres": self.centres_.tolist(),
            "request_centres": self.request_centres_.tolist(),
            "largest": self.largest_,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> LevelVariabilityClasses:
        """The classes that `to_dict` described."""
        classes = cls(content["n_classes"], content["relabel_every"], content["random_state"])
        classes.scale_ = np.array(content["scale"])
        classes.centres_ = np.array(content["centres"])
        classes.request_centres_ = np.array(content["request_centres"])
        classes.largest_ = int(content["largest"])
        return classes


def _known_mean(request: Float) -> Float:
    """(D,) mean of the known requests of a class, NaN where none is known."""
    known = np.isfinite(request)
    total = np.where(known, request, 0.0).sum(axis=0)
    mean: Float = np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)
    return mean
