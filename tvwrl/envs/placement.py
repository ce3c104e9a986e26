"""`tvwrl/Placement-v0`: the TVW-RL environment for one cluster."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from tvwrl.envs import base
from tvwrl.envs.action_masks import action_masks, switched_off
from tvwrl.envs.rendering import Viewer, draw_cluster
from tvwrl.penalties import TERMS
from tvwrl.simulation import GOING, OVER, SEQUENCE, STREAM, TERMINATED, TRUNCATED, Scenario, SimulationState
from tvwrl.types import InputError, Machines, SequenceSet

Observation = dict[str, npt.NDArray[Any]]


class Snapshot(NamedTuple):
    """The state of an environment within an episode; see `PlacementEnv.snapshot`.

    Parameters
    ----------
    state : tuple
        What changes in an episode, and which environment it is of.
    seeded : bool
        Whether its random stream has begun.
    """

    state: SimulationState
    seeded: bool


class PlacementEnv(gym.Env[Observation, np.int64]):
    """Place long-running workloads, whose demand changes over time, on the machines of a cluster.

    ## Description
    Workloads arrive, wait in a queue and run on the machine they are given until they finish; they are never moved,
    unless the scenario has `moves_per_slot`.
    What a workload will use is not known; the agent sees what the machines' workloads used lately, each labelled with
    its equivalence class. From "Scheduling of Time-Varying Workloads Using Reinforcement Learning" (AAAI 2021).

    ## Action Space
    `Discrete(M)`: the machine for the head of the queue. With `hold_action`, `Discrete(M + 1)`; action M places
    nothing in this slot. At most `placements_per_slot` workloads are placed in a slot (None: any number).

    With `choose_from_queue`, `Discrete(Q * M)`, or `Discrete(Q * M + 1)` with `hold_action`: action q * M + m puts the
    workload at place q of the visible queue on machine m, and action Q * M places nothing in this slot. Where nothing
    waits at place q, nothing is placed either; `action_masks` forbids such actions. With `mask="room"` it also forbids
    machines whose measured load leaves no room for the workload's demand in its first slot, unless none does; they can
    be chosen all the same.

    With `moves_per_slot`, the placements of a slot are followed by its moves: the agent says which of the workloads
    that are shown in `running` goes to which machine, as often as `moves_per_slot` allows, or stops. After the numbers
    above, action i * M + m moves the workload in row i to machine m, and the last action of all stops. A move takes
    effect `move_slots` after the current slot. `observation["phase"]` is 1 while moves are due, and `action_masks`
    allows only what is possible then. An action of the other phase, or a move that is not possible, ends the phase.

    ## Observation Space
    A `Dict` of
    | key | shape | type | values |
    |---|---|---|---|
    | `grid` | (M, D, h, C) | uint8 | usage of machine m, resource d: h slots (newest last) by C units, 0..G + 2 |
    | `queue` | (Q, 1 + F) | float32 | first Q waiting workloads: class label 0..G, and what is shown of them |
    | `backlog` | (1,) | float32 | workloads waiting beyond Q |
    | `forecast` | (M, K) | float32 | with `observe_forecast`: sum of the forecasts of what runs on each machine |
    | `running` | (R, 5 + D + K) | float32 | with `moves_per_slot`: the first R workloads that run, the oldest first |
    | `gains` | (R, J + 1) | float32 | with both: what the machine of each of `running` would cost less without it |
    | `phase` | (1,) | float32 | with `moves_per_slot`: 0 while placements are due, 1 while moves are |

    In the grid a running workload that uses u units fills the next u free pixels with its class label 1..G, in order
    of start; 0 is free, G + 1 is beyond the machine's capacity. What does not fit is overshoot and is not drawn.
    G + 2, the first pixels of a row, is background load of no class; it is there with `background` only.
    In the queue label 0 is an empty place. The label is followed by: with `observe_request` (default) the declared
    request in units, 0 where none is declared, and mask bits, 1 where one is (2 D); with `observe_demand` the demand in
    units in the workload's first slot (D); with `observe_forecast` its own forecast (K), whose columns
    `tvwrl.forecasting.segments.Forecast` names, or with `observe_peak` alone its lifetime peaks in the same columns, as
    in `forecast`, and 0 in all others.

    A row of `running` is 0 where there is none; otherwise its class, its machine (after a move that is on its way), the
    slots of it that were measured, 1 if it may be moved now, the resources of which it has seen no overshoot yet, its
    usage in units in the last slot that was measured (D), and with forecasts that of the rest of its life (K).

    A row of `gains` belongs to the same row of `running`, and is in units of the reward: the expected under-utilisation
    that the machine is spared if the workload leaves, in each of the J = 6 segments of a forecast (slots 1, 2 to 3,
    4 to 7, 8 to 15, 16 to 31, 32 to 63 ahead), below 0 where the workload fills a machine that others keep in use; and
    the expected overshoots that it is spared (>= 0). 0 where there is no workload.

    No observation reveals the future beyond a workload's first slot: labels of waiting workloads come from their
    metadata, labels and forecasts of running ones from what they have used so far.

    ## Clock
    A decision in slot t sees the usage of slot t: what departs at t is gone, and what is placed at t counts in t. After
    a step the clock runs until the next decision is due; `info["slots"]` is the number of slots passed (0 where more
    may be placed in the same slot), for discounting per slot.

    With `usage_delay` = d > 0, measured usage is late: in slot t the grid ends with slot t - d, as it was when that
    slot closed. Workloads placed since are missing from it; workloads that left since are still in it. Forecasts of
    running workloads are those made d slots ago, or at their placement if that is later. Queue and rewards are not
    delayed, nor is the mask, unless it is `room`.

    ## Rewards
    Minus the sum of these penalties (each >= 0, in `info`), over the slots passed:
    - `contention`: K_c x sum over machines, resources and pairs of their workloads of the product of their demands;
    - `under_utilisation`: sum over used machines and resources of (unused units) ** K_u; K_u = 0 switches it off;
    - `overshoot`: K_o for each workload and resource the first time its machine's load exceeds the capacity while it
      runs there (`overshoot_per="machine"`: once per machine and resource in an episode);
    - `wait`: K_w x workloads that have arrived and are not placed by the end of the slot;
    - `moves`: K_m x moves that were decided in the slot; always 0 without `moves_per_slot`.

    ## Starting State
    An empty cluster at the first decision of a sequence drawn from the environment's own random stream;
    `reset(options={"sequence": i})` picks sequence i.

    ## Episode End
    Terminated when all workloads of the sequence have finished; truncated after `max_slots` slots (0: never).

    ## Version History
    - v0: initial version.

    Parameters
    ----------
    sequences : SequenceSet or int, optional
        The arrival sequences, or how many to draw from the embedded synthetic population; default: 100.
    cluster : Machines, optional
        The machines; default: the scenario's.
    scenario : Scenario, optional
        The parameters; default: the paper's configuration, 10 machines of 8 units, h = 20, load 0.5, K_c 0.1, K_u 3,
        K_o 30000, K_w 50.
    render_mode : str, optional
        None, rgb_array or human.
    **changes : Any
        Any field of `Scenario` by name, as in `K_u=2`.

    Raises
    ------
    InputError
        Names the field that is wrong, and its limit.

    Examples
    --------
    >>> env = gym.make("tvwrl:tvwrl/Placement-v0", load=0.8, machine_types=("6x8,8", "4x16,8"))  # doctest: +SKIP
    >>> observation, info = env.reset(seed=0)  # doctest: +SKIP
    >>> observation, reward, terminated, truncated, info = env.step(3)  # doctest: +SKIP
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "human"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        sequences: SequenceSet | int | None = None,
        cluster: Machines | None = None,
        scenario: Scenario | None = None,
        render_mode: str | None = None,
        **changes: Any,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise InputError(f"unknown render_mode '{render_mode}'; valid: rgb_array, human")
        self.simulation = base.build_simulation(1, sequences, cluster, scenario, changes)
        self.render_mode = render_mode
        self.observation_space = base.observation_space(self.simulation)  # type: ignore[assignment]
        self.action_space = spaces.Discrete(self.simulation.actions)
        self._actions = np.zeros(1, np.int64)
        self._off = switched_off(self.simulation)
        self._limit = int(self.action_space.n)
        self._seeded = False
        self._viewer: Viewer | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Parameters
        ----------
        seed : int, optional
            Of the environment's own random stream.
        options : dict, optional
            `{"sequence": i}` picks the arrival sequence.
        """
        options = base.check_options(options, "sequence")
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            entropy = int(self.np_random.integers(2**63)) if seed is None else seed
            self.simulation.state.counters[0, STREAM] = base.streams_of(entropy, 1)[0]
            self._seeded = True
        sequence = base.check_sequence(self.simulation, options.get("sequence", -1))
        self.simulation.reset(sequence)
        self._draw()
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Place the workload on the machine that the action names, then run the clock until the next decision.

        Parameters
        ----------
        action : np.int64 or int
            See the class.

        Raises
        ------
        InputError
            For an action that does not exist or names a machine that is switched off, and after the episode's end.
        """
        state = self.simulation.state
        action = base.check_action(action, self._limit)
        if action in self._off:
            raise InputError(f"action is {action}: that machine is switched off (see action_masks)")
        if state.counters[0, OVER] != GOING:
            raise InputError("the episode is over: call reset() first")
        self._actions[0] = action
        self.simulation.step(self._actions)
        if self.render_mode == "human":
            self._draw()
        info = self._info()
        reward = -sum(info[name] for name in TERMS)
        over = state.counters[0, OVER]
        return self._observation(), reward, bool(over == TERMINATED), bool(over == TRUNCATED), info

    def __deepcopy__(self, memo: dict[int, Any]) -> PlacementEnv:
        """A copy that goes on by itself; it shares the sequences, and has no window."""
        twin = object.__new__(type(self))
        shared = {"spec", "task", "_viewer"}
        for name, value in vars(self).items():
            setattr(twin, name, value if name in shared else copy.deepcopy(value, memo))
        twin._viewer = None
        return twin

    def snapshot(self) -> Snapshot:
        """The complete state of the episode, from which `restore` goes on as often as one likes.

        The environment's own random stream is part of it. In a tree search: take a snapshot at a node, and restore it
        before each action to be tried. Wrappers have states of their own, so call it on `env.unwrapped`.

        Examples
        --------
        >>> env = PlacementEnv(2, machines=4, workloads=8)
        >>> _ = env.reset(seed=0)
        >>> node = env.snapshot()
        >>> first = env.step(0)[1]
        >>> _ = env.restore(node)
        >>> env.step(0)[1] == first
        True
        """
        return Snapshot(self.simulation.snapshot(), self._seeded)

    def restore(self, snapshot: Snapshot) -> tuple[Observation, dict[str, Any]]:
        """Go on from a snapshot; the observation and `info` are those that were current then.

        Parameters
        ----------
        snapshot : Snapshot
            What `snapshot` gave, of this environment or of one made alike.

        Raises
        ------
        InputError
            For a snapshot of another environment.
        """
        self.simulation.go_back(snapshot.state)
        self._seeded = snapshot.seeded
        return self._observation(), self._info()

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """(actions,) the allowed actions, in the form that sb3-contrib expects; see `action_masks.action_masks`."""
        mask: npt.NDArray[np.bool_] = action_masks(self.simulation)[0]
        return mask

    def _observation(self) -> Observation:
        return {name: seen[0].copy() for name, seen in base.observation(self.simulation).items()}

    def _info(self) -> dict[str, Any]:
        *penalties, slots = self.simulation.state.totals[0].tolist()
        info: dict[str, Any] = dict(zip(TERMS, penalties, strict=True))
        info["slots"] = int(slots)
        info["sequence"] = int(self.simulation.state.counters[0, SEQUENCE])
        return info

    def _draw(self) -> None:
        if self.render_mode == "human":
            self._viewer = self._viewer or Viewer()
            self._viewer.show(draw_cluster(base.picture(self.simulation)))

    def render(self) -> npt.NDArray[np.uint8] | None:
        """The cluster as an RGB array (`rgb_array`); with `human` the window is kept up to date by reset and step."""
        if self.render_mode != "rgb_array":
            return None
        return draw_cluster(base.picture(self.simulation))

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._viewer is not None:
            self._viewer.close()
