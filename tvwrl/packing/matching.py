"""Compiled planner that takes the best-scored pair of application and machine, one replica at a time (Algorithm 4).

A machine's best application changes only when the machine receives a replica or the application has none left. So
machines are kept in a heap by their best score, and only the top one is examined: its score is exact if its application
still has replicas; otherwise the score is an upper bound and the machine is scored again. Empty machines of the same
kind are alike, so only the first of them is in the heap.

Arguments and sizes as in `packing.affinity`; `sizes`, `score`: filling.Sizes, filling.Score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import UNLIMITED, Applications, Packing
from tvwrl.packing.filling import Score, Sizes, limit_neighbours, pull
from tvwrl.packing.fit import has_room, int64
from tvwrl.types import Float, Int, Int32

DRIFT = 1e-2  # relative change of the proportions of total residuals after which all machines are scored anew


class Pairs(NamedTuple):
    """Machines by their best application, changed in place."""

    heap: Int32  # (M,) int32: machines, best first (ties: lowest machine)
    size: Int  # (1,) int64: machines in the heap
    value: Float  # (M,) float64: best score of a machine, an upper bound if the application has no replicas left
    best: Int32  # (M,) int32: the application, -1: none fits
    top: Int32  # (M,) int32: newest entry on a machine, -1: empty
    below: Int32  # (R,) int32: entry before it on the same machine
    whose: Int32  # (R,) int32: application of an entry
    total: Float  # (K,) float64: residual of all machines
    frozen: Float  # (K,) float64: the same when scores were last computed
    head: Int  # (S,) int64: first member of a size with replicas left
    cap: Int32  # (A,) int32, scratch, UNLIMITED in between
    here: Int32  # (A,) int32, scratch: replicas on the machine at hand, 0 in between
    touched: Int32  # (A,) int32, scratch
    scores: Float  # (S,) float64, scratch
    pull: Float  # (K,) float64, scratch


@inner
def _before(q: Pairs, x: int, y: int) -> bool:
    return q.value[x] > q.value[y] or (q.value[x] == q.value[y] and x < y)


@inner
def _down(q: Pairs, at: int) -> None:
    """Move the machine at `at` of the heap down to its place."""
    m, size = q.heap[at], q.size[0]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(q, q.heap[child + 1], q.heap[child]):
            child += 1
        if not _before(q, q.heap[child], m):
            break
        q.heap[at] = q.heap[child]
        at = child
    q.heap[at] = m


@inner
def _push(q: Pairs, m: int) -> None:
    at = q.size[0]
    q.size[0] += 1
    while at > 0 and _before(q, m, q.heap[(at - 1) // 2]):
        q.heap[at] = q.heap[(at - 1) // 2]
        at = (at - 1) // 2
    q.heap[at] = m


@inner
def _rescore(a: Applications, p: Packing, q: Pairs, sizes: Sizes, score: Score, m: int) -> None:
    """Find the best application of machine m."""
    lowered, entry = int64(0), q.top[m]
    while entry >= 0:
        q.here[q.whose[entry]] = p.count[entry]
        lowered = limit_neighbours(a, q.whose[entry], p.count[entry], q.cap, q.touched, lowered)
        entry = q.below[entry]
    pull(score, p.residual, m, q.frozen, q.pull)
    head, scores, f, start, member, left = q.head, q.scores, q.pull, sizes.start, sizes.member, p.left
    demand, needed, residual, own = sizes.demand, sizes.needed, p.residual, score.own
    for g in range(len(head)):
        while head[g] < start[g + 1] and left[member[head[g]]] == 0:
            head[g] += 1
        value = -np.inf
        if head[g] < start[g + 1] and has_room(needed, g, residual, m):
            value = -own[g]
            for k in range(len(f)):
                value += f[k] * demand[g, k]
        scores[g] = value
    q.best[m], q.value[m] = _best(a, p, q, sizes)
    if score.distance:
        for k in range(len(q.pull)):
            q.value[m] -= 0.5 * q.pull[k] * p.residual[m, k]
    entry = q.top[m]
    while entry >= 0:
        q.here[q.whose[entry]] = 0
        entry = q.below[entry]
    for t in range(lowered):
        q.cap[q.touched[t]] = UNLIMITED


@inner
def _best(a: Applications, p: Packing, q: Pairs, sizes: Sizes) -> tuple[int, float]:
    """Application of the best size that has one which affinity allows, and its score; -1 if there is none."""
    scores, member, left, here, cap, own = q.scores, sizes.member, p.left, q.here, q.cap, a.own
    while True:
        g, value = -1, -np.inf
        for c in range(len(scores)):
            if scores[c] > value:
                g, value = c, scores[c]
        if g < 0:
            return -1, -np.inf
        for at in range(q.head[g], sizes.start[g + 1]):
            i = member[at]
            if left[i] > 0 and here[i] < cap[i] and here[i] < own[i]:
                return i, value
        scores[g] = -np.inf


@inner
def _put(a: Applications, p: Packing, q: Pairs, i: int, m: int) -> None:
    """Place one replica of i on machine m."""
    entry = q.top[m]
    while entry >= 0 and q.whose[entry] != i:
        entry = q.below[entry]
    if entry < 0:
        entry = p.first[i] + p.used[i]
        p.used[i] += 1
        p.machine[entry], p.count[entry], q.whose[entry] = m, 0, i
        q.below[entry], q.top[m] = q.top[m], entry
    p.count[entry] += 1
    p.left[i] -= 1
    for k in range(a.demand.shape[1]):
        p.residual[m, k] -= a.demand[i, k]
        q.total[k] -= a.demand[i, k]


@inner
def _drifted(q: Pairs) -> bool:
    now, then = max(q.total.sum(), 1e-300), max(q.frozen.sum(), 1e-300)
    for k in range(len(q.total)):
        share, was = q.total[k] / now, q.frozen[k] / then
        if abs(share - was) > DRIFT * was:
            return True
    return False


@njit
def match(a: Applications, p: Packing, q: Pairs, sizes: Sizes, score: Score, steps: int) -> bool:
    """Take up to `steps` best pairs. Returns whether there may be more; if not, what is left fits nowhere.

    All machines are open. For scores over the total residual that total is taken anew once proportions have changed by
    DRIFT (paper: at every step).
    """
    empty_from = len(p.capacity) - 1  # machines from here on are alike until they are used
    if q.size[0] == 0:
        for m in range(min(empty_from + 1, p.open[0])):
            _rescore(a, p, q, sizes, score, m)
            _push(q, m)
    while steps > 0 and q.size[0] > 0:
        m = q.heap[0]
        i = q.best[m]
        if i < 0:  # nothing that is left fits, and nothing ever will
            q.size[0] -= 1
            q.heap[0] = q.heap[q.size[0]]
            _down(q, 0)
            continue
        fresh = p.left[i] > 0 and q.top[m] < 0
        if p.left[i] > 0:
            _put(a, p, q, i, m)
            steps -= 1
        _rescore(a, p, q, sizes, score, m)
        _down(q, 0)
        if fresh and empty_from <= m < p.open[0] - 1:
            _rescore(a, p, q, sizes, score, m + 1)
            _push(q, m + 1)
        if score.of_total and _drifted(q):
            _rescore_all(a, p, q, sizes, score)
    more: bool = q.size[0] > 0
    return more


@inner
def _rescore_all(a: Applications, p: Packing, q: Pairs, sizes: Sizes, score: Score) -> None:
    q.frozen[:] = q.total
    for at in range(q.size[0]):
        _rescore(a, p, q, sizes, score, q.heap[at])
    for at in range(q.size[0] // 2 - 1, -1, -1):
        _down(q, at)
