"""Policy networks: observation in, one logit per action out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tvwrl.agents.features import (
    Single,
    Terms,
    cost_feature_count,
    cost_features,
    feature_count,
    forecast_feature_count,
    forecast_features,
    machine_features,
    sizes,
)
from tvwrl.checks import one_of
from tvwrl.types import InputError

Observation = dict[str, npt.NDArray[Any]]
Encoded = dict[str, Tensor]

FORBIDDEN = -1e9  # a logit; not infinite, so that entropies stay numbers
LOWEST = -1e8  # lowest logit of an allowed action, so that it stays above FORBIDDEN
INITIAL_HOLD_LOGIT = -3.0  # an untrained policy should rarely hold, or its episodes would never end


class Policy(nn.Module, ABC):
    """A policy network in two parts: `encode`, which has no weights and runs once per observation, and `forward`."""

    def encode(self, seen: Observation) -> Encoded:
        """Batched observations (numpy) as the tensors that `forward` takes, on the CPU; by default copies of them."""
        return {name: torch.from_numpy(array.copy()) for name, array in seen.items()}

    @abstractmethod
    def forward(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits; `encoded` on the policy's device."""

    def logits(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits, next to minus infinity where the mask of the encoding forbids the action."""
        logits: Tensor = self(encoded).clamp(min=LOWEST).masked_fill(~encoded["mask"], FORBIDDEN)
        return logits


class GridPolicy(Policy):
    """A policy that sees the label grid and chooses a machine."""

    def __init__(self, shapes: dict[str, Any]) -> None:
        super().__init__()
        self.classes: int = shapes["classes"]
        _, self.resources, self.history, self.columns = shapes["grid"]
        self.shows: dict[str, int] = shapes["shows"]
        self.peak_units, self.whole = float(shapes["peak_units"]), bool(shapes["whole"])

    def scaled_queue(self, queue: Tensor) -> Tensor:
        """Queue (B, Q, F) with labels in 0..1, requests, which are unbounded, on a logarithmic scale and demand as a
        share of the largest capacity; forecasts are unchanged.
        """
        request, demand = self.shows["request"] // 2, self.shows["demand"]
        widths = [1, request, request, demand, self.shows["forecast"]]
        label, requested, mask, now, forecast = torch.split(queue, widths, dim=2)
        requested = torch.log1p(requested) / math.log1p(self.columns)
        return torch.cat([label / self.classes, requested, mask, now / self.columns, forecast], dim=2)


class FlatPolicy(GridPolicy):
    """The paper's network: all pixels as label / G and the queue, one hidden ReLU layer, one output per action."""

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__(shapes)
        machines, resources, history, columns = shapes["grid"]
        places, features = shapes["queue"]
        inputs = machines * (resources * history * columns + shapes["shows"]["forecast"]) + places * features + 1
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, shapes["actions"])

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits."""
        pixels = encoded["grid"].flatten(1).float() / self.classes
        queue = self.scaled_queue(encoded["queue"]).flatten(1)
        parts = [pixels, queue, torch.log1p(encoded["backlog"])]
        if "forecast" in encoded:
            parts.append(encoded["forecast"].flatten(1))
        inputs = torch.cat(parts, dim=1)
        logits: Tensor = self.output(torch.relu(self.hidden(inputs)))
        return logits


class SharedTrunk(nn.Module):
    """Hidden features of every machine and of the cluster; equivariant to exchanging machines."""

    def __init__(self, machine: int, queue: int, hidden: int) -> None:
        super().__init__()
        self.machine = nn.Linear(machine, hidden)
        self.queue = nn.Linear(queue, hidden)
        self.own = nn.Linear(hidden, hidden)
        self.others = nn.Linear(2 * hidden, hidden)

    def forward(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """(B, M, hidden) of `machines` (B, M, F) and `queue` (B, F), and (B, hidden)."""
        return self.mix(self.machine(encoded["machines"]).add_(self.queue(encoded["queue"])[:, None]))

    def mix(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """(n, M, hidden) and (n, hidden) of the first layer's sums (n, M, hidden), which are overwritten."""
        machines = seen.relu_()  # in place, as new memory for a thousand machines takes longer than the sums
        pooled = self.others(torch.cat([machines.mean(1), machines.amax(1)], dim=1))
        return self.own(machines).add_(pooled[:, None]).relu_(), torch.relu(pooled)


