"""Compiled planners by score: fill one machine after another (Algorithm 2), or take the best pair (Algorithm 4).

Every score of Table 3 is linear in the demand s of an application: sum_k f_k s_k - own, with a *pull* f that follows
from the machine (`pull`). Applications with equal demand score alike, so scores are computed per *size*, of which there
are far fewer; the applications of a size are tried in the order of input.

Arguments and sizes as in `packing.affinity`; `sizes`: Sizes; `score`: Score; `f` (K,) float64: the machine's pull.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import UNLIMITED, open_next, put
from tvwrl.packing.fit import has_room, most_that_fit


class Score(NamedTuple):
    """Pull of a machine with residual C: f_k = weight_k C_k^power, over the total residual if `of_total`."""

    weight: Any  # (K,) float64
    power: int  # 1 or -1
    of_total: bool
    own: Any  # (S,) float64: subtracted from each size's score, e.g. its squares in a distance
    distance: bool  # whether the score is a distance, so that the machine's own squares count


class Sizes(NamedTuple):
    """Applications by demand. Members of size g are `member[start[g]:start[g + 1]]`, in order of input."""

    demand: Any  # (S, K) float64
    needed: Any  # (S, K) float64, as in `packing.affinity.Applications`
    start: Any  # (S + 1,) int64
    member: Any  # (A,) int64


@njit
def pull(score, residual, m, total, f):  # type: ignore[no-untyped-def]
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
def _dot(f, demand, g):  # type: ignore[no-untyped-def]
    result = 0.0
    for k in range(len(f)):
        result += f[k] * demand[g, k]
    return result


@inner
def limit_neighbours(a, i, held, cap, touched, n):  # type: ignore[no-untyped-def]
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


@njit
def fill(a, p, sizes, score, total, head, cap, touched, machines):  # type: ignore[no-untyped-def]
    """Open and fill up to `machines` more machines, the best-scored application that fits next, as often as it fits.

    Returns whether anything is left to place and a machine to open for it. Scratch: `head` (S,) int64, first member of
    each size with replicas left, kept between calls; `cap` (A,) int32, UNLIMITED; `touched` (A,) int32; `total` (K,).
    """
    count = len(sizes.start) - 1
    alive, at, value = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    f = np.empty(len(total))
    for _ in range(machines):
        n = np.int64(0)
        for g in range(count):
            while head[g] < sizes.start[g + 1] and p.left[sizes.member[head[g]]] == 0:
                head[g] += 1
            if head[g] < sizes.start[g + 1]:
                alive[n], at[g] = g, head[g]
                n += 1
        if n == 0 or not _open_for_any(a, p, sizes, head, alive[:n]):
            return False
        m = p.open[0] - 1
        total[:] += p.residual[m]
        _fill_one(a, p, sizes, score, total, m, alive, n, at, value, f, cap, touched)
    return True


@inner
def _open_for_any(a, p, sizes, head, alive):  # type: ignore[no-untyped-def]
    """Open the next machine if it, or one after it, can take anything that is left."""
    for g in alive:  # noqa: SIM110, numba knows no generators
        if open_next(a, p, sizes.member[head[g]]):
            return True
    return False


@inner
def _fill_one(  # type: ignore[no-untyped-def]
    a, p, sizes, score,
    total,  # (K,) float64: residual of all open machines, updated in place
    m,  # the machine to fill, open and empty
    alive,  # (S,) int64: the sizes to try come first; changed
    n,  # how many these are
    at,  # (S,) int64: where in `sizes.member` the next application of each size is; updated in place
    value,  # (S,) float64, scratch: scores of the sizes in `alive`, in the same order
    f,  # scratch
    cap,  # (A,) int32, scratch: replicas that affinity allows on m, UNLIMITED before and after
    touched,  # (A,) int32, scratch: applications whose `cap` was lowered
):  # fmt: skip
    """Fill machine m: the best-scored size that fits gives its next application, until none fits."""
    changed, lowered = True, np.int64(0)
    while n > 0:
        if changed:
            pull(score, p.residual, m, total, f)
            n = _rescore(a, p, sizes, score, m, alive, n, value, f)
            changed = False
        best, where = -np.inf, -1
        for c in range(n):
            if value[c] > best:
                best, where = value[c], c
        if where < 0:
            break
        g = alive[where]
        i = _next_member(p, sizes, g, at, cap)
        if i < 0:
            for c in range(where, n - 1):
                alive[c], value[c] = alive[c + 1], value[c + 1]
            n -= 1
            continue
        placed = most_that_fit(a.demand, a.needed, i, p.residual, m, min(p.left[i], cap[i], a.own[i]))
        put(a, p, i, m, placed)
        total[:] -= placed * a.demand[i]
        p.count[p.first[i] + p.used[i] - 1], p.held[m] = placed, 0
        lowered = limit_neighbours(a, i, placed, cap, touched, lowered)
        at[g] += 1
        changed = True
    for t in range(lowered):
        cap[touched[t]] = UNLIMITED


@inner
def _rescore(  # type: ignore[no-untyped-def]
    a, p, sizes, score, m,
    alive,  # (S,) int64: the sizes to score come first; those that fit m move to the front
    n,  # how many sizes to score
    value,  # (S,) float64, receives the scores of those that fit, in the order of `alive`
    f,  # of machine m
):  # fmt: skip
    """Score the sizes that fit machine m; the others leave `alive`. Returns how many are left."""
    demand, needed, residual, own, kept = sizes.demand, sizes.needed, p.residual, score.own, np.int64(0)
    for c in range(n):
        g = alive[c]
        if has_room(needed, g, residual, m):
            alive[kept] = g
            value[kept] = _dot(f, demand, g) - own[g]
            kept += 1
    return kept


@inner
def _next_member(p, sizes, g, at, cap):  # type: ignore[no-untyped-def]
    """The first member of size g, from its place on, with replicas left that affinity allows; -1 if there is none."""
    while at[g] < sizes.start[g + 1]:
        i = sizes.member[at[g]]
        if p.left[i] > 0 and cap[i] > 0:
            return i
        at[g] += 1
    return -1
