"""A cost below which no schedule comes that places every workload, and so a reward that none exceeds.

Let every workload pay the machine that runs it a price p(t, w, u) for slot t in which its demand is u. Payments change
no sum, so a schedule's cost is

    sum over workloads of (waiting + what it pays) + sum over slots and used machines of (cost - what is paid there).

The first sum is at least the sum of each workload's minimum over all starts. In the second, a term is at least the
minimum over all sets of workloads that have arrived, each at any of its levels of demand; an unused machine adds 0.
Both minima are found exactly, the second by a knapsack over loads. So the sum is a bound for any prices whatever; it is
concave in them, and some steps along its gradient make it large. It is loose because it lets go of rules: a workload
stays on its machine, is on one machine only, has the demand of its age, starts in turn. And it is a bound on mixtures
too, of many starts with a small share each.

- Waiting: a workload that starts after the last slot T with prices runs for free, but has waited till then.
- Overshoot by workload: a set that exceeds some resource costs each of its workloads at least K_o / length in this slot
  (K_o: the least of the resources), as it runs for `length` slots and K_o is due once. No other cost is counted then.
- Overshoot by machine: the bound without overshoot or K_o, whichever is less.
- Demand that is not whole, or large machines: demand is rounded up to cells and loads end at the largest capacity, so
  that under-utilisation is too low rather than too high; contention is left out, and any load passes.

Moves: the bound holds for schedules that move workloads too, as often as they like and for free. In each slot in which
a workload runs it has one machine still and pays that; payments depend on the slot and on its demand, so the first sum
is as before: there is no machine in it. The second is of each machine in each slot alone: what it costs depends on the
set that runs there, wherever that was before, and is at least the minimum over all sets. K_o is due once in a life on
whatever machines, so the share K_o / length of a slot holds. The price of moves, which is left out, is 0 or more.
In an overlap a workload is booked on its old machine too, which it does not pay. What that costs, less the payments of
its own set, is at least its cost less those of the set with such workloads, if no price is below 0; and where a set
exceeds a resource, the minimum counts a workload that is only booked as 0 or less. So with an overlap prices are kept
at 0 or above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.compiled import inner, njit
from tvwrl.packing import enlarged
from tvwrl.simulation import Scenario
from tvwrl.types import Float, Int, Machines, SequenceSet

Short = npt.NDArray[np.int16]


class Relaxed(NamedTuple):
    """A sequence of N workloads in T slots. A workload's demand has at most K levels, a machine one of X loads."""

    level: Int  # (N, L) the level of its demand by age
    levels: Int  # (N,) how many it has
    arrival: Int  # (N,), rising
    length: Int  # (N,)
    wait: float  # K_w
    leads: Short  # (N, K, X) the load that a workload makes of a load, -1 = more than any machine holds
    squares: Float  # (N, K) contention of a level with itself, which `costs` counts and nobody pays
    costs: Float  # (P, machines, X) least cost of a machine by load in slot t, row t % P; infinite = overload
    alike: Int  # (machines,) how many machines are alike
    overload: Float  # (N,) what a slot on an overloaded machine costs the workload at least
    # What changes
    slope: Float  # (T, N, K) how often a level runs, less how often machines take it: the bound's gradient
    gain: Float  # (2, X) most that workloads pay that make a load, -inf = none do; before and after one is considered
    taken: Short  # (N, X) the level of the workload in that choice, -1 = it is not in it
    source: Short  # (N, X) the load before it


@njit(_nrt=False)
def bound_at(x: Relaxed, price: Float) -> float:
    """The bound at prices (T, N, K): what a workload pays a machine for a slot, by its level. Sets `slope`."""
    x.slope[:] = 0.0
    total = 0.0
    for w in range(len(x.arrival)):
        total += _start(x, w, price)
    arrived = 0
    for t in range(len(price)):
        while arrived < len(x.arrival) and x.arrival[arrived] <= t:
            arrived += 1
        _fill(x, t, arrived, price)
        for m in range(len(x.alike)):
            total += x.alike[m] * _run(x, t, m, arrived, price)
    return total


