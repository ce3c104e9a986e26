"""Expected-Cost: the machine where a workload is expected to cost least, by forecasts and the weights of the reward."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numba import njit

from tvwrl.ec.forecast import SEGMENTS
from tvwrl.penalties import under_utilisation
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import Float, Placement, Workload

PATIENCE = 600.0  # slots of waiting that an overshoot has to be worth; the best of 200 to 900 on validation sequences
LEAST_SPREAD = 0.002  # variance, share of peak_units squared; what a forecast without any doubt is taken for
LEAST_PEAK_SPREAD = 1e-6  # the same of peaks, which may be known
ROUNDING = 1 / 400  # share of peak_units by which a table's peak of a workload may seem too large
LEAST_CHANCE = 0.05  # of running, by which an expected demand is divided to tell that of what runs
UNBOUNDED = 1e9  # a peak that rules nothing out
LENGTHS = np.array([last - first + 1.0 for first, last in SEGMENTS])  # slots
OVERSHOOT, UNUSED = 0, 1  # columns of `expected_costs`
FAR, PER_DEVIATION = 5.0, 100  # a table of the normal distribution: to how many deviations, in which steps
ABOVE = np.array(
    [0.5 * math.erfc((i / PER_DEVIATION - FAR) / math.sqrt(2)) for i in range(int(2 * FAR) * PER_DEVIATION + 1)]
)


class ExpectedCost:
    """First in, first out; the head of the queue goes to the machine with room now that `expected_costs` finds the
    cheapest. It waits while even there the overshoot to be expected costs more than `patience` slots of waiting.

    Lifetime peaks, which a scenario may show in place of their forecast, it knows only with `peaks`.
    """

    looks_at_grid = False
    needs_forecasts = True

    def __init__(self, name: str = "expected-cost", patience: float = PATIENCE, peaks: bool = False) -> None:
        self.name, self.patience, self.peaks = name, patience, peaks

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Take the weights of the penalties and the sizes of the machines."""
        scenario = cluster.simulation.scenario
        self._sizes = cluster.capacity / scenario.peak_units
        self._weights = scenario.penalty_weights().per_resource(cluster.capacity.shape[1])
        self._limit = self.patience * scenario.K_w
        self._units = float(scenario.peak_units)
        table = cluster.simulation.sequences.forecast
        assert table is not None, "asked for forecasts of sequences without any"
        self._unknown = table.declared & (not self.peaks)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """Place from the head until one has to wait."""
        for workload in pending:
            room = cluster.room_now(workload)
            if not room.any():
                return
            load, own = (
                np.where(self._unknown, UNBOUNDED, forecast)
                for forecast in (cluster.forecast, cluster.forecast_of(workload))
            )
            costs = expected_costs(load[None], own[None], self._sizes[None], self._units, self._weights)[0]
            machine = int(np.where(room, costs.sum(axis=1), np.inf).argmin())
            if costs[machine, OVERSHOOT] > self._limit:
                return
            yield Placement(workload, machine)


def expected_costs(load: Any, own: Any, sizes: Any, units: float, weights: Float) -> Float:
    """(B, M, 2) what a workload adds to a machine's penalties of overshoot and of under-utilisation if placed there.

    In B clusters: forecasts `load` (B, M, K) of what runs and `own` (B, K) of the workload, see `Forecast`; `sizes`
    (B, M, D) capacities in `peak_units`, which are `units`; `weights` (4, D) as of `PenaltyWeights.per_resource`. Loads
    of a segment are taken as normal and segments as independent; if a load passes the capacity, all that run there are
    charged K_o each. Of the slots that forecasts speak of, so without the current one; background is not foreseen.
    """
    out = np.zeros((*sizes.shape[:2], 2))
    _add_costs(load, own, sizes, units, weights, out)
    return out


@njit(cache=True)
def _add_costs(loads, owns, sizes, units, weights, out):  # type: ignore[no-untyped-def]
    clusters, machines, resources = sizes.shape
    wide = len(LENGTHS) * resources
    alive = 3 * wide + 2 * resources
    for b in range(clusters):
        own = owns[b]
        for m in range(machines):
            load = loads[b, m]
            running, more = float(load[alive]), float(own[alive])
            for d in range(resources):
                size = sizes[b, m, d]
                if running > 0 and size > 0:  # a workload alone never passes the capacity
                    before = _passes(load, own, 0.0, size, d, resources)
                    after = max(_passes(load, own, 1.0, size, d, resources), before)  # doubt alone promises nothing
                    out[b, m, OVERSHOOT] += weights[2, d] * ((running + more) * after - running * before)
                for j in range(len(LENGTHS)):
                    c = 2 * wide + j * resources + d
                    now = _unused(load[c], load[alive + j], size, units, weights[1, d])
                    then = _unused(load[c] + own[c], load[alive + j] + own[alive + j], size, units, weights[1, d])
                    out[b, m, UNUSED] += LENGTHS[j] * (then - now)


@njit(cache=True, inline="always")
def _unused(mean, alive, size, units, exponent):  # type: ignore[no-untyped-def]
    """Penalty of under-utilisation to be expected in a slot; `mean` falls with the chance that anything runs."""
    chance = min(float(alive), 1.0)
    return chance * under_utilisation(max(size - mean / max(chance, LEAST_CHANCE), 0.0) * units, exponent)


@njit(cache=True)
def _passes(load, own, share, size, d, resources):  # type: ignore[no-untyped-def]
    """Chance that the load of resource d, with `share` (0 or 1) of `own`, ever passes the capacity."""
    wide = len(LENGTHS) * resources
    peak, alive = 3 * wide + d, 3 * wide + 2 * resources
    room = size - load[peak] - share * own[peak] + ROUNDING * (load[alive] + share * own[alive])
    ever = _above(room, max(load[peak + resources] + share * own[peak + resources], LEAST_PEAK_SPREAD))
    if ever == 0.0:
        return 0.0
    stays = 1.0
    for j in range(len(LENGTHS)):
        c = j * resources + d
        room = size - load[c] - share * own[c]
        stays *= 1.0 - _above(room, max(load[wide + c] + share * own[wide + c], LEAST_SPREAD))
    return min(1.0 - stays, ever)


@njit(cache=True, inline="always")
def _above(room, variance):  # type: ignore[no-untyped-def]
    """Chance that a normal variable of that variance lies more than `room` above its mean, to 1e-5."""
    if room * room >= FAR * FAR * variance:  # most machines are far from it, and a root takes time
        return 0.0 if room > 0 else 1.0
    place = (room / math.sqrt(variance) + FAR) * PER_DEVIATION
    whole = min(int(place), len(ABOVE) - 2)
    return ABOVE[whole] + (place - whole) * (ABOVE[whole + 1] - ABOVE[whole])
