"""The forecaster of agents and schedulers: small networks that predict probabilities of levels of demand."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import njit
from tvwrl.forecasting.base import Forecaster
from tvwrl.forecasting.beginnings import Beginnings, Outcomes, outcome_levels, scale_of, scaled
from tvwrl.forecasting.drift import Drift
from tvwrl.forecasting.perceptron import Layers, forward, layers_from_lists, layers_to_lists, seeded
from tvwrl.forecasting.scores import ranked_probability
from tvwrl.forecasting.segments import SEGMENTS, Distribution
from tvwrl.forecasting.trust import HeldOut, Trust, prototypes_of, unlike
from tvwrl.progress import Report, nothing, phase
from tvwrl.traces import UNSEEN, Windows
from tvwrl.types import Float32, InputError, Int

KINDS = {
    "demand": "<f4", "length": "<i8", "metadata": "<f4", "clock": "<f4", "fold": "<i8", "series": "<i8",
    "row": "<i8", "seen": "<i8", "application": "<i8", "past": "<f4",
}  # fmt: skip
ADDED = ("application", "past")  # parts that files of earlier versions lack
WINDOW_PARTS = ("demand", "length", "metadata", "clock", "fold", "series")


def packed(learnt: Beginnings) -> dict[str, Any]:
    """Name -> shape and compressed bytes of every array."""
    windows = learnt.windows
    parts = {name: getattr(windows, name) for name in WINDOW_PARTS} | {"row": learnt.row, "seen": learnt.seen}
    parts |= {name: part for name in ADDED if (part := getattr(windows, name)) is not None}
    return {name: _packed(part, KINDS[name]) for name, part in parts.items()}


def _packed(part: npt.NDArray[Any], kind: str) -> list[Any]:
    """The shape and the compressed bytes of an array."""
    return [list(part.shape), base64.b64encode(zlib.compress(part.astype(kind).tobytes())).decode()]


def _unpacked(name: str, content: dict[str, Any], kind: str) -> npt.NDArray[Any]:
    """The array that `_packed` described, by its name. Raises ValueError for what does not fit together."""
    shape, text = content[name]
    try:
        return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).reshape(shape)
    except zlib.error as error:
        raise ValueError(f"{name} cannot be unpacked: {error}") from None


def unpacked(content: dict[str, Any], resources: int) -> Beginnings:
    """The beginnings that `packed` described. Raises ValueError or LookupError for what does not fit together."""
    parts = {
        name: _unpacked(name, content, kind) for name, kind in KINDS.items() if name in content or name not in ADDED
    }
    n, slots = parts["demand"].shape[:2]
    lengths, row, seen = parts["length"], parts["row"], parts["seen"]
    good = parts["demand"].shape[2] == resources and all(len(parts[name]) == n for name in WINDOW_PARTS)
    good = good and parts["metadata"].shape == (n, resources + 2) and len(row) == len(seen) and lengths.max() <= slots
    good = good and all(bool(np.isfinite(parts[name]).all()) for name in ("demand", "clock"))
    good = good and all(len(parts[name]) == n for name in ADDED if name in parts)
    if "past" in parts:  # usage by days before and slots of the day
        good = good and parts["past"].ndim == 4 and parts["past"].shape[3] == resources
    if not (good and row.min() >= 0 and row.max() < n and seen.min() >= 1 and (seen <= lengths[row]).all()):
        raise ValueError("the beginnings that it learnt from do not fit together")
    windows = Windows(**{name: part for name, part in parts.items() if name not in ("row", "seen")})
    return Beginnings(windows, row.astype(np.int64), seen.astype(np.int64))


BATCH = 512
THREADS = 1  # of torch; more would gain little, since the networks are small
FARTHEST_LOGIT = np.float32(30.0)  # so that exponentials stay finite
CLOCK_INPUTS = 2
ALIKE = ("peak_units", "levels", "step_seconds", "hidden")  # of a forecaster and of the one that it starts from
GROUPS = 3  # of applications that are left out in turn
FEWEST_TOLD = 300  # windows of which the past is told, to learn from
PEAK_WEIGHT = 0.5  # of the peak in the loss, beside the segments


@dataclass(eq=False)
class NetworkForecaster(Forecaster):
    """The mean of small networks of two ReLU layers; training series are forecast by one that never saw their fold.

    A softmax for each segment and resource gives the probabilities of the levels of the largest demand, so variances
    and quantiles are learnt, not estimated from errors on the training series. Dropout, weight decay and randomly
    masked declarations keep the networks from memorising single series.

    Parameters
    ----------
    peak_units : int
        What demand is a share of, units.
    step_seconds : int
        Length of a slot, seconds.
    networks : int
        Networks whose mean is the forecast; training series have one.
    hidden : int
        Units of each of the two layers.
    epochs : int
        Passes over the examples.
    dropout : float
        Share of a layer's outputs that is dropped in training, 0 <= dropout < 1.
    weight_decay : float
        Of AdamW.
    learning_rate : float
        Largest learning rate, which rises and falls in one cycle.
    hidden_share : float
        Share of the examples whose declarations are hidden, 0..1.
    adapt_epochs : int
        Passes over the examples where it starts from another forecaster.
    adapt_rate : float
        Largest learning rate there.
    random_state : int
        Seed of all that is drawn.
    past : bool
        Look at what an application used before. One that does not look learns a second network that does, for the
        workloads of which windows tell it, and keeps it where it errs less on held-out series.

    Examples
    --------
    >>> forecaster = NetworkForecaster().fit(training_windows(sampler))  # doctest: +SKIP
    """

    peak_units: int = 6
    step_seconds: int = 1800
    networks: int = 2
    hidden: int = 64
    epochs: int = 16
    dropout: float = 0.1
    weight_decay: float = 0.01
    learning_rate: float = 3e-3
    hidden_share: float = 0.15
    adapt_epochs: int = 1
    adapt_rate: float = 5e-4
    random_state: int = 0
    past: bool = False
    adapted_ = False  # whether it started from another one
    trust_ = cast("Trust | None", None)  # None: the networks alone are believed
    informed_ = cast("NetworkForecaster | None", None)  # of workloads whose past is told

    def fit(
        self,
        windows: Windows,
        also: Sequence[Windows] = (),
        report: Report = nothing,
        start: NetworkForecaster | None = None,
        prior: dict[str, Any] | None = None,
    ) -> Self:
        """Learn from windows of training series, from nothing or from another forecaster.

        Parameters
        ----------
        windows : Windows
            (n,) windows of a trace's training series.
        also : sequence of Windows
            Those of other traces.
        report : callable
            Gets a line as each fit begins.
        start : NetworkForecaster, optional
            Every network begins as the first one of this, and adapts; the scaling of its inputs is kept.
        prior : dict, optional
            How demand drifts elsewhere, as of `Drift.shares`.

        Raises
        ------
        InputError
            For a `start` of other units, slots, resources or size.
        """
        if start is not None:
            for name, (own, other) in self.differences(start, windows.demand.shape[-1]).items():
                raise InputError(f"{name} is {own}, but the forecaster to start from has {other}: fit without it")
        self._start, self.adapted_, self._prior = start, start is not None, prior
        self.informed_ = None
        super().fit(windows, also, report)
        self.informed_ = None if self.past else self._informed(windows, report)
        return self

    def _informed(self, windows: Windows, report: Report) -> NetworkForecaster | None:
        """One that looks at what applications used before, where that errs less on what was held out."""
        told = np.flatnonzero(windows.told)
        if len(told) < FEWEST_TOLD or (windows.fold == UNSEEN).all():
            return None
        with phase("fitting forecasters that look at what applications used before", report):
            informed = replace(self, past=True).fit(windows[told], prior=self._prior)
        for one in (informed, *informed.without_.values()):
            one.values_ = one.drift_.values_ = self.values_
        errors = informed.unseen_error(), self.unseen_error(informed.learnt)
        return informed if errors[0] < errors[1] else None

    @property
    def uses_past(self) -> bool:  # type: ignore[override]  # known once it is fitted
        """Whether it looks at what applications used before, where windows tell it."""
        return self.informed_ is not None

    def unseen_error(self, beginnings: Beginnings | None = None) -> float:
        """Mean CRPS, as a share of the peak, on beginnings of series that it learnt from, each forecast without its
        fold; of all that it learnt from, unless others are given.

        Parameters
        ----------
        beginnings : Beginnings, optional
            Those to forecast.
        """
        judged = self.learnt if beginnings is None else beginnings
        level, _ = Outcomes.of(judged).levels(self.levels, self.peak_units)
        return float(ranked_probability(self.predict(judged).most.astype(np.float64), level).mean())

    def predict(self, beginnings: Beginnings) -> Distribution:
        """What will come after m beginnings; never looks at later slots.

        Each fold is forecast by networks fitted without it. What an application used before is looked at where windows
        tell it and this helped on held-out series.

        Parameters
        ----------
        beginnings : Beginnings
            m beginnings.
        """
        if self.informed_ is None or not (told := beginnings.told).any():
            return super().predict(beginnings)
        rows = np.flatnonzero(told), np.flatnonzero(~told)
        parts = self.informed_.predict(beginnings[rows[0]]), super().predict(beginnings[rows[1]])
        return Distribution.joined(parts, rows, self.values_)

    def differences(self, start: NetworkForecaster, resources: int) -> dict[str, tuple[int, int]]:
        """Field -> its value here and in another forecaster, where they differ and so nothing can start from it.

        Parameters
        ----------
        start : NetworkForecaster
            The other one.
        resources : int
            D of the windows to learn from.
        """
        pairs = {name: (getattr(self, name), getattr(start, name)) for name in ALIKE}
        pairs["resources"] = resources, start.resources_
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def inputs(self, beginnings: Beginnings) -> Float32:
        """(m, I) what the networks see; a subclass may put more in front.

        Parameters
        ----------
        beginnings : Beginnings
            m beginnings.
        """
        return beginnings.inputs(self.slots_per_day, self.past)

    def _for_fold(self) -> Self:
        one = replace(self, networks=1)
        one._start, one.adapted_, one._prior = self._start, self.adapted_, self._prior
        return one

    def _calibrate(self, drawn: list[Beginnings], report: Report) -> None:
        own = drawn[0]
        held = [one._held_out(own[np.flatnonzero(own.fold == fold)]) for fold, one in self.without_.items()]
        parts = _left_out(drawn)
        left = []
        for number, (rest, out) in enumerate(parts, 1):
            what = "trace" if len(drawn) > 1 else "group of applications"
            with phase(f"fitting forecaster {number} of {len(parts)} that leave out a {what}", report):
                left.append(self._for_fold()._learn(rest, self.values_)._held_out(out))
        self.trust_ = Trust.fit(held, left, self.peak_units)
        for one in self.without_.values():
            one.trust_ = self.trust_

    def _held_out(self, beginnings: Beginnings) -> HeldOut:
        shown = scaled(self.inputs(beginnings), self.shift_, self.width_)
        forecasts = self._by_networks(shown), self.drift_.predict(beginnings)
        return HeldOut(beginnings, *forecasts, unlike(shown, self.prototypes_))

    def _fit(self, drawn: list[Beginnings]) -> None:
        inputs = np.concatenate([self.inputs(part) for part in drawn])
        targets = _Targets(drawn, self.levels, self.peak_units)
        self.shift_, self.width_ = scale_of(inputs)
        if self._start is not None:
            self.shift_, self.width_ = self._start.shift_, self._start.width_
        shown = scaled(inputs, self.shift_, self.width_)
        place, wide = np.arange(inputs.shape[1]), inputs.shape[1] - CLOCK_INPUTS
        declared = (place >= wide - 2 * (self.resources_ + 2)) & (place < wide)  # inputs of what was declared
        hidden = scaled(np.where(declared, np.float32(0), inputs), self.shift_, self.width_)
        self.networks_ = [self._train(shown, hidden, targets, number) for number in range(self.networks)]
        self.prototypes_ = prototypes_of(shown, np.random.default_rng([self.random_state, 6]))
        self.drift_ = Drift(self.peak_units, self.step_seconds, prior=self._prior)._learn(drawn, self.values_)

    def _train(self, shown: Float32, hidden: Float32, targets: _Targets, number: int) -> Layers:
        """The layers of a network; `number` tells apart those of equal examples."""
        import torch
        from torch import nn

        seed = int(np.random.default_rng([self.random_state, 4, 0, number]).integers(2**31))
        outputs = targets.width
        with seeded(THREADS, seed):
            layers: list[nn.Module] = []
            for inputs in (shown.shape[1], self.hidden):
                layers += [nn.Linear(inputs, self.hidden), nn.ReLU(), nn.Dropout(self.dropout)]
            network = nn.Sequential(*layers, nn.Linear(self.hidden, outputs))
            dense = [layer for layer in network if isinstance(layer, nn.Linear)]
            epochs, rate = self.epochs, self.learning_rate
            if self._start is not None:
                epochs, rate = self.adapt_epochs, self.adapt_rate
                for layer, (weight, bias) in zip(dense, self._start.networks_[0], strict=True):
                    layer.weight.data, layer.bias.data = torch.tensor(weight.T), torch.tensor(bias)
            optimiser = torch.optim.AdamW(network.parameters(), rate, weight_decay=self.weight_decay)
            batches = max(1, len(shown) // BATCH)
            cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=max(2, epochs * batches))
            rng = np.random.default_rng(seed)
            for _ in range(epochs):
                order = rng.permutation(len(shown))
                for part in np.array_split(order, batches):
                    seen = np.where(rng.random((len(part), 1)) < self.hidden_share, hidden[part], shown[part])
                    loss = targets.loss(network(torch.from_numpy(seen)), part)
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
                    cycle.step()
        return [(layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy()) for layer in dense]

    def _predict(self, beginnings: Beginnings) -> Distribution:
        shown = scaled(self.inputs(beginnings), self.shift_, self.width_)
        found = self._by_networks(shown)
        if self.trust_ is None:
            return found
        kind = self.trust_.kind(unlike(shown, self.prototypes_))
        doubted = np.flatnonzero((self.trust_.weight[kind].min(axis=1) < 1) | (self.trust_.widening[kind] > 0))
        if not len(doubted):
            return found
        mixed = self.trust_.mixed(found[doubted], self.drift_.predict(beginnings[doubted]), kind[doubted])
        for name in ("most", "peak", "mean"):
            getattr(found, name)[doubted] = getattr(mixed, name)
        return found

    def _by_networks(self, shown: Float32) -> Distribution:
        """What the networks alone predict from scaled inputs (m, I)."""
        levels, resources, count = self.levels, self.resources_, len(shown)
        wide = len(SEGMENTS) * resources
        most = np.zeros((count, wide, levels + 1), np.float32)
        peak = np.zeros((count, resources, levels + 1), np.float32)  # its last slot seen counts, so it is never 0
        mean = np.zeros((count, wide), np.float32)
        for network in self.networks_:  # the mean of what they predict
            odds = np.exp(np.clip(forward(network, shown), -FARTHEST_LOGIT, FARTHEST_LOGIT))
            _add_chances(odds, len(self.networks_), most, peak, mean)
        segments = count, len(SEGMENTS), resources
        return Distribution(most.reshape(*segments, levels + 1), peak, mean.reshape(segments), self.values_)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings from which `from_dict` makes an equal object."""
        return {
            "parameters": self.get_params(),
            "resources": self.resources_,
            "adapted": self.adapted_,
            "values": self.values_.tolist(),
            "informed": None if self.informed_ is None else self.informed_.to_dict() | {"learnt": None},
            "without": {str(fold): one._weights() for fold, one in self.without_.items()},
            "learnt": None if self._learnt is None else packed(self._learnt),
            **self._weights(),
        }

    def _weights(self) -> dict[str, Any]:
        networks = [layers_to_lists(network) for network in self.networks_]
        own = {"shift": self.shift_.tolist(), "width": self.width_.tolist(), "networks": networks}
        if self.trust_ is None:
            return own
        known = {"trust": self.trust_.to_dict(), "drift": self.drift_.counts()}
        return own | known | {"prototypes": _packed(self.prototypes_, "<f4")}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> NetworkForecaster:
        """The forecaster that `to_dict` described.

        Parameters
        ----------
        content : dict
            What `to_dict` gave.

        Raises
        ------
        ValueError or LookupError
            For what does not fit together.
        """
        made = cls(**content["parameters"])
        made.resources_, made.values_ = int(content["resources"]), np.array(content["values"], np.float32)
        made.adapted_ = bool(content["adapted"])
        if len(made.values_) != made.levels + 1 or not np.isfinite(made.values_).all():
            raise ValueError(f"it has {len(made.values_)} values of levels: must be {made.levels + 1}, all finite")
        made._set_weights(content)
        made.without_ = {}
        for fold, weights in content["without"].items():
            made.without_[int(fold)] = one = replace(made, networks=1)
            one.resources_, one.values_, one.without_ = made.resources_, made.values_, {}
            one._set_weights(weights)
        made._learnt = None if content["learnt"] is None else unpacked(content["learnt"], made.resources_)
        made._continuations = {}
        if (informed := content.get("informed")) is not None:
            made.informed_ = other = cls.from_dict(informed)
            if not other.past or made.differences(other, made.resources_):
                raise ValueError("its forecaster of workloads whose past is told is of other units, slots or resources")
        return made

    def _set_weights(self, content: dict[str, Any]) -> None:
        self.shift_, self.width_ = (np.array(content[name], np.float32) for name in ("shift", "width"))
        scales = np.concatenate([self.shift_, self.width_])
        inputs = Beginnings.input_count(self.resources_, self.past)
        if not (
            np.isfinite(scales).all() and (self.width_ > 0).all() and len(self.width_) == len(self.shift_) == inputs
        ):
            raise ValueError(f"shift or width have numbers that are not finite, or are not of {inputs} inputs")
        self.networks_ = [layers_from_lists(one, len(self.shift_), np.float32) for one in content["networks"]]
        if content.get("trust") is not None:  # those of earlier versions believe their networks alone
            self.trust_ = Trust.from_dict(content["trust"])
            self.prototypes_ = _unpacked("prototypes", content, "<f4").reshape(-1, inputs)
            if not (len(self.prototypes_) and np.isfinite(self.prototypes_).all()):
                raise ValueError("its prototypes must be finite, one at least")
            drift = Drift(self.peak_units, self.step_seconds)
            self.drift_ = drift.filled(content["drift"], self.resources_, self.values_)
        wide = len(SEGMENTS) * self.resources_
        wanted = wide * (self.levels + 2) + self.resources_ * self.levels
        outputs = {len(network[-1][1]) for network in self.networks_}
        if outputs != {wanted}:
            raise ValueError(f"its networks have {sorted(outputs)} outputs: must be {wanted}")


