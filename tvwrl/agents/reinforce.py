"""REINFORCE (paper, "Implementation"): episodes on a batch of sequences, then one policy-gradient step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tvwrl.agents.config import TrainConfig
from tvwrl.agents.networks import Encoded, Observation, Policy
from tvwrl.types import Float

CHUNK = 4096  # decisions per backward pass; gradients add up, so it bounds memory and changes nothing else


class Environments(Protocol):
    """A batch of B environments to play in; `terms` are the costs that its reward is made of, as `info` names them."""

    num_envs: int
    terms: tuple[str, ...]

    def reset(self, *, options: dict[str, Any]) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode everywhere, on the sequences (B,) of `options["sequence"]`."""
        ...

    def step(self, actions: npt.NDArray[Any]) -> tuple[Observation, Any, Any, Any, dict[str, Any]]:
        """Observation, reward, terminated, truncated, and `info` with `slots` and the terms, each (B,)."""
        ...

    def close(self) -> Any:
        """Give back what they hold."""
        ...


@dataclass
class Trajectories:
    """What B episodes saw and did, decision by decision; T decisions of the longest."""

    encoded: Encoded  # (T, B, ...) observations as the policy encodes them, on the CPU
    action: npt.NDArray[np.int64]  # (T, B)
    log_probability: npt.NDArray[np.float32]  # (T, B) of the action, when it was taken
    reward: Float  # (T, B) 0 after the end
    slots: npt.NDArray[np.int64]  # (T, B) slots passed
    alive: npt.NDArray[np.bool_]  # (T, B) whether the episode still went on
    penalties: dict[str, float]  # mean per episode of each term


def logits_of(policy: Policy, seen: dict[str, npt.NDArray[Any]], device: str) -> tuple[Tensor, Encoded]:
    """(B, actions) logits on the device for observations, without gradients, and their encoding on the CPU."""
    with torch.no_grad():
        encoded = policy.encode(seen)
        return policy({name: part.to(device) for name, part in encoded.items()}), encoded


def play(
    policy: Policy, envs: Environments, sequence: npt.NDArray[np.int64], rng: torch.Generator, device: str
) -> Trajectories:
    """One sampled episode in each of the B environments, environment b on `sequence[b]`."""
    batch = envs.num_envs
    seen, _ = envs.reset(options={"sequence": sequence})
    encodings: list[Encoded] = []
    history: dict[str, list[Any]] = {name: [] for name in ("action", "log_probability", "reward", "slots", "alive")}
    totals = dict.fromkeys(envs.terms, 0.0)
    alive = np.ones(batch, np.bool_)
    while alive.any():
        logits, encoded = logits_of(policy, seen, device)
        log_probability = torch.log_softmax(logits, dim=1).cpu()
        drawn = torch.multinomial(log_probability.exp(), 1, generator=rng)
        encodings.append(encoded)
        history["action"].append(drawn[:, 0].numpy())
        history["log_probability"].append(log_probability.gather(1, drawn)[:, 0].numpy())
        history["alive"].append(alive)
        seen, reward, terminated, truncated, info = envs.step(drawn[:, 0].numpy())
        history["reward"].append(reward)
        history["slots"].append(info["slots"])
        for name in envs.terms:
            totals[name] += float(info[name].sum())
        alive = alive & ~(terminated | truncated)
    stacked = {name: np.stack(values) for name, values in history.items()}
    return Trajectories(
        encoded={name: torch.stack([e[name] for e in encodings]) for name in encodings[0]},
        action=stacked["action"],
        log_probability=stacked["log_probability"],
        reward=stacked["reward"],
        slots=stacked["slots"],
        alive=stacked["alive"],
        penalties={name: total / batch for name, total in totals.items()},
    )


def returns(played: Trajectories, gamma: float) -> Float:
    """(T, B) return from each decision on: discounted per slot, the penalties of a step counting at its start."""
    result = np.zeros_like(played.reward)
    following = np.zeros(played.reward.shape[1])
    for t in range(len(result) - 1, -1, -1):
        following = played.reward[t] + gamma ** played.slots[t] * following
        result[t] = following
    return result


def advantages(played: Trajectories, config: TrainConfig) -> Float:
    """(T, B) return minus the mean return of the same decision over the trajectories of the same sequence.

    Environments come sequence by sequence: b = sequence * trajectories + trajectory.
    """
    reward_to_go = returns(played, config.gamma)
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


def update(
    policy: Policy,
    optimiser: torch.optim.Optimizer,
    played: Trajectories,
    config: TrainConfig,
    iteration: int,
    rng: torch.Generator,
) -> dict[str, float]:
    """Steps of Adam up the policy gradient with entropy bonus; returns means over the steps, for the log.

    With one epoch and one minibatch (the paper) this is one plain REINFORCE step. More steps reuse the episodes; the
    probability ratio to the policy that played them is then clipped (Schulman et al. 2017, Eq. 7).
    """
    batch = _Batch.of(played, config)
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
    """The decisions of all episodes in one row each."""

    encoded: Encoded  # on the CPU: moved to the device chunk by chunk
    action: Tensor
    advantage: Tensor
    log_probability: Tensor  # of the action under the policy that played
    device: str

    @classmethod
    def of(cls, played: Trajectories, config: TrainConfig) -> _Batch:
        alive = played.alive
        rows = torch.from_numpy(alive)
        return cls(
            encoded={name: part[rows] for name, part in played.encoded.items()},
            action=torch.from_numpy(played.action[alive]),
            advantage=torch.from_numpy(advantages(played, config)[alive]).float(),
            log_probability=torch.from_numpy(played.log_probability[alive]),
            device=config.device,
        )


def _loss(policy: Policy, batch: _Batch, rows: Tensor, bonus: float, clip: float) -> tuple[Tensor, float]:
    """Sum over `rows` of the clipped policy-gradient loss less the entropy bonus, and the sum of entropies."""
    encoded = {name: part[rows].to(batch.device) for name, part in batch.encoded.items()}
    action, advantage, before = (
        x[rows].to(batch.device) for x in (batch.action, batch.advantage, batch.log_probability)
    )
    log_probability = torch.log_softmax(policy(encoded), dim=1)
    ratio = (log_probability.gather(1, action[:, None])[:, 0] - before).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    entropy = -(log_probability.exp() * log_probability).sum()
    return -gain.sum() - bonus * entropy, float(entropy.detach())
