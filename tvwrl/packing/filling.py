"""Compiled planners by score: fill one machine after another (Algorithm 2), or take the best pair (Algorithm 4).

Every score of Table 3 is linear in the demand s of an application: sum_k f_k s_k - own, with a *pull* f that follows
from the machine (`pull`). Applications with equal demand score alike, so scores are computed per *size*, of which there
are far fewer.

The published code fills machines from a list of applications. Before it tries the next one, a pass of neighbour swaps
from the end of the list brings the best-scored one forward. Among equal scores, the order that all those passes left
decides, and plans are the published ones only if it is kept: see `carry`. Scores are computed as there, in single
precision, because its rounding decides which scores are equal.

Arguments and sizes as in `packing.affinity`; `sizes`: Sizes; `score`: Score; `q`: Queue; `f` (K,) float64: the
machine's pull.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import UNLIMITED, Applications, Packing, open_next, put
from tvwrl.packing.fit import has_room, int64, most_that_fit, uint64
from tvwrl.packing.orders import sort_falling
from tvwrl.types import Bool, Float, Float32, Int, Int32

NONE = -1  # no piece


class Score(NamedTuple):
    """Pull of a machine with residual C: f_k = weight_k C_k^power, over the total residual if `of_total`."""

    weight: Float  # (K,) float64
    power: int  # 1 or -1
    of_total: bool
    own: Float  # (S,) float64: subtracted from each size's score, e.g. its squares in a distance
    distance: bool  # whether the score is a distance, so that the machine's own squares count
    capacity: Float32  # (K,) float32
    demanded: Float32  # (K,) float32: demand of all replicas, as a share of capacity


class Sizes(NamedTuple):
    """Applications by demand. Members of size g are `member[start[g]:start[g + 1]]`, in order of input."""

    demand: Float  # (S, K) float64
    needed: Float  # (S, K) float64, as in `packing.affinity.Applications`
    start: Int  # (S + 1,) int64
    member: Int  # (A,) int64
    of: Int  # (A,) int64: the size of each application
    share: Float32  # (K, S) float32: demand as a share of capacity
    asked: Bool  # (K,) bool: whether every size asks for something of it


class Queue(NamedTuple):
    """Applications with replicas left in the order in which machines try them, and *runs* of equal size in it.

    Both lists end at A: what is left of them are the last positions. Runs are of the applications not yet tried.
    """

    order: Int32  # (A,) int32
    begin: Int  # (1,) int64: first position of `order`
    size: Int  # (A,) int64: of each run
    length: Int  # (A,) int64: of each run
    first: Int  # (1,) int64: first run
    spare_order: Int32  # (A,) int32, scratch
    spare_size: Int  # (A,) int64, scratch
    spare_length: Int  # (A,) int64, scratch


class Ranks(NamedTuple):
    """Sizes by falling score on the machine at hand; those of equal score share a class, the best is class 0."""

    order: Int32  # (S,) int32: all sizes
    value: Float32  # (S,) float32: their scores, in that order
    of: Int  # (S,) int64: the class of each size
    score: Float32  # (S,) float32: of each size
    spare_order: Int32  # (S,) int32, scratch
    spare_value: Float32  # (S,) float32, scratch


@njit
def pull(score: Score, residual: Float, m: int, total: Float, f: Float) -> None:
    """Write to `f` (K,) what a unit of demand adds to the score on machine m; `total` (K,) is all open machines'."""
    for k in range(len(f)):
        room = residual[m, k]
        if score.power > 0:
            f[k] = score.weight[k] * room
        else:
            f[k] = score.weight[k] / room if room > 0.0 else 0.0  # then no demand for k fits
        if score.of_total:
            f[k] = f[k] / total[k] if total[k] > 0.0 else 0.0


@inner
def limit_neighbours(a: Applications, i: int, held: int, cap: Int32, touched: Int32, n: int) -> int:
    """Lower `cap` (A,), what a machine allows of each application, for `held` replicas of i on it.

    Those lowered for the first time are added to `touched` (A,) at `n`; returns the new n.
    """
    to, limit, into, into_limit = a.to, a.limit, a.into, a.into_limit
    for e in range(a.start[i], a.start[i + 1]):
        k = to[e]
        if cap[k] == UNLIMITED and limit[e] < UNLIMITED:
            touched[n] = k
            n += 1
        cap[k] = min(cap[k], limit[e])
    for e in range(a.into_start[i], a.into_start[i + 1]):
        k = into[e]
        if held > into_limit[e]:
            if cap[k] == UNLIMITED:
                touched[n] = k
                n += 1
            cap[k] = 0
    return n