@njit
def _add_chances(odds: Float32, networks: int, most: Float32, peak: Float32, mean: Float32) -> None:
    """Add what one of the networks predicts.

    `odds`: (m, O) exponentials of its outputs, which are logits of `most`, of `peak` from level 1 on, and of `mean`
    `networks`: number of networks whose predictions are averaged
    `most`: (m, J D, V + 1), `peak`: (m, D, V + 1), `mean`: (m, J D); see `Distribution`
    """
    count, wide, levels = most.shape
    resources = peak.shape[1]
    share = np.float32(1.0 / networks)
    for i in range(count):
        o = 0
        for j in range(wide):
            _add_shares(odds[i, o : o + levels], share, most[i, j])
            o += levels
        for d in range(resources):
            _add_shares(odds[i, o : o + levels - 1], share, peak[i, d, 1:])
            o += levels - 1
        for j in range(wide):
            mean[i, j] += share * odds[i, o + j] / (np.float32(1.0) + odds[i, o + j])


@njit(inline="always")
def _add_shares(odds: Float32, share: np.float32, out: Float32) -> None:
    """Add shares of `odds` (V,) in their sum, times `share`, to `out` (V,)."""
    total = np.float32(0.0)
    for v in range(len(odds)):
        total += odds[v]
    scale = share / total
    for v in range(len(odds)):
        out[v] += odds[v] * scale


