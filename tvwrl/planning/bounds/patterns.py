"""The linear programme over all fillings of a machine, by column generation.

Every dual vector y whose most valuable filling is worth v proves replicas * y / v machines (Farley 1990), so the bound
holds whenever the search is stopped. Fillings respect capacities, self limits and one clique of conflicts; the other
affinity limits are left out, so the bound stays valid but may be too low. Applications outside of the clique count by
their size, which makes the programme small.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from tvwrl.packing import up
from tvwrl.planning.bounds.counting import largest, most_per_machine
from tvwrl.planning.instance import Fleet, Instance
from tvwrl.types import Float, Int

CELLS = 60_000_000  # of the tables of the dynamic programme
STILL = 40  # steps without a better bound after which the duals are no longer smoothed
SMOOTH = 0.8  # share of the best duals so far in the next ones (Wentges 1997)


@dataclass(frozen=True)
class _Options:
    """What a machine may hold: so many replicas of a kind, at most one option of each group."""

    replicas: Float  # (K,) of each kind
    value: Float  # (K,) duals to begin with: what shares of a machine a replica takes, in the scarcest resource
    kind: Int  # (O,)
    count: Int  # (O,) replicas of the kind
    size: Int  # (O, 2)
    start: Int  # (G + 1,) options of each group
    room: Int  # (2,)


def by_patterns(instance: Instance, fleet: Fleet, apart: Int, seconds: float) -> int | None:
    """The bound, or None where sizes are not whole numbers of at most two resources, or tables would be too large.

    `apart` (n,): applications of which no two can share a machine.
    """
    options = _options(instance, fleet, apart)
    return None if options is None else up(_bound(options, seconds))


def _options(instance: Instance, fleet: Fleet, apart: Int) -> _Options | None:
    times, resources = instance.demand.shape[1:]
    size = instance.demand[:, 0]
    if times > 1 or resources > 2 or (size != np.rint(size)).any():
        return None
    size = np.concatenate([size, np.zeros((len(size), 2 - resources))], axis=1).astype(np.int64)
    room = np.zeros(2, np.int64)
    room[:resources] = np.floor(largest(fleet))
    inside = np.isin(np.arange(len(size)), apart) & size.any(axis=1)
    outside = np.flatnonzero(~inside & size.any(axis=1))
    kinds, of = np.unique(size[outside], axis=0, return_inverse=True)
    most = most_per_machine(instance, fleet)
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = np.where(kinds > 0, room // kinds, room.max() + 1).min(axis=1)
    together = np.bincount(of, weights=most[outside], minlength=len(kinds))
    alone = np.flatnonzero(inside)
    if (room + 1).prod() * (len(kinds) + 1) > CELLS:
        return None
    each = np.concatenate([np.minimum(fit, together).astype(np.int64), most[alone]])
    unit = np.concatenate([kinds, size[alone]])
    kind = np.repeat(np.arange(len(each)), each)
    count = np.arange(len(kind)) - np.repeat(np.cumsum(each) - each, each) + 1
    begin = np.concatenate([[0], np.cumsum(each[: len(kinds)])])
    start = np.append(begin, len(kind)) if len(alone) else begin
    replicas = np.concatenate(
        [np.bincount(of, weights=instance.replicas[outside], minlength=len(kinds)), instance.replicas[alone]]
    )
    share = unit / np.maximum(room, 1)
    scarcest = int(np.argmax(replicas @ share))
    return _Options(replicas, share[:, scarcest], kind, count, unit[kind] * count[:, None], start, room)


def _bound(options: _Options, seconds: float) -> float:
    """Column generation until the time has passed or the programme is solved; its best bound.

    The clock starts after the first filling, whose kernel may have to be compiled.
    """
    from tvwrl.planning.bounds.pattern_kernels import best_pattern

    if not len(options.kind):
        return 1.0
    columns = _first_columns(options)
    best, best_duals, duals, still = 0.0, options.value, options.value, 0
    until = math.inf
    while True:
        worth, taken = best_pattern(duals[options.kind] * options.count, options.size, options.start, options.room)
        bound = float(options.replicas @ duals) / worth
        still = 0 if bound > best + SMALL else still + 1
        if bound > best:
            best, best_duals = bound, duals / worth
        column = np.zeros(len(options.replicas))
        np.add.at(column, options.kind[taken], options.count[taken])
        columns.append(column)
        now = time.monotonic()
        until = min(until, now + seconds)
        if now >= until:
            return best
        total, exact = _master(columns, options.replicas)
        if total <= best + SMALL or up(total) <= up(best):
            return best
        smooth = SMOOTH if still < STILL else 0.0
        duals = smooth * best_duals + (1 - smooth) * exact


SMALL = 1e-7


def _first_columns(options: _Options) -> list[Float]:
    """Each kind alone, as many as a machine may hold."""
    columns = np.zeros((len(options.replicas),) * 2)
    columns[options.kind, options.kind] = options.count  # the last, the largest, stays
    return list(columns)


def _master(columns: list[Float], replicas: Float) -> tuple[float, Float]:
    """Fewest machines (a real number) with these fillings, and the dual of each kind."""
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    covered = csc_array(np.array(columns).T)
    found = linprog(np.ones(len(columns)), A_ub=-covered, b_ub=-replicas, method="highs")
    return float(found.fun), np.maximum(-found.ineqlin.marginals, 0.0)
