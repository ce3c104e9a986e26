"""DeepRM's policy network: what it sees in, one logit per visible workload and one for void out."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn


class DeepRMPolicy(nn.Module):
    """One hidden ReLU layer (Mao et al. 2016, Section 4: 20 neurons) over the flattened observation."""

    def __init__(self, shapes: dict[str, Any], hidden: int) -> None:
        super().__init__()
        (slots, resources), (places, features) = shapes["cluster"], shapes["queue"]
        self.hidden = nn.Linear(slots * resources + places * features + 1, hidden)
        self.output = nn.Linear(hidden, shapes["actions"])
        nn.init.zeros_(self.output.weight)  # a uniform policy to begin with
        nn.init.zeros_(self.output.bias)

    def encode(self, seen: dict[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
        """The observation itself."""
        return {name: torch.from_numpy(array) for name, array in seen.items()}

    def forward(self, encoded: dict[str, Tensor]) -> Tensor:
        """(B, Q + 1) logits."""
        parts = [encoded["cluster"].flatten(1), encoded["queue"].flatten(1), torch.log1p(encoded["backlog"])]
        logits: Tensor = self.output(torch.relu(self.hidden(torch.cat(parts, dim=1))))
        return logits
