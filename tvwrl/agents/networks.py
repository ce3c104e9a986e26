"""Policy networks: observation in, one logit per action out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

from tvwrl.agents.features import feature_count, machine_features
from tvwrl.types import InputError

Observation = dict[str, npt.NDArray[Any]]
Encoded = dict[str, Tensor]


class Policy(nn.Module, ABC):
    """A policy network in two parts: `encode`, which learns nothing and is done once, and `forward`."""

    @abstractmethod
    def encode(self, seen: Observation) -> Encoded:
        """Batched observations (numpy) as the tensors that `forward` takes, on the CPU."""

    @abstractmethod
    def forward(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits; `encoded` on the policy's device."""


class GridPolicy(Policy):
    """A policy that sees the label grid and chooses a machine."""

    def __init__(self, shapes: dict[str, Any]) -> None:
        super().__init__()
        self.classes: int = shapes["classes"]
        self.columns: int = shapes["grid"][3]


class FlatPolicy(GridPolicy):
    """The paper's network: all pixels as label / G and the queue, one hidden ReLU layer, one output per action."""

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__(shapes)
        machines, resources, history, columns = shapes["grid"]
        places, features = shapes["queue"]
        inputs = machines * resources * history * columns + places * features + 1
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, shapes["actions"])

    def encode(self, seen: Observation) -> Encoded:
        """The observation itself."""
        return {name: torch.from_numpy(array.copy()) for name, array in seen.items()}

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits."""
        pixels = encoded["grid"].flatten(1).float() / self.classes
        queue = _scaled_queue(encoded["queue"], self.classes, self.columns).flatten(1)
        inputs = torch.cat([pixels, queue, torch.log1p(encoded["backlog"])], dim=1)
        logits: Tensor = self.output(torch.relu(self.hidden(inputs)))
        return logits


class SharedPolicy(GridPolicy):
    """One network per machine with shared weights, which also sees a pooled summary of all machines.

    Exchanging two machines exchanges their logits (equivariance), and it runs on any number of machines. A machine is
    summarised by `machine_features`; of the queue it sees the head and the mean of the visible places. All of that is
    in the label grid and the queue; nothing else is used.
    """

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__(shapes)
        machines, resources, history, _ = shapes["grid"]
        place = shapes["queue"][1] + self.classes
        self.machine = nn.Linear(feature_count(resources, history, self.classes), hidden)
        self.queue = nn.Linear(2 * place + 1, hidden)
        self.own = nn.Linear(hidden, hidden)
        self.others = nn.Linear(2 * hidden, hidden)
        self.output = nn.Linear(hidden, 1)
        self.hold = nn.Linear(hidden, 1) if shapes["actions"] > machines else None
        nn.init.zeros_(self.output.weight)  # a uniform policy to begin with

    def encode(self, seen: Observation) -> Encoded:
        """`machines` (B, M, F) and `queue` (B, F)."""
        queue = torch.from_numpy(seen["queue"])
        label = torch.nn.functional.one_hot(queue[..., 0].long(), self.classes + 1)[..., 1:]
        places = torch.cat([_scaled_queue(queue, self.classes, self.columns), label.float()], dim=2)
        beyond = torch.log1p(torch.from_numpy(seen["backlog"]))
        return {
            "machines": torch.from_numpy(machine_features(seen["grid"], self.classes)),
            "queue": torch.cat([places[:, 0], places.mean(1), beyond], dim=1),
        }

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, actions) logits."""
        machines = torch.relu(self.machine(encoded["machines"]) + self.queue(encoded["queue"])[:, None])
        pooled = self.others(torch.cat([machines.mean(1), machines.amax(1)], dim=1))
        logits: Tensor = self.output(torch.relu(self.own(machines) + pooled[:, None]))[..., 0]
        if self.hold is not None:
            logits = torch.cat([logits, self.hold(torch.relu(pooled))], dim=1)
        return logits


class DeepRMPolicy(Policy):
    """DeepRM, which chooses a workload: one hidden ReLU layer over all it sees (Mao et al. 2016: of 20 neurons)."""

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__()
        (slots, resources), (places, features) = shapes["cluster"], shapes["queue"]
        self.hidden = nn.Linear(slots * resources + places * features + 1, hidden)
        self.output = nn.Linear(hidden, shapes["actions"])
        nn.init.zeros_(self.output.weight)  # a uniform policy to begin with
        nn.init.zeros_(self.output.bias)

    def encode(self, seen: Observation) -> Encoded:
        """The observation itself."""
        return {name: torch.from_numpy(array) for name, array in seen.items()}

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, Q + 1) logits."""
        parts = [encoded["cluster"].flatten(1), encoded["queue"].flatten(1), torch.log1p(encoded["backlog"])]
        logits: Tensor = self.output(torch.relu(self.hidden(torch.cat(parts, dim=1))))
        return logits


def _scaled_queue(queue: Tensor, classes: int, columns: int) -> Tensor:
    """Queue (B, Q, 1 + 2 D) with labels in 0..1 and requests on a logarithmic scale, as they may be of any size."""
    resources = (queue.shape[2] - 1) // 2
    label, request, mask = queue[..., :1], queue[..., 1 : 1 + resources], queue[..., 1 + resources :]
    return torch.cat([label / classes, torch.log1p(request) / math.log1p(columns), mask], dim=2)


POLICIES: dict[str, type[FlatPolicy] | type[SharedPolicy] | type[DeepRMPolicy]] = {
    "flat": FlatPolicy,
    "shared": SharedPolicy,
    "deeprm": DeepRMPolicy,
}


def make_policy(name: str, shapes: dict[str, Any], hidden: int) -> Policy:
    """A new policy network; `shapes`: see the environment's task."""
    if name not in POLICIES:
        raise InputError(f"unknown policy '{name}'; valid: {', '.join(POLICIES)}")
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
