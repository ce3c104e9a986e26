"""The critic of PPO: what each machine, and waiting, will cost.

It values each machine by itself. All penalties but the wait belong to one machine, so it learns from M numbers per
decision rather than from their sum, and can tell which machine a placement endangers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tvwrl.agents.features import GREAT, SMALL
from tvwrl.agents.foresight import ahead_count
from tvwrl.agents.networks import Encoded, SharedPolicy, SharedTrunk


class Critic(nn.Module):
    """Expected discounted future cost of every machine, and of waiting; built like the `shared` policy.

    `foresees`: whether it also sees the future (`Foresight`). It is then given the costs that machines incur in any
    case, and learns the rest.
    """

    def __init__(self, policy: SharedPolicy, hidden: int, foresees: bool = False) -> None:
        super().__init__()
        self.foresees = foresees
        machine, queue = policy.trunk.machine.in_features, policy.trunk.queue.in_features
        if foresees:
            machine, queue = machine + 1, queue + ahead_count(policy.resources)
        self.trunk = SharedTrunk(machine, queue, hidden)
        self.machine = nn.Linear(hidden, 1)
        self.wait = nn.Linear(hidden, 1)
        for head in (self.machine, self.wait):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, encoded: Encoded, scale: float = 1.0) -> Tensor:
        """(B, M + 1) values in units of `scale`: each machine's, then that of waiting."""
        anyway: Tensor | float = 0.0
        if self.foresees:
            committed = encoded["committed"]
            known = torch.asinh(committed[..., None] / SMALL) / GREAT
            anyway = committed / scale
            encoded = {
                "machines": torch.cat([encoded["machines"], known], dim=2),
                "queue": torch.cat([encoded["queue"], encoded["ahead"]], dim=1),
            }
        machines, cluster = self.trunk(encoded)
        return torch.cat([self.machine(machines)[..., 0] - anyway, self.wait(cluster)], dim=1)
