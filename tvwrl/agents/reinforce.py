"""REINFORCE (paper, "Implementation"): returns against the mean of the trajectories on the same sequence."""

from __future__ import annotations

import numpy as np

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.episodes import Trajectories
from tvwrl.agents.networks import Policy
from tvwrl.agents.policy_gradient import PolicyGradient, discounted_sums
from tvwrl.types import Float, InputError


class Reinforce(PolicyGradient):
    """The paper's algorithm; with more than one epoch or minibatch, episodes are reused.

    Raises InputError for a single trajectory per sequence: as its own baseline it would teach nothing.
    """

    def __init__(self, policy: Policy, config: TrainConfig) -> None:
        if config.trajectories < 2:
            raise InputError(
                f"trajectories is {config.trajectories}: must be at least 2 with algo reinforce, whose baseline is "
                "their mean"
            )
        super().__init__(policy, config)

    def advantages(self, played: Trajectories) -> Float:
        """(T, B) return minus the mean return of the same decision over the trajectories of the same sequence.

        Returns are discounted per slot; a step's penalties count at its start. Environments come sequence by sequence:
        b = sequence * trajectories + trajectory.
        """
        config = self.config
        reward_to_go = discounted_sums(played.reward, config.gamma**played.slots)
        steps = len(reward_to_go)
        grouped = reward_to_go.reshape(steps, -1, config.trajectories)
        alive = played.alive.reshape(grouped.shape)
        counted = np.maximum(alive.sum(axis=2, keepdims=True), 1)
        baseline = np.where(alive, grouped, 0.0).sum(axis=2, keepdims=True) / counted
        advantage = np.where(alive, grouped - baseline, 0.0).reshape(steps, -1)
        if config.advantage_scaling:
            advantage /= advantage[played.alive].std() + 1e-8
            np.clip(advantage, -config.advantage_clip, config.advantage_clip, out=advantage)
        return advantage
