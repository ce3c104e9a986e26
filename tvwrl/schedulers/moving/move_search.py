"""The search for moves that lower a cost which is a sum over machines: of single workloads, of all workloads of a
machine, and swaps. Compiled.

What a machine costs is either the expected cost of what runs there and is on its way, as of `expected_costs`, or a
learnt value, if there are weights of one.

Up to `EXACT` pairs of a workload and a machine all are considered. Of more, only those of the most promising workloads,
machines to empty and targets are, with numbers that grow with the moves that are left; see `_shortlist`. A cost that
was computed is kept until one of its machines changes, and expected costs, which are never negative, are not computed
where even a cost of 0 would not gain enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tvwrl.checks import within
from tvwrl.compiled import inner, njit, plain
from tvwrl.forecasting import ROUNDING, SEGMENTS, columns
from tvwrl.packing import lacks
from tvwrl.schedulers.expected_cost import (
    LEAST_CHANCE,
    LEAST_PEAK_SPREAD,
    LEAST_SPREAD,
    RISK,
    above,
    border,
    unused_in_slot,
)
from tvwrl.schedulers.moving.base import MoveRule
from tvwrl.simulation import Cluster, Running
from tvwrl.types import Bool, Float, Float32, InputError, Int, Move, Workload

NOWHERE = -1
MOST_TOGETHER = 8  # workloads of a machine that are moved away together, at most
SINGLE, TOGETHER, SWAP = 1, 2, 4  # bits of the kinds of moves that are considered
CONTEXT = 4  # numbers of the whole cluster, beside its mean loads
MANY = 10.0  # workloads that count as 1
SLOPE = 0.01  # of the leaky rectifier
EXACT = 10_000  # pairs of which all are considered
SOURCES, PER_MOVE = 64, 2  # single workloads that are considered otherwise, and more for each move
SLACK = 1e-6  # units of the reward that rounding may hide in a bound
EMPTIED = 32  # machines of which it is considered to empty them, and as many more as there are moves
TARGETS, PROBES = 64, 8  # machines to which they may go, and as many more as moves; workloads for which these are best
SOON = 4  # segment whose first slot tells how many will run still: 16 slots ahead


class Layers(NamedTuple):
    """A network of two hidden layers: F features, A and B units, two values: of load, and of overshoots."""

    mean: Float32  # (F,) of each feature
    scale: Float32  # (F,) that features are divided by
    first: Float32  # (F, A)
    first_bias: Float32  # (A,)
    second: Float32  # (A, B)
    second_bias: Float32  # (B,)
    last: Float32  # (B, 2)
    last_bias: Float32  # (2,)


class Pairs(NamedTuple):
    """The workloads and machines that are considered, and costs that were computed; NaN: not yet, inf: not possible."""

    rows: Int  # (R,) workloads, rising
    columns: Int  # (C,) machines that they may go to, rising
    sources: Int  # machines that may be emptied, rising
    row_of: Int  # (n,) of each workload, or NOWHERE
    column_of: Int  # (M,) of each machine, or NOWHERE
    first: Int  # (M + 1,) where the workloads of a machine begin in `by_machine`
    by_machine: Int  # (n,) workloads, as they were at first
    leaves: Float  # (R,) what a machine costs less without the workload
    joins: Float  # (R, C) what a machine costs with the workload
    trades: Float  # (R, R) what the machine of the first costs with the second in place of it; (0, 0): no swaps


class Costs(NamedTuple):
    """What the expected cost of a machine depends on beside its load."""

    sizes: Float  # (M, D) capacities in `units`
    borders: Float  # (M, D) load above which a machine overshoots, in `units`
    units: float  # `peak_units`
    danger: Float  # (D,) cost of an expected overshoot of a workload
    exponent: Float  # (D,) K_u
    slots: Float  # (J,) weight of each segment: its slots
    value: Layers  # of a learnt value; with no inputs: the expected cost is meant
    risk: float  # weight of the value's overshoots
    scale: float  # units of the reward that 1 of a value stands for


class Search(NamedTuple):
    """What moves are looked for."""

    costs: Costs
    kinds: int  # bits of `SINGLE`, `TOGETHER` and `SWAP`
    threshold: float  # that the gain of a move must exceed, for every workload that it moves
    most: int  # workloads of a machine that are moved away together
    single: float = 1.0  # factor on the threshold of workloads that are moved alone


class Present(NamedTuple):
    """What runs, and the machines; scratch of the kernel, which carries out each move that it finds here too."""

    own: Float  # (n, K) forecasts
    usage: Float  # (n, D) units
    where: Int  # (n,) machine
    movable: Bool  # (n,)
    load: Float  # (M, K) sums of forecasts
    after: Float  # (M, D) units: measured load after moves
    capacity: Float  # (M, D) units
    cost: Float  # (M,) what each costs
    workloads: Int  # (M,) how many
    fresh: Int  # (n,) resources of which a workload has not seen an overshoot
    unshot: Int  # (M,) sum of these
    context: Float  # (D + CONTEXT,) mean load by resource, machines in use, workloads that wait, and that run later,
    # the price of a move
    seen: Float32  # (F,) scratch: features of a machine
    hidden: Float32  # (A,) and
    deeper: Float32  # (B,) scratch: units of the hidden layers, before the rectifiers


NO_VALUE = Layers(*(np.zeros(shape, np.float32) for shape in (0, 0, (0, 0), 0, (0, 0), 0, (0, 2), 2)))

NO_COSTS: Costs = Costs(
    np.zeros((0, 0)), np.zeros((0, 0)), 1.0, np.zeros(0), np.zeros(0), np.zeros(0), NO_VALUE, 1.0, 1.0
)


def costs_of(
    cluster: Cluster, overshoot: float = 1.0, value: Layers = NO_VALUE, scale: float = 1.0, late: float = 1.0
) -> Costs:
    """What the machines of a cluster cost.

    `overshoot`: weight of expected overshoots against all else; `late`: weight of under-utilisation in the last segment
    of forecasts
    """
    scenario, resources = cluster.scenario, cluster.capacity.shape[1]
    weights, units = scenario.penalty_weights().per_resource(resources), float(scenario.peak_units)
    sizes = cluster.capacity / units
    borders = np.array([[border(size, units, scenario.quantise) / units for size in row] for row in sizes])
    slots = np.array([last - first + 1.0 for first, last in SEGMENTS])
    slots[-1] *= late
    danger = overshoot * RISK * weights[2]
    return Costs(sizes, borders, units, danger, weights[1], slots, value, overshoot, scale)


def check_together(most: float) -> int:
    """`most` workloads of a machine that may be moved together. Raises InputError unless it is 1 to 8."""
    within(1, MOST_TOGETHER, most=most)
    if most != int(most):
        raise InputError(f"most is {most:g}: must be a whole number")
    return int(most)


class BySearch(MoveRule):
    """A rule that makes the moves of a slot which lower costs most, each by more than a threshold.

    If a machine has more workloads than may be moved in the slot, the others can follow in the next one, if that is
    still worth it then. `search`: set by `reset`
    """

    search: Search

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `MoveRule.moves`."""
        running = cluster.running
        if running.movable.any():
            found = np.empty((min(cluster.moves_left, len(running.workload)), 2), np.int64)
            made = find_moves(present(cluster, running, self.search.costs.value), *self.search, found)
            for i, machine in found[:made].tolist():
                yield Move(int(running.workload[i]), machine)