@inner(_nrt=False)
def _start(x: Relaxed, w: int, price: Float) -> float:
    """The least that w pays for waiting and running."""
    slots, first, length = len(price), x.arrival[w], x.length[w]
    least: float = x.wait * (slots - first)
    begins = slots  # from then on running is free
    for s in range(first, slots):
        pays = x.wait * (s - first)
        for age in range(min(length, slots - s)):
            pays += price[s + age, w, x.level[w, age]]
        if pays < least:
            least, begins = pays, s
    for age in range(min(length, slots - begins)):
        x.slope[begins + age, w, x.level[w, age]] += 1.0
    return least


@inner(_nrt=False)
def _fill(x: Relaxed, t: int, arrived: int, price: Float) -> None:
    """For every load, the workloads that make it and pay most: each at one of its levels, at most once."""
    before, after = x.gain[0], x.gain[1]
    after[:] = -np.inf
    after[0] = 0.0
    for w in range(arrived):
        for load in range(len(before)):
            before[load] = after[load]
            x.taken[w, load] = -1
        for k in range(x.levels[w]):
            pays = price[t, w, k] + x.squares[w, k]
            for load in range(len(before)):
                then = x.leads[w, k, load]
                if then >= 0 and before[load] + pays > after[then]:
                    after[then] = before[load] + pays
                    x.taken[w, then], x.source[w, then] = k, load


@inner(_nrt=False)
def _run(x: Relaxed, t: int, m: int, arrived: int, price: Float) -> float:
    """What machine m costs at least in slot t, less what its workloads pay: at most 0, as it may run nothing."""
    costs, gain, least, load, over = x.costs[t % len(x.costs), m], x.gain[1], 0.0, 0, 0.0
    for y in range(1, len(gain)):
        if costs[y] - gain[y] < least:
            least, load = costs[y] - gain[y], y
    for w in range(arrived):
        over += min(0.0, x.overload[w] - price[t, w, _dearest(x, t, w, price)])
    if over < least:  # so many that they overload it
        for w in range(arrived):
            k = _dearest(x, t, w, price)
            if x.overload[w] < price[t, w, k]:
                x.slope[t, w, k] -= x.alike[m]
        return over
    for w in range(arrived - 1, -1, -1):
        if load > 0 and x.taken[w, load] >= 0:
            x.slope[t, w, x.taken[w, load]] -= x.alike[m]
            load = x.source[w, load]
    return least


@inner(_nrt=False)
def _dearest(x: Relaxed, t: int, w: int, price: Float) -> int:
    """The level at which w pays most."""
    top = 0
    for k in range(x.levels[w]):
        if price[t, w, k] > price[t, w, top]:
            top = k
    return top


ROUNDS = 100  # steps along the gradient
STEP, SLOWER = 0.005, 0.02  # first step, as a share of what an empty machine costs; the last as a share of the first
MEMORY, SCALE_MEMORY = 0.9, 0.99  # of the mean gradient, of its mean square (Adam: Kingma and Ba 2015)
PATIENCE = 20  # slots with prices after one and a half of the longest life since the last arrival
LOADS, CELLS = 1000, 100  # loads that are told apart at most: whole, or by cells
ROUNDING = 1e-9  # share of a bound that floating point may get wrong


def cost_bound(
    sequences: SequenceSet, sequence: int, machines: Machines, scenario: Scenario, rounds: int = ROUNDS
) -> float:
    """The bound (>= 0) for one sequence of the set, whether workloads move or not; more rounds make it larger."""
    weights = scenario.penalty_weights().per_resource(len(machines.resources))
    by_machine = scenario.overshoot_per == "machine"
    x = _relaxed(sequences, sequence, machines, weights, by_machine)
    price, mean, square = np.zeros((3, *x.slope.shape))
    for w, end in enumerate(x.arrival + x.length):
        price[end:, w] = -x.wait  # so that nobody gains by waiting
    lowest = 0.0 if scenario.moves_per_slot and scenario.move_overlap else -np.inf
    np.maximum(price, lowest, out=price)
    best, step = 0.0, STEP * float((machines.capacity ** weights[1]).sum(axis=1).max())
    for n in range(1, rounds + 1):
        best = max(best, bound_at(x, price))
        mean += (1 - MEMORY) * (x.slope - mean)
        square += (1 - SCALE_MEMORY) * (x.slope**2 - square)
        pace = step * SLOWER ** (n / rounds)
        price += pace * (mean / (1 - MEMORY**n)) / (np.sqrt(square / (1 - SCALE_MEMORY**n)) + 1e-3)
        np.maximum(price, lowest, out=price)
    if by_machine:
        best = min(best, float(weights[2].min()))
    return best * (1 - ROUNDING)


