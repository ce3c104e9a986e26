"""DeepRM's environment: the cluster is one machine, workloads need their peak throughout, durations are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.agents.deeprm import step_kernels
from tvwrl.checks import at_least
from tvwrl.envs import check_actions, check_options, check_sequence
from tvwrl.simulation import OVER, SLOTS, TERMINATED, TRUNCATED, Scenario, Simulation
from tvwrl.types import Float, InputError, Machines, SequenceSet

Seen = dict[str, npt.NDArray[np.float32]]


class DeepRMVectorEnv:
    """B environments in which an agent chooses the next workload; paper, "Baselines": DeepRM's inputs, state, rewards.

    Action: 0..Q-1 starts the workload at that place of the queue, Q (void) lets the slot end. An empty place, or a
    workload whose peak exceeds what is left of the cluster, is void too. Several may start in a slot, up to
    `placements_per_slot`. A step is one decision; the clock runs on while no workload waits.

    Observation: see `observation`. Reward per slot: minus `slowdown`, the sum of 1 / duration over all workloads that
    wait or run (Mao et al. 2016, Section 3.2), minus `unused`, the unreserved share of the cluster's resources times
    `unused_weight` (the paper's modification; its weight is not given). `info` has both terms (B,) and `slots` (B,).
    """

    terms: tuple[str, ...] = ("slowdown", "unused")

    def __init__(
        self,
        num_envs: int,
        sequences: SequenceSet,
        machines: Machines,
        scenario: Scenario,
        slots_ahead: int,
        unused_weight: float,
        max_slots: int | None = None,
    ) -> None:
        at_least(1, slots_ahead=slots_ahead)
        whole = Machines(machines.capacity.sum(axis=0, keepdims=True), machines.resources)
        hidden = dict.fromkeys(("observe_request", "observe_demand", "observe_forecast", "observe_peak"), False)
        # It sees only reservations, which are never late
        plain = replace(scenario, K_c=0.0, K_u=0.0, K_o=0.0, K_w=0.0, usage_delay=0, **hidden)  # type: ignore[arg-type]
        self.simulation = Simulation(_at_peaks(sequences), whole, plain, num_envs, grid=False, max_slots=max_slots)
        self.num_envs, self.machines = num_envs, machines
        resources, places = len(machines.resources), scenario.queue
        self.shapes: dict[str, Any] = {
            "cluster": [slots_ahead, resources],
            "queue": [places, resources + 1],
            "actions": places + 1,
        }
        self._seen = step_kernels.Seen(
            cluster=np.zeros((num_envs, slots_ahead, resources), np.float32),
            queue=np.zeros((num_envs, places, resources + 1), np.float32),
            backlog=np.zeros((num_envs, 1), np.float32),
        )
        self._terms, self._weights = np.zeros((num_envs, 2)), np.array([1.0, unused_weight])

    def reset(self, *, options: dict[str, Any]) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode in every environment, on the sequences (B,) of `options["sequence"]`."""
        chosen = check_sequence(self.simulation, check_options(options, "sequence")["sequence"])
        if chosen.min() < 0:  # nothing is drawn at random here
            last = len(self.simulation.sequences) - 1
            raise InputError(f"options['sequence'] is {chosen.tolist()}: must be 0 to {last}")
        step_kernels.drive(self.simulation.state, self._seen, self._terms, True, chosen)
        return self._observation(), self._info()

    def step(
        self, actions: npt.NDArray[np.int64]
    ) -> tuple[Seen, Float, npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """One decision (B,) in every environment: observation, reward, terminated, truncated, info."""
        actions = check_actions(actions, self.num_envs, self.shapes["actions"])
        step_kernels.drive(self.simulation.state, self._seen, self._terms, False, actions)
        over = self.simulation.state.counters[:, OVER]
        info = self._info()
        reward = -(info["slowdown"] + info["unused"])
        return self._observation(), reward, over == TERMINATED, over == TRUNCATED, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """(B, Q + 1) all actions are allowed; those that cannot start a workload are void."""
        return np.ones((self.num_envs, self.shapes["actions"]), np.bool_)

    def costs(self) -> Float:
        """(B, 2) the terms since the last decision."""
        costs: Float = self._terms * self._weights
        return costs

    def close(self) -> None:
        """Nothing to release."""

    def _observation(self) -> Seen:
        return observation(self._seen.cluster, self._seen.queue, self._seen.backlog, self.machines)

    def _info(self) -> dict[str, Any]:
        costs = self.costs()
        slots = self.simulation.state.totals[:, SLOTS].astype(np.int64)
        return {name: costs[:, i] for i, name in enumerate(self.terms)} | {"slots": slots}


def observation(
    cluster: npt.NDArray[Any], queue: npt.NDArray[Any], backlog: npt.NDArray[Any], machines: Machines
) -> Seen:
    """DeepRM's observation in shares, from units and slots (`step_kernels.Seen`); float32, new arrays.

    `cluster` (B, T, D) reserved share of the cluster per slot ahead; `queue` (B, Q, D + 1) peak as a share of a mean
    machine and duration as a share of T, 0 in an empty place; `backlog` (B, 1) the number waiting beyond Q. This is
    DeepRM's image reduced to counts, since pixels need no identity in a cluster without machines; its published code
    has a similar compact representation.
    """
    scale = np.append(machines.capacity.mean(axis=0), cluster.shape[1])
    return {
        "cluster": (cluster / machines.capacity.sum(axis=0)).astype(np.float32),
        "queue": (queue / scale).astype(np.float32),
        "backlog": np.array(backlog, np.float32),
    }


def _at_peaks(sequences: SequenceSet) -> SequenceSet:
    """The sequences with every workload's peak in all of its slots, because DeepRM takes demand to be constant.

    Background load is left out: it is not reserved, and DeepRM sees only reservations.
    """
    peak = sequences.demand.max(axis=2, keepdims=True)
    runs = np.arange(sequences.demand.shape[2]) < sequences.length[..., None]
    return replace(sequences, demand=np.where(runs[..., None], peak, 0.0), background=None)