def present(cluster: Cluster, running: Running, value: Layers = NO_VALUE, waiting: Workload | None = None) -> Present:
    """What runs in a cluster, with its forecasts, and after that a workload that waits, if one is given."""
    own, usage = cluster.forecasts_of(running), running.usage
    where, movable, fresh = running.machine, running.movable, running.fresh
    if waiting is not None:
        own = np.vstack([own, cluster.forecast_of(waiting)])
        usage, where = np.vstack([usage, waiting.first_demand]), np.append(where, NOWHERE)
        movable, fresh = np.append(movable, False), np.append(fresh, len(waiting.first_demand))
    own = np.array(own[:, : columns(cluster.capacity.shape[1])], np.float64, order="C")
    after = np.array(cluster.load_after_moves)  # copies, as what an entry of the benchmark sees is read-only
    known = np.array(usage), np.array(where), np.array(movable), np.array(fresh), after, np.array(cluster.capacity)
    return gather(own, *known, cluster.waiting, cluster.scenario.K_m, value)


@njit
def gather(
    own: Float, usage: Float, where: Int, movable: Bool, fresh: Int, after: Float, capacity: Float, waiting: int,
    price: float, value: Layers,
) -> Present:  # fmt: skip
    """What runs, for the search: arrays as in `Present`, `waiting` workloads, and the `price` of a move."""
    machines, resources = after.shape
    alive, later, used = (3 * len(SEGMENTS) + 2) * resources + SOON, 0.0, np.zeros(machines, np.bool_)
    for i in range(len(where)):
        if where[i] != NOWHERE:
            later += own[i, alive]
            used[where[i]] = True
    context = np.zeros(resources + CONTEXT)
    for d in range(resources):
        size = 0.0
        for m in range(machines):
            size += capacity[m, d] if capacity[m, d] > 0.0 else 1.0
        context[d] = after[:, d].sum() / size
    context[resources], context[resources + 1] = used.sum() / machines, waiting / MANY
    context[resources + 2], context[resources + 3] = later / machines, math.log10(1.0 + price / 100.0)
    return Present(
        own, usage, where, movable, np.zeros((machines, own.shape[1])), after, capacity, np.zeros(machines),
        np.zeros(machines, np.int64), fresh, np.zeros(machines, np.int64), context,
        np.zeros(_feature_count(resources), np.float32), np.zeros(value.first.shape[1], np.float32),
        np.zeros(value.second.shape[1], np.float32),
    )  # fmt: skip


