"""PPO (Schulman et al. 2017) with generalised advantages over decisions that are unequally far apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.critic import Critic, Foresight
from tvwrl.agents.deterministic import DeterministicActions
from tvwrl.agents.episodes import Environments, Trajectories, play
from tvwrl.agents.networks import Encoded, SharedPolicy
from tvwrl.agents.policy_gradient import CHUNK, PolicyGradient, discounted_sums
from tvwrl.types import Float, InputError


class PPO(PolicyGradient):
    """Clipped policy gradient with advantages of GAE(lambda), and a critic with an optimiser of its own.

    Values are learnt in units of `scale`, the mean return of the first iteration's episodes.
    """

    def __init__(self, policy: Any, config: TrainConfig) -> None:
        super().__init__(policy, config)
        if not isinstance(policy, SharedPolicy):
            raise InputError(f"algo ppo needs policy shared, not {config.policy}: use policy shared or algo reinforce")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed + 1)
            self.critic = Critic(policy, config.hidden, foresees=True).to(config.device)
        self.critic_optimiser = torch.optim.Adam(self.critic.parameters(), lr=config.learning_rate)
        self.scale = 0.0  # until the first iteration

    def play(
        self, envs: Environments, sequence: npt.NDArray[np.int64], how: torch.Generator | DeterministicActions
    ) -> Trajectories:
        """See `EpisodeLearner.play`; encodings include what only the critic sees, the future (`Foresight`)."""
        foresight, ahead = Foresight(envs.simulation, self.config.gamma), list[Encoded]()

        def look(rows: npt.NDArray[np.int64], _: npt.NDArray[np.bool_]) -> None:
            ahead.append(foresight.of(rows))

        played = play(self.policy, envs, sequence, how, self.config.device, look)
        played.encoded |= {name: torch.cat([part[name] for part in ahead]) for name in ahead[0]}
        played.last |= foresight.of(np.arange(envs.num_envs))
        return played

    def advantages(self, played: Trajectories) -> Float:
        """(T, B) GAE(lambda); with `advantage_scaling` standardised over the batch and clipped."""
        if not self.scale:
            self.scale = float(np.abs(played.costs * played.alive[..., None]).sum(axis=0).mean()) or 1.0
        values, last = np.zeros_like(played.costs), self._values(played.last)
        values[played.alive] = self._values(played.encoded)
        placements = played.encoded["mask"].shape[1] - (self.policy.hold is not None)
        steps = -played.costs / self.scale, values, last * played.truncated[:, None], played
        by_part = generalised_advantages(*steps, self.config, placements)
        self._target = torch.from_numpy((by_part + values)[played.alive]).float()
        missed = generalised_advantages(*steps, replace(self.config, gae_lambda=1.0), placements)
        self._explained = explained_variance((missed + values)[played.alive], missed[played.alive])
        total = by_part.sum(axis=2)
        known = total[played.alive]
        if self.config.advantage_scaling:
            total = (total - known.mean()) / (known.std() + 1e-8)
            total = np.clip(total, -self.config.advantage_clip, self.config.advantage_clip)
        advantage: Float = total * played.alive
        return advantage

    def update(self, played: Trajectories, iteration: int, rng: torch.Generator) -> dict[str, float]:
        """Update the policy, then the critic."""
        logged = super().update(played, iteration, rng)
        fitted = self._fit_critic(played, iteration, rng)
        return logged | fitted | {"explained_variance": self._explained}

    def _values(self, encoded: Encoded) -> Float:
        """(n, M + 1) values of observations (n, ...)."""
        with torch.no_grad():
            chunks = (
                {name: part[rows].to(self.config.device) for name, part in encoded.items()}
                for rows in torch.split(torch.arange(len(encoded["mask"])), CHUNK)
            )
            parts = [self.critic(chunk, self.scale).cpu() for chunk in chunks]
        values: Float = torch.cat(parts).numpy().astype(np.float64)
        return values

    def _fit_critic(self, played: Trajectories, iteration: int, rng: torch.Generator) -> dict[str, float]:
        """Fit the critic to the lambda-returns; returns its initial mean squared error, in squared units of
        `scale`, and the mean gradient norm."""
        losses = []

        def backward(part: Tensor) -> None:
            seen = {name: rows[part].to(self.config.device) for name, rows in played.encoded.items()}
            loss = ((self.critic(seen, self.scale) - self._target[part].to(self.config.device)) ** 2).sum(dim=1).mean()
            loss.backward()
            losses.append(float(loss.detach()))

        norms = self.descend(self.critic, self.critic_optimiser, iteration, len(self._target), rng, backward)
        value_loss = float(np.mean(losses[: self.config.minibatches]))
        return {"value_loss": value_loss, "critic_gradient_norm": float(np.mean(norms))}

    def weights(self) -> Iterator[Tensor]:
        """See `Learner`; includes the critic's."""
        yield from super().weights()
        yield from self.critic.parameters()

    def state(self) -> dict[str, Any]:
        """See `Learner`; includes the critic and its scale."""
        own = {"critic": self.critic.state_dict(), "critic_optimiser": self.critic_optimiser.state_dict()}
        return super().state() | own | {"scale": self.scale}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Learner`. Raises InputError for the critic of an earlier version, which has fewer inputs."""
        super().restore(state)
        try:
            self.critic.load_state_dict(state["critic"])
        except RuntimeError:
            raise InputError("the critic in the checkpoint does not fit this version: train again") from None
        self.critic_optimiser.load_state_dict(state["critic_optimiser"])
        self.scale = state["scale"]


def generalised_advantages(
    reward: Float, values: Float, last: Float, played: Trajectories, config: TrainConfig, placements: int
) -> Float:
    """(T, B, P) GAE (Schulman et al. 2016, Eq. 16) of P parts of the reward, over semi-Markov steps.

    `reward`, `values`: (T, B, P); part p < P - 1 belongs to machine p, the last to waiting
    `last`: (B, P) value after the final decision; 0 if the episode terminated
    `placements`: actions below this place a workload

    A step of s slots discounts by gamma ** s. Lambda applies after a placement but not after a hold, so that holding
    and placing are compared over equally many placements, including the postponed one, and over the same time.
    """
    going = np.append(played.alive[1:], np.zeros_like(played.alive[:1]), axis=0)[..., None]  # another decision follows
    after = np.where(going, np.append(values[1:], last[None], axis=0), last)
    discount = config.gamma ** played.slots[..., None]
    trust = np.where(played.action < placements, config.gae_lambda, 1.0)[..., None]
    advantage = discounted_sums(reward + discount * after - values, discount * trust * going)
    return np.where(played.alive[..., None], advantage, 0.0)


def explained_variance(returns: Float, missed: Float) -> float:
    """Share of the variance of `returns` (n, P), summed over parts P, that is explained by values whose errors are
    `missed` (n, P); at most 1, and below 0 if the values are worse than a constant."""
    return 1.0 - float(missed.sum(axis=1).var() / max(returns.sum(axis=1).var(), 1e-12))
