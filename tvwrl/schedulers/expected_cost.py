"""Expected-Cost: the machine where a workload is expected to cost least, by forecasts and the weights of the reward."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numba import njit

from tvwrl.ec.forecast import SEGMENTS
from tvwrl.simulation.cluster import Cluster
from tvwrl.types import Float, Placement, Workload

PATIENCE = 600.0  # slots of waiting that an overshoot has to be worth; the best of 200 to 900 on validation sequences
LEAST_SPREAD = 0.002  # variance, share of peak_units squared; what a forecast without any doubt is taken for
ROUNDING = 0.02  # share of peak_units by which known peaks, which a table rounds, may seem too large together
LENGTHS = np.array([last - first + 1.0 for first, last in SEGMENTS])  # slots
OVERSHOOT, UNUSED = 0, 1  # columns of `expected_costs`


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
            own = np.where(self._unknown, np.inf, cluster.forecast_of(workload))  # an infinite peak rules nothing out
            costs = expected_costs(cluster.forecast, own, self._sizes, self._units, self._weights)
            machine = int(np.where(room, costs.sum(axis=1), np.inf).argmin())
            if costs[machine, OVERSHOOT] > self._limit:
                return
            yield Placement(workload, machine)


def expected_costs(forecast: Any, own: Any, sizes: Any, units: float, weights: Float) -> Float:
    """(M, 2) what a workload adds to the penalties of overshoot and of under-utilisation of a machine if placed there.

    `forecast` (M, K) of what runs and `own` (K,) of the workload, see `Forecast`; `sizes` (M, D) capacities in
    `peak_units`, which are `units`; `weights` (4, D) as of `PenaltyWeights.per_resource`. Loads of a segment are taken
    as normal and segments as independent. If a load passes the capacity, all that run there are charged (K_o each).
    """
    out = np.zeros((len(sizes), 2))
    for m in range(len(sizes)):
        add_costs(forecast[m], own, sizes[m], units, weights, out[m])
    return out


@njit(cache=True)
def add_costs(load, own, size, units, weights, out):  # type: ignore[no-untyped-def]
    """`expected_costs` of one machine, (K,), (K,), (D,) and `out` (2,)."""
    resources, segments = len(size), len(LENGTHS)
    wide = segments * resources
    alive = 3 * wide + 2 * resources
    running, more = float(load[alive]), float(own[alive])
    for d in range(resources):
        if running > 0 and size[d] > 0:  # a workload alone never passes the capacity
            before = running * _passes(load, load, 0.0, size[d], d, resources)
            out[OVERSHOOT] += weights[2, d] * (
                (running + more) * _passes(load, own, 1.0, size[d], d, resources) - before
            )
        for j in range(segments):
            c = 2 * wide + j * resources + d
            now = _unused(load[c], load[alive + j], size[d], units, weights[1, d])
            then = _unused(load[c] + own[c], load[alive + j] + own[alive + j], size[d], units, weights[1, d])
            out[UNUSED] += LENGTHS[j] * (then - now)


@njit(cache=True, inline="always")
def _unused(mean, alive, size, units, exponent):  # type: ignore[no-untyped-def]
    """Penalty of under-utilisation to be expected in a slot; `mean` falls with the chance that anything runs."""
    if exponent == 0.0 or alive <= 0:
        return 0.0
    chance = min(float(alive), 1.0)
    unused = max(size - mean / max(chance, 0.05), 0.0) * units
    power = unused * unused * unused if exponent == 3.0 else unused**exponent
    return chance * power


@njit(cache=True)
def _passes(load, own, share, size, d, resources):  # type: ignore[no-untyped-def]
    """Chance that the load of resource d, with `share` of `own`, ever passes the capacity."""
    segments = len(LENGTHS)
    wide = segments * resources
    stays = 1.0
    for j in range(segments):
        c = j * resources + d
        spread = max(load[wide + c] + share * own[wide + c], LEAST_SPREAD)
        stays *= 1.0 - _above((size - load[c] - share * own[c]) / math.sqrt(spread))
    peak = 3 * wide + d
    spread = max(load[peak + resources] + share * own[peak + resources], 1e-6)
    ever = _above((size + ROUNDING - load[peak] - share * own[peak]) / math.sqrt(spread))
    return min(1.0 - stays, ever)


@njit(cache=True, inline="always")
def _above(deviations):  # type: ignore[no-untyped-def]
    """Chance that a normal variable lies so many standard deviations above its mean."""
    if deviations > 5.0:
        return 0.0
    if deviations < -5.0:
        return 1.0
    return 0.5 * math.erfc(deviations / math.sqrt(2.0))
