"""Every setting of online learning, with a line of help each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tvwrl.agents.config import TrainConfig
from tvwrl.checks import at_least, one_of, within
from tvwrl.types import InputError


@dataclass(frozen=True)
class OnlineConfig:
    """Settings of online learning; all others come from the checkpoint."""

    before: int = 320
    """Arrival sequences before the shift, each played once."""
    after: int = 1280
    """Arrival sequences after the shift, each played once."""
    series: Literal["train", "test"] = "test"
    """Series that arrivals are cut from: test (unseen in training) or train (leaves the test series to tvwrl
    evaluate)."""
    clusters: int = 16
    """Clusters that the policy serves in parallel; it learns when an episode has ended in all of them."""
    recent: int = 8
    """Number of latest episodes per cluster that an update learns from."""
    learning_rate: float = 3e-4
    """Learning rate of Adam; 0: play without learning."""
    explore: bool = True
    """Sample actions from the policy; otherwise act as in evaluation."""
    epochs: int = 1
    """Passes over the episodes of an update; 1 pass with 1 minibatch is plain REINFORCE (paper)."""
    minibatches: int = 8
    """Minibatches, thus steps of Adam, per pass."""
    entropy_bonus: float = 0.001
    """Weight of the policy's entropy."""
    gamma: float | None = None
    """Discount per slot; default: as in training, to which ppo's critic was fitted."""
    gae_lambda: float | None = None
    """Lambda of generalised advantage estimation, per placement (ppo): 1 relies on returns only, 0 on the critic only;
    default: as in training."""
    seed: int = 0
    """Seed of the arrivals and of sampled actions."""
    save_every: int = 25
    """Updates between saves of checkpoints/last.pt."""

    def __post_init__(self) -> None:
        counts = ("before", "after", "clusters", "recent", "epochs", "minibatches", "save_every")
        at_least(1, **{name: getattr(self, name) for name in counts})
        at_least(0, learning_rate=self.learning_rate, entropy_bonus=self.entropy_bonus, seed=self.seed)
        within(0, 1, gamma=self.gamma, gae_lambda=self.gae_lambda)
        one_of(("train", "test"), series=self.series)
        for name in ("before", "after"):
            if getattr(self, name) % self.clusters:
                raise InputError(f"{name} is {getattr(self, name)}: must be a multiple of clusters, {self.clusters}")

    def applied_to(self, config: TrainConfig) -> TrainConfig:
        """The training hyper-parameters `config` with these settings."""
        rate = self.learning_rate or config.final_learning_rate
        return replace(
            config,
            sequences_per_iteration=self.clusters * self.recent,
            trajectories=1,
            learning_rate=rate,
            final_learning_rate=rate,
            entropy_bonus=self.entropy_bonus,
            final_entropy_bonus=self.entropy_bonus,
            epochs=self.epochs,
            minibatches=self.minibatches,
            seed=self.seed,
            gamma=config.gamma if self.gamma is None else self.gamma,
            gae_lambda=config.gae_lambda if self.gae_lambda is None else self.gae_lambda,
        )
