"""Expected-Cost: the machine where a workload adds the least expected penalty, weighted as in the reward."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from tvwrl.checks import at_least
from tvwrl.compiled import inner, njit
from tvwrl.forecasting import ROUNDING, SEGMENTS, columns
from tvwrl.names import written
from tvwrl.penalties import under_utilisation
from tvwrl.schedulers.base import Opinion, Scheduler, register
from tvwrl.schedulers.head_of_queue import Backfill, HeadOfQueue
from tvwrl.schedulers.knowledge import FORECASTS, FORECASTS_AND_PEAKS, Knowledge
from tvwrl.simulation import Cluster, Mask
from tvwrl.types import Float, Float32, Int, Workload, take

Peaks = Literal["unknown", "known", "reserved"]
Numbers = Float | Float32  # agents compute in single precision

# Chosen on training sequences of four traces (docs/explanation/forecasting.md)
ACCEPTED_OVERSHOOT = 500.0  # a workload waits if expected overshoot costs more, slots of waiting
RISK = 1.6  # factor on that cost: what arrives later adds load that no forecast covers
LEAST_SPREAD = 0.0005  # lowest variance of a forecast load, share of peak_units squared
LEAST_PEAK_SPREAD = 1e-6  # lowest variance of a forecast peak, which may be known exactly
LEAST_CHANCE = 0.05  # lowest probability of running by which an expected demand is divided
LENGTHS = np.array([last - first + 1.0 for first, last in SEGMENTS])  # slots
LONGEST_WAIT = 32  # slots from its arrival for which a workload waits rather than have a machine opened; not tuned
EXACT = 1e-6  # units by which a capacity may be below a whole number for rounding
OVERSHOOT, UNUSED = 0, 1  # columns of `expected_costs`
FAR, PER_DEVIATION = 5.0, 100  # table of the normal distribution: range in deviations, steps per deviation
ABOVE = np.array(
    [0.5 * math.erfc((i / PER_DEVIATION - FAR) / math.sqrt(2)) for i in range(int(2 * FAR) * PER_DEVIATION + 1)]
)


class ExpectedCost(HeadOfQueue):
    """Places the head of the queue on the machine with room now where its `expected_costs` are lowest.

    It waits while the expected overshoot costs more than `accepted_overshoot` slots of waiting even there.

    `opening`: expected cost above which no machine is opened, in slots of waiting for each workload that waits. While
    the best machine runs nothing and costs more, they wait for room or for company, each at most `LONGEST_WAIT` slots.
    None, the default: no limit.
    `peaks`: how it uses lifetime peaks. "unknown": not at all; "known": in place of their forecasts, so that it expects
    no overshoot where their sum fits, and weighs the risk elsewhere; "reserved": their sum never exceeds a machine
    """

    needs_forecasts = True
    options: ClassVar = {"opening": ()}

    def __init__(
        self,
        name: str = "expected-cost",
        accepted_overshoot: float = ACCEPTED_OVERSHOOT,
        peaks: Peaks = "unknown",
        opening: float | None = None,
    ) -> None:
        at_least(0, opening=opening)
        self.name = written(name, options={} if opening is None else {"opening": opening})
        self.accepted_overshoot, self.peaks, self.opening = accepted_overshoot, peaks, opening
        self.knowledge = FORECASTS if peaks == "unknown" else FORECASTS_AND_PEAKS

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Take the weights of the penalties and the sizes of the machines."""
        scenario = cluster.scenario
        self.sizes = cluster.capacity / scenario.peak_units
        self.weights = scenario.penalty_weights().per_resource(cluster.capacity.shape[1])
        self.limit = self.accepted_overshoot * scenario.K_w
        self.most_to_open = math.inf if self.opening is None else self.opening * scenario.K_w
        self.units, self.whole = float(scenario.peak_units), scenario.quantise
        self._columns = np.arange(columns(cluster.capacity.shape[1]))
        if self.peaks == "known":
            table = cluster.simulation.sequences.forecast
            assert table is not None, "these sequences were drawn without forecasts"
            self._columns = table.told()

    def candidates(self, cluster: Cluster, workload: Workload) -> Mask:
        """See `HeadOfQueue.candidates`."""
        return cluster.room_for_peaks(workload) if self.peaks == "reserved" else cluster.room_now(workload)

    def choose(self, cluster: Cluster, workload: Workload) -> int | None:
        """See `HeadOfQueue.choose`."""
        room = self.candidates(cluster, workload)
        if not room.any():  # costs take longer
            return None
        costs = self._costs(cluster, workload)
        return self._cheapest(cluster, workload, room, costs, self.weighed(cluster, workload, costs))

    def _cheapest(self, cluster: Cluster, workload: Workload, room: Mask, costs: Float, weighed: Float) -> int | None:
        """See `choose`; `costs` (M, 2) and `weighed` (M,) are those of the workload."""
        if not room.any():
            return None
        machine = int(np.where(room, weighed, np.inf).argmin())
        if costs[machine, OVERSHOOT] > self.limit or self._waits(cluster, workload, machine, costs[machine].sum()):
            return None
        return machine

    def _waits(self, cluster: Cluster, workload: Workload, machine: int, cost: float) -> bool:
        """Whether it waits rather than have a machine opened."""
        if cluster.active[machine] or cluster.slot - workload.arrival >= LONGEST_WAIT:
            return False
        return cost > self.most_to_open * max(cluster.waiting, 1)  # none waits where a rule asks for a target of moves

    def opinion(self, cluster: Cluster, workload: Workload) -> Opinion:
        """See `Scheduler.opinion`."""
        costs = self.weighed(cluster, workload, self._costs(cluster, workload))
        return Opinion(self.candidates(cluster, workload), costs, "expected cost")

    def considered(self, cluster: Cluster, workload: Workload) -> tuple[int | None, Opinion | None]:
        """See `Scheduler.considered`."""
        if type(self).choose is not ExpectedCost.choose:
            return super().considered(cluster, workload)
        room, costs = self.candidates(cluster, workload), self._costs(cluster, workload)
        weighed = self.weighed(cluster, workload, costs)
        machine = self._cheapest(cluster, workload, room, costs, weighed)
        return machine, Opinion(room, weighed, "expected cost")

    def weighed(self, cluster: Cluster, workload: Workload, costs: Float) -> Float:
        """(M,) what a waiting workload would cost on each machine; `costs` (M, 2): see `expected_costs`."""
        total: Float = costs.sum(axis=1)
        return total

    def fork(self) -> ExpectedCost:
        """See `Scheduler.fork`: it remembers nothing of an episode."""
        return self

    def _costs(self, cluster: Cluster, workload: Workload) -> Float:
        """(M, 2) see `expected_costs`."""
        load, own = (take(part, self._columns) for part in (cluster.forecast, cluster.forecast_of(workload)))
        costs = expected_costs(load[None], own[None], self.sizes[None], self.units, self.weights, self.whole)[0]
        costs[:, OVERSHOOT] *= self.peaks != "reserved"  # the sum of reserved peaks never exceeds a machine
        return np.asarray(costs)


