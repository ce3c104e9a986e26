"""What an agent is paid for: `tvwrl.make(task, reward=Penalties(overshoot=0.5))`, with the penalties in `info` as ever.

The benchmark pays minus the sum of all penalties; that is the default, and `tvwrl.compare` knows no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from tvwrl.penalties import TERMS
from tvwrl.types import Float, InputError

__all__ = ["Paid", "Penalties", "Reward", "Shaped", "VectorPaid", "Waiting"]

Potential = Callable[[Mapping[str, npt.NDArray[Any]]], Any]


class Reward(Protocol):
    """What `tvwrl.make` takes as `reward`: rewards of B environments from what each of their steps cost."""

    def __call__(self, penalties: Mapping[str, Float]) -> Float:
        """(B,) rewards; `penalties`: name -> (B,) >= 0, see `PlacementEnv`."""
        ...


@dataclass(frozen=True)
class Penalties:
    """Minus a weighted sum of the penalties.

    Parameters
    ----------
    contention, under_utilisation, overshoot, wait, moves : float, default 1.0
        Weight of each, >= 0.
    unit : float, optional
        A penalty of this much is a reward of -1, > 0; default: the task's `penalty_unit`, or 1 without a task.

    Raises
    ------
    InputError
        For weights that are negative or not finite.

    Examples
    --------
    >>> float(Penalties(overshoot=0.5, unit=1000.0)({"overshoot": np.array(3000.0), "wait": np.array(50.0)}))
    -1.55
    """

    contention: float = 1.0
    under_utilisation: float = 1.0
    overshoot: float = 1.0
    wait: float = 1.0
    moves: float = 1.0
    unit: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "unit":
                if value is not None and not (math.isfinite(value) and value > 0):
                    raise InputError(f"unit is {value}: must be finite and > 0")
            elif not (math.isfinite(value) and value >= 0):
                raise InputError(f"{field.name} is {value}: must be finite and >= 0")

    def __call__(self, penalties: Mapping[str, Float]) -> Float:
        """See `Reward`."""
        total = sum((getattr(self, name) * penalties[name] for name in TERMS if name in penalties), np.float64(0.0))
        return -np.asarray(total, np.float64) / (self.unit or 1.0)


@dataclass(frozen=True)
class Shaped:
    """A reward with gamma x the potential of the new state, minus that of the old one, added.

    It changes how fast an agent learns, but not which policy is best (Ng, Harada and Russell, ICML 1999), as long as
    the agent discounts by the same gamma. With gamma 1 the sum over an episode that ends stays the same, but for a
    constant, whatever the agent's discount; `Waiting` makes use of that.

    Parameters
    ----------
    reward : Reward
        What is shaped.
    potential : callable
        Maps standard observations of B environments to (B,) potentials. That of an ended episode is 0.
    gamma : float
        Discount factor per step, 0..1.
    """

    reward: Reward
    potential: Potential
    gamma: float

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise InputError(f"gamma is {self.gamma}: must be 0 to 1")

    def __call__(self, penalties: Mapping[str, Float]) -> Float:
        """See `Reward`: what is shaped."""
        return self.reward(penalties)


@dataclass(frozen=True)
class Waiting:
    """A potential that makes an agent that discounts pay for workloads when they arrive, not when it places them.

    In `Shaped(Penalties(), Waiting(), gamma=1.0)` a workload costs `cost` more when it arrives, and as much less when
    it is placed. An agent that discounts slots of waiting (as in Stable-Baselines3, where the discount cannot depend on
    the action) gains by putting costs off, and learns never to place anything; with this it gains nothing by that, as
    far as `cost` is what a workload costs.

    Parameters
    ----------
    cost : float, default 3.0
        About what a workload costs where it is placed, or more; in units of the reward, >= 0.

    Raises
    ------
    InputError
        For a cost that is negative or not finite.

    Examples
    --------
    >>> queue = np.zeros((1, 5, 7))
    >>> queue[0, :2, 0] = 4  # two workloads of class 4
    >>> Waiting(3.0)({"queue": queue, "backlog": np.zeros((1, 1))})
    array([-6.])
    """

    cost: float = 3.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.cost) and self.cost >= 0):
            raise InputError(f"cost is {self.cost}: must be finite and >= 0")

    def __call__(self, seen: Mapping[str, npt.NDArray[Any]]) -> Float:
        """(B,) potentials.

        Parameters
        ----------
        seen : mapping
            Standard observations.
        """
        waiting = (seen["queue"][:, :, 0] > 0).sum(axis=1) + seen["backlog"][:, 0]
        return np.asarray(-self.cost * waiting, np.float64)


def with_unit(reward: Reward, unit: float) -> Reward:
    """The reward with a unit, where it has none of its own."""
    if isinstance(reward, Shaped):
        return replace(reward, reward=with_unit(reward.reward, unit))
    return replace(reward, unit=unit) if isinstance(reward, Penalties) and reward.unit is None else reward


class _Shaping:
    """Keeps the potentials of the last states of B environments."""

    def __init__(self, reward: Reward) -> None:
        if not callable(reward) or isinstance(reward, type):
            raise InputError(f"reward is {reward!r}: must be a reward, as in reward=Penalties(overshoot=0.5)")
        self.reward = reward
        self.before: Float = np.zeros(0)

    def potential(self, seen: Mapping[str, npt.NDArray[Any]]) -> Float:
        if not isinstance(self.reward, Shaped):
            return np.zeros(1)
        return np.asarray(self.reward.potential(seen), np.float64)

    def begin(self, seen: Mapping[str, npt.NDArray[Any]]) -> None:
        self.before = self.potential(seen)

    def __call__(self, seen: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any], ended: Any) -> Float:
        penalties, over = {name: np.asarray(info[name], np.float64) for name in TERMS}, info.get("_final_info")
        if over is not None:  # the next episode has begun in the same step
            penalties = {name: np.where(over, info["final_info"][name], of) for name, of in penalties.items()}
        rewards = self.reward(penalties)
        if isinstance(self.reward, Shaped):
            now = self.potential(seen)
            reached = now
            if over is not None:
                last = [info["final_obs"][b] for b in np.flatnonzero(over)]
                reached = now.copy()
                reached[over] = self.potential({name: np.stack([one[name] for one in last]) for name in seen})
            rewards = rewards + self.reward.gamma * np.where(ended, 0.0, reached) - self.before
            self.before = now
        return np.asarray(rewards, np.float64)


class Paid(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment with another reward.

    Parameters
    ----------
    env : gym.Env
        A `PlacementEnv`, perhaps wrapped.
    reward : Reward
        What it pays.
    """

    def __init__(self, env: gym.Env[Any, Any], reward: Reward) -> None:
        RecordConstructorArgs.__init__(self, reward=reward)
        super().__init__(env)
        self._pays = _Shaping(reward)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `PlacementEnv.reset`.

        Parameters
        ----------
        seed : int, optional
            Of the random stream.
        options : dict, optional
            As of `PlacementEnv.reset`.
        """
        observation, info = self.env.reset(seed=seed, options=options)
        self._pays.begin({name: np.asarray(of)[None] for name, of in observation.items()})
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """See `PlacementEnv.step`.

        Parameters
        ----------
        action : int
            What to do.
        """
        observation, _, terminated, truncated, info = self.env.step(action)
        batch = {name: np.asarray(of)[None] for name, of in observation.items()}
        (reward,) = np.atleast_1d(self._pays(batch, info, terminated)).tolist()
        return observation, reward, terminated, truncated, info

    def snapshot(self) -> tuple[Any, Float]:
        """See `PlacementEnv.snapshot`; with the potential of the state."""
        return self.env.get_wrapper_attr("snapshot")(), self._pays.before.copy()

    def restore(self, snapshot: tuple[Any, Float]) -> tuple[Any, dict[str, Any]]:
        """See `PlacementEnv.restore`.

        Parameters
        ----------
        snapshot : tuple
            What `snapshot` gave.
        """
        within, before = snapshot
        observation, info = self.env.get_wrapper_attr("restore")(within)
        self._pays.before = before.copy()
        return observation, info


class VectorPaid(VectorWrapper):
    """The vector form of `Paid`.

    Parameters
    ----------
    env : VectorEnv
        A `PlacementVectorEnv`, perhaps wrapped.
    reward : Reward
        What it pays.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], reward: Reward) -> None:
        super().__init__(env)
        self._pays = _Shaping(reward)
        self._over = np.ones(self.num_envs, np.bool_)  # none has begun
        self._goes_on = env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `PlacementVectorEnv.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._pays.begin(observation)
        mask = (options or {}).get("reset_mask")
        self._over = np.zeros(self.num_envs, np.bool_) if mask is None else self._over & ~np.asarray(mask, np.bool_)
        return observation, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """See `PlacementVectorEnv.step`.

        Parameters
        ----------
        actions : array of int
            (B,) what to do.
        """
        observation, _, terminated, truncated, info = self.env.step(actions)
        rewards = np.broadcast_to(self._pays(observation, info, terminated), self.num_envs)
        rewards = np.where(self._over, 0.0, rewards)  # such a step only begins the next episode, or does nothing
        self._over = (terminated | truncated) & (not self._goes_on)
        return observation, rewards, terminated, truncated, info

    def action_masks(self) -> Any:
        """See `PlacementVectorEnv.action_masks`."""
        return self.env.unwrapped.action_masks()  # type: ignore[attr-defined]
