"""Forecasts of a workload's demand from its class, its request and its usage so far.

A forecast covers the slots ahead in `SEGMENTS`. Forecasts add up: the expected load of a machine and its variance are
sums over its workloads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.ec.classes import Classes, EquivalenceClasses
from tvwrl.ec.classifier import masked, prefix_features
from tvwrl.ec.parameters import Parameters
from tvwrl.ec.perceptron import Layers, forward, layers_from_lists, layers_to_lists, train_layers
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.traces.windows import Windows, stack_windows
from tvwrl.types import Float, ForecastTable, Int

SEGMENTS = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 63))  # slots ahead, first and last
BEGINNINGS = 6  # examples taken from one window
BLOCK = 50_000  # rows predicted at a time


@dataclass(frozen=True)
class Forecast:
    """Columns of a forecast; J segments, D resources, all as shares of `peak_units` (variances: of its square).

    A finished workload needs nothing, so `most`, `spread` and `mean` fall with the probability of still running.
    """

    values: Float  # (..., K)
    resources: int

    def _part(self, first: int, shape: tuple[int, ...]) -> Float:
        width = int(np.prod(shape))
        part: Float = self.values[..., first : first + width].reshape(*self.values.shape[:-1], *shape)
        return part

    @property
    def most(self) -> Float:
        """(..., J, D) expected largest demand within a segment."""
        return self._part(0, (len(SEGMENTS), self.resources))

    @property
    def spread(self) -> Float:
        """(..., J, D) variance of that."""
        return self._part(len(SEGMENTS) * self.resources, (len(SEGMENTS), self.resources))

    @property
    def mean(self) -> Float:
        """(..., J, D) expected demand, averaged over the slots of a segment."""
        return self._part(2 * len(SEGMENTS) * self.resources, (len(SEGMENTS), self.resources))

    @property
    def peak(self) -> Float:
        """(..., D) expected peak of the rest of its life, the current slot included."""
        return self._part(3 * len(SEGMENTS) * self.resources, (self.resources,))

    @property
    def peak_spread(self) -> Float:
        """(..., D) variance of that."""
        return self._part((3 * len(SEGMENTS) + 1) * self.resources, (self.resources,))

    @property
    def alive(self) -> Float:
        """(..., J) probability of running at a segment's first slot; summed: workloads still running then."""
        return self._part((3 * len(SEGMENTS) + 2) * self.resources, (len(SEGMENTS),))


def columns(resources: int) -> int:
    """K, the columns of a forecast for so many resources."""
    return (3 * len(SEGMENTS) + 2) * resources + len(SEGMENTS)


def steps(resources: int) -> npt.NDArray[np.float32]:
    """(K,) value of one unit of a table's whole numbers."""
    parts = np.full(columns(resources), 1 / 200, np.float32)
    forecast = Forecast(np.arange(columns(resources), dtype=np.float64), resources)
    for variance in (forecast.spread, forecast.peak_spread):
        parts[variance.ravel().astype(np.int64)] = 1 / 1000  # at most a quarter
    return parts