def plain_expected_cost(scheduler: Scheduler) -> ExpectedCost | None:
    """The `expected-cost` without knowledge of peaks that a scheduler is, perhaps with backfilling; None: another."""
    served = scheduler.served if type(scheduler) is Backfill else scheduler
    return served if type(served) is ExpectedCost and served.peaks == "unknown" else None


def expected_costs(
    load: Numbers, own: Numbers, sizes: Numbers, units: float, weights: Float, whole: bool = True
) -> Float:
    """(B, M, 2) expected increase of the overshoot and under-utilisation penalties if a workload goes to each machine.

    `load`: (B, M, K) forecasts of what runs on each machine, summed (columns: `tvwrl.forecasting.segments.Forecast`)
    `own`: (B, K) forecast of the workload
    `sizes`: (B, M, D) capacities as multiples of `peak_units`
    `units`: `peak_units` of the scenario
    `weights`: (4, D) from `PenaltyWeights.per_resource`
    `whole`: whether demand is in whole units

    Loads are taken as normally distributed and segments as independent. If a load exceeds the capacity, each workload
    on the machine is charged K_o, times `RISK`. Covers the slots after the current one; background load is not
    forecast. A load of whole units exceeds a capacity of 8 units from 9 on, so the border lies halfway, at 8.5.
    """
    out = np.zeros((*sizes.shape[:2], 2))
    _add_costs(load, own, sizes, units, weights, whole, out)
    return out


