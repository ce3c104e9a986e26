"""The forecaster of agents and schedulers: small networks that predict probabilities of levels of demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import njit
from tvwrl.forecasting.base import Forecaster
from tvwrl.forecasting.beginnings import Beginnings, Outcomes
from tvwrl.forecasting.packing import packed, unpacked
from tvwrl.forecasting.perceptron import Layers, forward, layers_from_lists, layers_to_lists
from tvwrl.forecasting.segments import SEGMENTS, Distribution
from tvwrl.traces.splits import UNSEEN
from tvwrl.traces.windows import Windows
from tvwrl.types import InputError, Int

Array = npt.NDArray[np.float32]

BATCH = 512
WHOLE = 2  # networks that learn from all training series, and whose mean forecasts any other
FARTHEST = 5.0  # standard deviations to which inputs are cut
FARTHEST_LOGIT = np.float32(30.0)  # so that exponentials stay finite
CLOCK_INPUTS = 2
ALIKE = ("peak_units", "levels", "step_seconds", "hidden")  # of a forecaster and of the one that it starts from
PEAK_WEIGHT = 0.5  # of the peak in the loss, beside the segments


@dataclass(eq=False)
class NetworkForecaster(Forecaster):
    """Networks of two ReLU layers: one for every fold, trained without the series of that fold, and two of all series.

    A softmax for each segment and resource gives the probabilities of the levels of the largest demand, so variances
    and quantiles are learnt, not estimated from errors on the training series. A series of a
    fold is forecast by its network, any other by the mean of the two. Dropout, weight decay and hidden declarations
    keep the networks from learning single series by heart.
    """

    peak_units: int = 6
    step_seconds: int = 1800
    hidden: int = 64
    epochs: int = 16
    dropout: float = 0.1
    weight_decay: float = 0.01
    learning_rate: float = 3e-3
    hidden_share: float = 0.15  # of the examples whose declarations are hidden
    adapt_epochs: int = 1  # and
    adapt_rate: float = 5e-4  # learning rate, where it starts from another forecaster
    random_state: int = 0

    def fit(self, windows: Windows, also: Sequence[Windows] = (), start: NetworkForecaster | None = None) -> Self:
        """See `Forecaster.fit`. With `start`, every network begins as its first one of all series and adapts.

        It keeps the scaling of inputs of `start`. Raises InputError for a `start` of other units, slots, resources or
        size.
        """
        if start is not None:
            for name, (own, other) in self.differences(start, windows.demand.shape[-1]).items():
                raise InputError(f"{name} is {own}, but the forecaster to start from has {other}: fit without it")
        self._start = start
        return super().fit(windows, also)

    def differences(self, start: NetworkForecaster, resources: int) -> dict[str, tuple[int, int]]:
        """Field -> its value here and in `start`, where they differ and so nothing can start from it."""
        pairs = {name: (getattr(self, name), getattr(start, name)) for name in ALIKE}
        pairs["resources"] = resources, start.resources_
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def _fit(self, drawn: list[Beginnings]) -> None:
        inputs = np.concatenate([part.inputs(self.slots_per_day) for part in drawn])
        targets = _Targets.of(drawn, self.levels, self.peak_units)
        own = drawn[0].fold
        fold = np.concatenate([own, np.full(len(inputs) - len(own), UNSEEN)])
        spread = inputs.std(axis=0)
        self.shift_, self.width_ = inputs.mean(axis=0), np.where(spread > 1e-6, spread, 1.0).astype(np.float32)
        if self._start is not None:
            self.shift_, self.width_ = self._start.shift_, self._start.width_
        scaled = self._scaled(inputs)
        hidden = self._scaled(np.where(self._declared(), 0.0, inputs).astype(np.float32))
        others = {int(f): np.flatnonzero(fold != f) for f in np.unique(own) if f != UNSEEN}
        seen_by = {f: [rows] for f, rows in others.items() if len(rows)}
        seen_by[UNSEEN] = [np.arange(len(fold))] * WHOLE
        self.networks_ = {
            f: [self._train(scaled, hidden, targets, rows, [f + 1, i]) for i, rows in enumerate(each)]
            for f, each in seen_by.items()
        }

    def _declared(self) -> npt.NDArray[np.bool_]:
        """(I,) whether an input is of what was declared."""
        wide = len(self.shift_)
        place = np.arange(wide)
        declared: npt.NDArray[np.bool_] = (place >= wide - CLOCK_INPUTS - 2 * (self.resources_ + 2)) & (
            place < wide - CLOCK_INPUTS
        )
        return declared

    def _scaled(self, inputs: Array) -> Array:
        scaled: Array = np.clip((inputs - self.shift_) / self.width_, -FARTHEST, FARTHEST).astype(np.float32)
        return scaled

    def _train(self, shown: Array, hidden: Array, targets: _Targets, rows: Int, key: list[int]) -> Layers:
        """The layers of a network that learnt from the examples `rows`."""
        import torch
        from torch import nn

        seed = int(np.random.default_rng([self.random_state, 4, *key]).integers(2**31))
        outputs = targets.width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers: list[nn.Module] = []
            for inputs in (shown.shape[1], self.hidden):
                layers += [nn.Linear(inputs, self.hidden), nn.ReLU(), nn.Dropout(self.dropout)]
            network = nn.Sequential(*layers, nn.Linear(self.hidden, outputs))
            dense = [layer for layer in network if isinstance(layer, nn.Linear)]
            epochs, rate = self.epochs, self.learning_rate
            if self._start is not None:
                epochs, rate = self.adapt_epochs, self.adapt_rate
                for layer, (weight, bias) in zip(dense, self._start.networks_[UNSEEN][0], strict=True):
                    layer.weight.data, layer.bias.data = torch.tensor(weight.T), torch.tensor(bias)
            optimiser = torch.optim.AdamW(network.parameters(), rate, weight_decay=self.weight_decay)
            batches = max(1, len(rows) // BATCH)
            cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=max(2, epochs * batches))
            rng = np.random.default_rng(seed)
            for _ in range(epochs):
                order = rng.permutation(rows)
                for part in np.array_split(order, batches):
                    seen = np.where(rng.random((len(part), 1)) < self.hidden_share, hidden[part], shown[part])
                    loss = targets.loss(network(torch.from_numpy(seen)), part)
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
                    cycle.step()
        return [(layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy()) for layer in dense]

    def predict(self, beginnings: Beginnings) -> Distribution:
        """See `Forecaster.predict`."""
        scaled, fold = self._scaled(beginnings.inputs(self.slots_per_day)), beginnings.fold
        whole = self.networks_[UNSEEN]  # also of a fold without windows to learn from, or without others
        if (fold == UNSEEN).all():
            return self._distribution([forward(network, scaled) for network in whole])
        out = self._distribution([np.zeros((len(scaled), len(whole[0][-1][1])), np.float32)])
        for number in np.unique(fold).tolist():
            rows = np.flatnonzero(fold == number)
            networks = self.networks_.get(number, whole)
            part = self._distribution([forward(network, scaled[rows]) for network in networks])
            for name in ("most", "peak", "mean"):
                getattr(out, name)[rows] = getattr(part, name)
        return out

    def _distribution(self, outputs: list[Array]) -> Distribution:
        """The mean of what networks predict, from their outputs (m, O)."""
        levels, resources, count = self.levels, self.resources_, len(outputs[0])
        wide = len(SEGMENTS) * resources
        most = np.zeros((count, wide, levels + 1), np.float32)
        peak = np.zeros((count, resources, levels + 1), np.float32)  # its last slot seen counts, so it is never 0
        mean = np.zeros((count, wide), np.float32)
        for output in outputs:
            _add_chances(np.exp(np.clip(output, -FARTHEST_LOGIT, FARTHEST_LOGIT)), len(outputs), most, peak, mean)
        segments = count, len(SEGMENTS), resources
        return Distribution(most.reshape(*segments, levels + 1), peak, mean.reshape(segments), self.values_)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings from which `from_dict` makes an equal object."""
        return {
            "parameters": self.get_params(),
            "resources": self.resources_,
            "values": self.values_.tolist(),
            "shift": self.shift_.tolist(),
            "width": self.width_.tolist(),
            "networks": {str(f): [layers_to_lists(network) for network in each] for f, each in self.networks_.items()},
            "learnt": None if self._learnt is None else packed(self._learnt),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> NetworkForecaster:
        """The forecaster that `to_dict` described. Raises ValueError or LookupError for what does not fit together."""
        made = cls(**content["parameters"])
        made.resources_ = int(content["resources"])
        made.values_, made.shift_, made.width_ = (
            np.array(content[k], np.float32) for k in ("values", "shift", "width")
        )
        scales = np.concatenate([made.values_, made.shift_, made.width_])
        if not (np.isfinite(scales).all() and (made.width_ > 0).all() and len(made.width_) == len(made.shift_)):
            raise ValueError("values, shift or width have numbers that are not finite, too few or too many")
        made.networks_ = {
            int(f): [layers_from_lists(one, len(made.shift_), np.float32) for one in each]
            for f, each in content["networks"].items()
        }
        outputs = {len(network[-1][1]) for each in made.networks_.values() for network in each}
        if not made.networks_.get(UNSEEN) or not all(made.networks_.values()):
            raise ValueError(
                f"it has networks for the folds {sorted(made.networks_)}: those of all series (-1) are missing"
            )
        wide = len(SEGMENTS) * made.resources_
        wanted = wide * (made.levels + 2) + made.resources_ * made.levels
        if outputs != {wanted} or len(made.values_) != made.levels + 1:
            raise ValueError(f"its networks have {sorted(outputs)} outputs: must be {wanted}")
        made._learnt = None if content["learnt"] is None else unpacked(content["learnt"], made.resources_)
        made._libraries = {}
        return made


@njit
def _add_chances(odds, networks, most, peak, mean):  # type: ignore[no-untyped-def]
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
def _add_shares(odds, share, out):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for v in range(len(odds)):
        total += odds[v]
    scale = share / total
    for v in range(len(odds)):
        out[v] += odds[v] * scale


class _Targets:
    """What the networks' outputs are compared with."""

    def __init__(self, most: Int, peak: Int, mean: Array, levels: int) -> None:
        import torch

        self._most, self._peak, self._mean = torch.from_numpy(most), torch.from_numpy(peak), torch.from_numpy(mean)
        self._levels = levels
        self.width = most.shape[1] * (levels + 2) + peak.shape[1] * levels  # outputs of a network

    @classmethod
    def of(cls, drawn: list[Beginnings], levels: int, peak_units: int) -> _Targets:
        """Levels (m, J D) of the segments' largest demand, (m, D) of the peak from 0 on, and mean demand (m, J D)."""
        outcomes = [Outcomes.of(part) for part in drawn]
        found = (one.levels(levels, peak_units) for one in outcomes)
        most, peak = (np.concatenate(parts) for parts in zip(*found, strict=True))
        mean = np.concatenate([one.mean for one in outcomes]) / peak_units
        flat = most.reshape(len(most), -1), peak - 1, mean.reshape(len(most), -1).astype(np.float32)
        return cls(*flat, levels)

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