def _left_out(drawn: list[Beginnings]) -> list[tuple[list[Beginnings], Beginnings]]:
    """What to learn from, and what is left out then: each trace in turn, or groups of a trace's applications.

    There are none where there is one application, or where folds leave out whole ones already.
    """
    if len(drawn) > 1:
        return [(drawn[:place] + drawn[place + 1 :], part) for place, part in enumerate(drawn)]
    (own,) = drawn
    application, fold = own.windows.application[own.row], own.fold
    names, place = np.unique(application, return_inverse=True)
    pairs = np.unique(np.stack([place, fold]), axis=1).shape[1]
    if len(names) < 2 or (pairs == len(names) and fold.min() >= 0):
        return []
    group = place % min(len(names), GROUPS)
    rows = [(np.flatnonzero(group != number), np.flatnonzero(group == number)) for number in range(group.max() + 1)]
    return [([own[rest]], own[out]) for rest, out in rows]


class _Targets:
    """What the networks' outputs are compared with.

    Levels (m, J D) of the segments' largest demand, (m, D) of the peak from 0 on, and mean demand (m, J D).
    """

    def __init__(self, drawn: list[Beginnings], levels: int, peak_units: int) -> None:
        import torch

        most, peak, mean = outcome_levels(drawn, levels, peak_units)
        count = len(most)
        self._most, self._peak = torch.from_numpy(most.reshape(count, -1)), torch.from_numpy(peak - 1)
        self._mean, self._levels = torch.from_numpy(mean.reshape(count, -1)), levels
        self.width = self._most.shape[1] * (levels + 2) + peak.shape[1] * levels  # outputs of a network

    def loss(self, outputs: Any, rows: Int) -> Any:
        """Mean cross-entropy of segments, of peaks and of mean demand."""
        from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

        most, peak, mean = self._most[rows], self._peak[rows], self._mean[rows]
        ends = most.shape[1] * (self._levels + 1), peak.shape[1] * self._levels, mean.shape[1]
        a, b, c = outputs.split(ends, dim=1)
        return (
            cross_entropy(a.reshape(-1, self._levels + 1), most.reshape(-1))
            + PEAK_WEIGHT * cross_entropy(b.reshape(-1, self._levels), peak.reshape(-1))
            + binary_cross_entropy_with_logits(c, mean)
        )
