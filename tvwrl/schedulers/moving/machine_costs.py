"""What machines cost, for searches of moves: the expected cost of what runs there and is on its way, as of
`expected_costs`, or a learnt value, if there are weights of one. Compiled.

`present` takes what runs from a cluster; `cost_with` is what a machine costs with a workload more, or less.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

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
from tvwrl.simulation import Cluster, Running
from tvwrl.types import Bool, Float, Float32, Int, Workload

NOWHERE = -1
CONTEXT = 4  # numbers of the whole cluster, beside its mean loads
MANY = 10.0  # workloads that count as 1
SLOPE = 0.01  # of the leaky rectifier
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
    if len(own) == 0:
        own = np.zeros((1, own.shape[1]))  # `cost_with` looks at the first where it adds none
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


@inner(_nrt=False)
def book(p: Present, i: int, m: int, sign: float) -> None:
    """Add the forecast of workload i to machine m, or take it away."""
    for c in range(p.load.shape[1]):
        p.load[m, c] += sign * p.own[i, c]
    p.workloads[m] += 1 if sign > 0 else -1
    p.unshot[m] += p.fresh[i] if sign > 0 else -p.fresh[i]


@inner(_nrt=False)
def book_all(p: Present) -> None:
    """Add all forecasts to the machines that the workloads are on."""
    for i in range(len(p.where)):
        if p.where[i] != NOWHERE:
            book(p, i, p.where[i], 1.0)


@inner(_nrt=False)
def shift(p: Present, i: int, old: int, m: int) -> None:
    """The measured usage of workload i counts on another machine."""
    for d in range(p.usage.shape[1]):
        p.after[old, d] -= p.usage[i, d]
        p.after[m, d] += p.usage[i, d]


@inner(_nrt=False)
def size_of(p: Present, i: int) -> float:
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
def cost_with(p: Present, c: Costs, m: int, i: int, share: float, j: int, other: float) -> float:
    """What machine m costs with `share` of workload i and `other` of workload j more (1 or -1; NOWHERE: none)."""
    if c.value.first.shape[0] == 0:
        return expected_cost_with(p, c, m, i, share, j, other)
    write_features(p, c, m, i, share, j, other)
    return _value(p, c)


@inner(_nrt=False)
def expected_cost_with(p: Present, c: Costs, m: int, i: int, share: float, j: int, other: float) -> float:
    """The expected cost of machine m, changed as in `cost_with`, in units of the reward; 0 if nothing runs there."""
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
    """Probability that the load of resource d on machine m, changed as in `cost_with`, ever exceeds the capacity."""
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
    """Write to `p.seen` what a value knows of machine m, changed as in `cost_with`.

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
    book_all(p)
    for m in range(len(p.cost)):
        write_features(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
        out[m] = p.seen


@njit
def joining(p: Present, c: Costs) -> Float:
    """(M,) what each machine costs more with the last workload of `p`, which is nowhere yet."""
    book_all(p)
    last, more = len(p.where) - 1, np.empty(len(p.cost))
    for m in range(len(more)):
        more[m] = cost_with(p, c, m, last, 1.0, NOWHERE, 0.0) - cost_with(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
    return more
