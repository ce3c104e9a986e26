"""A policy that draws moves: softmax over pairs of a workload and a machine, machines to empty, and stop. Compiled.

The logit of a move is what it lowers the learnt values of machines by, less its price times a threshold, divided by a
temperature; that of stop is 0. So the weights are those of a value of machines, and the moves which
`machine-value` makes are the most probable ones. `climb` adds to the gradient of the weights what drawn moves brought.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.schedulers.moving.machine_costs import (
    NOWHERE,
    SLOPE,
    Costs,
    Layers,
    Present,
    book,
    cost_with,
    has_room,
    shift,
    size_of,
)
from tvwrl.schedulers.moving.move_search import (
    MOST_TOGETHER,
    is_repeated,
)
from tvwrl.types import Float, Float32, Int

LEAST_SHARE = 1e-4  # of a gradient: options with a smaller probability are left out of it


class Drawing(NamedTuple):
    """How moves are drawn."""

    threshold: float  # that each move has to gain, in units of the reward
    temperature: float  # units of the reward that a logit is divided by
    most: int  # workloads of a machine that are moved away together


class Decisions(NamedTuple):
    """What was drawn in a slot: at most L moves in at most L + 1 decisions."""

    moves: Int  # (L, 2) workload's row, and machine
    option: Int  # (L + 1,) which: row * M + machine, rows * M + machine to empty, or the last: stop
    end: Int  # (L + 1,) moves that were made after it
    log: Float  # (L + 1,) logarithm of its probability


class Options(NamedTuple):
    """Scratch: what could be done in a slot. n workloads, M machines."""

    leaves: Float  # (n,) what its machine costs less without a workload; NaN: not computed
    joins: Float  # (n, M) what a machine costs with it; NaN: not computed, inf: not possible
    together: Int  # (M, MOST_TOGETHER) workloads of a machine that is emptied, the largest first
    targets: Int  # (M, MOST_TOGETHER) where these go
    many: Int  # (M,) how many; 0: it can't be emptied
    logits: Float  # (n * M + M + 1,)


def no_decisions(limit: int) -> Decisions:
    """Room for what is drawn in a slot in which `limit` moves may be made."""
    option, end = np.empty((2, limit + 1), np.int64)
    return Decisions(np.empty((limit, 2), np.int64), option, end, np.empty(limit + 1))


def untouched(p: Present) -> Present:
    """A copy of what drawing changes, so that the slot can be played again."""
    again = ("where", "movable", "load", "after", "cost", "workloads", "unshot")
    return p._replace(**{name: getattr(p, name).copy() for name in again})


@njit
def draw_moves(p: Present, c: Costs, drawing: Drawing, uniform: Float, made: Decisions, features: Float32) -> int:
    """Draw moves and carry them out in `p`, one decision after another, until stop or the limit.

    `uniform`: (L + 1,) random numbers in 0..1; `features`: (output) (2, M, F) of the machines before and after the
    moves.

    Returns the number of decisions.
    """
    o = _begin(p, c, features[0])
    decisions, moves = 0, 0
    while moves < len(made.moves):
        _weigh(p, c, drawing, o)
        k, log = _draw(o.logits, uniform[decisions])
        before = moves
        moves = _carry_out(p, c, o, k, made.moves, moves)
        made.option[decisions], made.end[decisions], made.log[decisions] = k, moves, log
        decisions += 1
        if moves == before:
            break
        for at in range(before, moves):
            _make(p, c, o, made.moves[at, 0], made.moves[at, 1])
    for m in range(len(p.cost)):
        cost_with(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
        features[1, m] = p.seen
    return decisions


@njit
def climb(
    p: Present, c: Costs, drawing: Drawing, made: Decisions, decisions: int, gains: Float, clip: float, up: Layers
) -> float:
    """Add to `up` the gradient of sum of gain x log-probability of the decisions that were drawn in a slot.

    With `clip` above 0 it is that of the clipped ratio of PPO between now and when they were drawn; the weights may
    have changed since. `gains`: (L + 1,) of the decisions. Returns the sum of ratio - 1 - log ratio, an estimate of the
    Kullback-Leibler divergence.
    """
    o = _begin(p, c, np.empty((len(p.cost), len(p.seen)), np.float32))
    apart, moves = 0.0, 0
    whole = np.empty(len(p.cost))
    for d in range(decisions):
        _weigh(p, c, drawing, o)
        top = o.logits.max()
        sum_ = np.exp(o.logits - top).sum()
        k = made.option[d]
        log = o.logits[k] - top - math.log(sum_)
        ratio = math.exp(min(max(log - made.log[d], -20.0), 20.0))
        apart += ratio - 1.0 - (log - made.log[d])
        factor = gains[d] / drawing.temperature
        if clip > 0.0:
            beyond = ratio > 1.0 + clip if gains[d] > 0 else ratio < 1.0 - clip
            factor *= 0.0 if beyond else ratio
        if factor != 0.0 and o.logits[k] > -math.inf:
            _spread(p, c, o, k, factor, top, sum_, whole, up)
        while moves < made.end[d]:
            _make(p, c, o, made.moves[moves, 0], made.moves[moves, 1])
            moves += 1
    return apart


@inner
def _begin(p: Present, c: Costs, features: Float32) -> Options:
    """Compute what machines cost, and write their features (M, F)."""
    workloads, machines = len(p.where), len(p.cost)
    for i in range(workloads):
        book(p, i, p.where[i], 1.0)
    for m in range(machines):
        p.cost[m] = cost_with(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
        features[m] = p.seen
    together = np.empty((machines, MOST_TOGETHER), np.int64)
    logits = np.empty(workloads * machines + machines + 1)
    return Options(
        np.full(workloads, np.nan), np.full((workloads, machines), np.nan), together, together.copy(),
        np.zeros(machines, np.int64), logits,
    )  # fmt: skip


@inner
def _weigh(p: Present, c: Costs, drawing: Drawing, o: Options) -> None:
    """Write the logits of all options."""
    workloads, machines = len(p.where), len(p.cost)
    o.logits[:] = -math.inf
    for i in range(workloads):
        a = p.where[i]
        if not p.movable[i]:
            continue
        if math.isnan(o.leaves[i]):
            o.leaves[i] = p.cost[a] - cost_with(p, c, a, i, -1.0, NOWHERE, 0.0)
        for m in range(machines):
            if m != a and not is_repeated(p, m):
                gain = o.leaves[i] + p.cost[m] - _joins(p, c, o, i, m)
                o.logits[i * machines + m] = (gain - drawing.threshold) / drawing.temperature
    for a in range(machines):
        o.many[a] = 0
        if 2 <= p.workloads[a] <= drawing.most:
            gain = _emptied(p, c, o, a)
            if o.many[a]:
                gain -= o.many[a] * drawing.threshold
                o.logits[workloads * machines + a] = gain / drawing.temperature
    o.logits[-1] = 0.0


@inner(_nrt=False)
def _joins(p: Present, c: Costs, o: Options, i: int, m: int) -> float:
    cost = float(o.joins[i, m])
    if math.isnan(cost):
        cost = cost_with(p, c, m, i, 1.0, NOWHERE, 0.0) if has_room(p, i, m, NOWHERE) else math.inf
        o.joins[i, m] = cost
    return cost


@inner(_nrt=False)
def _emptied(p: Present, c: Costs, o: Options, a: int) -> float:
    """What emptying machine a gains, each workload going to the machine in use that costs least more; see `o`."""
    machines, k, gain = len(p.cost), 0, float(p.cost[a])
    for i in range(len(p.where)):
        if p.where[i] == a:
            if not p.movable[i]:
                return 0.0
            at = k
            while at > 0 and size_of(p, o.together[a, at - 1]) < size_of(p, i):
                o.together[a, at] = o.together[a, at - 1]
                at -= 1
            o.together[a, at] = i
            k += 1
    placed = 0
    for step in range(k):
        i, least, target = o.together[a, step], math.inf, NOWHERE
        for m in range(machines):
            if m == a or p.workloads[m] == 0:
                continue
            before, changed = p.cost[m], False
            for earlier in range(step):
                changed = changed or o.targets[a, earlier] == m
            if changed:
                before = cost_with(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
                cost = cost_with(p, c, m, i, 1.0, NOWHERE, 0.0) if has_room(p, i, m, NOWHERE) else math.inf
            else:
                cost = _joins(p, c, o, i, m)
            if cost - before < least:
                least, target = cost - before, m
        if target == NOWHERE:
            break
        gain -= least
        o.targets[a, step] = target
        book(p, i, target, 1.0)
        shift(p, i, a, target)
        placed += 1
    if placed == k:
        o.many[a] = k
        for step in range(k):
            book(p, o.together[a, step], a, -1.0)
        gain -= cost_with(p, c, a, NOWHERE, 0.0, NOWHERE, 0.0)
        for step in range(k):
            book(p, o.together[a, step], a, 1.0)
    for step in range(placed - 1, -1, -1):
        i, m = o.together[a, step], o.targets[a, step]
        book(p, i, m, -1.0)
        shift(p, i, m, a)
    return gain


@inner(_nrt=False)
def _draw(logits: Float, uniform: float) -> tuple[int, float]:
    """An option and the logarithm of its probability."""
    top, total = -math.inf, 0.0
    for k in range(len(logits)):
        top = max(top, logits[k])
    for k in range(len(logits)):
        total += math.exp(logits[k] - top)
    left, chosen = uniform * total, len(logits) - 1
    for k in range(len(logits)):
        left -= math.exp(logits[k] - top)
        if left < 0.0:
            chosen = k
            break
    return chosen, float(logits[chosen]) - top - math.log(total)


@inner(_nrt=False)
def _carry_out(p: Present, c: Costs, o: Options, k: int, moves: Int, made: int) -> int:
    """Note the moves of an option, up to the limit; returns how many were made up to then."""
    workloads, machines = len(p.where), len(p.cost)
    if k < workloads * machines:
        moves[made, 0], moves[made, 1] = k // machines, k % machines
        return made + 1
    if k < workloads * machines + machines:
        a = k - workloads * machines
        for step in range(min(o.many[a], len(moves) - made)):
            moves[made, 0], moves[made, 1] = o.together[a, step], o.targets[a, step]
            made += 1
    return made


@inner(_nrt=False)
def _make(p: Present, c: Costs, o: Options, i: int, m: int) -> None:
    """Carry out a move, and forget what was computed of its machines."""
    old = p.where[i]
    book(p, i, old, -1.0)
    book(p, i, m, 1.0)
    shift(p, i, old, m)
    p.where[i], p.movable[i] = m, False
    p.cost[old] = cost_with(p, c, old, NOWHERE, 0.0, NOWHERE, 0.0)
    p.cost[m] = cost_with(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
    for j in range(len(p.where)):
        o.joins[j, old] = o.joins[j, m] = math.nan
        if p.where[j] == old or p.where[j] == m:
            o.leaves[j] = math.nan


@inner(_nrt=False)
def _spread(
    p: Present, c: Costs, o: Options, chosen: int, factor: float, top: float, total: float, whole: Float, up: Layers
) -> None:
    """Add `factor` x the gradient of the log-probability of an option, before it is divided by the temperature."""
    workloads, machines = len(p.where), len(p.cost)
    whole[:] = 0.0
    for i in range(workloads):
        a, leaves = p.where[i], 0.0
        for m in range(machines):
            k = i * machines + m
            share = (1.0 if k == chosen else 0.0) - math.exp(o.logits[k] - top) / total
            if abs(share) > LEAST_SHARE:
                leaves += factor * share
                whole[m] += factor * share
                cost_with(p, c, m, i, 1.0, NOWHERE, 0.0)
                _back(p, c, -factor * share, up)
        if leaves != 0.0:
            whole[a] += leaves
            cost_with(p, c, a, i, -1.0, NOWHERE, 0.0)
            _back(p, c, -leaves, up)
    for a in range(machines):
        k = workloads * machines + a
        share = (1.0 if k == chosen else 0.0) - math.exp(o.logits[k] - top) / total
        if abs(share) > LEAST_SHARE:
            _spread_emptied(p, c, o, a, factor * share, whole, up)
    for m in range(machines):
        if whole[m] != 0.0:
            cost_with(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
            _back(p, c, whole[m], up)


@inner(_nrt=False)
def _spread_emptied(p: Present, c: Costs, o: Options, a: int, weight: float, whole: Float, up: Layers) -> None:
    """The same for an option that empties machine a: its gain is that of all machines that change."""
    whole[a] += weight
    for step in range(o.many[a]):
        i, m = o.together[a, step], o.targets[a, step]
        book(p, i, m, 1.0)
        shift(p, i, a, m)
        book(p, i, a, -1.0)
    cost_with(p, c, a, NOWHERE, 0.0, NOWHERE, 0.0)
    _back(p, c, -weight, up)
    for step in range(o.many[a]):
        m, seen = o.targets[a, step], False
        for earlier in range(step):
            seen = seen or o.targets[a, earlier] == m
        if not seen:
            whole[m] += weight
            cost_with(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
            _back(p, c, -weight, up)
    for step in range(o.many[a] - 1, -1, -1):
        i, m = o.together[a, step], o.targets[a, step]
        book(p, i, a, 1.0)
        book(p, i, m, -1.0)
        shift(p, i, m, a)


@inner(_nrt=False, fastmath=True)
def _back(p: Present, c: Costs, weight: float, up: Layers) -> None:
    """Add `weight` x the gradient of the value that `_cost` computed last, whose features and units `p` holds."""
    v = c.value
    load = np.float32(weight * c.scale)
    over = np.float32(weight * c.scale * c.risk)
    up.last_bias[0] += load
    up.last_bias[1] += over
    for b in range(len(p.deeper)):
        slope = np.float32(1.0) if p.deeper[b] > 0 else np.float32(SLOPE)
        up.last[b, 0] += load * slope * p.deeper[b]
        up.last[b, 1] += over * slope * p.deeper[b]
        p.deeper[b] = slope * (load * v.last[b, 0] + over * v.last[b, 1])  # from here on: its gradient
        up.second_bias[b] += p.deeper[b]
    for a in range(len(p.hidden)):
        slope = np.float32(1.0) if p.hidden[a] > 0 else np.float32(SLOPE)
        active, back = slope * p.hidden[a], np.float32(0.0)
        for b in range(len(p.deeper)):
            up.second[a, b] += active * p.deeper[b]
            back += v.second[a, b] * p.deeper[b]
        p.hidden[a] = slope * back
        up.first_bias[a] += p.hidden[a]
    for f in range(len(p.seen)):
        x = (p.seen[f] - v.mean[f]) / v.scale[f]
        for a in range(len(p.hidden)):
            up.first[f, a] += x * p.hidden[a]
