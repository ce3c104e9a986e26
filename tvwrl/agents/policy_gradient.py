"""What a learning algorithm is, and the clipped policy gradient that ours share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.episodes import Environments, Trajectories, play
from tvwrl.agents.networks import Encoded, Policy
from tvwrl.types import Float

CHUNK = 4096  # decisions per backward pass; bounds memory, and gradients add up to the same


class Learner(ABC):
    """Improves a policy, iteration by iteration."""

    optimiser: torch.optim.Optimizer  # of the policy

    def __init__(self, policy: Policy, config: TrainConfig) -> None:
        self.policy, self.config = policy, config

    @abstractmethod
    def iterate(
        self, envs: Environments, sequence: npt.NDArray[np.int64], iteration: int, rng: torch.Generator
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Play an episode in each environment, b on `sequence[b]`, and learn from them.

        Returns the mean of each cost term per episode, and other metrics to log, at least `gradient_norm` and
        `decisions`.
        """

    def weights(self) -> Iterator[Tensor]:
        """Every weight that it trains."""
        return self.policy.parameters()

    def state(self) -> dict[str, Any]:
        """The state from which `restore` continues exactly, for a checkpoint; without the policy's weights."""
        return {"optimiser": self.optimiser.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.optimiser.load_state_dict(state["optimiser"])


class PolicyGradient(Learner):
    """Learns from the advantages of the decisions in whole episodes."""

    def __init__(self, policy: Policy, config: TrainConfig) -> None:
        super().__init__(policy, config)
        self.optimiser = torch.optim.Adam(policy.parameters(), lr=config.learning_rate)

    @abstractmethod
    def advantages(self, played: Trajectories) -> Float:
        """(T, B) advantage of each decision: how much better it turned out than expected."""

    def iterate(
        self, envs: Environments, sequence: npt.NDArray[np.int64], iteration: int, rng: torch.Generator
    ) -> tuple[dict[str, float], dict[str, float]]:
        """See `Learner.iterate`."""
        played = play(self.policy, envs, sequence, rng, self.config.device)
        return played.penalties, self.update(played, iteration, rng)

    def update(self, played: Trajectories, iteration: int, rng: torch.Generator) -> dict[str, float]:
        """Learn from the episodes of an iteration; returns metrics to log."""
        advantage = self.advantages(played)
        return update_policy(self.policy, self.optimiser, played, advantage, self.config, iteration, rng)


def update_policy(
    policy: Policy,
    optimiser: torch.optim.Optimizer,
    played: Trajectories,
    advantage: Float,
    config: TrainConfig,
    iteration: int,
    rng: torch.Generator,
) -> dict[str, float]:
    """Train on `advantage` (T, B) with an entropy bonus, by Adam; returns mean metrics to log.

    With one epoch and one minibatch (the paper) this is one plain REINFORCE step. More steps reuse the episodes; the
    probability ratio to the policy that played is then clipped (Schulman et al. 2017, Eq. 7).
    """
    batch = _Batch.of(played, advantage, config)
    bonus = config.at(iteration, config.entropy_bonus, config.final_entropy_bonus)
    for group in optimiser.param_groups:
        group["lr"] = config.at(iteration, config.learning_rate, config.final_learning_rate)
    limit = config.max_gradient_norm if config.max_gradient_norm > 0 else float("inf")

    decisions, steps = len(batch.action), config.epochs * config.minibatches
    entropy = norm = 0.0
    for _ in range(config.epochs):
        order = torch.randperm(decisions, generator=rng) if steps > 1 else torch.arange(decisions)
        for part in order.chunk(config.minibatches):
            optimiser.zero_grad()
            for chunk in torch.split(part, CHUNK):
                loss, chunk_entropy = _loss(policy, batch, chunk, bonus, config.clip)
                (loss / len(part)).backward()  # type: ignore[no-untyped-call]
                entropy += chunk_entropy / (decisions * config.epochs)
            norm += float(torch.nn.utils.clip_grad_norm_(policy.parameters(), limit)) / steps
            optimiser.step()
    return {"entropy": entropy, "gradient_norm": norm, "decisions": float(decisions)}


@dataclass
class _Batch:
    """The decisions of all episodes, one per row."""

    encoded: Encoded  # on the CPU: moved to the device chunk by chunk
    action: Tensor
    advantage: Tensor
    log_probability: Tensor  # of the action under the policy that played
    device: str

    @classmethod
    def of(cls, played: Trajectories, advantage: Float, config: TrainConfig) -> _Batch:
        alive = played.alive
        return cls(
            encoded=played.encoded,
            action=torch.from_numpy(played.action[alive]),
            advantage=torch.from_numpy(advantage[alive]).float(),
            log_probability=torch.from_numpy(played.log_probability[alive]),
            device=config.device,
        )


def _loss(policy: Policy, batch: _Batch, rows: Tensor, bonus: float, clip: float) -> tuple[Tensor, float]:
    """Sum over `rows` of the clipped policy-gradient loss less the entropy bonus, and the sum of entropies."""
    encoded = {name: part[rows].to(batch.device) for name, part in batch.encoded.items()}
    action, advantage, before = (
        x[rows].to(batch.device) for x in (batch.action, batch.advantage, batch.log_probability)
    )
    log_probability = torch.log_softmax(policy.logits(encoded), dim=1)
    ratio = (log_probability.gather(1, action[:, None])[:, 0] - before).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    entropy = -(log_probability.exp() * log_probability).sum()
    return -gain.sum() - bonus * entropy, float(entropy.detach())
