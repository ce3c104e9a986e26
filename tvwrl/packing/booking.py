"""Booked load: what runs on machines over time, and where there is room.

The load is a ring over time: `load[..., t % H, :]` holds slot t for the H slots from now on. The slot that has passed
is cleared, so nothing has to be taken off again when a workload finishes.
"""

from __future__ import annotations

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.fit import exceeds
from tvwrl.types import Bool, Float


@inner
def book(load: Float, slot: int, demand: Float, length: int) -> None:
    """Add `demand` (L, D) of slots `slot .. slot + length - 1` to one machine's ring `load` (H, D)."""
    horizon, resources = load.shape
    row = slot % horizon
    for age in range(length):
        for d in range(resources):
            load[row, d] += demand[age, d]
        row += 1
        if row == horizon:
            row = 0


@njit
def room_now(load: Float, demand: Float, capacity: Float) -> Bool:
    """(M,) bool: machines whose `load` (M, D) leaves room for `demand` (D,) under `capacity` (M, D)."""
    machines, resources = capacity.shape
    room = np.ones(machines, np.bool_)
    for m in range(machines):
        for d in range(resources):
            if exceeds(load[m, d] + demand[d], capacity[m, d]):
                room[m] = False
                break
    return room


@njit
def room_ahead(load: Float, slot: int, demand: Float, capacity: Float) -> Bool:
    """(M,) bool: machines whose booked `load` (M, H, D) has room for `demand` (L, D) in every slot from `slot` on."""
    machines, horizon, resources = load.shape
    room = np.ones(machines, np.bool_)
    for m in range(machines):
        for age in range(len(demand)):
            row = (slot + age) % horizon
            for d in range(resources):
                if exceeds(load[m, row, d] + demand[age, d], capacity[m, d]):
                    room[m] = False
            if not room[m]:
                break
    return room


@njit
def residual_ahead(load: Float, slot: int, length: int, capacity: Float) -> Float:
    """(M,) unused share of capacity, summed over resources and the next `length` slots of the ring (M, H, D)."""
    machines, horizon, resources = load.shape
    residual = np.zeros(machines)
    for m in range(machines):
        for age in range(length):
            row = (slot + age) % horizon
            for d in range(resources):
                if capacity[m, d] > 0:  # else it is switched off
                    residual[m] += max(capacity[m, d] - load[m, row, d], 0.0) / capacity[m, d]
    return residual
