"""The critic of PPO: what each machine, and waiting, will cost.

It values each machine by itself. All penalties but the wait belong to one machine, so it learns from M numbers per
decision rather than from their sum, and can tell which machine a placement endangers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tvwrl.agents.networks import Encoded, SharedPolicy, SharedTrunk


class Critic(nn.Module):
    """Expected discounted future cost of every machine, and of waiting; built like the `shared` policy."""

    def __init__(self, policy: SharedPolicy, hidden: int) -> None:
        super().__init__()
        self.trunk = SharedTrunk(policy.trunk.machine.in_features, policy.trunk.queue.in_features, hidden)
        self.machine = nn.Linear(hidden, 1)
        self.wait = nn.Linear(hidden, 1)
        for head in (self.machine, self.wait):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, encoded: Encoded) -> Tensor:
        """(B, M + 1) values in units of the learner's scale: each machine's, then that of waiting."""
        machines, cluster = self.trunk(encoded)
        return torch.cat([self.machine(machines)[..., 0], self.wait(cluster)], dim=1)