class SharedPolicy(GridPolicy):
    """One network per machine with shared weights, which also sees a pooled summary of all machines.

    Exchanging two machines exchanges their logits (equivariance), and it works for any number of machines. Its inputs
    are, per machine, `machine_features` and, with forecasts, `forecast_features`; of the queue, the head and the mean
    of the visible places. Untrained, all machines are equally likely. If `shapes` has the `weights` (4, D) of the
    penalties, the untrained policy places about as the `rule` of `shapes` does, by default expected-cost (the `prior`),
    and the costs (`cost_features`) are inputs as well.
    """

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__(shapes)
        self.rule: str = shapes.get("rule", "expected-cost") if "weights" in shapes else ""
        self.terms = Terms(np.array(shapes["weights"]), self.peak_units, self.whole) if self.rule else None
        self.trunk = self.make_trunk(shapes["queue"][1] + self.classes, hidden)
        self.output = nn.Linear(hidden, 1)
        nn.init.zeros_(self.output.weight)  # start with equal logits
        nn.init.zeros_(self.output.bias)
        placements = shapes["grid"][0] * shapes.get("places", 1)
        self.hold = nn.Linear(hidden, 1) if shapes["actions"] > placements else None
        if self.hold is not None:
            nn.init.zeros_(self.hold.weight)
            nn.init.constant_(self.hold.bias, INITIAL_HOLD_LOGIT if self.terms is None else 0.0)

    @property
    def cost_inputs(self) -> int:
        """Number of `cost_features`."""
        return cost_feature_count(self.rule) if self.rule else 0

    def make_trunk(self, place: int, hidden: int) -> SharedTrunk:
        """The layers before the logits; `place`: features of a place of the queue."""
        inputs = feature_count(self.resources, self.history, self.classes)
        if self.shows["forecast"]:
            inputs += forecast_feature_count(self.resources) + self.cost_inputs
        if self.shows["demand"]:
            inputs += self.resources
        return SharedTrunk(inputs, 2 * place + 1, hidden)

    def queue_features(self, seen: Observation) -> tuple[Tensor, Tensor]:
        """(B, Q, F) of the places of the queue, and (B, 1) of what waits beyond them."""
        queue = torch.from_numpy(seen["queue"])
        label = queue[..., :1] == torch.arange(1, self.classes + 1)  # faster than one_hot, which checks the range
        places = torch.cat([self.scaled_queue(queue), label.float()], dim=2)
        return places, torch.log1p(torch.from_numpy(seen["backlog"]))

    def encode(self, seen: Observation) -> Encoded:
        """`machines` (B, M, F) and `queue` (B, F); with weights `prior` (B, actions)."""
        places, beyond = self.queue_features(seen)
        encoded = {"queue": torch.cat([places[:, 0], places.mean(1), beyond], dim=1)}
        return encoded | {name: torch.from_numpy(part) for name, part in self._machines(seen).items()}

    def _machines(self, seen: Observation) -> dict[str, npt.NDArray[Any]]:
        """`machines` (B, M, F), with room for the head of the queue and forecasts if observed; perhaps `prior`."""
        grid = machine_features(seen["grid"], self.classes)
        size, now = self.size_and_use(grid)
        parts, prior = self.given(seen["queue"][:, 0], size, now, seen.get("forecast"), self.hold is not None)
        found = {} if prior is None else {"prior": prior}
        return found | {"machines": np.concatenate([grid, *parts], axis=2, dtype=np.float32)}

    def size_and_use(self, grid: Single) -> tuple[Single, Single]:
        """(B, M, D) each, from `machine_features`: capacities and load in this slot, as shares of the columns."""
        width = self.history + 4 + 2 * self.classes
        now = grid[:, :, self.history - 1 :: width][:, :, : self.resources]
        return sizes(grid, self.resources, self.history, self.classes), now

    def given(
        self,
        waiting: Single,
        size: Single,
        now: Single,
        forecast: Single | None,
        hold: bool,
        kept: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[list[Single], Single | None]:
        """What machines are to a waiting workload: parts (n, M, F), and with weights its prior.

        `waiting`: (n, F) rows of the queue
        `size`, `now`: (n, M, D), see `size_and_use`
        `forecast`: (n, M, K), None if not observed
        `hold`: whether the prior, (n, M) or (n, M + 1), has a logit for holding
        `kept`: which `forecast_features` to return; default: all
        """
        left, parts, prior = size, [], None
        if self.shows["demand"]:
            demand = waiting[:, 1 + self.shows["request"] :][:, None, : self.resources]
            left = size - now - demand / self.columns
            parts.append(left)
        if forecast is not None:
            capacity = size * (self.columns / self.peak_units)
            own = np.ascontiguousarray(waiting[:, -self.shows["forecast"] :])
            parts.append(forecast_features(forecast, own, capacity, kept))
            if self.terms is not None:
                weighed, prior = cost_features(self.rule, forecast, own, capacity, left, self.terms, hold)
                parts.append(weighed)
        return parts, prior

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits."""
        machines, cluster = self.trunk(encoded)
        logits: Tensor = self.output(machines)[..., 0]
        if self.hold is not None:
            logits = torch.cat([logits, self.hold(cluster)], dim=1)
        return logits + encoded["prior"] if "prior" in encoded else logits


class DeepRMPolicy(Policy):
    """DeepRM, which chooses a workload: one hidden ReLU layer over the observation (Mao et al. 2016: 20 neurons)."""

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__()
        (slots, resources), (places, features) = shapes["cluster"], shapes["queue"]
        self.hidden = nn.Linear(slots * resources + places * features + 1, hidden)
        self.output = nn.Linear(hidden, shapes["actions"])
        nn.init.zeros_(self.output.weight)  # start with a uniform policy
        nn.init.zeros_(self.output.bias)

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, Q + 1) logits."""
        parts = [encoded["cluster"].flatten(1), encoded["queue"].flatten(1), torch.log1p(encoded["backlog"])]
        logits: Tensor = self.output(torch.relu(self.hidden(torch.cat(parts, dim=1))))
        return logits


POLICIES: dict[str, type[FlatPolicy] | type[SharedPolicy] | type[DeepRMPolicy]] = {
    "flat": FlatPolicy,
    "shared": SharedPolicy,
    "deeprm": DeepRMPolicy,
}


def make_policy(name: str, shapes: dict[str, Any], hidden: int) -> Policy:
    """A new policy network; `shapes`: see `tvwrl.agents.shapes.shapes_of`."""
    one_of(POLICIES, policy=name)
    if name == "shared" and shapes.get("places", 1) > 1:
        from tvwrl.agents.pair_policy import PairPolicy  # which is built on this module

        return PairPolicy(shapes, hidden)
    return POLICIES[name](shapes, hidden)


def check_device(device: str) -> None:
    """Raise InputError unless networks can run on `device`: cpu, cuda or cuda:N."""
    try:
        parsed = torch.device(device)
    except RuntimeError:
        raise InputError(f"unknown device '{device}'; valid: cpu, cuda, cuda:N") from None
    if parsed.type not in ("cpu", "cuda"):
        raise InputError(f"unknown device '{device}'; valid: cpu, cuda, cuda:N")
    count = torch.cuda.device_count()
    if parsed.type == "cuda" and (parsed.index or 0) >= count:
        raise InputError(f"device '{device}' is not available: this torch sees {count} CUDA devices; use device cpu")