@inner
def measure_sizes(score: Score, share: Float32, residual: Float, m: int, total: Float, value: Float32) -> None:
    """Write to `value` (S,) float32 each size's score on machine m, rounded as by the published code.

    `share` (K, S) float32 as in `Sizes`; `total` (K,) float64: residual of all open machines.
    """
    value[:] = 0.0
    for k in range(len(share)):
        capacity, room, of_size = score.capacity[k], np.float32(residual[m, k]), share[k]
        if score.distance:
            there = room / capacity
            for g in range(len(value)):
                value[g] -= (there - of_size[g]) * (there - of_size[g])
            continue
        above, below = (room, capacity) if score.power > 0 else (capacity, room)
        if score.of_total:
            below = score.demanded[k] * np.float32(total[k])
        if below > np.float32(0.0):  # otherwise no demand for k fits
            for g in range(len(value)):
                value[g] += of_size[g] * above / below


@inner
def _rank(ranks: Ranks) -> None:
    """Sort sizes by score anew, and say which class each is in."""
    order, value = ranks.order, ranks.value
    for r in range(len(order)):
        value[r] = ranks.score[order[r]]
    sort_falling(value, order, 0, len(order), ranks.spare_value, ranks.spare_order)
    c = 0
    for r in range(len(order)):
        if r > 0 and value[r] < value[r - 1]:
            c += 1
        ranks.of[order[r]] = c


@inner
def _add_run(size: Int, length: Int, first: int, g: int, count: int) -> int:
    """Put `count` applications of size g before the runs that begin at `first`. Returns where they begin now."""
    if first < len(size) and size[first] == g:
        length[first] += count
        return first
    size[first - 1], length[first - 1] = g, count
    return first - 1


@inner
def list_runs(q: Queue, of: Int, at: int) -> None:
    """Put runs of the applications before position `at` of the queue before those that are listed."""
    first = q.first[0]
    for to in range(at - 1, q.begin[0] - 1, -1):
        first = _add_run(q.size, q.length, first, of[q.order[to]], 1)
    q.first[0] = first


@inner
def _drop(q: Queue, count: int) -> None:
    """Take the next `count` applications, which are tried now, out of the runs."""
    while count > 0:
        first = q.first[0]
        taken = min(count, q.length[first])
        q.length[first] -= taken
        count -= taken
        if q.length[first] == 0:
            q.first[0] += 1


@inner
def _copy(values: Int32, at: int, out: Int32, to: int, count: int) -> None:
    """Write `count` values from position `at` on to `out` from position `to` on."""
    at, to = uint64(at), uint64(to)  # unsigned indices need no look at the end that negative ones count from
    for p in range(uint64(count)):
        out[to + p] = values[at + p]


@inner
def carry(q: Queue, at: int, passes: int, of_size: Int) -> None:
    """Bring the `passes` best applications to position `at` of the queue, as so many passes of neighbour swaps would.

    A pass walks from the end to `at` and carries the best application that it has met: a better one before it takes its
    place, and so does an equal one. Many passes, one behind the other, do what one does that carries as many: when it
    meets another, it puts down the worst of them all, of equal ones that which it met first. Those carried, of each
    class (`of_size` (S,)), are a queue of pieces of the old order. The runs are those from `at` on, and stay so.
    """
    classes, end, runs = of_size.max() + 1, len(q.order), len(q.size) - q.first[0]
    oldest, newest = np.full((2, classes), NONE)
    low, high, size, behind = np.empty((4, runs), np.int64)  # of pieces: positions low .. high - 1
    order, out = q.order, q.spare_order
    carried, worst, first = int64(0), -1, len(q.size)
    position, put_down, last = end, end, end
    for r in range(len(q.size) - 1, q.first[0] - 2, -1):
        over = carried  # at the end: put down all
        if r >= q.first[0]:
            n, g, length = r - q.first[0], q.size[r], q.length[r]
            c, position, over = of_size[g], position - length, carried + length - passes
            low[n], high[n], size[n], behind[n] = position, position + length, g, NONE
            if c > worst and over == length:  # none is carried further
                if last > put_down or position + length < put_down:
                    _copy(order, position, out, put_down - length, length)
                else:
                    last = position
                put_down -= length
                first = _add_run(q.spare_size, q.spare_length, first, g, length)
                continue
            carried += length
            if oldest[c] == NONE:
                oldest[c] = n
            else:
                behind[newest[c]] = n
            newest[c], worst = n, max(worst, c)
        while over > 0:
            n = oldest[worst]
            if n == NONE:
                worst -= 1
                continue
            count = min(over, high[n] - low[n])
            high[n] -= count
            if last > put_down or high[n] + count < put_down:
                _copy(order, high[n], out, put_down - count, count)
            else:
                last = high[n]  # those behind it stay where they are
            put_down, over, carried = put_down - count, over - count, carried - count
            first = _add_run(q.spare_size, q.spare_length, first, size[n], count)
            if high[n] == low[n]:
                oldest[worst] = behind[n]
    _copy(out, at, order, at, last - at)
    q.size[first:], q.length[first:], q.first[0] = q.spare_size[first:], q.spare_length[first:], first