@njit
def find_moves(p: Present, c: Costs, kinds: int, threshold: float, most: int, single: float, found: Int) -> int:
    """Carry out the best moves in `p` until none exceeds the threshold, or `found` (limit, 2) is full.

    `found`: (output) workload's row in `p`, and machine. Returns how many were found.
    """
    return find_among(p, c, kinds, threshold, most, single, found, EXACT)


@inner
def find_among(
    p: Present, c: Costs, kinds: int, threshold: float, most: int, single: float, found: Int, exact: int
) -> int:
    """The same; all pairs are considered up to `exact` of them."""
    _book_all(p)
    for m in range(len(p.cost)):
        p.cost[m] = _cost(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
    pairs = _shortlist(p, c, kinds, threshold, most, len(found), exact)
    made, rows, targets = 0, np.empty(MOST_TOGETHER, np.int64), np.empty(MOST_TOGETHER, np.int64)
    while made < len(found):
        best, many = 0.0, 0
        if kinds & SINGLE:
            best, many = _best_single(p, c, pairs, threshold * single, rows, targets)
        if kinds & SWAP and len(found) - made >= 2:
            best, many = _best_swap(p, c, pairs, threshold, best, many, rows, targets)
        if kinds & TOGETHER:
            best, many = _best_evacuation(p, c, pairs, threshold, most, best, many, rows, targets)
        if many == 0:
            break
        for k in range(min(many, len(found) - made)):
            i, m = rows[k], targets[k]
            old = p.where[i]
            _book(p, i, old, -1.0)
            _book(p, i, m, 1.0)
            _shift(p, i, old, m)
            p.where[i], p.movable[i] = m, False
            _renew(p, c, pairs, old, kinds)
            _renew(p, c, pairs, m, kinds)
            found[made, 0], found[made, 1] = i, m
            made += 1
    return made


@inner
def _shortlist(p: Present, c: Costs, kinds: int, threshold: float, most: int, limit: int, exact: int) -> Pairs:
    """The pairs that are considered.

    Of too many: single workloads whose machines cost least without them, and machines whose cost exceeds the thresholds
    of emptying them most. They may go to machines that cost least more with one of some of these workloads, evenly
    spread over all. By expected costs, also where a learnt value decides.
    """
    workloads, machines = len(p.where), len(p.cost)
    first, by_machine = np.zeros(machines + 1, np.int64), np.empty(workloads, np.int64)
    for i in range(workloads):
        first[p.where[i] + 1] += 1
    for m in range(machines):
        first[m + 1] += first[m]
    at = first.copy()
    for i in range(workloads):
        by_machine[at[p.where[i]]] = i
        at[p.where[i]] += 1

    short = workloads * max(machines, workloads if kinds & SWAP else 0) > exact
    considered, emptied = p.movable.copy(), np.zeros(machines, np.bool_)
    for m in range(machines):
        few = p.workloads[m] <= most or not short  # a move may leave few where there are many
        emptied[m] = kinds & TOGETHER and p.workloads[m] > 0 and few
        for k in range(first[m], first[m + 1]):
            emptied[m] = emptied[m] and (p.movable[by_machine[k]] or not short)
    targets = p.capacity[:, 0] > 0
    if short:
        costs, score = np.empty(machines), np.full(workloads, -np.inf)
        for m in range(machines):
            costs[m] = _expected_cost(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
        considered[:] = False
        if kinds & (SINGLE | SWAP):
            for i in range(workloads):
                if p.movable[i]:
                    m = p.where[i]
                    score[i] = costs[m] - _expected_cost(p, c, m, i, -1.0, NOWHERE, 0.0)
            _mark_largest(score, SOURCES + PER_MOVE * limit, considered)
        worth = np.full(machines, -np.inf)
        for m in range(machines):
            if emptied[m]:
                worth[m] = costs[m] - p.workloads[m] * threshold
        emptied[:] = False
        _mark_largest(worth, EMPTIED + limit, emptied)
        for m in range(machines):
            for k in range(first[m], first[m + 1]):
                considered[by_machine[k]] |= emptied[m]
        targets[:] = False
        listed = np.flatnonzero(considered)
        more = np.empty(machines)
        for probe in range(min(PROBES, len(listed))):
            i = listed[probe * len(listed) // min(PROBES, len(listed))]
            for m in range(machines):
                more[m] = -np.inf
                if not targets[m] and m != p.where[i] and has_room(p, i, m, NOWHERE) and not _is_repeated(p, m):
                    more[m] = costs[m] - _expected_cost(p, c, m, i, 1.0, NOWHERE, 0.0)
            _mark_largest(more, (TARGETS + limit) // PROBES, targets)

    rows, columns = np.flatnonzero(considered), np.flatnonzero(targets)
    row_of, column_of = np.full(workloads, NOWHERE), np.full(machines, NOWHERE)
    row_of[rows], column_of[columns] = np.arange(len(rows)), np.arange(len(columns))
    swaps = len(rows) if kinds & SWAP else 0
    leaves = np.zeros(len(rows))
    if kinds & SINGLE:
        for r in range(len(rows)):
            old = p.where[rows[r]]
            leaves[r] = p.cost[old] - _cost(p, c, old, rows[r], -1.0, NOWHERE, 0.0)
    joins, trades = np.full((len(rows), len(columns)), np.nan), np.full((swaps, swaps), np.nan)
    sources = np.flatnonzero(emptied)
    return Pairs(rows, columns, sources, row_of, column_of, first, by_machine, leaves, joins, trades)


@inner
def _mark_largest(values: Float, count: int, marked: Bool) -> None:
    """Mark the `count` largest values above -inf; the earlier of equal ones."""
    order = np.empty(count, np.int64)
    kept = 0
    for i in range(len(values)):
        if values[i] == -np.inf or (kept == count and values[i] <= values[order[count - 1]]):
            continue
        k = min(kept, count - 1)
        while k > 0 and values[order[k - 1]] < values[i]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = i
        kept = min(kept + 1, count)
    for k in range(kept):
        marked[order[k]] = True


@inner(_nrt=False)
def _renew(p: Present, c: Costs, pairs: Pairs, m: int, kinds: int) -> None:
    """Compute what machine m costs after a change, and forget what depended on it."""
    p.cost[m] = _cost(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
    column = pairs.column_of[m]
    for r in range(len(pairs.rows)):
        if column >= 0:
            pairs.joins[r, column] = np.nan
        i = pairs.rows[r]
        if p.where[i] == m and p.movable[i]:
            if kinds & SINGLE:
                pairs.leaves[r] = p.cost[m] - _cost(p, c, m, i, -1.0, NOWHERE, 0.0)
            for other in range(len(pairs.trades)):
                pairs.trades[r, other] = np.nan


@inner(_nrt=False)
def _joined(p: Present, c: Costs, pairs: Pairs, r: int, column: int) -> float:
    """What a machine costs with a workload more; infinite if it has no room."""
    cost: float = pairs.joins[r, column]
    if math.isnan(cost):
        i, m = pairs.rows[r], pairs.columns[column]
        cost = _cost(p, c, m, i, 1.0, NOWHERE, 0.0) if has_room(p, i, m, NOWHERE) else math.inf
        pairs.joins[r, column] = cost
    return cost


@inner(_nrt=False)
def _traded(p: Present, c: Costs, pairs: Pairs, r: int, other: int) -> float:
    """What the machine of a row's workload costs with another's in place of it; infinite if it has no room."""
    cost: float = pairs.trades[r, other]
    if math.isnan(cost):
        i, j = pairs.rows[r], pairs.rows[other]
        m = p.where[i]
        cost = _cost(p, c, m, i, -1.0, j, 1.0) if has_room(p, j, m, i) else math.inf
        pairs.trades[r, other] = cost
    return cost


@inner(_nrt=False)
def _most_saved(p: Present, c: Costs, pairs: Pairs) -> float:
    """More than any of the machines that workloads may go to can cost less with one more of them."""
    if c.value.first.shape[0] > 0:
        return math.inf  # a learnt value may be negative
    most = 0.0
    for m in pairs.columns:
        most = max(most, p.cost[m])
    return most


@inner(_nrt=False)
def _book(p: Present, i: int, m: int, sign: float) -> None:
    """Add the forecast of workload i to machine m, or take it away."""
    for c in range(p.load.shape[1]):
        p.load[m, c] += sign * p.own[i, c]
    p.workloads[m] += 1 if sign > 0 else -1
    p.unshot[m] += p.fresh[i] if sign > 0 else -p.fresh[i]


@inner(_nrt=False)
def _book_all(p: Present) -> None:
    """Add all forecasts to the machines that the workloads are on."""
    for i in range(len(p.where)):
        if p.where[i] != NOWHERE:
            _book(p, i, p.where[i], 1.0)


@inner(_nrt=False)
def _shift(p: Present, i: int, old: int, m: int) -> None:
    """The measured usage of workload i counts on another machine."""
    for d in range(p.usage.shape[1]):
        p.after[old, d] -= p.usage[i, d]
        p.after[m, d] += p.usage[i, d]


@inner(_nrt=False)
def _size(p: Present, i: int) -> float:
    """Measured usage of workload i, as a share of the first machine."""
    size = 0.0
    for d in range(p.usage.shape[1]):
        size += p.usage[i, d] / max(p.capacity[0, d], 1.0)
    return size


@inner(_nrt=False)
def has_room(p: Present, i: int, m: int, leaves: int) -> bool:
    """Whether machine m has room for workload i when workload `leaves`, if there is one, has left it."""
    for d in range(p.usage.shape[1]):
        less = p.usage[leaves, d] if leaves >= 0 else 0.0
        if lacks(p.usage[i, d] - less, p.capacity[m, d] - p.after[m, d], p.capacity[m, d]):
            return False
    return bool(p.capacity[m, 0] > 0)


@inner(_nrt=False)
def _cost(p: Present, c: Costs, m: int, i: int, share: float, j: int, other: float) -> float:
    """What machine m costs with `share` of workload i and `other` of workload j more (1 or -1; NOWHERE: none)."""
    if c.value.first.shape[0] == 0:
        return _expected_cost(p, c, m, i, share, j, other)
    write_features(p, c, m, i, share, j, other)
    return _value(p, c)


@inner(_nrt=False)
def _expected_cost(p: Present, c: Costs, m: int, i: int, share: float, j: int, other: float) -> float:
    resources, parts = c.sizes.shape[1], len(c.slots)
    wide = parts * resources
    alive = 3 * wide + 2 * resources
    load, first, second = p.load[m], p.own[max(i, 0)], p.own[max(j, 0)]
    cost, running = 0.0, load[alive] + share * first[alive] + other * second[alive]
    if p.workloads[m] + share + other < 0.5:
        return 0.0
    for d in range(resources):
        size = c.sizes[m, d]
        cost += c.danger[d] * max(running, 0.0) * _passes(p, c, m, d, i, share, j, other)
        for s in range(parts):
            k = 2 * wide + s * resources + d
            mean = load[k] + share * first[k] + other * second[k]
            k = alive + s
            lives = load[k] + share * first[k] + other * second[k]
            cost += c.slots[s] * unused_in_slot(mean, lives, size, c.units, c.exponent[d])
    return cost


@inner(_nrt=False)
def _passes(p: Present, c: Costs, m: int, d: int, i: int, share: float, j: int, other: float) -> float:
    """Probability that the load of resource d on machine m, changed as in `_cost`, ever exceeds the capacity."""
    resources, parts = c.sizes.shape[1], len(c.slots)
    wide = parts * resources
    alive, peak, limit = 3 * wide + 2 * resources, 3 * wide + d, c.borders[m, d]
    load, first, second = p.load[m], p.own[max(i, 0)], p.own[max(j, 0)]
    running = load[alive] + share * first[alive] + other * second[alive]
    room = limit - load[peak] - share * first[peak] - other * second[peak] + ROUNDING * running
    k = peak + resources
    variance = load[k] + share * first[k] + other * second[k]
    ever = above(room, max(variance, LEAST_PEAK_SPREAD))
    if ever == 0.0:
        return 0.0
    stays = 1.0
    for s in range(parts):
        k = s * resources + d
        room = limit - load[k] - share * first[k] - other * second[k]
        k += wide
        variance = load[k] + share * first[k] + other * second[k]
        stays *= 1.0 - above(room, max(variance, LEAST_SPREAD))
    return min(1.0 - stays, ever)


@njit(inline="always")
def _feature_count(resources: int) -> int:
    return len(SEGMENTS) * (1 + 4 * resources) + 4 * resources + 2 + CONTEXT


def feature_count(resources: int) -> int:
    """F, the features of a machine."""
    return plain(_feature_count)(resources)


@inner(_nrt=False)
def write_features(p: Present, c: Costs, m: int, i: int, share: float, j: int, other: float) -> None:
    """Write to `p.seen` what a value knows of machine m, changed as in `_cost`.

    By segment: workloads that run; by resource, as shares of the machine: expected unused capacity, mean load, largest
    load and its deviation. Then by resource: the chance of an overshoot, the same times the workloads, the load that
    was measured, the mean load of the cluster; workloads, those that have seen no overshoot; the rest of the context.
    """
    resources, parts, out = c.sizes.shape[1], len(c.slots), p.seen
    wide = parts * resources
    alive = 3 * wide + 2 * resources
    load, first, second = p.load[m], p.own[max(i, 0)], p.own[max(j, 0)]
    at = 0
    for s in range(parts):
        k = alive + s
        lives = load[k] + share * first[k] + other * second[k]
        out[at] = lives / MANY
        at += 1
        chance = min(max(lives, 0.0), 1.0)
        for d in range(resources):
            size = max(c.sizes[m, d], 1e-9)
            k = s * resources + d
            most = load[k] + share * first[k] + other * second[k]
            k += wide
            spread = load[k] + share * first[k] + other * second[k]
            k += wide
            mean = load[k] + share * first[k] + other * second[k]
            out[at] = chance * max(1.0 - mean / max(chance, LEAST_CHANCE) / size, 0.0)
            out[at + 1] = mean / size
            out[at + 2] = most / size
            out[at + 3] = math.sqrt(max(spread, 0.0)) / size
            at += 4
    count = p.workloads[m] + (share if i >= 0 else 0.0) + (other if j >= 0 else 0.0)
    unshot = (
        p.unshot[m] + (share * p.fresh[max(i, 0)] if i >= 0 else 0.0) + (other * p.fresh[max(j, 0)] if j >= 0 else 0.0)
    )
    for d in range(resources):
        chance = _passes(p, c, m, d, i, share, j, other) if count > 0.5 else 0.0
        now = p.after[m, d]
        if i >= 0:
            now += share * p.usage[i, d]
        if j >= 0:
            now += other * p.usage[j, d]
        out[at], out[at + 1] = chance, chance * count / MANY
        out[at + 2] = now / p.capacity[m, d] if p.capacity[m, d] > 0 else 0.0
        out[at + 3] = p.context[d]
        at += 4
    out[at], out[at + 1] = count / MANY, unshot / (MANY * resources)
    for k in range(CONTEXT):
        out[at + 2 + k] = p.context[resources + k]


@njit(inline="always", _nrt=False, fastmath=True)
def _add(weights: Float32, row: int, rows: int, w: float, x: float, y: float, z: float, out: Float32) -> None:
    """Add four inputs to the units of a layer at a time, so that sums stay in registers; those from `rows` on are 0."""
    g, h, i = min(row + 1, rows - 1), min(row + 2, rows - 1), min(row + 3, rows - 1)
    for a in range(len(out)):
        out[a] += w * weights[row, a] + x * weights[g, a] + y * weights[h, a] + z * weights[i, a]


@njit(inline="always", _nrt=False)
def _scaled(p: Present, v: Layers, f: int) -> Any:
    """Feature f as the network takes it; 0 beyond the last."""
    return (p.seen[f] - v.mean[f]) / v.scale[f] if f < len(p.seen) else np.float32(0.0)


@njit(inline="always", _nrt=False)
def _leaky(units: Float32, a: int) -> Any:
    """What unit a of a layer passes on; 0 beyond the last."""
    return max(units[a], np.float32(SLOPE) * units[a]) if a < len(units) else np.float32(0.0)


@inner(_nrt=False, fastmath=True)
def _value(p: Present, c: Costs) -> float:
    """The learnt value of a machine with the features `p.seen`, in units of the reward: expected cost from now on."""
    v, seen, hidden = c.value, p.seen, p.hidden
    for a in range(len(hidden)):
        hidden[a] = v.first_bias[a]
    for f in range(0, len(seen), 4):
        w, x, y, z = _scaled(p, v, f), _scaled(p, v, f + 1), _scaled(p, v, f + 2), _scaled(p, v, f + 3)
        _add(v.first, f, len(seen), w, x, y, z, hidden)
    for b in range(len(p.deeper)):
        p.deeper[b] = v.second_bias[b]
    for a in range(0, len(hidden), 4):
        w, x, y, z = _leaky(hidden, a), _leaky(hidden, a + 1), _leaky(hidden, a + 2), _leaky(hidden, a + 3)
        _add(v.second, a, len(hidden), w, x, y, z, p.deeper)
    load, over = v.last_bias[0], v.last_bias[1]
    for b in range(len(p.deeper)):
        x = _leaky(p.deeper, b)
        load += x * v.last[b, 0]
        over += x * v.last[b, 1]
    cost: float = c.scale * (load + c.risk * over)
    return cost


@njit
def all_features(p: Present, c: Costs, out: Float32) -> None:
    """Write the features (M, F) of all machines as they are; `p` is as `find_moves` gets it."""
    _book_all(p)
    for m in range(len(p.cost)):
        write_features(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
        out[m] = p.seen


@njit
def joining(p: Present, c: Costs) -> Float:
    """(M,) what each machine costs more with the last workload of `p`, which is nowhere yet."""
    _book_all(p)
    last, more = len(p.where) - 1, np.empty(len(p.cost))
    for m in range(len(more)):
        more[m] = _cost(p, c, m, last, 1.0, NOWHERE, 0.0) - _cost(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
    return more


@inner(_nrt=False)
def _is_repeated(p: Present, m: int) -> bool:
    """Whether a machine is empty, as one before it of the same size is."""
    if p.workloads[m] > 0:
        return False
    for other in range(m):
        if p.workloads[other] == 0:
            same = True
            for d in range(p.capacity.shape[1]):
                same = same and p.capacity[other, d] == p.capacity[m, d] and p.after[other, d] == p.after[m, d]
            if same:
                return True
    return False


@inner
def _best_single(p: Present, c: Costs, pairs: Pairs, threshold: float, rows: Int, targets: Int) -> tuple[float, int]:
    """The single move that gains most above the threshold: by how much, and how many moves that are (0: none)."""
    best, many, most = 0.0, 0, _most_saved(p, c, pairs)
    bounded, repeated = most < math.inf, np.empty(len(pairs.columns), np.bool_)
    for k in range(len(pairs.columns)):
        repeated[k] = _is_repeated(p, pairs.columns[k])
    start = 0  # first a row that probably gains much: what cannot gain as much is left out
    for r in range(1, len(pairs.rows)):
        here, there = p.movable[pairs.rows[r]], p.movable[pairs.rows[start]]
        if here and (not there or pairs.leaves[r] > pairs.leaves[start]):
            start = r
    floor = 0.0
    for at in range(-1 if len(pairs.rows) else 0, len(pairs.rows)):
        r = at if at >= 0 else start
        i, leaves = pairs.rows[r], pairs.leaves[r]
        bound = leaves + most - threshold
        if not p.movable[i] or bound <= best or bound < floor:
            continue
        for k in range(len(pairs.columns)):
            m = pairs.columns[k]
            bound = leaves + p.cost[m] - threshold
            if m == p.where[i] or repeated[k] or (bounded and (bound <= best or bound < floor)):
                continue
            gain = leaves + p.cost[m] - _joined(p, c, pairs, r, k) - threshold
            if at < 0:
                floor = max(floor, gain)
            elif gain > best:
                best, many = gain, 1
                rows[0], targets[0] = i, m
    return best, many


@inner(_nrt=False)
def _best_swap(
    p: Present, c: Costs, pairs: Pairs, threshold: float, best: float, many: int, rows: Int, targets: Int
) -> tuple[float, int]:
    """The swap of two workloads that gains most, if more than `best`, which `many` moves gain."""
    bounded = c.value.first.shape[0] == 0
    for r in range(len(pairs.rows)):
        i = pairs.rows[r]
        if not p.movable[i]:
            continue
        a = p.where[i]
        for other in range(r):
            j = pairs.rows[other]
            b = p.where[j]
            if not p.movable[j] or a == b or (bounded and p.cost[a] + p.cost[b] - 2.0 * threshold <= best):
                continue
            gain = p.cost[a] + p.cost[b] - _traded(p, c, pairs, r, other)
            if not bounded or gain - 2.0 * threshold > best:
                gain -= _traded(p, c, pairs, other, r)
            if gain - 2.0 * threshold > best:
                best, many = gain - 2.0 * threshold, 2
                rows[0], targets[0], rows[1], targets[1] = i, b, j, a
    return best, many


@inner
def _best_evacuation(
    p: Present, c: Costs, pairs: Pairs, threshold: float, most: int, best: float, many: int, rows: Int, targets: Int
) -> tuple[float, int]:
    """The machine whose workloads, all moved to machines in use, gain most, if more than `best`."""
    chosen, where = np.empty(MOST_TOGETHER, np.int64), np.empty(MOST_TOGETHER, np.int64)
    before, saved = np.empty(MOST_TOGETHER), _most_saved(p, c, pairs)
    bounded = saved < math.inf
    for a in pairs.sources:
        if not 0 < p.workloads[a] <= most:
            continue
        k = 0
        for at in range(pairs.first[a], pairs.first[a + 1]):
            i = pairs.by_machine[at]
            if p.where[i] == a and p.movable[i]:
                chosen[k] = i
                k += 1
        if k < p.workloads[a]:
            continue
        gain, placed = p.cost[a] - k * threshold, 0
        for step in range(k):
            left = saved  # the most that another step can save
            for earlier in range(placed):
                left = max(left, p.cost[where[earlier]])
            if gain + (k - step) * left + SLACK <= best:
                break
            for other in range(step + 1, k):  # the largest first
                if _size(p, chosen[other]) > _size(p, chosen[step]):
                    chosen[step], chosen[other] = chosen[other], chosen[step]
            i, least, target = chosen[step], math.inf, NOWHERE
            for column in range(len(pairs.columns)):
                m, changed = pairs.columns[column], False
                if m == a or p.workloads[m] == 0 or (bounded and -p.cost[m] >= least):
                    continue
                for earlier in range(placed):
                    changed = changed or where[earlier] == m
                if not changed:
                    cost = _joined(p, c, pairs, pairs.row_of[i], column)
                else:
                    cost = _cost(p, c, m, i, 1.0, NOWHERE, 0.0) if has_room(p, i, m, NOWHERE) else math.inf
                if cost - p.cost[m] < least:
                    least, target = cost - p.cost[m], m
            if target == NOWHERE:
                break
            gain -= least
            where[step], before[step] = target, p.cost[target]
            _book(p, i, target, 1.0)
            _shift(p, i, a, target)
            p.cost[target] += least
            placed += 1
        if placed == k and c.value.first.shape[0] > 0:  # what is learnt of an empty machine: others will come to it
            for step in range(k):
                _book(p, chosen[step], a, -1.0)
            gain -= _cost(p, c, a, NOWHERE, 0.0, NOWHERE, 0.0)
            for step in range(k):
                _book(p, chosen[step], a, 1.0)
        for step in range(placed - 1, -1, -1):
            i, m = chosen[step], where[step]
            _book(p, i, m, -1.0)
            _shift(p, i, m, a)
            p.cost[m] = before[step]
        if placed == k and gain > best:
            best, many = gain, k
            for step in range(k):
                rows[step], targets[step] = chosen[step], where[step]
    return best, many
