"""REINFORCE (paper, "Implementation"): episodes on a batch of sequences, then one policy-gradient step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tvwrl.agents.config import TrainConfig
from tvwrl.envs import PlacementVectorEnv
from tvwrl.penalties import TERMS
from tvwrl.types import Float

CHUNK = 4096  # decisions per backward pass; gradients add up, so it bounds memory and changes nothing else


@dataclass
class Trajectories:
    """What B episodes saw and did, decision by decision; T decisions of the longest."""

    seen: dict[str, npt.NDArray[Any]]  # (T, B, ...) observations
    action: npt.NDArray[np.int64]  # (T, B)
    reward: Float  # (T, B) 0 after the end
    slots: npt.NDArray[np.int64]  # (T, B) slots passed
    alive: npt.NDArray[np.bool_]  # (T, B) whether the episode still went on
    penalties: dict[str, float]  # mean per episode of each term


def to_tensors(seen: dict[str, npt.NDArray[Any]], device: str) -> dict[str, Tensor]:
    """An observation as tensors on the device."""
    return {name: torch.from_numpy(array).to(device) for name, array in seen.items()}


def play(
    policy: nn.Module, envs: PlacementVectorEnv, sequence: npt.NDArray[np.int64], rng: torch.Generator, device: str
) -> Trajectories:
    """One sampled episode in each of the B environments, environment b on `sequence[b]`."""
    batch = envs.num_envs
    seen, _ = envs.reset(options={"sequence": sequence})
    history: dict[str, list[Any]] = {name: [] for name in (*seen, "action", "reward", "slots", "alive")}
    totals = dict.fromkeys(TERMS, 0.0)
    alive = np.ones(batch, np.bool_)
    while alive.any():
        with torch.no_grad():
            logits = policy(to_tensors(seen, device))
            action = torch.multinomial(torch.softmax(logits, 1).cpu(), 1, generator=rng)[:, 0].numpy()
        for name, array in seen.items():
            history[name].append(array.copy())
        history["action"].append(action)
        history["alive"].append(alive)
        seen, reward, terminated, truncated, info = envs.step(action)
        history["reward"].append(reward)
        history["slots"].append(info["slots"])
        for name in TERMS:
            totals[name] += float(info[name].sum())
        alive = alive & ~(terminated | truncated)
    stacked = {name: np.stack(values) for name, values in history.items()}
    return Trajectories(
        seen={name: stacked[name] for name in seen},
        action=stacked["action"],
        reward=stacked["reward"],
        slots=stacked["slots"],
        alive=stacked["alive"],
        penalties={name: total / batch for name, total in totals.items()},
    )


def returns(played: Trajectories, gamma: float) -> Float:
    """(T, B) discounted return from each decision on: the discount is per slot, penalties of a step count at its start."""
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
    return advantage


def update(
    policy: nn.Module, optimiser: torch.optim.Optimizer, played: Trajectories, config: TrainConfig, iteration: int
) -> dict[str, float]:
    """One step of Adam up the policy gradient with entropy bonus; returns what is worth logging."""
    alive = played.alive
    decisions = int(alive.sum())
    advantage = torch.from_numpy(advantages(played, config)[alive]).float().to(config.device)
    action = torch.from_numpy(played.action[alive]).to(config.device)
    seen = {name: array[alive] for name, array in played.seen.items()}
    bonus = config.at(iteration, config.entropy_bonus, config.final_entropy_bonus)
    for group in optimiser.param_groups:
        group["lr"] = config.at(iteration, config.learning_rate, config.final_learning_rate)

    optimiser.zero_grad()
    total_entropy = 0.0
    for begin in range(0, decisions, CHUNK):
        part = slice(begin, begin + CHUNK)
        logits = policy(to_tensors({name: array[part] for name, array in seen.items()}, config.device))
        log_probability = torch.log_softmax(logits, dim=1)
        chosen = log_probability.gather(1, action[part, None])[:, 0]
        entropy = -(log_probability.exp() * log_probability).sum()
        loss = (-(chosen * advantage[part]).sum() - bonus * entropy) / decisions
        loss.backward()  # type: ignore[no-untyped-call]
        total_entropy += float(entropy.detach())
    limit = config.max_gradient_norm if config.max_gradient_norm > 0 else float("inf")
    norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), limit)
    optimiser.step()
    return {"entropy": total_entropy / decisions, "gradient_norm": float(norm), "decisions": float(decisions)}