@njit(_nrt=False)
def _add_costs(
    loads: Numbers, owns: Numbers, sizes: Numbers, units: float, weights: Float, whole: bool, out: Float
) -> None:
    clusters, machines, _ = sizes.shape
    for b in range(clusters):
        for m in range(machines):
            danger, unused = machine_costs(loads[b, m], owns[b], sizes[b, m], units, weights, whole)
            out[b, m, OVERSHOOT], out[b, m, UNUSED] = danger, unused


@inner(_nrt=False)
def machine_costs(
    load: Numbers, own: Numbers, sizes: Numbers, units: float, weights: Float, whole: bool
) -> tuple[float, float]:
    """The two `expected_costs` of one machine: `load` (K,), `own` (K,), `sizes` (D,)."""
    resources = len(sizes)
    alive = 3 * len(LENGTHS) * resources + 2 * resources
    running, more = float(load[alive]), float(own[alive])
    danger = 0.0
    for d in range(resources):
        size = sizes[d]
        if running > 0 and size > 0:  # one workload alone never exceeds the capacity
            most = border(size, units, whole) / units
            before = _passes(load, own, 0.0, most, d, resources)
            after = max(
                _passes(load, own, 1.0, most, d, resources), before
            )  # a higher variance alone must not look like a gain
            danger += RISK * weights[2, d] * ((running + more) * after - running * before)
    return danger, unused_cost(load, own, sizes, units, weights)


@inner(_nrt=False)
def unused_cost(load: Numbers, own: Numbers, sizes: Numbers, units: float, weights: Float) -> float:
    """The expected increase of under-utilisation on one machine: see `machine_costs`."""
    resources = len(sizes)
    wide = len(LENGTHS) * resources
    alive = 3 * wide + 2 * resources
    unused = 0.0
    for d in range(resources):
        for j in range(len(LENGTHS)):
            c = 2 * wide + j * resources + d
            now = unused_in_slot(load[c], load[alive + j], sizes[d], units, weights[1, d])
            then = unused_in_slot(load[c] + own[c], load[alive + j] + own[alive + j], sizes[d], units, weights[1, d])
            unused += LENGTHS[j] * (then - now)
    return unused


def leaving_gains(
    machine: Int, own: Numbers, load: Numbers, sizes: Float, units: float, weights: Float, whole: bool = True
) -> Float32:
    """(B, R, J + 1) what each running workload's machine is expected to cost less without it, in units of the reward.

    By segment the under-utilisation, below 0 where the workload fills a machine that others keep in use; then the
    overshoots. The sum is what `expected_costs` would be if the workload were placed where it is.

    `machine`: (B, R) where each runs
    `own`: (B, R, K) their forecasts; 0 where there is none, and so is its gain
    `load`: (B, M, K) forecasts of what runs on each machine, summed
    `sizes`, `units`, `weights`, `whole`: as in `expected_costs`, `sizes` (M, D)
    """
    out = np.zeros((*own.shape[:2], len(LENGTHS) + 1), np.float32)
    _add_leaving_gains(machine, own, load, sizes, units, weights, whole, out)
    return out


