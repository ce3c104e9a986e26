"""Our environments as Stable-Baselines3 steps them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from tvwrl.agents.episodes import Environments
from tvwrl.agents.networks import Encoded, Observation, Policy
from tvwrl.simulation import CHANGING
from tvwrl.types import Float

Arrays = dict[str, npt.NDArray[Any]]


class EncodedEnvironments(VecEnv):
    """Our environments as Stable-Baselines3 steps them, observed through the encoding of a policy.

    When an episode ends, its environment continues with one of the sequences passed to `begin`: its own, or a
    neighbour's if it has already played that.
    """

    def __init__(self, envs: Environments, policy: Policy, value: nn.Module) -> None:
        self._envs, self._policy, self._value = envs, policy, value
        count, self.placements = envs.num_envs, envs.simulation.placements
        self.slots: list[npt.NDArray[np.int64]] = []  # (B,) slots of each decision of a rollout
        self.beyond: list[npt.NDArray[np.float32]] = []  # (B,) value of the state at which an episode was cut; else 0
        self._sums, self._ended = np.zeros((len(envs.terms), count)), np.zeros((len(envs.terms), 0))
        seen, _ = envs.reset(options={"sequence": np.zeros(count, np.int64)})
        first, self._begun = self._encoded(seen), False
        offered = spaces.Dict({name: _space(array) for name, array in first.items()})
        super().__init__(count, offered, spaces.Discrete(first["mask"].shape[1]))

    def begin(self, sequence: npt.NDArray[np.int64]) -> None:
        """Take the sequences (B,) of the next episodes; the first call begins one everywhere."""
        self._sequence, self._episode = sequence, np.zeros(self.num_envs, np.int64)
        self._ended = self._ended[:, :0]
        if not self._begun:
            self._envs.reset(options={"sequence": sequence})
            self._begun, self._episode = True, self._episode + 1

    def reset(self) -> Arrays:
        """The current observations: episodes continue, although Stable-Baselines3 takes this for a new start."""
        return self._encoded(self._envs.simulation.observation())

    def terms(self) -> dict[str, float]:
        """Mean of each term over the episodes that ended since `begin`; over those under way if none did."""
        sums = self._ended if self._ended.size else self._sums
        return dict(zip(self._envs.terms, sums.mean(axis=1).tolist(), strict=True))

    def state(self) -> dict[str, Any]:
        """Where every environment is, for a checkpoint."""
        now = self._envs.simulation.state
        arrays = {name: torch.from_numpy(getattr(now, name).copy()) for name in CHANGING}
        return {"begun": self._begun, "sums": torch.from_numpy(self._sums.copy()), "simulation": arrays}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._begun, self._sums = state["begun"], state["sums"].numpy().copy()
        for name, saved in state["simulation"].items():
            getattr(self._envs.simulation.state, name)[...] = saved.numpy()

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Keep the actions (B,) for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Arrays, Float, npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Observations, rewards (B,), dones (B,) and infos as Stable-Baselines3 wants them."""
        seen, reward, terminated, truncated, info = self._envs.step(self._actions)
        done = terminated | truncated
        self.slots.append(info["slots"].copy())
        self._sums += [info[name] for name in self._envs.terms]
        infos: list[dict[str, Any]] = [{} for _ in done]
        encoded = self._encoded(seen)
        self.beyond.append(self._value_of_cut(encoded, truncated))
        if done.any():
            for b in np.flatnonzero(done):  # without its flag for cut episodes: it would discount by one slot
                infos[b] = {"terminal_observation": {name: array[b] for name, array in encoded.items()}}
            self._ended = np.concatenate([self._ended, self._sums[:, done]], axis=1)
            self._sums[:, done] = 0.0
            following = self._sequence[(np.arange(self.num_envs) + self._episode) % self.num_envs]
            self._episode += done
            seen, _ = self._envs.reset(options={"reset_mask": done, "sequence": following})
            encoded = self._encoded(seen)
        return encoded, reward.astype(np.float32), done, infos

    def _value_of_cut(self, encoded: Arrays, cut: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        """(B,) value of the final state of episodes that were cut; 0 elsewhere."""
        values = np.zeros(self.num_envs, np.float32)
        if cut.any():
            device = next(self._value.parameters()).device
            with torch.no_grad():
                found = self._value({n: torch.from_numpy(part[cut]).to(device) for n, part in encoded.items()})
            values[cut] = found.sum(dim=1).cpu().numpy()
        return values

    def _encoded(self, seen: Observation) -> Arrays:
        encoded: Encoded = self._policy.encode(seen)
        mask = self._envs.action_masks().astype(np.uint8)
        return {name: part.numpy() for name, part in encoded.items()} | {"mask": mask}

    def close(self) -> None:
        """The environments belong to the trainer."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Only `render_mode`, which Stable-Baselines3 asks for: single environments have no attributes."""
        if attr_name != "render_mode":
            raise AttributeError(attr_name)
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: see `get_attr`."""
        raise AttributeError(attr_name)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **options: Any) -> list[Any]:
        """Refused: see `get_attr`."""
        raise AttributeError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No environment is."""
        return [False] * self.num_envs


def _space(array: npt.NDArray[Any]) -> spaces.Box:
    """The space of one environment's part of a batch (B, ...): any value of its type."""
    if array.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, array.shape[1:], np.float32)
    limits = np.iinfo(array.dtype)
    return spaces.Box(limits.min, limits.max, array.shape[1:], array.dtype.type)
