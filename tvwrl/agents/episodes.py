"""Episodes of a policy on a batch of arrival sequences, recorded decision by decision for learning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tvwrl.agents.acting import DeterministicActions, LogitsOf
from tvwrl.agents.networks import Encoded, Observation, Policy
from tvwrl.simulation import SLOT, Simulation
from tvwrl.types import Float

MAX_SLOTS_AFTER_ARRIVALS = 2000  # then an episode is cut: a policy that always holds would never end it
STEPS = ("action", "log_probability", "reward", "slots", "alive", "costs")  # recorded for each decision


class Diverged(Exception):
    """An update broke the policy; the message says how."""


class Environments(Protocol):
    """A batch of B environments to play in; `terms` names the costs in `info` that add up to minus the reward."""

    num_envs: int
    terms: tuple[str, ...]
    simulation: Simulation

    def reset(self, *, options: dict[str, Any]) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode everywhere, on the sequences (B,) of `options["sequence"]`."""
        ...

    def step(self, actions: npt.NDArray[Any]) -> tuple[Observation, Any, Any, Any, dict[str, Any]]:
        """Observation, reward, terminated, truncated, and `info` with `slots` and the terms, each (B,)."""
        ...

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """(B, actions) what may be chosen."""
        ...

    def costs(self) -> Float:
        """(B, P) parts that add up to minus the last reward."""
        ...

    def close(self) -> Any:
        """Release resources."""
        ...


