"""Which actions an environment allows: those that name something that waits, and a machine that may take it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvwrl.simulation import MOVE_PHASE, PHASE, RUNNING, WAITING, Simulation


def switched_off(simulation: Simulation) -> frozenset[int]:
    """Actions that name a machine of capacity 0, which takes no workloads."""
    off = ~simulation.machines.capacity.any(axis=1)
    held = np.zeros(int(simulation.scenario.hold_action), np.bool_)
    every = np.concatenate([np.tile(off, simulation.scenario.places), held, np.tile(off, simulation.shown_running)])
    return frozenset(np.flatnonzero(every).tolist())


def action_masks(simulation: Simulation) -> npt.NDArray[np.bool_]:
    """(B, actions) allowed actions: what waits (where nothing does, as after an episode's end, place 0) on machines
    that are not switched off (capacity 0) and that the scenario's `mask` allows, and holding while something runs, as
    there is nothing to wait for on an empty cluster. While moves are due: those that are possible, and to stop."""
    masks = np.ones((simulation.batch, simulation.actions), np.bool_)
    waits = np.arange(simulation.scenario.places) < np.maximum(simulation.state.counters[:, WAITING, None], 1)
    allowed = waits[:, :, None] & simulation.machines.capacity.any(axis=1)
    if simulation.scenario.mask == "room":
        room = allowed & simulation.room_now()
        allowed = np.where(room.any(axis=2, keepdims=True), room, allowed)
    masks[:, : simulation.placements] = allowed.reshape(simulation.batch, -1)
    first = simulation.placements + simulation.scenario.hold_action
    if simulation.scenario.hold_action:
        masks[:, first - 1] = simulation.state.counters[:, RUNNING] > 0
    if simulation.shown_running:
        moves_due = simulation.state.counters[:, PHASE] == MOVE_PHASE
        masks[moves_due, :first] = False
        masks[:, first:-1] = simulation.move_masks().reshape(simulation.batch, -1)
        masks[:, -1] = moves_due
    return masks
