"""What is on each machine, listed by machine: for searches that remove and move replicas.

`packing.affinity.Packing` lists the same by application, which suits planners that only add.
`planning.flow.network_kernels` has the same fields for machines of a network, so the functions here serve both.
Arguments and sizes as in `packing.affinity`. W: most applications on one machine; entry w of a machine: one of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvwrl.compiled import inner, njit
from tvwrl.packing.affinity import UNLIMITED
from tvwrl.types import Int

Rows = tuple[Int, Int, Int]  # applications, machines, replicas there

INITIAL_WEIGHT = 1.0  # weight of an application whose replicas never had to eject others


class Contents(NamedTuple):
    """Machines with their entries, and the replicas that are on none; changed in place.

    Open machines come first, so machines change places here; `number` is what each is called in the fleet. A replica is
    *at home* where the plan to start from has it.
    """

    capacity: Any  # (T, K) float64, by kind of machine
    kind: Any  # (M,) int32: row of `capacity`
    number: Any  # (M,) int64: machine in the fleet
    place: Any  # (M,) int64: where each machine of the fleet is here; the inverse of `number`
    residual: Any  # (M, K) float64
    open: Any  # (1,) int64: machines 0 .. open - 1 are open, the others empty
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
    home_start: Any  # (A + 1,) int64: homes of i are `home_start[i] .. home_start[i + 1] - 1` of the next two
    home: Any  # (n,) int64: machine in the fleet
    stay: Any  # (n,) int32 replicas that are at home there


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


@inner
def swap_machines(s, x, y):  # type: ignore[no-untyped-def]
    """Exchange the places of two machines."""
    s.room[:] = s.residual[x]
    s.residual[x], s.residual[y] = s.residual[y], s.room
    for w in range(max(s.kinds[x], s.kinds[y])):
        s.application[x, w], s.application[y, w] = s.application[y, w], s.application[x, w]
        s.count[x, w], s.count[y, w] = s.count[y, w], s.count[x, w]
    s.kinds[x], s.kinds[y] = s.kinds[y], s.kinds[x]
    s.kind[x], s.kind[y] = s.kind[y], s.kind[x]
    s.number[x], s.number[y] = s.number[y], s.number[x]
    s.place[s.number[x]], s.place[s.number[y]] = x, y


def contents_of(
    a: Any, capacity: Any, kind: Int, number: Int, rows: Rows, spare: int, homes: Rows | None = None
) -> Contents:
    """Machines of a fleet, of which those in `number` (n,) are open, with replicas on them; the rest is unplaced.

    `capacity` (T, K): of each kind, in the dimensions of the applications `a`; `kind` (M,): of each machine;
    `rows`: applications, positions in `number`, and replicas there, all (R,); `spare`: free entries on the machine
    with the most applications; `homes`: applications, in order, machines and replicas of the plan to start from.
    """
    applications, rest = len(a.replicas), np.setdiff1d(np.arange(len(kind)), number)
    machines, number = len(kind), np.concatenate([number, rest]).astype(np.int64)
    application, home, stay = homes or (np.zeros(0, np.int64),) * 3
    width = max(int(np.bincount(where).max(initial=0)) for where in (rows[1], home)) + spare
    contents = Contents(
        capacity=np.ascontiguousarray(capacity),
        kind=kind[number].astype(np.int32),
        number=number,
        place=np.argsort(number),
        residual=capacity[kind[number]],
        open=np.array([machines - len(rest)]),
        kinds=np.zeros(machines, np.int32),
        application=np.zeros((machines, width), np.int32),
        count=np.zeros((machines, width), np.int32),
        pool=np.empty(int(a.replicas.sum()), np.int32),
        unplaced=np.zeros(1, np.int64),
        weight=np.full(applications, INITIAL_WEIGHT),
        allows=np.full(applications, UNLIMITED, np.int32),
        bears=np.full(applications, UNLIMITED, np.int32),
        out=np.zeros((2, width), np.int32),
        trial=np.zeros((2, width), np.int32),
        room=np.zeros(a.demand.shape[1]),
        home_start=np.searchsorted(application, np.arange(applications + 1)),
        home=home.astype(np.int64),
        stay=stay.astype(np.int32),
    )
    _fill_in(a, contents, *rows)
    return contents


@njit
def _fill_in(a, s, application, machine, replicas):  # type: ignore[no-untyped-def]
    """Put what is packed where it is, and the rest on the stack of unplaced replicas."""
    left = a.replicas.copy()
    for r in range(len(application)):
        add(a, s, application[r], machine[r], replicas[r])
        left[application[r]] -= replicas[r]
    for i in range(len(left)):
        for _ in range(left[i]):
            s.pool[s.unplaced[0]] = i
            s.unplaced[0] += 1
