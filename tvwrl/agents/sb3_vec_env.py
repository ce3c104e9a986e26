"""Many environments stepped in one compiled call, as Stable-Baselines3 wants them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.vec_env import VecEnv

from tvwrl.types import InputError


class SB3VecEnv(VecEnv):
    """What `tvwrl.make_vec` returns as a `VecEnv`, for any algorithm of Stable-Baselines3 and sb3-contrib.

    It plays what `make_vec_env` of Stable-Baselines3 would, several times as fast. MaskablePPO finds its masks. Wrap it
    in `VecMonitor` for mean rewards of episodes in the log.

    Parameters
    ----------
    envs : VectorEnv
        Made with `autoreset_mode="SameStep"`, as Stable-Baselines3 expects the next episode in the step that ends one.

    Raises
    ------
    InputError
        For another autoreset mode.

    Examples
    --------
    >>> import tvwrl
    >>> envs = SB3VecEnv(tvwrl.make_vec("Placement-v0", 3, machines=4, workloads=8, autoreset_mode="SameStep"))
    >>> envs.reset()["grid"].shape
    (3, 4, 2, 20, 8)
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        mode = envs.metadata["autoreset_mode"]
        if mode != AutoresetMode.SAME_STEP:
            raise InputError(f"autoreset_mode is {mode.value}: give tvwrl.make_vec(autoreset_mode='SameStep')")
        self.envs = envs
        self.render_mode = None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Any:
        """The first observations of new episodes."""
        seeds: Any = None if all(seed is None for seed in self._seeds) else self._seeds
        observation, _ = self.envs.reset(seed=seeds)
        self._reset_seeds()
        self._reset_options()
        return observation

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Keep the actions (B,) for `step_wait`.

        Parameters
        ----------
        actions : array of int
            (B,) see `PlacementEnv`.
        """
        self._chosen = actions

    def step_wait(self) -> tuple[Any, npt.NDArray[np.float32], npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Observations, rewards (B,), dones (B,) and infos as Stable-Baselines3 wants them."""
        observation, reward, terminated, truncated, more = self.envs.step(self._chosen)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for b in np.flatnonzero(done).tolist():
            cut = bool(truncated[b] and not terminated[b])
            infos[b] = {"terminal_observation": more["final_obs"][b], "TimeLimit.truncated": cut}
        return observation, reward.astype(np.float32), done, infos

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the environments, once for each.

        Parameters
        ----------
        attr_name : str
            Its name.
        indices : int or sequence of int, optional
            Of which environments; default: all.
        """
        found = getattr(self if attr_name == "render_mode" else self.envs, attr_name)
        return [found for _ in self._get_indices(indices)]

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **options: Any) -> list[Any]:
        """What a method of the vector environment returns for each environment, such as `action_masks`.

        Parameters
        ----------
        method_name : str
            Its name.
        *arguments : Any
            Its arguments.
        indices : int or sequence of int, optional
            Of which environments; default: all.
        **options : Any
            Its arguments by name.
        """
        found = getattr(self.envs, method_name)(*arguments, **options)
        return [found[b] for b in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: the environments are one.

        Parameters
        ----------
        attr_name, value, indices
            As of `VecEnv`.
        """
        raise AttributeError(f"{attr_name} cannot be set: the environments are stepped as one")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No environment is.

        Parameters
        ----------
        wrapper_class, indices
            As of `VecEnv`.
        """
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[npt.NDArray[np.uint8] | None]:
        """Pictures, if the vector environment was made with `render_mode="rgb_array"`."""
        pictures: Any = self.envs.render()
        return list(pictures or [])

    def close(self) -> None:
        """Close the vector environment."""
        self.envs.close()
