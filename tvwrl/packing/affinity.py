"""Compiled packing core for replicas: machines with residuals, affinity limits between applications, and what fits.

An application's replicas are alike. Its limits on machines are not looked up machine by machine: `limit_machines` walks
the application's arcs once and, for each neighbour, the machines where that one sits.
Arrays are taken out of their tuples before a loop: reading them inside it would count references at every step.

Arguments of this package's kernels, where they do not say otherwise:
    a: Applications; p: Packing; o: orders.Ordering; q: matching.Pairs; s: contents.Contents
    i: application; k: its neighbour, or a dimension; m: machine; e: arc; w: entry of a machine in `contents`
    g: size, a row of filling.Sizes; at, begin, end: positions in the array at hand; rng: numpy Generator
Sizes: A applications, M machines, F machines that the fleet lists, K dimensions (times x resources), R replicas of all
applications, E arcs, S sizes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.fit import has_room
from tvwrl.types import Float, Int, Int32

UNLIMITED = np.iinfo(np.int32).max
NOT_YET = 0  # replicas of the application at hand on a machine


class Applications(NamedTuple):
    """What is to be placed; read only."""

    demand: Float  # (A, K) float64, of one replica, >= 0
    needed: Float  # (A, K) float64, what a machine must have left for it: see `packing.fit.needed`
    replicas: Int32  # (A,) int32, >= 1
    own: Int32  # (A,) int32, most replicas of it on one machine by itself (a_ii), else UNLIMITED
    start: Int  # (A + 1,) int64: arcs of i in `to`, `limit`
    to: Int32  # (E,) int32
    limit: Int32  # (E,) int32: a_ij
    into_start: Int  # (A + 1,) int64: arcs to i in `into`, `into_limit`
    into: Int32  # (E,) int32
    into_limit: Int32  # (E,) int32: a_ji


class Packing(NamedTuple):
    """Machines and what is on them, changed in place. Machines 0 .. open[0] - 1 are open."""

    capacity: Float  # (F, K) float64: of machine m row min(m, F - 1)
    residual: Float  # (M, K) float64, of open machines; M machines at most
    open: Int  # (1,) int64
    left: Int32  # (A,) int32: replicas still to place
    first: Int  # (A + 1,) int64: placements of i begin here in `machine` and `count`
    used: Int32  # (A,) int32: machines that hold i
    most: Int32  # (A,) int32: replicas of i on any one machine at most, once settled
    machine: Int32  # (R,) int32
    count: Int32  # type: ignore[assignment]  # (R,) int32 replicas of i there
    cap: Int32  # (M,) int32, scratch: what affinity allows of the application at hand, UNLIMITED in between
    held: Int32  # (M,) int32, scratch: replicas of the application at hand, 0 in between


def entries(p: Packing) -> tuple[Int, Int, Int]:
    """What is placed: (n,) applications, in order, (n,) machines, and (n,) replicas there."""
    used = p.used.astype(np.int64)
    application = np.repeat(np.arange(len(used)), used)
    at = np.arange(used.sum()) + np.repeat(p.first[:-1] - (np.cumsum(used) - used), used)
    return application, p.machine[at].astype(np.int64), p.count[at].astype(np.int64)


@inner
def limit_machines(a: Applications, p: Packing, i: int, enough: int) -> int:
    """Write to `p.cap` how many replicas of i affinity allows on each machine, if fewer than `enough`: both directions
    bind. Returns how many arcs and entries were looked at, for `forget_limits`.
    """
    first, used, machine, count, cap, most = p.first, p.used, p.machine, p.count, p.cap, p.most
    into, into_limit, to, limit = a.into, a.into_limit, a.to, a.limit
    looked: int = a.into_start[i + 1] - a.into_start[i] + a.start[i + 1] - a.start[i]
    for e in range(a.into_start[i], a.into_start[i + 1]):
        if into_limit[e] >= enough:
            continue
        k = into[e]
        looked += used[k]
        for r in range(first[k], first[k] + used[k]):
            cap[machine[r]] = min(cap[machine[r]], into_limit[e])
    for e in range(a.start[i], a.start[i + 1]):
        k = to[e]
        if limit[e] >= most[k]:
            continue
        looked += used[k]
        for r in range(first[k], first[k] + used[k]):
            if count[r] > limit[e]:
                cap[machine[r]] = 0
    return looked


@inner
def forget_limits(a: Applications, p: Packing, i: int, looked: int) -> None:
    """Undo `limit_machines`, by clearing every machine unless that costs more than walking the arcs again."""
    first, used, machine, cap, into, to = p.first, p.used, p.machine, p.cap, a.into, a.to
    if looked > p.open[0] // 16:
        cap[: p.open[0]] = UNLIMITED
        return
    for e in range(a.into_start[i], a.into_start[i + 1]):
        for r in range(first[into[e]], first[into[e]] + used[into[e]]):
            cap[machine[r]] = UNLIMITED
    for e in range(a.start[i], a.start[i + 1]):
        for r in range(first[to[e]], first[to[e]] + used[to[e]]):
            cap[machine[r]] = UNLIMITED


@inner
def put(a: Applications, p: Packing, i: int, m: int, count: int) -> None:
    """Place `count` replicas of i on machine m; `settle` writes them down when i is through."""
    if p.held[m] == NOT_YET:
        p.machine[p.first[i] + p.used[i]] = m
        p.used[i] += 1
    p.held[m] += count
    p.left[i] -= count
    demand, residual = a.demand, p.residual
    for k in range(demand.shape[1]):
        residual[m, k] -= count * demand[i, k]


@inner
def settle(p: Packing, i: int) -> None:
    """Write down how many replicas of i each of its machines got, and clear the scratch array of that."""
    machine, count, held = p.machine, p.count, p.held
    most = p.most
    for r in range(p.first[i], p.first[i] + p.used[i]):
        count[r] = held[machine[r]]
        most[i] = max(most[i], count[r])
        held[machine[r]] = NOT_YET


@inner
def open_next(a: Applications, p: Packing, i: int) -> bool:
    """Open the next machine, whether i fits it or not. False if there is none, or i fits none from there on."""
    m = p.open[0]
    kind = min(m, len(p.capacity) - 1)
    if m == len(p.residual) or (kind == len(p.capacity) - 1 and not has_room(a.needed, i, p.capacity, kind)):
        return False
    p.residual[m] = p.capacity[kind]
    p.open[0] += 1
    return True


@njit
def own_limits(start: Int, to: Int32, limit: Int32) -> Int32:
    """(A,) limits of applications on themselves, UNLIMITED where there is none."""
    own = np.full(len(start) - 1, UNLIMITED, np.int32)
    for i in range(len(own)):
        for e in range(start[i], start[i + 1]):
            if to[e] == i:
                own[i] = limit[e]
    return own


@njit
def degrees(a: Applications) -> Int:
    """(A,) applications that each is linked with by an arc in either direction, itself not counted."""
    count, to, into = len(a.replicas), a.to, a.into
    degree, seen = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    for i in range(count):
        seen[i] = i
        for e in range(a.start[i], a.start[i + 1]):
            if seen[to[e]] != i:
                seen[to[e]] = i
                degree[i] += 1
        for e in range(a.into_start[i], a.into_start[i + 1]):
            if seen[into[e]] != i:
                seen[into[e]] = i
                degree[i] += 1
    return degree
