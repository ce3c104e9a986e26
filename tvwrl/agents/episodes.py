"""Episodes of a policy on a batch of arrival sequences, recorded decision by decision for learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tvwrl.agents.networks import Encoded, Policy
from tvwrl.envs import PlacementVectorEnv
from tvwrl.penalties import TERMS
from tvwrl.types import Float


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
    costs: Float  # (T, B, M + 1) what the reward is made of: the penalties that each machine caused, and the wait
    last: Encoded  # (B, ...) observations when the episodes had ended
    truncated: npt.NDArray[np.bool_]  # (B,) whether they were cut rather than over


def logits_of(
    policy: Policy, seen: dict[str, npt.NDArray[Any]], mask: npt.NDArray[np.bool_], device: str
) -> tuple[Tensor, Encoded]:
    """(B, actions) logits on the device for observations, without gradients, and their encoding on the CPU.

    `mask` (B, actions): what may be chosen; it becomes part of the encoding.
    """
    with torch.no_grad():
        encoded = policy.encode(seen) | {"mask": torch.from_numpy(mask)}
        return policy.logits({name: part.to(device) for name, part in encoded.items()}), encoded


def play(
    policy: Policy, envs: PlacementVectorEnv, sequence: npt.NDArray[np.int64], rng: torch.Generator, device: str
) -> Trajectories:
    """One sampled episode in each of the B environments, environment b on `sequence[b]`."""
    batch = envs.num_envs
    seen, _ = envs.reset(options={"sequence": sequence})
    encodings: list[Encoded] = []
    names = ("action", "log_probability", "reward", "slots", "alive", "costs")
    history: dict[str, list[Any]] = {name: [] for name in names}
    totals = dict.fromkeys(TERMS, 0.0)
    alive, cut = np.ones(batch, np.bool_), np.zeros(batch, np.bool_)
    while alive.any():
        logits, encoded = logits_of(policy, seen, envs.action_masks(), device)
        log_probability = torch.log_softmax(logits, dim=1).cpu()
        drawn = torch.multinomial(log_probability.exp(), 1, generator=rng)
        encodings.append(encoded)
        history["action"].append(drawn[:, 0].numpy())
        history["log_probability"].append(log_probability.gather(1, drawn)[:, 0].numpy())
        history["alive"].append(alive)
        seen, reward, terminated, truncated, info = envs.step(drawn[:, 0].numpy())
        history["reward"].append(reward)
        history["slots"].append(info["slots"])
        history["costs"].append(np.column_stack([envs.simulation.state.costs, info["wait"]]))
        for name in TERMS:
            totals[name] += float(info[name].sum())
        alive, cut = alive & ~(terminated | truncated), cut | truncated
    _, last = logits_of(policy, seen, envs.action_masks(), device)
    stacked = {name: np.stack(values) for name, values in history.items()}
    return Trajectories(
        encoded={name: torch.stack([e[name] for e in encodings]) for name in encodings[0]},
        penalties={name: total / batch for name, total in totals.items()},
        last=last,
        truncated=cut,
        **stacked,
    )