@njit
def _add_leaving_gains(
    machine: Int, own: Numbers, load: Numbers, sizes: Float, units: float, weights: Float, whole: bool, out: Float32
) -> None:
    resources, parts = sizes.shape[1], len(LENGTHS)
    alive, rest = (3 * parts + 2) * resources, np.empty_like(load[0, 0])
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            m = machine[b, i]
            for c in range(len(rest)):  # sums in single precision may leave a trace of nothing
                rest[c] = max(load[b, m, c] - own[b, i, c], 0.0)
            out[b, i, parts] = machine_costs(rest, own[b, i], sizes[m], units, weights, whole)[0]
            for j in range(parts):
                for d in range(resources):
                    c = 2 * parts * resources + j * resources + d
                    now = unused_in_slot(load[b, m, c], load[b, m, alive + j], sizes[m, d], units, weights[1, d])
                    then = unused_in_slot(rest[c], rest[alive + j], sizes[m, d], units, weights[1, d])
                    out[b, i, j] += LENGTHS[j] * (now - then)


@njit(inline="always")
def border(size: float, units: float, whole: bool) -> float:
    """Units of load above which a machine of `size` x `units` overshoots; `whole`: loads are whole units."""
    return math.floor(size * units + EXACT) + 0.5 if whole else size * units


@njit(inline="always")
def unused_in_slot(mean: float, alive: float, size: float, units: float, exponent: float) -> float:
    """Expected under-utilisation penalty of a slot; `mean` is weighted by the probability that anything runs."""
    chance = min(float(alive), 1.0)
    return chance * under_utilisation(max(size - mean / max(chance, LEAST_CHANCE), 0.0) * units, exponent)


@inner(_nrt=False)
def _passes(load: Numbers, own: Numbers, share: float, size: float, d: int, resources: int) -> float:
    """Probability that the load of resource d, with `share` (0 or 1) of `own`, ever exceeds the capacity."""
    wide = len(LENGTHS) * resources
    peak, alive = 3 * wide + d, 3 * wide + 2 * resources
    room = size - load[peak] - share * own[peak] + ROUNDING * (load[alive] + share * own[alive])
    ever = above(room, max(load[peak + resources] + share * own[peak + resources], LEAST_PEAK_SPREAD))
    if ever == 0.0:
        return 0.0
    stays = 1.0
    for j in range(len(LENGTHS)):
        c = j * resources + d
        room = size - load[c] - share * own[c]
        stays *= 1.0 - above(room, max(load[wide + c] + share * own[wide + c], LEAST_SPREAD))
    return min(1.0 - stays, ever)


@njit(inline="always")
def above(room: float, variance: float) -> float:
    """Probability that a normal variable exceeds its mean by more than `room`, to 1e-5."""
    if room * room >= FAR * FAR * variance:  # true of most machines, and saves a square root
        return 0.0 if room > 0 else 1.0
    place = (room / math.sqrt(variance) + FAR) * PER_DEVIATION
    whole = min(int(place), len(ABOVE) - 2)
    chance: float = ABOVE[whole] + (place - whole) * (ABOVE[whole + 1] - ABOVE[whole])
    return chance


_REGISTERED: tuple[tuple[str, Peaks, Knowledge, str], ...] = (
    ("expected-cost", "unknown", FORECASTS, "Expected cost"),
    ("expected-cost-peak", "reserved", FORECASTS_AND_PEAKS, "Expected cost, peaks"),
    ("expected-cost-known-peak", "known", FORECASTS_AND_PEAKS, "Expected cost, known peaks"),
)
for _name, _peaks, _knowledge, _title in _REGISTERED:
    register(partial(ExpectedCost, _name, peaks=_peaks), _name, _knowledge, _title)
EXPECTED_COSTS: tuple[str, ...] = tuple(row[0] for row in _REGISTERED)
