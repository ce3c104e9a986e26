"""Bounds that count: volumes, sizes, and applications by themselves."""

from __future__ import annotations

import math
import time

import numpy as np

from tvwrl.packing import machines_that_hold, up
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.types import Float, Int

FUNCTIONS = 12  # dual feasible functions u^(k) per resource and time


def largest(fleet: Fleet) -> Float:
    """(D,) the largest capacity of each resource, enlarged by the tolerance of fits."""
    from tvwrl.packing import enlarged

    return enlarged(fleet.capacity.max(axis=0))


def most_per_machine(instance: Instance, fleet: Fleet) -> Int:
    """(A,) most replicas of each application on one machine: by room, self limit and number (Eq. 1, with floors)."""
    with np.errstate(divide="ignore"):
        room = np.floor(largest(fleet) / instance.peak).min(axis=1)
    limits = np.minimum(instance.affinity.own, instance.replicas)
    most: Int = np.minimum(room, limits).astype(np.int64)
    return most


def machines_if_alone(instance: Instance, fleet: Fleet) -> Int:
    """(A,) fewest machines that each application would need if there were no others."""
    machines: Int = -(-instance.replicas // most_per_machine(instance, fleet))
    return machines


def by_volume(instance: Instance, fleet: Fleet) -> int:
    """Eq. 4 at every time, with different machines counted in the order in which they are opened."""
    columns = zip(instance.total.max(axis=0), fleet.capacity.T, strict=True)
    return max(1, *(machines_that_hold(peak, capacity, -1) for peak, capacity in columns))


def by_self_limits(instance: Instance, fleet: Fleet) -> int:
    """Machines that the application which needs most of them would need if there were no others."""
    return int(machines_if_alone(instance, fleet).max())


def by_sizes(instance: Instance, fleet: Fleet, least: int = 1, deadline: float = math.inf) -> tuple[int, bool]:
    """Dual feasible functions; resources and times that cannot exceed `least` are skipped.

    The second value says whether all were tried before `deadline`, a reading of time.monotonic().
    """
    from tvwrl.packing import fewest_bins

    capacity, count = largest(fleet), instance.replicas
    best = float(least)
    for d in range(len(capacity)):
        for h in range(instance.demand.shape[1]):
            if time.monotonic() > deadline:
                return up(best), False
            share = instance.demand[:, h, d] / capacity[d]
            if not count[share > 0.5].any() or count @ np.where(share > 0.5, 1.0, share) <= best:
                pass  # without large replicas `fewest_bins` gives no more than the volume
            else:
                order = np.argsort(share)
                best = max(best, fewest_bins(np.repeat(share[order], count[order])))
            best = max(best, *(float(count @ _stepped(share, k)) for k in range(1, FUNCTIONS + 1)))
    return up(best), True


def _stepped(share: Float, k: int) -> Float:
    """u^(k) of Fekete and Schepers (2001): no k + 1 shares above 1 / (k + 1) fit a machine.

    A share within rounding of a multiple of 1 / (k + 1) counts as that multiple.
    """
    times = share * (k + 1)
    near = np.abs(times - np.rint(times)) < 1e-9
    stepped: Float = np.where(near, share, np.floor(times) / k)
    return stepped
