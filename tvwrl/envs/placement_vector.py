"""The vector form of `tvwrl/Placement-v0`: thousands of clusters stepped by one compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tvwrl.envs import base
from tvwrl.envs.action_masks import action_masks, switched_off
from tvwrl.envs.rendering import draw_cluster
from tvwrl.penalties import TERMS
from tvwrl.simulation import GOING, OVER, SEQUENCE, SLOTS, STREAM, TERMINATED, TRUNCATED, WAIT, Scenario
from tvwrl.types import InputError, Machines, SequenceSet

Array = npt.NDArray[Any]


class PlacementVectorEnv(VectorEnv[dict[str, Array], Array, Array]):
    """B independent `tvwrl/Placement-v0` environments on the batched core; see `PlacementEnv` for the specification.

    Environment b seeded with `reset(seed=s)` is the single environment seeded with s + b. `info` has each penalty (B,),
    `slots` (B,) int and `sequence` (B,) int, with Gymnasium's `_key` masks.

    Parameters
    ----------
    num_envs : int, default 1
        B.
    sequences : SequenceSet or int, optional
        See `PlacementEnv`.
    cluster : Machines, optional
        See `PlacementEnv`.
    scenario : Scenario, optional
        See `PlacementEnv`.
    autoreset_mode : AutoresetMode or str, default AutoresetMode.NEXT_STEP
        NextStep: the step after an episode's end ignores the action, begins the next episode and returns reward 0.
        SameStep: the step that ends an episode begins the next one, whose first observation and `info` it returns;
        those of the end are in `info["final_obs"]`, (B,) dictionaries or None, and `info["final_info"]`.
        Disabled: a finished environment stands still, reward 0, until `reset(options={"reset_mask": mask})`.
    copy : bool, default True
        False returns views of the simulator's memory, valid until the next call.
    render_mode : str, optional
        None or rgb_array.
    **changes : Any
        Any field of `Scenario` by name.

    Examples
    --------
    >>> envs = gym.make_vec("tvwrl:tvwrl/Placement-v0", num_envs=1000)  # doctest: +SKIP
    >>> observation, info = envs.reset(seed=0)  # doctest: +SKIP
    >>> observation, reward, terminated, truncated, info = envs.step(envs.action_space.sample())  # doctest: +SKIP
    """

    terms: tuple[str, ...] = TERMS  # of the reward, as `info` names them
    metadata: dict[str, Any] = {  # noqa: RUF012 - declared so by Gymnasium
        "render_modes": ["rgb_array"],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        sequences: SequenceSet | int | None = None,
        cluster: Machines | None = None,
        scenario: Scenario | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
        **changes: Any,
    ) -> None:
        mode = AutoresetMode(autoreset_mode)
        if render_mode not in (None, "rgb_array"):
            raise InputError(f"unknown render_mode '{render_mode}' for the vector environment; valid: rgb_array")
        self.metadata = {**type(self).metadata, "autoreset_mode": mode}
        self.simulation = base.build_simulation(num_envs, sequences, cluster, scenario, changes)
        self.num_envs, self.render_mode = num_envs, render_mode
        self._mode, self._copy = mode, copy
        self.known_at_end: dict[str, Array] = {}  # what `known_now` said when episodes ended in the last step
        self.single_observation_space = base.observation_space(self.simulation)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = spaces.Discrete(self.simulation.actions)
        self._actions = int(self.single_action_space.n)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._everywhere = np.ones(num_envs, np.bool_)
        self._off = switched_off(self.simulation)
        self._seeded = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """Begin episodes.

        Parameters
        ----------
        seed : int or Sequence[int | None], optional
            Of the first environment, or (B,) of each.
        options : dict, optional
            `reset_mask` (B,): in which environments, by default all; `sequence`: one or (B,) of the arrival sequences.
        """
        options = base.check_options(options, "sequence", "reset_mask")
        mask = np.asarray(options.get("reset_mask", self._everywhere), np.bool_)
        if mask.shape != (self.num_envs,):
            raise InputError(f"options['reset_mask'] has shape {mask.shape}: must be ({self.num_envs},)")
        chosen = base.check_sequence(self.simulation, options.get("sequence", -1))
        self._seed(seed, mask if self._seeded else self._everywhere)
        self.simulation.reset(chosen, mask)
        return self._observation(), self._info(mask)

    def _seed(self, seed: int | Sequence[int | None] | None, where: npt.NDArray[np.bool_]) -> None:
        streams = self.simulation.state.counters[:, STREAM]
        if seed is not None and not isinstance(seed, int | np.integer):
            if len(seed) != self.num_envs:
                raise InputError(f"seed has {len(seed)} entries for {self.num_envs} environments")
            own = np.array(seed, dtype=object)
            given = own != None  # noqa: E711 - element by element
            drawn = self.np_random.integers(2**63, size=self.num_envs)
            seeds = np.where(given, own, drawn).astype(np.uint64)
            chosen = where & given if self._seeded else where
            streams[chosen] = base.mix_seeds(seeds)[chosen]
        elif seed is not None:
            super().reset(seed=int(seed))
            streams[where] = base.streams_of(int(seed), self.num_envs)[where]
        elif not self._seeded:
            streams[:] = self.np_random.integers(2**63, size=self.num_envs)
        self._seeded = True

    def step(self, actions: Array) -> tuple[dict[str, Array], Array, Array, Array, dict[str, Any]]:
        """One decision in every environment.

        Parameters
        ----------
        actions : Array
            (B,) see `PlacementEnv`.
        """
        actions = base.check_actions(actions, self.num_envs, self._actions)
        if self._off and np.isin(actions, list(self._off)).any():
            raise InputError(f"actions name a machine that is switched off ({sorted(self._off)}; see action_masks)")
        if not self._seeded:
            raise InputError("no episode has begun: call reset() first")
        self.simulation.step(actions, self._mode == AutoresetMode.NEXT_STEP)
        over = self.simulation.state.counters[:, OVER].copy()
        reward = -self.simulation.state.totals[:, :SLOTS].sum(axis=1)
        more = self._begin_again(over != GOING) if self._mode == AutoresetMode.SAME_STEP else {}
        info = self._info(self._everywhere) | more
        return self._observation(), reward, over == TERMINATED, over == TRUNCATED, info

    def _begin_again(self, over: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """Begin the next episode where one is over; returns what was seen and known of those that ended."""
        if not over.any():
            return {}
        seen, final = base.observation(self.simulation), np.full(self.num_envs, None, object)
        self.known_at_end = self.simulation.known_now()
        for b in np.flatnonzero(over).tolist():
            final[b] = {name: array[b].copy() for name, array in seen.items()}
        ends = {"final_obs": final, "_final_obs": over, "final_info": self._info(over), "_final_info": over.copy()}
        self.simulation.reset(np.full(self.num_envs, -1), over)
        return ends

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """(B, actions) the allowed actions; see `action_masks.action_masks`."""
        return action_masks(self.simulation)

    def costs(self) -> npt.NDArray[np.float64]:
        """(B, M + 1) the penalties since the last decision that each machine caused, and those of waiting."""
        state = self.simulation.state
        return np.column_stack([state.costs, state.totals[:, WAIT]])

    def _observation(self) -> dict[str, Array]:
        seen = base.observation(self.simulation)
        return {name: array.copy() for name, array in seen.items()} if self._copy else seen

    def _info(self, where: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """(B,) arrays, 0 where this call did nothing, each with Gymnasium's `_key` mask."""
        totals = self.simulation.state.totals
        info: dict[str, Any] = {name: totals[:, i].copy() for i, name in enumerate(TERMS)}
        info["slots"] = totals[:, SLOTS].astype(np.int64)
        info["sequence"] = self.simulation.state.counters[:, SEQUENCE].copy()
        if where is not self._everywhere:
            info = {name: np.where(where, values, 0) for name, values in info.items()}
        return info | {f"_{name}": where.copy() for name in info}

    def render(self) -> tuple[npt.NDArray[np.uint8], ...] | None:
        """One RGB array per environment, drawn one after another."""
        if self.render_mode != "rgb_array":
            return None
        return tuple(draw_cluster(base.picture(self.simulation, b)) for b in range(self.num_envs))
