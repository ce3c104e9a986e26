"""What is on each machine, listed by machine: for searches that remove and move replicas.

`packing.affinity.Packing` lists the same by application, which suits planners that only add. `flow.network_kernels`
has the same fields for machines of a network, so the functions here serve both.
Arguments and sizes as in `packing.affinity`. W: most applications on one machine; entry w of a machine: one of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import UNLIMITED, entries

INITIAL_WEIGHT = 1.0  # weight of an application whose replicas never had to eject others


class Contents(NamedTuple):
    """Machines with their entries, and the replicas that are on none; changed in place."""

    capacity: Any  # (F, K) float64: of machine m row min(m, F - 1)
    residual: Any  # (M, K) float64
    open: Any  # (1,) int64: machines 0 .. open - 1 are open
    kinds: Any  # (M,) int32 entries of the machine
    application: Any  # (M, W) int32 application of each entry
    count: Any  # (M, W) int32 replicas of each entry
    pool: Any  # (R,) int32: stack of unplaced replicas, by application
    unplaced: Any  # (1,) int64: height of the stack
    weight: Any  # (A,) float64: penalty for ejecting a replica of the application
    allows: Any  # (A,) int32, scratch: a_ki, how many of the current application i k allows; UNLIMITED otherwise
    bears: Any  # (A,) int32, scratch: a_ik, how many of k the current application i allows; UNLIMITED otherwise
    out: Any  # (2, W) int32, scratch: entries and replicas to eject from the best machine
    trial: Any  # (2, W) int32, scratch: the same for the machine under test
    room: Any  # (K,) float64, scratch


@inner
def set_limits(a, s, i):  # type: ignore[no-untyped-def]
    """Write the affinity limits between i and its neighbours to `s.allows` and `s.bears`."""
    for e in range(a.into_start[i], a.into_start[i + 1]):
        s.allows[a.into[e]] = a.into_limit[e]
    for e in range(a.start[i], a.start[i + 1]):
        s.bears[a.to[e]] = a.limit[e]


@inner
def clear_limits(a, s, i):  # type: ignore[no-untyped-def]
    """Undo `set_limits`."""
    for e in range(a.into_start[i], a.into_start[i + 1]):
        s.allows[a.into[e]] = UNLIMITED
    for e in range(a.start[i], a.start[i + 1]):
        s.bears[a.to[e]] = UNLIMITED


@inner
def remove(a, s, m, w, replicas):  # type: ignore[no-untyped-def]
    """Remove replicas from entry w of machine m. An entry that becomes empty stays until `drop_empty_entries`."""
    i = s.application[m, w]
    s.count[m, w] -= replicas
    for k in range(a.demand.shape[1]):
        s.residual[m, k] += replicas * a.demand[i, k]


@inner
def drop_empty_entries(s, m):  # type: ignore[no-untyped-def]
    """Close the gaps that `remove` left on machine m."""
    kept = 0
    for w in range(s.kinds[m]):
        if s.count[m, w] > 0:
            s.application[m, kept], s.count[m, kept] = s.application[m, w], s.count[m, w]
            kept += 1
    s.kinds[m] = kept


@inner
def add(a, s, i, m, replicas):  # type: ignore[no-untyped-def]
    """Add replicas of i to machine m. Returns False, and changes nothing, if it has no free entry for i."""
    at = -1
    for w in range(s.kinds[m]):
        if s.application[m, w] == i:
            at = w
    if at < 0:
        at = s.kinds[m]
        if at == s.application.shape[1]:
            return False
        s.application[m, at], s.count[m, at] = i, 0
        s.kinds[m] += 1
    s.count[m, at] += replicas
    for k in range(a.demand.shape[1]):
        s.residual[m, k] -= replicas * a.demand[i, k]
    return True


@inner
def unplace(a, s, m, w, replicas):  # type: ignore[no-untyped-def]
    """Move replicas of entry w of machine m to the stack of unplaced ones; see `remove` for what else it does."""
    for _ in range(replicas):
        s.pool[s.unplaced[0]] = s.application[m, w]
        s.unplaced[0] += 1
    remove(a, s, m, w, replicas)


def contents_of(a: Any, p: Any, capacity: Any, most: int, spare: int) -> Contents:
    """The contents of machines as packed by `p`, a `packing.affinity.Packing` of applications `a`.

    `capacity` (F, K): of machine m row min(m, F - 1), in the dimensions of `a`; `most`: machines that may be opened;
    `spare`: free entries on the machine with the most applications.
    """
    machines, applications = int(p.open[0]), len(a.replicas)
    _, machine, _ = entries(p)
    most, width = max(most, machines), int(np.bincount(machine).max(initial=0)) + spare
    contents = Contents(
        capacity=capacity,
        residual=capacity[np.minimum(np.arange(most), len(capacity) - 1)],
        open=np.array([machines]),
        kinds=np.zeros(most, np.int32),
        application=np.zeros((most, width), np.int32),
        count=np.zeros((most, width), np.int32),
        pool=np.empty(int(a.replicas.sum()), np.int32),
        unplaced=np.zeros(1, np.int64),
        weight=np.full(applications, INITIAL_WEIGHT),
        allows=np.full(applications, UNLIMITED, np.int32),
        bears=np.full(applications, UNLIMITED, np.int32),
        out=np.zeros((2, width), np.int32),
        trial=np.zeros((2, width), np.int32),
        room=np.zeros(a.demand.shape[1]),
    )
    _copy_entries(a, p, contents)
    return contents


@njit
def _copy_entries(a, p, s):  # type: ignore[no-untyped-def]
    for i in range(len(p.used)):
        for r in range(p.first[i], p.first[i] + p.used[i]):
            add(a, s, i, np.int64(p.machine[r]), np.int64(p.count[r]))
        for _ in range(p.left[i]):
            s.pool[s.unplaced[0]] = i
            s.unplaced[0] += 1