def _relaxed(sequences: SequenceSet, i: int, machines: Machines, weights: Float, by_machine: bool) -> Relaxed:
    arrival, length = sequences.arrival[i].astype(np.int64), sequences.length[i].astype(np.int64)
    demand, most = sequences.demand[i], machines.capacity.max(axis=0)
    whole = not (demand % 1).any() and np.prod(np.floor(most) + 1) <= LOADS
    last = np.floor(most) if whole else np.full(len(most), int(CELLS ** (1 / len(most))) - 1.0)
    cell = np.ones(len(most)) if whole else np.maximum(most, 1e-9) / last
    loads = np.stack(np.meshgrid(*(np.arange(n + 1) for n in last), indexing="ij"), axis=-1).reshape(-1, len(most))
    level, cells = _levels(np.ceil(demand / cell), length)
    background = np.zeros((1, *machines.capacity.shape)) if sequences.background is None else sequences.background[i]
    alike = machines.capacity if sequences.background is None else np.arange(len(machines))[:, None]
    _, first, count = np.unique(alike, axis=0, return_index=True, return_counts=True)
    slots, levels = int(arrival.max() + 3 * length.max() // 2 + PATIENCE), max(map(len, cells))
    leads = np.full((len(length), levels, len(loads)), -1, np.int16)
    squares = np.zeros((len(length), levels))
    for w, steps in enumerate(cells):
        for k, up in enumerate(steps):
            then = loads + up if whole else np.minimum(loads + up, last)
            held = (then <= last).all(axis=1)
            leads[w, k, held] = np.ravel_multi_index(then[held].astype(np.int64).T, tuple(last.astype(np.int64) + 1))
            squares[w, k] = whole * 0.5 * weights[0] @ up**2
    return Relaxed(
        level=level,
        levels=np.array([len(steps) for steps in cells]),
        arrival=arrival,
        length=length,
        wait=float(weights[3, 0]),
        leads=leads,
        squares=squares,
        costs=_costs(loads * cell, machines.capacity[first], background[:, first].astype(np.float64), weights, whole),
        alike=count,
        overload=np.full(len(length), np.inf) if by_machine else weights[2].min() / length,
        slope=np.zeros((slots, len(length), levels)),
        gain=np.zeros((2, len(loads))),
        taken=np.zeros((len(length), len(loads)), np.int16),
        source=np.zeros((len(length), len(loads)), np.int16),
    )


def _levels(cells: Float, length: Int) -> tuple[Int, list[Float]]:
    """(N, L) the level of each workload by age, and the demand of its levels in cells, (levels, D)."""
    level, found = np.zeros(cells.shape[:2], np.int64), []
    for w, slots in enumerate(length):
        different, which = np.unique(cells[w, :slots], axis=0, return_inverse=True)
        level[w, :slots] = which.ravel()
        found.append(different)
    return level, found


def _costs(loads: Float, capacity: Float, background: Float, weights: Float, whole: bool) -> Float:
    """(P, machines, X) least cost of a slot by load (X, D), above `background` (P, machines, D)."""
    total = background[:, :, None] + loads
    unused = np.maximum(capacity[:, None] - total, 0.0)
    costs: Float = np.where(weights[1] > 0, unused ** weights[1], 0.0).sum(axis=-1)
    if whole:
        costs += 0.5 * (weights[0] * (total**2 - background[:, :, None] ** 2)).sum(axis=-1)
        costs[(total > enlarged(capacity)[:, None]).any(axis=-1)] = np.inf
    return costs