@dataclass
class Trajectories:
    """Observations, actions and costs of B episodes, decision by decision; the longest has T decisions."""

    encoded: Encoded  # (n, ...) encoded observations on the CPU, one for each set entry of `alive`, in its order
    action: npt.NDArray[np.int64]  # (T, B)
    log_probability: npt.NDArray[np.float32]  # (T, B) of the action, when it was taken
    reward: Float  # (T, B) 0 after the end
    slots: npt.NDArray[np.int64]  # (T, B) slots passed
    alive: npt.NDArray[np.bool_]  # (T, B) whether the episode was still going on
    penalties: dict[str, float]  # mean per episode of each term
    costs: Float  # (T, B, P) parts of minus the reward; in placement: each machine's share, then the wait
    last: Encoded  # (B, ...) final observations
    truncated: npt.NDArray[np.bool_]  # (B,) whether the episode was cut off

    @classmethod
    def concatenate(cls, parts: Iterable[Trajectories]) -> Trajectories:
        """The episodes of all parts, side by side in their order."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        longest, count = max(len(p.alive) for p in parts), sum(len(p.truncated) for p in parts)
        stacked = {}
        for name in STEPS:
            arrays = [getattr(p, name) for p in parts]
            padding = [[(0, longest - len(a)), *[(0, 0)] * (a.ndim - 1)] for a in arrays]
            stacked[name] = np.concatenate([np.pad(a, p) for a, p in zip(arrays, padding, strict=True)], axis=1)
        # Encodings are ordered part by part, but `alive` decision by decision over all episodes
        first = np.cumsum([0, *[len(p.truncated) for p in parts]])
        places = [np.argwhere(p.alive) @ [count, 1] + before for p, before in zip(parts, first, strict=False)]
        order = torch.from_numpy(np.argsort(np.concatenate(places)))
        shares = [len(p.truncated) / count for p in parts]
        return cls(
            encoded={n: torch.cat([p.encoded[n] for p in parts])[order] for n in parts[0].encoded},
            penalties={
                n: sum(p.penalties[n] * share for p, share in zip(parts, shares, strict=True))
                for n in parts[0].penalties
            },
            last={n: torch.cat([p.last[n] for p in parts]) for n in parts[0].last},
            truncated=np.concatenate([p.truncated for p in parts]),
            **stacked,
        )

    def pack(self) -> dict[str, Any]:
        """The fields with tensors in place of arrays, for a checkpoint."""
        return {n: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for n, v in vars(self).items()}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> Trajectories:
        """The inverse of `pack`."""
        fields: dict[str, Any] = {n: v.numpy() if isinstance(v, Tensor) else v for n, v in packed.items()}
        return cls(**fields)


def logits_of(
    policy: Policy, seen: dict[str, npt.NDArray[Any]], mask: npt.NDArray[np.bool_], device: str
) -> tuple[Tensor, Encoded]:
    """(B, actions) logits on the device, without gradients, and the encoded observations on the CPU.

    `mask` (B, actions): the allowed actions; it becomes part of the encoding.
    """
    with torch.no_grad():
        encoded = policy.encode(seen) | {"mask": torch.from_numpy(mask)}
        return policy.logits({name: part.to(device) for name, part in encoded.items()}), encoded


def numbers_of(policy: Policy, device: str = "cpu") -> LogitsOf:
    """The function that a policy network is to those who work with arrays."""

    def logits(seen: Observation, mask: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        return logits_of(policy, seen, mask, device)[0].cpu().numpy()

    return logits


def play(
    policy: Policy,
    envs: Environments,
    sequence: npt.NDArray[np.int64],
    rng: torch.Generator | DeterministicActions,
    device: str,
    look: Callable[[npt.NDArray[np.int64], npt.NDArray[np.bool_]], None] | None = None,
) -> Trajectories:
    """One episode in each of the B environments, environment b on `sequence[b]`.

    Before each decision `look` gets the environments (n,) that are to decide and what they may do (n, actions).

    Actions are drawn with `rng`, or chosen by `DeterministicActions`. Episodes still going on
    `MAX_SLOTS_AFTER_ARRIVALS` slots after the last arrival are cut. Raises Diverged if the policy's probabilities are
    not numbers.
    """
    batch, clock = envs.num_envs, envs.simulation.state.counters[:, SLOT]
    latest = envs.simulation.sequences.arrival.max() + MAX_SLOTS_AFTER_ARRIVALS
    seen, _ = envs.reset(options={"sequence": sequence})
    encodings: list[Encoded] = []
    history: dict[str, list[Any]] = {name: [] for name in STEPS}
    totals = dict.fromkeys(envs.terms, 0.0)
    alive, cut = np.ones(batch, np.bool_), np.zeros(batch, np.bool_)
    while alive.any():
        masks = envs.action_masks()
        if look is not None:
            look(np.flatnonzero(alive), masks[alive])
        logits, encoded = logits_of(policy, {n: part[alive] for n, part in seen.items()}, masks[alive], device)
        encodings.append(encoded)
        action, chosen = masks.argmax(axis=1), np.zeros(batch, np.float32)  # in finished episodes: any allowed one
        log_probability = torch.log_softmax(logits, dim=1).cpu()
        if not bool(log_probability.isfinite().all()):
            raise Diverged("the policy's probabilities are not numbers")
        if isinstance(rng, DeterministicActions):
            drawn = torch.from_numpy(rng.choose(logits.cpu().numpy(), alive))[:, None]
        else:
            drawn = torch.multinomial(log_probability.exp(), 1, generator=rng)
        action[alive], chosen[alive] = drawn[:, 0].numpy(), log_probability.gather(1, drawn)[:, 0].numpy()
        seen, reward, terminated, truncated, info = envs.step(action)
        step = (action, chosen, reward, info["slots"], alive, envs.costs())
        for name, values in zip(STEPS, step, strict=True):
            history[name].append(values)
        for name in envs.terms:
            totals[name] += float(info[name].sum())
        alive, cut = alive & ~(terminated | truncated), cut | truncated
        if alive.any() and clock[alive].max() >= latest:
            alive, cut = np.zeros(batch, np.bool_), cut | alive
    _, last = logits_of(policy, seen, envs.action_masks(), device)
    stacked = {name: np.stack(values) for name, values in history.items()}
    return Trajectories(
        encoded={name: torch.cat([e[name] for e in encodings]) for name in encodings[0]},
        penalties={name: total / batch for name, total in totals.items()},
        last=last,
        truncated=cut,
        **stacked,
    )
