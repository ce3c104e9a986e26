"""What a learning algorithm is, and the clipped policy gradient that ours share."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tvwrl.agents.acting import DeterministicActions
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.episodes import Diverged, Environments, Trajectories, play
from tvwrl.agents.networks import Policy
from tvwrl.types import Float, InputError

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

    def descend(
        self,
        network: nn.Module,
        optimiser: torch.optim.Optimizer,
        iteration: int,
        decisions: int,
        rng: torch.Generator | None,
        backward: Callable[[Tensor], None],
    ) -> list[float]:
        """Take the steps of an iteration; returns the norms of their gradients before they are clipped.

        `backward` adds the gradients of a minibatch, of whose decisions it is given the rows; `rng` shuffles these.
        """
        config, norms = self.config, []
        for group in optimiser.param_groups:
            group["lr"] = config.at(iteration, config.learning_rate, config.final_learning_rate)
        limit = config.max_gradient_norm or float("inf")
        for _ in range(config.epochs):
            order = torch.arange(decisions) if rng is None else torch.randperm(decisions, generator=rng)
            for part in order.chunk(config.minibatches):
                optimiser.zero_grad()
                backward(part)
                norms.append(float(nn.utils.clip_grad_norm_(network.parameters(), limit)))
                optimiser.step()
        return norms

    def weights(self) -> Iterator[Tensor]:
        """Every weight that it trains."""
        return self.policy.parameters()

    def state(self) -> dict[str, Any]:
        """The state from which `restore` continues exactly, for a checkpoint; without the policy's weights."""
        return {"optimiser": self.optimiser.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.optimiser.load_state_dict(state["optimiser"])


# Updates that break a policy are detected and rolled back
LARGEST = 1e6  # weight; larger ones could take logits out of the range of float32
EXPLODED = 1000.0  # multiple of the usual norm above which a gradient has exploded
NORMS = ("gradient_norm", "critic_gradient_norm")  # columns of progress.csv
USUAL, LEAST = 20, 5  # recent iterations that define the usual norm, and the fewest that suffice


@contextmanager
def restored_on_divergence(policy: nn.Module, learner: Learner) -> Iterator[None]:
    """Restore policy and learner to their present state if the block raises Diverged."""
    good = copy.deepcopy((policy.state_dict(), learner.state()))
    try:
        yield
    except Diverged:
        policy.load_state_dict(good[0])
        learner.restore(good[1])
        raise


def check_update(logged: Mapping[str, float], weights: Iterable[Tensor]) -> None:
    """Raise Diverged if a logged number is not finite, or a weight is not finite or exceeds `LARGEST`.

    The weights are checked too because the log shows only gradients of the weights before the step.
    """
    for name, value in logged.items():
        if not np.isfinite(value):
            raise Diverged(f"{name.replace('_', ' ')} is {value}")
    with torch.no_grad():
        largest = float(torch.stack([weight.abs().max() for weight in weights]).max())  # nan, if one is
    if not largest <= LARGEST:
        raise Diverged(f"a weight is {largest:.3g} (at most {LARGEST:g})")


def check_gradients(logged: Mapping[str, float], before: Iterable[Mapping[str, float | str]]) -> None:
    """Raise Diverged if a gradient explodes; `before`: the log of earlier iterations, the latest last."""
    rows = list(before)[-USUAL:]
    for name in NORMS:
        lately = [float(row[name]) for row in rows if row.get(name) not in (None, "")]
        if name in logged and len(lately) >= LEAST and logged[name] > EXPLODED * max(np.median(lately), 1e-3):
            raise Diverged(
                f"the gradient explodes: its norm is {logged[name]:.3g} "
                f"({np.median(lately):.3g} in the {len(lately)} iterations before)"
            )


class EpisodeLearner(Learner):
    """Plays whole episodes, then learns from them."""

    def __init__(self, policy: Policy, config: TrainConfig) -> None:
        super().__init__(policy, config)
        self.optimiser = self.make_optimiser()

    def make_optimiser(self) -> torch.optim.Optimizer:
        """An optimiser of the policy that has taken no steps."""
        return torch.optim.Adam(self.policy.parameters(), lr=self.config.learning_rate)

    def iterate(
        self, envs: Environments, sequence: npt.NDArray[np.int64], iteration: int, rng: torch.Generator
    ) -> tuple[dict[str, float], dict[str, float]]:
        """See `Learner.iterate`."""
        played = self.play(envs, sequence, rng)
        return played.penalties, self.update(played, iteration, rng)

    def play(
        self, envs: Environments, sequence: npt.NDArray[np.int64], how: torch.Generator | DeterministicActions
    ) -> Trajectories:
        """Play an episode in each environment and record what `update` needs; see `episodes.play`."""
        return play(self.policy, envs, sequence, how, self.config.device)

    @abstractmethod
    def update(self, played: Trajectories, iteration: int, rng: torch.Generator) -> dict[str, float]:
        """Learn from the episodes of an iteration; returns metrics to log."""


class PolicyGradient(EpisodeLearner):
    """Learns from the advantages of the decisions in whole episodes."""

    @abstractmethod
    def advantages(self, played: Trajectories) -> Float:
        """(T, B) advantage of each decision: how much better it turned out than expected."""

    def update(self, played: Trajectories, iteration: int, rng: torch.Generator) -> dict[str, float]:
        """Learn from the episodes of an iteration, with an entropy bonus, by Adam; returns mean metrics to log.

        With one epoch and one minibatch (the paper) this is one plain REINFORCE step. More steps reuse the episodes;
        the probability ratio to the policy that played is then clipped (Schulman et al. 2017, Eq. 7).
        """
        config, alive = self.config, played.alive
        advantages = self.advantages(played)[alive].astype(np.float32)
        decided = [torch.from_numpy(part) for part in (played.action[alive], advantages, played.log_probability[alive])]
        bonus = config.at(iteration, config.entropy_bonus, config.final_entropy_bonus)
        decisions, steps = len(advantages), config.epochs * config.minibatches
        total_entropy = norm = 0.0
        moved = np.zeros(2)  # see `how_far`, summed over the decisions of all epochs

        def backward(part: Tensor) -> None:
            nonlocal total_entropy
            for rows in torch.split(part, CHUNK):
                encoded = {name: values[rows].to(config.device) for name, values in played.encoded.items()}
                action, advantage, before = (values[rows].to(config.device) for values in decided)
                log_probability = torch.log_softmax(self.policy.logits(encoded), dim=1)
                gain = clipped_gain(log_probability, action, advantage, before, config.clip)
                entropy = -(log_probability.exp() * log_probability).sum()  # last: gradients add up in this order
                ((-gain.sum() - bonus * entropy) / len(part)).backward()  # type: ignore[no-untyped-call]
                total_entropy += float(entropy.detach()) / (decisions * config.epochs)
                moved[:] += how_far(log_probability.detach(), action, before, config.clip)

        shuffle = rng if steps > 1 else None
        for one in self.descend(self.policy, self.optimiser, iteration, decisions, shuffle, backward):
            norm += one / steps
        divergence, clipped = moved / (decisions * config.epochs)
        logged = {"entropy": total_entropy, "approx_kl": float(divergence), "clip_fraction": float(clipped)}
        return logged | {"gradient_norm": norm, "decisions": float(decisions)}


def clipped_gain(log_probability: Tensor, action: Tensor, advantage: Tensor, before: Tensor, clip: float) -> Tensor:
    """(n,) `advantage` (n,) times how much likelier `action` (n,) has become, as far as that counts.

    `log_probability` (n, actions) now; `before` (n,) that of the action under the policy that played.
    """
    ratio = (log_probability.gather(1, action[:, None])[:, 0] - before).exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def how_far(log_probability: Tensor, action: Tensor, before: Tensor, clip: float) -> tuple[float, float]:
    """Sums over n decisions of an estimate of the KL divergence from the policy that played, and of whether the ratio
    is beyond the clipping range; arguments as those of `clipped_gain`.

    The estimate r - 1 - log r is that of other libraries (approx_kl), unbiased and never negative.
    """
    change = log_probability.gather(1, action[:, None])[:, 0] - before
    ratio = change.exp()
    return float((ratio - 1 - change).sum()), float(((ratio - 1).abs() > clip).sum())


def discounted_sums(values: Float, discount: npt.NDArray[Any]) -> Float:
    """(T, ...) `values` (T, ...) of each decision and of all that follow, which count `discount` (T, ...) as much."""
    result = values.copy()
    for t in range(len(result) - 2, -1, -1):
        result[t] += discount[t] * result[t + 1]
    return result


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
