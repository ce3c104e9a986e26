"""The learning algorithms by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.episodes import Environments
from tvwrl.agents.networks import Policy
from tvwrl.agents.policy_gradient import Learner
from tvwrl.agents.ppo import PPO
from tvwrl.agents.reinforce import Reinforce
from tvwrl.types import InputError

LEARNERS: dict[str, type[Learner]] = {"reinforce": Reinforce, "ppo": PPO}


class Algorithm(Protocol):
    """Improves a policy, iteration by iteration; ours are `Learner`s."""

    optimiser: torch.optim.Optimizer

    def iterate(
        self, envs: Environments, sequence: npt.NDArray[np.int64], iteration: int, rng: torch.Generator
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Play an episode in each environment, b on `sequence[b]`, and learn from them.

        Returns the mean of each cost term per episode, and other metrics to log, at least `gradient_norm` and
        `decisions`.
        """
        ...

    def weights(self) -> Iterator[Tensor]:
        """Every weight that it trains."""
        ...

    def state(self) -> dict[str, Any]:
        """The state from which `restore` continues exactly, for a checkpoint."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        ...


def make_learner(policy: Policy, config: TrainConfig, envs: Environments, shapes: dict[str, Any]) -> Algorithm:
    """The algorithm that `config.algo` names, for a policy on the config's device; `shapes`: see `Task`.

    Raises InputError if the policy does not suit the algorithm, or Stable-Baselines3 is missing.
    """
    if config.algo in LEARNERS:
        return LEARNERS[config.algo](policy, config)
    try:
        from tvwrl.agents.sb3 import StableBaselines
    except ModuleNotFoundError as error:
        if error.name != "stable_baselines3":
            raise
        raise InputError(f"algo {config.algo} needs Stable-Baselines3: pip install 'tvwrl[sb3]'") from None
    return StableBaselines(policy, config, envs, shapes)