@dataclass(eq=False)
class DemandForecaster(Parameters):
    """Two networks of two ReLU layers: one for expectations, one for the squared errors that the first still makes.

    Inputs are the probabilities of the classes, what was declared (with a mask for what was not), and
    `prefix_features` of the slots seen, one at least: the demand in a workload's first slot counts as known while it
    waits, as it does for best-fit. Trained on random beginnings of `windows` windows of the training workloads.
    """

    hidden: int = 64
    windows: int = 6000
    epochs: int = 24
    random_state: int = 0

    def fit(self, sampler: SequenceSampler, classes: Classes) -> DemandForecaster:
        """Learn from windows of the sampler's training series, labelled by `classes`."""
        rng = np.random.default_rng([self.random_state, 2])
        drawn = sampler.windows("train", self.windows, rng)
        windows = stack_windows(drawn, sampler.trace, sampler.unit)
        length, metadata = windows.length, windows.metadata
        demand = np.pad(windows.demand, ((0, 0), (0, SEGMENTS[-1][1]), (0, 0)))
        seen = np.exp(rng.uniform(0, np.log(length)[:, None], (len(drawn), BEGINNINGS))).round().astype(np.int64)
        seen[:, 0] = 1
        self.resources_, self.peak_units_ = demand.shape[2], sampler.scenario.peak_units
        self._classes = classes
        each = np.arange(len(drawn))[:, None]
        features = prefix_features(demand[:, : length.max()])[each, seen].reshape(seen.size, -1)
        inputs = self._inputs(features, np.repeat(metadata, BEGINNINGS, axis=0))
        spread = inputs.std(axis=0)
        self.shift_, self.width_ = inputs.mean(axis=0), np.where(spread > 1e-6, spread, 1.0)
        targets = _outcomes(demand, length, seen) / np.float64(self.peak_units_)
        targets[:, -len(SEGMENTS) :] *= self.peak_units_  # the survivals are shares already
        scaled = self._scaled(inputs)
        self.expectation_ = self._train(scaled, targets)
        error = (targets - forward(self.expectation_, scaled))[:, self._uncertain()] ** 2
        self.error_ = self._train(scaled, error)
        return self

    def _uncertain(self) -> Int:
        """Columns of the outcomes whose variance is wanted: the largest demands and the peaks."""
        wide = len(SEGMENTS) * self.resources_
        return np.concatenate([np.arange(wide), np.arange(2 * wide, 2 * wide + self.resources_)])

    def _inputs(self, features: Float, metadata: Float) -> Float:
        """(n, I) of what was seen (n, F) and declared (n, P)."""
        parts = [features, masked(metadata)]
        if isinstance(self._classes, EquivalenceClasses):
            parts.append(self._classes.classifier_.predict_proba(metadata, features))
        return np.concatenate(parts, axis=1)

    def _scaled(self, inputs: Float) -> npt.NDArray[np.float32]:
        scaled: npt.NDArray[np.float32] = np.clip((inputs - self.shift_) / self.width_, -5, 5).astype(np.float32)
        return scaled

    def _train(self, inputs: npt.NDArray[np.float32], targets: Float) -> Layers:
        """Three layers of single precision."""
        from sklearn.neural_network import MLPRegressor

        network = MLPRegressor(
            hidden_layer_sizes=(self.hidden, self.hidden),
            batch_size=min(512, len(inputs)),
            learning_rate_init=2e-3,
            max_iter=self.epochs,
            random_state=self.random_state,
        )
        layers = train_layers(network, inputs, targets.astype(np.float32))
        return [(weights.astype(np.float32), bias.astype(np.float32)) for weights, bias in layers]

    def predict(self, features: Float, metadata: Float) -> Forecast:
        """Forecasts (n, K) for what was seen, `prefix_features` (n, F), and declared (n, P)."""
        scaled = self._scaled(self._inputs(features, metadata))
        wide = len(SEGMENTS) * self.resources_
        expected = np.clip(forward(self.expectation_, scaled), 0.0, 1.0)
        variance = np.clip(forward(self.error_, scaled), 1e-3, 0.25)
        most, mean, rest = expected[:, :wide], expected[:, wide : 2 * wide], expected[:, 2 * wide :]
        peak, alive = rest[:, : self.resources_], rest[:, self.resources_ :]
        parts = [most, variance[:, :wide], mean, peak, variance[:, wide:], alive]
        return Forecast(np.concatenate(parts, axis=1), self.resources_)

    def table(self, windows: Windows, known_peaks: bool = False) -> ForecastTable:
        """(S, N, L + 1, K) the forecast after 0, 1, ..., L slots in whole `steps`, 0 where no slot is left.

        `windows` are (S, N). Before its first slot a workload has the forecast of one slot seen. Made ahead of the
        episode, as labels are, and for the same reason. With `known_peaks` the peak is no forecast but that of the
        whole life, without variance.
        """
        demand, length, metadata = windows.demand, windows.length, windows.metadata
        slots, wide = demand.shape[2], columns(self.resources_)
        out = np.zeros((*length.shape, slots + 1, wide), np.uint8)
        due = np.arange(1, slots + 1)
        for own, shown, runs, known in zip(out, demand, length, metadata, strict=True):
            workload, seen = np.nonzero(due <= runs[:, None])
            features = prefix_features(shown)
            for part in np.array_split(np.arange(len(seen)), len(seen) // BLOCK + 1):
                w, a = workload[part], seen[part] + 1
                forecast = self.predict(features[w, a], known[w])
                own[w, a] = np.round(forecast.values / steps(self.resources_))
        declared = np.zeros(wide, np.bool_)
        if known_peaks:
            named = Forecast(np.arange(wide, dtype=np.float64), self.resources_)
            declared[named.peak.astype(np.int64)] = True
            peaks = np.round(demand.max(axis=2) / self.peak_units_ / steps(self.resources_)[0]).astype(np.uint8)
            out[..., declared] = peaks[:, :, None] * (out.any(axis=3, keepdims=True))
            out[..., named.peak_spread.astype(np.int64)] = 0
        out[:, :, 0] = out[:, :, 1]
        return ForecastTable(out, steps(self.resources_), declared)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists from which `from_dict` makes an equal object, given the classes."""
        layers = {name: layers_to_lists(getattr(self, name)) for name in NETWORKS}
        scale = {"shift": self.shift_.tolist(), "width": self.width_.tolist()}
        sizes = {"resources": self.resources_, "peak_units": self.peak_units_}
        return {"parameters": self.get_params(), **scale, **sizes, **layers}

    @classmethod
    def from_dict(cls, content: dict[str, Any], classes: Classes) -> DemandForecaster:
        """The forecaster that `to_dict` described. Raises ValueError or LookupError for what does not fit together."""
        made = cls(**content["parameters"])
        made._classes, made.resources_, made.peak_units_ = classes, content["resources"], content["peak_units"]
        made.shift_, made.width_ = np.array(content["shift"]), np.array(content["width"])
        for name in NETWORKS:
            setattr(made, name, layers_from_lists(content[name], len(made.shift_), np.float32))
        return made


NETWORKS = ("expectation_", "error_")


def _outcomes(demand: Float, length: Int, seen: Int) -> Float:
    """(n * BEGINNINGS, 2 J D + D + J) what came after `seen` (n, BEGINNINGS) slots of `demand` (n, L + padding, D).

    Largest and mean demand per segment, the peak of the rest with the last slot seen, whether it ran still.
    """
    n = len(demand)
    rest_peak = np.flip(np.maximum.accumulate(np.flip(demand, 1), axis=1), 1)
    each = np.arange(n)[:, None]
    most, mean, alive = [], [], []
    for first, last in SEGMENTS:
        ahead = seen[..., None] - 1 + np.arange(first, last + 1)  # (n, BEGINNINGS, slots)
        slots = demand[each[..., None], ahead]
        most.append(slots.max(axis=2))
        mean.append(slots.mean(axis=2))
        alive.append((seen - 1 + first < length[:, None])[..., None])
    parts = [np.concatenate(most, 2), np.concatenate(mean, 2), rest_peak[each, seen - 1], np.concatenate(alive, 2)]
    return np.concatenate(parts, axis=2).reshape(n * seen.shape[1], -1).astype(np.float64)
