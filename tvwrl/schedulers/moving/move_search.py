"""The search for moves that lower a cost which is a sum over machines: of single workloads, of all workloads of a
machine, and swaps. Compiled.

Up to `EXACT` pairs of a workload and a machine all are considered. Of more, only those of the most promising workloads,
machines to empty and targets are, with numbers that grow with the moves that are left; see `_shortlist`. A cost that
was computed is kept until one of its machines changes, and expected costs, which are never negative, are not computed
where even a cost of 0 would not gain enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tvwrl.checks import whole, within
from tvwrl.compiled import inner, njit
from tvwrl.schedulers.moving.base import MoveRule
from tvwrl.schedulers.moving.machine_costs import (
    NOWHERE,
    Costs,
    Present,
    book,
    book_all,
    cost_with,
    expected_cost_with,
    has_room,
    present,
    shift,
    size_of,
)
from tvwrl.simulation import Cluster
from tvwrl.types import Bool, Float, Int, Move

MOST_TOGETHER = 8  # workloads of a machine that are moved away together, at most
SINGLE, TOGETHER, SWAP = 1, 2, 4  # bits of the kinds of moves that are considered
EXACT = 10_000  # pairs of which all are considered
SOURCES, PER_MOVE = 64, 2  # single workloads that are considered otherwise, and more for each move
SLACK = 1e-6  # units of the reward that rounding may hide in a bound
EMPTIED = 32  # machines of which it is considered to empty them, and as many more as there are moves
TARGETS, PROBES = 64, 8  # machines to which they may go, and as many more as moves; workloads for which these are best


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


class Search(NamedTuple):
    """What moves are looked for."""

    costs: Costs
    kinds: int  # bits of `SINGLE`, `TOGETHER` and `SWAP`
    threshold: float  # that the gain of a move must exceed, for every workload that it moves
    most: int  # workloads of a machine that are moved away together
    single: float = 1.0  # factor on the threshold of workloads that are moved alone


def check_together(most: float) -> int:
    """`most` workloads of a machine that may be moved together. Raises InputError unless it is 1 to 8."""
    within(1, MOST_TOGETHER, most=most)
    whole(most=most)
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
    book_all(p)
    for m in range(len(p.cost)):
        p.cost[m] = cost_with(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
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
            book(p, i, old, -1.0)
            book(p, i, m, 1.0)
            shift(p, i, old, m)
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
            costs[m] = expected_cost_with(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
        considered[:] = False
        if kinds & (SINGLE | SWAP):
            for i in range(workloads):
                if p.movable[i]:
                    m = p.where[i]
                    score[i] = costs[m] - expected_cost_with(p, c, m, i, -1.0, NOWHERE, 0.0)
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
                if not targets[m] and m != p.where[i] and has_room(p, i, m, NOWHERE) and not is_repeated(p, m):
                    more[m] = costs[m] - expected_cost_with(p, c, m, i, 1.0, NOWHERE, 0.0)
            _mark_largest(more, (TARGETS + limit) // PROBES, targets)

    rows, columns = np.flatnonzero(considered), np.flatnonzero(targets)
    row_of, column_of = np.full(workloads, NOWHERE), np.full(machines, NOWHERE)
    row_of[rows], column_of[columns] = np.arange(len(rows)), np.arange(len(columns))
    swaps = len(rows) if kinds & SWAP else 0
    leaves = np.zeros(len(rows))
    if kinds & SINGLE:
        for r in range(len(rows)):
            old = p.where[rows[r]]
            leaves[r] = p.cost[old] - cost_with(p, c, old, rows[r], -1.0, NOWHERE, 0.0)
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
    p.cost[m] = cost_with(p, c, m, NOWHERE, 0.0, NOWHERE, 0.0)
    column = pairs.column_of[m]
    for r in range(len(pairs.rows)):
        if column >= 0:
            pairs.joins[r, column] = np.nan
        i = pairs.rows[r]
        if p.where[i] == m and p.movable[i]:
            if kinds & SINGLE:
                pairs.leaves[r] = p.cost[m] - cost_with(p, c, m, i, -1.0, NOWHERE, 0.0)
            for other in range(len(pairs.trades)):
                pairs.trades[r, other] = np.nan


@inner(_nrt=False)
def _joined(p: Present, c: Costs, pairs: Pairs, r: int, column: int) -> float:
    """What a machine costs with a workload more; infinite if it has no room."""
    cost: float = pairs.joins[r, column]
    if math.isnan(cost):
        i, m = pairs.rows[r], pairs.columns[column]
        cost = cost_with(p, c, m, i, 1.0, NOWHERE, 0.0) if has_room(p, i, m, NOWHERE) else math.inf
        pairs.joins[r, column] = cost
    return cost


@inner(_nrt=False)
def _traded(p: Present, c: Costs, pairs: Pairs, r: int, other: int) -> float:
    """What the machine of a row's workload costs with another's in place of it; infinite if it has no room."""
    cost: float = pairs.trades[r, other]
    if math.isnan(cost):
        i, j = pairs.rows[r], pairs.rows[other]
        m = p.where[i]
        cost = cost_with(p, c, m, i, -1.0, j, 1.0) if has_room(p, j, m, i) else math.inf
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
def is_repeated(p: Present, m: int) -> bool:
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
        repeated[k] = is_repeated(p, pairs.columns[k])
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
                if size_of(p, chosen[other]) > size_of(p, chosen[step]):
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
                    cost = cost_with(p, c, m, i, 1.0, NOWHERE, 0.0) if has_room(p, i, m, NOWHERE) else math.inf
                if cost - p.cost[m] < least:
                    least, target = cost - p.cost[m], m
            if target == NOWHERE:
                break
            gain -= least
            where[step], before[step] = target, p.cost[target]
            book(p, i, target, 1.0)
            shift(p, i, a, target)
            p.cost[target] += least
            placed += 1
        if placed == k and c.value.first.shape[0] > 0:  # what is learnt of an empty machine: others will come to it
            for step in range(k):
                book(p, chosen[step], a, -1.0)
            gain -= cost_with(p, c, a, NOWHERE, 0.0, NOWHERE, 0.0)
            for step in range(k):
                book(p, chosen[step], a, 1.0)
        for step in range(placed - 1, -1, -1):
            i, m = chosen[step], where[step]
            book(p, i, m, -1.0)
            shift(p, i, m, a)
            p.cost[m] = before[step]
        if placed == k and gain > best:
            best, many = gain, k
            for step in range(k):
                rows[step], targets[step] = chosen[step], where[step]
    return best, many
