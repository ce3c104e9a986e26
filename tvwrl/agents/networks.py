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
    COSTS,
    cost_features,
    feature_count,
    forecast_feature_count,
    forecast_features,
    machine_features,
    sizes,
)
from tvwrl.checks import one_of
from tvwrl.schedulers.expected_cost import ACCEPTED_OVERSHOOT, expected_costs
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import Float, InputError

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
        machines = torch.relu(self.machine(encoded["machines"]) + self.queue(encoded["queue"])[:, None])
        pooled = self.others(torch.cat([machines.mean(1), machines.amax(1)], dim=1))
        return torch.relu(self.own(machines) + pooled[:, None]), torch.relu(pooled)


class SharedPolicy(GridPolicy):
    """One network per machine with shared weights, which also sees a pooled summary of all machines.

    Exchanging two machines exchanges their logits (equivariance), and it works for any number of machines. Its inputs
    are, per machine, `machine_features` and, with forecasts, `forecast_features`; of the queue, the head and the mean
    of the visible places. Untrained, all machines are equally likely. If `shapes` has the `weights` (4, D) of the
    penalties, the untrained policy places about as expected-cost does (the `prior`), and the costs (`cost_features`)
    are inputs as well.
    """

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__(shapes)
        self.weights: Float | None = np.array(shapes["weights"]) if "weights" in shapes else None
        machines, resources, history, _ = shapes["grid"]
        place = shapes["queue"][1] + self.classes
        inputs = feature_count(resources, history, self.classes)
        if self.shows["forecast"]:
            inputs += forecast_feature_count(resources) + COSTS * (self.weights is not None)
        if self.shows["demand"]:
            inputs += resources
        self.trunk = SharedTrunk(inputs, 2 * place + 1, hidden)
        self.output = nn.Linear(hidden, 1)
        nn.init.zeros_(self.output.weight)  # start with equal logits
        nn.init.zeros_(self.output.bias)
        self.hold = nn.Linear(hidden, 1) if shapes["actions"] > machines else None
        if self.hold is not None:
            nn.init.zeros_(self.hold.weight)
            nn.init.constant_(self.hold.bias, INITIAL_HOLD_LOGIT if self.weights is None else 0.0)

    def encode(self, seen: Observation) -> Encoded:
        """`machines` (B, M, F) and `queue` (B, F); with weights `prior` (B, actions)."""
        queue = torch.from_numpy(seen["queue"])
        label = queue[..., :1] == torch.arange(1, self.classes + 1)  # faster than one_hot, which checks the range
        places = torch.cat([self.scaled_queue(queue), label.float()], dim=2)
        beyond = torch.log1p(torch.from_numpy(seen["backlog"]))
        encoded = {"queue": torch.cat([places[:, 0], places.mean(1), beyond], dim=1)}
        return encoded | {name: torch.from_numpy(part) for name, part in self._machines(seen).items()}

    def _machines(self, seen: Observation) -> dict[str, npt.NDArray[Any]]:
        """`machines` (B, M, F), with room for the head of the queue and forecasts if observed; perhaps `prior`."""
        parts = [machine_features(seen["grid"], self.classes)]
        size = sizes(parts[0], self.resources, self.history, self.classes)
        head, left, found = seen["queue"][:, 0], size, {}
        if self.shows["demand"]:
            width = self.history + 4 + 2 * self.classes
            now = parts[0][:, :, self.history - 1 :: width][:, :, : self.resources]
            demand = head[:, 1 + self.shows["request"] :][:, None, : self.resources]
            left = size - now - demand / self.columns
            parts.append(left)
        if self.shows["forecast"]:
            capacity = size * (self.columns / self.peak_units)
            own = np.ascontiguousarray(head[:, -self.shows["forecast"] :])
            parts.append(forecast_features(seen["forecast"], own, capacity))
            if self.weights is not None:
                costs = expected_costs(seen["forecast"], own, capacity, self.peak_units, self.weights, self.whole)
                limit = ACCEPTED_OVERSHOOT * self.weights[3, 0]
                weighed, found["prior"] = cost_features(costs, size, left, limit, self.hold is not None)
                parts.append(weighed)
        return found | {"machines": np.concatenate(parts, axis=2, dtype=np.float32)}

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


def shapes_of(simulation: Simulation) -> dict[str, Any]:
    """What a policy network must know of its environment: grid (M, D, h, C), queue (Q, F), classes, actions,
    peak_units, whether demand is in whole units, and how many numbers the queue `shows` of requests (2 D), demand (D)
    and forecasts (K).
    """
    scenario, resources = simulation.scenario, simulation.machines.capacity.shape[1]
    return {
        "grid": list(simulation.seen_grid.shape[1:]),
        "queue": list(simulation.state.seen_queue.shape[1:]),
        "classes": simulation.sequences.classes,
        "actions": len(simulation.machines) + int(scenario.hold_action),
        "peak_units": scenario.peak_units,
        "whole": scenario.quantise,
        "shows": {
            "request": 2 * resources * scenario.observe_request,
            "demand": resources * scenario.observe_demand,
            "forecast": simulation.state.seen_forecast.shape[2],
        },
    }


POLICIES: dict[str, type[FlatPolicy] | type[SharedPolicy] | type[DeepRMPolicy]] = {
    "flat": FlatPolicy,
    "shared": SharedPolicy,
    "deeprm": DeepRMPolicy,
}


def make_policy(name: str, shapes: dict[str, Any], hidden: int) -> Policy:
    """A new policy network; `shapes`: see `shapes_of`."""
    one_of(POLICIES, policy=name)
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
        raise InputError(f"device '{device}' is not available: this torch sees {count} CUDA devices; use --device cpu")