@inner
def _next(
    a: Applications, p: Packing, q: Queue, sizes: Sizes, of_size: Int, m: int, at: int, fits: Bool, cap: Int32
) -> tuple[int, bool]:
    """How many passes bring forward the first application that fits m, and whether there is any; `carry` does them.

    All that is left if none fits. `fits` (S,) bool: sizes that may fit m; those that do not are struck off.
    """
    best, where, position, size, length, first = len(of_size), -1, at, q.size, q.length, q.first[0]
    for r in range(first, len(size)):
        g = size[r]
        if fits[g] and of_size[g] < best:
            fits[g] = has_room(sizes.needed, g, p.residual, m)
            for to in range(position, position + length[r] if fits[g] else position):
                if cap[q.order[to]] > 0 and a.own[q.order[to]] > 0:
                    best, where = of_size[g], to
                    break
        position += length[r]
    if where < 0:
        return len(q.order) - at, False
    passes, position = 1, at
    for r in range(first, len(size)):
        if of_size[size[r]] < best:
            passes += length[r]
        elif of_size[size[r]] == best and position < where:
            passes += min(length[r], where - position)
        position += length[r]
    return passes, True


@inner
def _sorted(q: Queue, of_size: Int) -> bool:
    """Whether passes would change nothing."""
    for r in range(q.first[0] + 1, len(q.size)):  # noqa: SIM110, numba knows no generators
        if of_size[q.size[r]] < of_size[q.size[r - 1]]:
            return False
    return True


@inner
def _used_up(sizes: Sizes, residual: Float, m: int) -> bool:
    """Whether machine m has nothing left of something that all applications ask for."""
    for k in range(len(sizes.asked)):  # noqa: SIM110, numba knows no generators
        if sizes.asked[k] and residual[m, k] <= 0.0:
            return True
    return False


@njit
def fill(
    a: Applications,
    p: Packing,
    q: Queue,
    sizes: Sizes,
    score: Score,
    total: Float,
    cap: Int32,
    touched: Int32,
    machines: int,
) -> bool:
    """Open and fill up to `machines` more machines, the best-scored application that fits next, as often as it fits.

    Returns whether anything is left to place and a machine to open for it. Scratch: `cap` (A,) int32, UNLIMITED;
    `touched` (A,) int32; `total` (K,).
    """
    count = len(sizes.start) - 1
    fits = np.empty(count, np.bool_)
    value, spare = np.empty((3, count), np.float32), np.empty(count, np.int32)
    order, of_size = np.arange(count).astype(np.int32), np.empty(count, np.int64)
    ranks = Ranks(order, value[0], of_size, value[1], spare, value[2])
    q.first[0] = len(q.size)
    list_runs(q, sizes.of, len(q.order))
    for _ in range(machines):
        if q.begin[0] == len(q.order) or not _open_for_any(a, p, q):
            return False
        m = p.open[0] - 1
        total[:] += p.residual[m]
        fits[:] = True
        _fill_one(a, p, q, sizes, score, total, m, ranks, fits, cap, touched)
    return True


@inner
def _open_for_any(a: Applications, p: Packing, q: Queue) -> bool:
    """Open the next machine if it, or one after it, can take anything that is left."""
    at = q.begin[0]
    for r in range(q.first[0], len(q.size)):
        if open_next(a, p, q.order[at]):
            return True
        at += q.length[r]
    return False


@inner
def _fill_one(
    a: Applications,
    p: Packing,
    q: Queue,
    sizes: Sizes,
    score: Score,
    total: Float,  # (K,) float64: residual of all open machines, updated in place
    m: int,  # the machine to fill, open and empty
    ranks: Ranks,  # Ranks, scratch
    fits: Bool,  # (S,) bool, scratch, True: whether each size may fit m
    cap: Int32,  # (A,) int32, scratch: replicas that affinity allows on m, UNLIMITED before and after
    touched: Int32,  # (A,) int32, scratch: applications whose `cap` was lowered
) -> None:
    """Fill machine m: the best-scored application that fits comes next, until none fits or the machine is used up."""
    at, lowered, order, end = q.begin[0], int64(0), q.order, len(q.order)
    while at < end:
        measure_sizes(score, sizes.share, p.residual, m, total, ranks.score)
        _rank(ranks)
        passes, any_fits = _next(a, p, q, sizes, ranks.of, m, at, fits, cap)
        if not _sorted(q, ranks.of):
            carry(q, at, passes, ranks.of)
        _drop(q, passes)
        at += passes
        if not any_fits:
            break
        i = int64(order[at - 1])
        placed = most_that_fit(a.demand, a.needed, i, p.residual, m, min(p.left[i], cap[i], a.own[i]))
        put(a, p, i, m, placed)
        total[:] -= placed * a.demand[i]
        p.count[p.first[i] + p.used[i] - 1], p.held[m] = placed, 0
        lowered = limit_neighbours(a, i, placed, cap, touched, lowered)
        if p.left[i] == 0:  # the published code swaps it with the first, and forgets it
            order[at - 1] = order[q.begin[0]]
            q.begin[0] += 1
        if _used_up(sizes, p.residual, m):
            break
    list_runs(q, sizes.of, at)
    for t in range(lowered):
        cap[touched[t]] = UNLIMITED
